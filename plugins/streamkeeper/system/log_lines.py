"""The format of Streamkeeper's lines in an instance's log, which also has lines of Spark and of the job.

``2026-11-23T20:36:49.123+00:00 WARNING streamkeeper job=sales instance=r7-1 query=totals: it waits for its source``
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime

_OURS = re.compile(r"\S+ [A-Z]+ streamkeeper(?:\.\w+)?(?: \w+=\S+)*: ")


class LineFormatter(logging.Formatter):
    """A formatter that adds the fields in ``about`` (field -> value) and then the record's ``query`` to every line."""

    def __init__(self, about: Mapping[str, str]) -> None:
        super().__init__()
        self._about = dict(about)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, even if the message has several."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        query = getattr(record, "query", "")
        about = "".join(f" {name}={value}" for name, value in (*self._about.items(), ("query", query)) if value)
        return f"{moment} {record.levelname} {record.name}{about}: {' '.join(record.getMessage().splitlines())}"


def own_logger(name: str, handler: logging.Handler, **about: str) -> logging.Logger:
    """Return a logger of the standard library that writes only to ``handler``, with ``about`` in every line.

    The logger is not from ``logging.getLogger``: a job may configure those loggers, and ``dictConfig`` disables all
    loggers that it does not list.
    """
    handler.setFormatter(LineFormatter(about))
    logger = logging.Logger(name, logging.INFO)
    logger.addHandler(handler)
    return logger


def sentence_of(line: str) -> str:
    """Return the message of one of Streamkeeper's log lines, without the prefix. Return any other line unchanged."""
    ours = _OURS.match(line)
    return line[ours.end() :] if ours else line
