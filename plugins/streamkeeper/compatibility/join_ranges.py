"""Time ranges in join conditions: a narrower range only matches fewer of the rows in the state."""

from __future__ import annotations

import re

_ADDED = (
    r"timestampaddinterval\((?P<column>[^()]*), (?P<length>-?\d+):(?P<kind>interval[^,()]*)(?P<zone>, in [^()]*)?\)"
)
_AT_MOST = re.compile(rf"(?P<how>lessthan(?:orequal)?)\((?P<other>[^()]*), {_ADDED}\)")
_AT_LEAST = re.compile(rf"(?P<how>lessthan(?:orequal)?)\({_ADDED}, (?P<other>[^()]*)\)")


def narrows(before: str, after: str) -> bool:
    """Whether two join conditions differ at most in bounds, and no bound of ``after`` is looser than in ``before``."""
    old, new = _bounds(before), _bounds(after)
    if old.keys() != new.keys():
        return False
    return all(_is_tighter(key, old[key], new[key]) for key in old)


def _bounds(condition: str) -> dict[tuple[str, str], int | None]:
    """(side, part without its length) -> length; None for a part that is not a bound."""
    found: dict[tuple[str, str], int | None] = {}
    for part in condition.split(" and "):
        for side, pattern in (("most", _AT_MOST), ("least", _AT_LEAST)):
            bound = pattern.fullmatch(part)
            if bound is not None:
                found[side, part[: bound.start("length")] + part[bound.end("length") :]] = int(bound["length"])
                break
        else:
            found["", part] = None
    return found


def _is_tighter(key: tuple[str, str], before: int | None, after: int | None) -> bool:
    if before is None or after is None:
        return before == after
    return after <= before if key[0] == "most" else after >= before
