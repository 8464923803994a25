"""Which numbers of a range are missing, told without making the range: a file may claim any number."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import msgspec

MOST_NAMED = 100


class Gaps(msgspec.Struct, frozen=True):
    """``first``: the first missing numbers, ``MOST_NAMED`` of them at most; ``count``: how many there are."""

    first: list[int]
    count: int

    def __str__(self) -> str:
        """``3, 4, 5 and 20 more``."""
        shown = ", ".join(map(str, self.first[:5]))
        return shown if self.count <= 5 else f"{shown} and {self.count - 5} more"


def find_gaps(start: int, end: int, there: Collection[int]) -> Gaps:
    """The numbers from ``start`` up to, but without, ``end`` that are not ``there``; fast where ``there`` is small."""
    known = frozenset(there)
    wanted = range(start, end)
    count = max(end - start, 0) - sum(number in wanted for number in known)
    return Gaps(list(islice((number for number in wanted if number not in known), min(count, MOST_NAMED))), count)
