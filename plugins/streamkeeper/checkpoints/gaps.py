"""Finds the missing numbers of a range without materialising the range, because a file may contain any number."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import msgspec

MOST_NAMED = 100


class Gaps(msgspec.Struct, frozen=True):
    """The missing numbers of a range. ``first``: the lowest of them, at most ``MOST_NAMED`` numbers; ``count``: how
    many numbers are missing.
    """

    first: list[int]
    count: int

    def __str__(self) -> str:
        """Return text such as ``3, 4, 5 and 20 more``."""
        shown = ", ".join(map(str, self.first[:5]))
        return shown if self.count <= 5 else f"{shown} and {self.count - 5} more"


def find_gaps(start: int, end: int, there: Collection[int]) -> Gaps:
    """Return the numbers from ``start`` up to, but excluding, ``end`` that are not in ``there``.

    The duration depends on the size of ``there``, and not on the length of the range.
    """
    known = frozenset(there)
    wanted = range(start, end)
    count = max(end - start, 0) - sum(number in wanted for number in known)
    return Gaps(list(islice((number for number in wanted if number not in known), min(count, MOST_NAMED))), count)
