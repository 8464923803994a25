"""An instance's log file: its driver's output, line by line, without secrets, and limited in size."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from streamkeeper.model.redaction import redact, secret_forms
from streamkeeper.system.log_lines import own_logger, sentence_of
from streamkeeper.system.private_files import FILE, make_folders

LIMIT_BYTES = 20 * 1024 * 1024
LONGEST_LINE_BYTES = 64 * 1024


class DriverLog:
    """Receives the raw output of a driver, and writes it as redacted lines.

    ``path``: the file, which is rotated at ``limit_bytes``; None to write to standard output, without a limit of its
    size.
    ``about``: the fields of the supervisor's own lines.
    ``last_line``: the newest non-empty line, redacted. Of a line that Streamkeeper wrote in the driver, it contains
    only the sentence.

    On a full disk, lines are lost and the log counts them, because a driver must never wait for its log.
    """

    def __init__(
        self, path: Path | None, secrets: Mapping[str, str], *, limit_bytes: int = LIMIT_BYTES, **about: str
    ) -> None:
        self.last_line = ""
        self._path = path
        self._secrets = dict(secrets)
        self._limit = limit_bytes
        self._longest_secret = max(
            (len(form.encode(errors="surrogatepass")) for form in secret_forms(self._secrets)), default=0
        )
        self._rest = b""
        self._lost = 0
        self._own = own_logger("streamkeeper.supervisor", _Lines(self._write), **about)
        if path is not None:
            make_folders(path.parent)
        self._open()

    def feed(self, data: bytes) -> None:
        """Accept output as it arrives, and write it in whole lines; a very long line is written in pieces."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            self._write("".join(self._clean(line) + "\n" for line in lines))
        if len(self._rest) > LONGEST_LINE_BYTES:
            # A secret must not be split: the tail that may contain the start of one waits for the next piece.
            piece = redact(self._rest.decode(errors="replace"), self._secrets)
            keep = self._longest_secret
            self._rest = piece[len(piece) - keep :].encode() if keep else b""
            self._write(piece[: len(piece) - keep] + "\n")

    def flush(self) -> None:
        """Write the incomplete last line of the output, and end it with a newline."""
        if self._rest:
            self.feed(b"\n")

    def write_line(self, sentence: str) -> None:
        """Write a line of the supervisor itself."""
        self.flush()
        # Redact only the sentence, not the whole line: time and job in it are never secret.
        self._own.info("%s", redact(sentence, self._secrets))

    def _clean(self, line: bytes) -> str:
        text = redact(line.decode(errors="replace").rstrip("\r"), self._secrets)
        self.last_line = sentence_of(text.strip()) or self.last_line
        return text

    def _write(self, text: str) -> None:
        try:
            if self._path is not None and self._size > self._limit:
                self._rotate(self._path)
            if self._lost:
                text = f"({self._lost} pieces of output were lost: the disk was full)\n{text}"
            data = text.encode(errors="replace")
            self._size += os.write(self._file, data)
            self._lost = 0
        except OSError:
            self._lost += 1

    def _open(self) -> None:
        if self._path is None:
            self._file, self._size = sys.stdout.fileno(), 0
            return
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE)
        self._size = os.fstat(self._file).st_size

    def _rotate(self, path: Path) -> None:
        full = self._file
        os.replace(path, path.with_name(f"{path.name}.1"))
        self._open()
        os.close(full)


class _Lines(logging.Handler):
    """A logging handler that passes each formatted log line to a function as a whole."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write_line = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write_line(f"{self.format(record)}\n")
