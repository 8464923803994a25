"""Reading an instance's log: its last lines, and what is added to it. Secrets were taken out when it was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_BLOCK_BYTES = 64 * 1024


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """The last so many lines of the log, those of the part before it included where it is too short.

    Also how many bytes of the present part they end at: where a follower goes on. Nothing, where there is no log.
    """
    try:
        size = path.stat().st_size
        lines = _tail(path, count, size)
    except FileNotFoundError:
        return [], 0
    before = path.with_name(f"{path.name}.1")
    if len(lines) < count and before.is_file():
        lines = _tail(before, count - len(lines), before.stat().st_size) + lines
    return lines, size


class Follower:
    """What is added to a log from ``offset`` on, in bytes, over its turning into ``.log.1`` as well."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._file = path.open("rb")
        self._file.seek(offset)
        self._rest = b""

    def read(self) -> Iterator[str]:
        """The whole lines there are by now."""
        yield from self._lines()
        if self._is_another():
            # What was written between the last read and the turn.
            yield from self._lines()
            self._file.close()
            self._file, self._rest = self._path.open("rb"), b""
            yield from self._lines()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _lines(self) -> Iterator[str]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)

    def _is_another(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False


def _tail(path: Path, count: int, size: int) -> list[str]:
    if count <= 0:
        return []
    with path.open("rb") as file:
        data, at = b"", size
        while at > 0 and data.count(b"\n") <= count:
            step = min(_BLOCK_BYTES, at)
            at -= step
            file.seek(at)
            data = file.read(step) + data
    lines = data.decode(errors="replace").split("\n")
    # A line without its end is shown too; a follower gives the rest of it.
    return (lines[:-1] if not lines[-1] else lines)[-count:]
