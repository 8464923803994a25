"""Reads the last lines of an instance's log, and lines that are added to it. Secrets were removed when the log was
written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_BLOCK_BYTES = 64 * 1024


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """Return the last ``count`` lines of the log, and the byte offset of their end, where a Follower continues.

    If the log file has fewer lines, the result includes lines of its rotated part, ``.log.1``. Without a log there are
    no lines.
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
    """Reads additions to a log from ``offset`` on, in bytes, also across its rotation to ``.log.1``."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._file = path.open("rb")
        self._file.seek(offset)
        self._rest = b""

    def read(self) -> Iterator[str]:
        """Yield the complete lines that were added since the last read."""
        yield from self._lines()
        if self._is_another():
            # Read the lines written between the last read and the rotation.
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
        data, position = b"", size
        while position > 0 and data.count(b"\n") <= count:
            step = min(_BLOCK_BYTES, position)
            position -= step
            file.seek(position)
            data = file.read(step) + data
    lines = data.decode(errors="replace").split("\n")
    # An unfinished line is included too; a follower yields the rest of it.
    return (lines[:-1] if not lines[-1] else lines)[-count:]
