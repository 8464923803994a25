"""Tests of whether a join's range has become narrower."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.stateful_operators import narrows


def between(least: int, most: int, more: str = "") -> str:
    """Return the condition that ``right.ts`` lies between ``left.ts`` plus two intervals, as a recorded expression."""
    low = f"lessthanorequal(timestampaddinterval(source 0.ts, {least}:interval minute, in session), source 1.ts)"
    high = f"lessthanorequal(source 1.ts, timestampaddinterval(source 0.ts, {most}:interval minute, in session))"
    return " and ".join(each for each in (low, high, more) if each)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (between(-5, 5), between(-1, 1), True),
        (between(-5, 5), between(-5, 1), True),
        (between(-5, 5), between(-5, 9), False),
        (between(-5, 5), between(-9, 5), False),
        (between(-5, 5), between(-1, 9), False),
        (between(-5, 5), between(-1, 1, "lessthan(source 0.x, source 1.x)"), False),
        (between(-5, 5), between(-1, 1).replace("source 1.ts", "source 1.at"), False),
        (between(-5, 5), "", False),
    ],
)
def test_a_range_is_narrower_only_if_every_bound_is(before: str, after: str, expected: bool) -> None:
    """A join range is narrower only if no bound moved outward and nothing else in the condition differs."""
    assert narrows(before, after) is expected
