"""How errors of a kind of source are recognised: those of its client, and those of Spark's reader of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOTHING = re.compile(r"(?!)")
"""A pattern that no text matches."""


@dataclass(frozen=True, kw_only=True)
class SourceErrors:
    """The signs by which errors of one kind of source are recognised. The defaults recognise no error."""

    lost_conditions: tuple[str, ...] = ()
    """Beginnings of Spark's error conditions for input that the source no longer has."""
    lost_classes: frozenset[str] = frozenset()
    """Classes of errors of the JVM for such input, without their packages."""
    lost_text: re.Pattern[str] = _NOTHING
    """Messages about such input. They count only if a frame of the reader raises them."""
    reader_frames: tuple[str, ...] = ()
    """Beginnings of the frames of Spark's reader."""
    writer_frames: re.Pattern[str] = _NOTHING
    """Frames of a writer to such a place. Errors that such a frame raises belong to an output."""
    writer_text: re.Pattern[str] = _NOTHING
    """Messages that only the writing client has, for its errors without frames. They too belong to an output."""
    client_classes: tuple[str, ...] = ()
    """Beginnings of the names of the client's classes of errors in the JVM, with their packages."""
    unreachable_classes: frozenset[str] = frozenset()
    """Classes of errors, in Python or the JVM, of a client that does not reach its servers; with or without package."""
    unreachable_text: str = ""
    """A part of the message of an error that means that no server was reached although its class, one of
    ``client_classes``, has another meaning.
    """
    refused_text: re.Pattern[str] = _NOTHING
    """Messages about a mistake of the job, for errors whose class means that the servers do not answer."""
    recorded_lost: str = ""
    """A regular expression for errors about lost input that drivers of older versions recorded without a kind."""
    recorded_down: str = ""
    """A regular expression for errors about unreachable servers that drivers of older versions recorded
    without a kind.
    """

    def is_lost(self, frame: str, message: str) -> bool:
        """Whether an error with this message, raised in this frame, means that input is lost."""
        return frame.startswith(self.reader_frames) and self.lost_text.search(message) is not None

    def is_of_writer(self, kind: str, message: str) -> bool:
        """Whether an error of the JVM with this message comes from the writing client. ``kind``: the error's class."""
        return kind.startswith(self.client_classes) and self.writer_text.search(message) is not None

    def is_refusal(self, kind: str, message: str) -> bool:
        """Whether an error of the JVM with this message is about a mistake of the job. ``kind``: the error's class."""
        return kind.startswith(self.client_classes) and self.refused_text.search(message) is not None

    def is_unreachable(self, kind: str, message: str) -> bool:
        """Whether the message of an error of the JVM means that no server was reached. ``kind``: the error's class."""
        return bool(self.unreachable_text) and kind.startswith(self.client_classes) and self.unreachable_text in message
