"""How the switching bench measures the serving gap of a switch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bench.sides import gap_around
from bench.switching import LARGEST, PARTITIONED, PLAIN, SQUARES, Sight, SwitchedSide, judge, toggle
from harness.places import ROOT
from streamkeeper.checkpoints.trees import LocalTree


def test_the_gap_ends_with_the_first_new_row_that_a_reader_sees() -> None:
    """The serving gap lasts until a reader sees the first new sale; a swap that shows no new sale does not close it."""
    seen = [(0.0, "v0001", 1, 10), (0.5, "v0001", 2, 20), (1.0, "v0001", 3, 30)]
    seen += [(1.4, "v0002", 7, 30), (1.9, "v0002", 8, 50), (2.4, "v0002", 9, 60)]
    assert judge([Sight(*each) for each in seen]) == {"gap_s": 0.9, "to_swap_s": 0.4, "between_changes_s": 0.5}


@pytest.mark.parametrize(
    ("job", "one", "other"),
    [("sales_totals", SQUARES, SQUARES + LARGEST), ("event_copy", PLAIN, PARTITIONED)],
    ids=["aggregate", "partitions"],
)
def test_a_job_file_is_changed_and_changed_back(tmp_path: Path, job: str, one: str, other: str) -> None:
    """The edit that makes a new release fits the bundled job, compiles and can be reverted; a file with neither text is
    refused.
    """
    file = tmp_path / f"{job}.py"
    shutil.copy(ROOT / f"jobs/{job}.py", file)
    before = file.read_text()
    toggle(file, one, other)
    assert other in file.read_text()
    compile(file.read_text(), str(file), "exec")
    toggle(file, one, other)
    assert file.read_text() == before
    with pytest.raises(ValueError, match="does not hold"):
        toggle(file, "nowhere", "neither")


def test_commits_seeded_by_a_handoff_do_not_close_the_serving_gap(tmp_path: Path) -> None:
    """Commits that were seeded into the new version do not close the gap, because they are as old as the handoff."""

    class HomeOnly:
        home = tmp_path

    side = SwitchedSide(HomeOnly())  # type: ignore[arg-type]
    versions = tmp_path / "checkpoints/event_copy/copy"
    commit(versions / "v0001/commits", {7: 100.0, 8: 101.0})
    commit(versions / "v0002/commits", {0: 101.5, 1: 101.5, 2: 103.0, 3: 104.0})
    assert side.gap() == 2.0
    assert gap_around(102.0, LocalTree(versions / "v0002/commits")) == 1.5


def commit(folder: Path, times: dict[int, float]) -> None:
    folder.mkdir(parents=True)
    for batch, at in times.items():
        (folder / str(batch)).touch()
        os.utime(folder / str(batch), (at, at))
