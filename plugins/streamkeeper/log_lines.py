"""The format of our own lines in an instance's log, between those of Spark and of the job: their origin and subject.

``2026-11-23T20:36:49.123+00:00 WARNING streamkeeper job=sales instance=r7-1 query=totals: it waits for its source``
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime

_OURS = re.compile(r"\S+ [A-Z]+ streamkeeper(?:\.\w+)?(?: \w+=\S+)*: ")


class LineFormatter(logging.Formatter):
    """``about``: field -> value, in every line; a record's ``query`` follows them."""

    def __init__(self, about: Mapping[str, str]) -> None:
        super().__init__()
        self._about = dict(about)

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message contains."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        query = getattr(record, "query", "")
        about = "".join(f" {name}={value}" for name, value in (*self._about.items(), ("query", query)) if value)
        return f"{at} {record.levelname} {record.name}{about}: {' '.join(record.getMessage().splitlines())}"


def own_logger(name: str, handler: logging.Handler, **about: str) -> logging.Logger:
    """A logger of the standard library that writes only to ``handler``.

    It is not from ``logging.getLogger``: a job may configure those, and ``dictConfig`` disables all loggers that it
    does not list.
    """
    handler.setFormatter(LineFormatter(about))
    logger = logging.Logger(name, logging.INFO)
    logger.addHandler(handler)
    return logger


def sentence_of(line: str) -> str:
    """The message of a line of ours, without its prefix; other lines unchanged."""
    ours = _OURS.match(line)
    return line[ours.end() :] if ours else line
