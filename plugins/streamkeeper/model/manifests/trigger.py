"""A query's trigger: the query checks for new data at an interval, or reads all available input once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamkeeper.errors import InvalidInput, Unsupported

_INTERVAL = re.compile(r"(\d+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|days?)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Trigger:
    """A query's trigger; ``interval_s`` is None for ``availableNow``."""

    text: str
    interval_s: float | None

    @property
    def available_now(self) -> bool:
        """Whether the query terminates once it has read all available input."""
        return self.interval_s is None


def parse_trigger(text: object, *, where: str = "trigger") -> Trigger:
    """Parse ``"5 seconds"`` or ``"availableNow"``.

    Raises Unsupported for Spark's other triggers, and InvalidInput for any other text. Both messages start with
    ``where``.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{where}: trigger {text!r} is not text", hint=_HINT)
    plain = text.strip()
    word = re.sub(r"[^a-z]", "", plain.lower())
    if word == "availablenow":
        return Trigger("availableNow", None)
    if word == "once":
        raise Unsupported(f"{where}: trigger once is not supported", hint='use "availableNow", which replaced it')
    if word.startswith(("continuous", "realtime")):
        raise Unsupported(
            f"{where}: trigger {plain!r} is not supported: its batches cannot be fenced or drained", hint=_HINT
        )
    found = _INTERVAL.fullmatch(plain)
    if not found:
        raise InvalidInput(f"{where}: trigger {plain!r} is not understood", hint=_HINT)
    unit = found[2].lower()
    scale = _SECONDS["ms" if unit.startswith(("ms", "mil")) else unit[0]]
    name = {0.001: "milliseconds", 1.0: "seconds", 60.0: "minutes", 3600.0: "hours", 86400.0: "days"}[scale]
    return Trigger(f"{int(found[1])} {name}", int(found[1]) * scale)


_HINT = 'use an interval such as "5 seconds", or "availableNow"'
