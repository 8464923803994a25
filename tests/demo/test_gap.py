"""The handover's gap is measured between commits, not between messages."""

from __future__ import annotations

import os
from pathlib import Path

from demo.gap import gap_around


def _commits(folder: Path, moments: list[float]) -> Path:
    for number, moment in enumerate(moments):
        for name in (str(number), f".{number}.crc"):
            (folder / name).touch()
            os.utime(folder / name, (moment, moment))
    return folder


def test_the_gap_is_around_the_moment_of_death(tmp_path: Path) -> None:
    """From the last commit before to the first after; other files do not count."""
    assert gap_around(_commits(tmp_path, [100.0, 101.0, 103.5, 104.0]), 102.0) == 2.5


def test_there_is_no_gap_without_both_sides(tmp_path: Path) -> None:
    """A driver that has not committed yet leaves the gap unknown, not zero."""
    assert gap_around(_commits(tmp_path, [100.0]), 102.0) is None
