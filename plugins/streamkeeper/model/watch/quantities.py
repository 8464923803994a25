"""Readable forms of ages, sizes and moments, and aggregates of figures some of which are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T", int, float)


def tell_age(seconds: float | None, *, unknown: str = "-") -> str:
    """Return an age as ``45 s``, ``3.5 min``, ``12 h`` or ``4 d``; ``unknown`` for None."""
    if seconds is None:
        return unknown
    left = max(0.0, seconds)
    for least, size, unit in ((172_800.0, 86_400.0, "d"), (7200.0, 3600.0, "h"), (120.0, 60.0, "min")):
        if left >= least:
            return f"{left / size:.{0 if left >= 10 * size else 1}f}".removesuffix(".0") + f" {unit}"
    return f"{left:.0f} s"


def tell_size(count: int) -> str:
    """Return a number of bytes as ``512 B`` or ``1.4 MiB``."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def tell_moment(seconds: float) -> str:
    """Return seconds since 1970 as ``2026-11-25 11:03:12 UTC``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def least(found: Iterable[T | None]) -> T | None:
    """Return the minimum of the known values; None if no value is known."""
    return min((value for value in found if value is not None), default=None)


def most(found: Iterable[T | None]) -> T | None:
    """Return the maximum of the known values; None if no value is known."""
    return max((value for value in found if value is not None), default=None)


def total(found: Iterable[T | None]) -> T | None:
    """Return the sum of the known values; None if no value is known."""
    known = [value for value in found if value is not None]
    return sum(known) if known else None
