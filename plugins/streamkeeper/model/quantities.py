"""Ages, sizes and moments in a readable form, and aggregates of figures of which some are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T", int, float)


def tell_age(seconds: float | None, *, unknown: str = "-") -> str:
    """45 s, 3.5 min, 12 h, 4 d."""
    if seconds is None:
        return unknown
    left = max(0.0, seconds)
    for least, size, unit in ((172_800.0, 86_400.0, "d"), (7200.0, 3600.0, "h"), (120.0, 60.0, "min")):
        if left >= least:
            return f"{left / size:.{0 if left >= 10 * size else 1}f}".removesuffix(".0") + f" {unit}"
    return f"{left:.0f} s"


def tell_size(count: int) -> str:
    """512 B, 1.4 MiB."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def tell_moment(seconds: float) -> str:
    """From seconds since 1970: 2026-11-25 11:03:12 UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def least(found: Iterable[T | None]) -> T | None:
    """The minimum of the known values; None without any."""
    return min((value for value in found if value is not None), default=None)


def most(found: Iterable[T | None]) -> T | None:
    """The maximum of the known values; None without any."""
    return max((value for value in found if value is not None), default=None)


def total(found: Iterable[T | None]) -> T | None:
    """The sum of the known values; None without any."""
    known = [value for value in found if value is not None]
    return sum(known) if known else None
