"""How far a dual run is, from two directories that look like Spark's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamkeeper.model.release import Release
from streamkeeper.operations.catching_up import estimate, how_far
from tests.checkpoints.trees import Tree
from tests.operations.registered_job import JOB, Registered


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A query that has read eight files in eight batches."""
    return Tree(tmp_path / "v0001", "stateless", batches=8).root


def test_what_is_missing_is_told_with_the_time_it_will_take(old: Path, tmp_path: Path) -> None:
    """Two of eight files in ten seconds: thirty more."""
    new = Tree(tmp_path / "v0002", "stateless", batches=2).root
    os.utime(new / "metadata", (1000, 1000))
    os.utime(new / "commits" / "1", (1010, 1010))
    reached = how_far(old, new)
    assert not reached.holds
    assert "2 of 8 files" in reached.told
    assert reached.told.endswith("about 30 s left")


def test_a_version_that_holds_everything_has_caught_up(old: Path, tmp_path: Path) -> None:
    """Also one that is ahead."""
    assert how_far(old, Tree(tmp_path / "v0002", "stateless", batches=9).root).holds
    assert not how_far(old, tmp_path / "v0003").holds


def test_what_a_killed_driver_had_planned_must_be_held_too(old: Path, tmp_path: Path) -> None:
    """It may be written without being committed; while that driver lives its commits are enough."""
    new = Tree(tmp_path / "v0002", "stateless", batches=7).root
    (old / "commits" / "7").unlink()
    assert how_far(old, new).holds
    assert not how_far(old, new, ended=True).holds
    assert how_far(old, Tree(tmp_path / "v0003", "stateless", batches=8).root, ended=True).holds


@pytest.mark.parametrize(("memory", "takes"), [("1g", "1.5 GiB"), ("512m", "1.0 GiB"), ("4096", "4.5 GiB")])
def test_a_rebuild_says_what_it_reads_and_what_it_takes(old: Path, tmp_path: Path, memory: str, takes: str) -> None:
    """Before it starts: the files, and the room for a second driver."""
    content = Registered(tmp_path / "job").site.journal(JOB, "test").state().releases["r0001"].content
    from msgspec.structs import replace

    told = estimate(old, Release(job=JOB, number=1, content=replace(content, conf={"spark.driver.memory": memory})))
    assert told.startswith(f"reads 8 files again; a second driver takes about {takes}, ")
