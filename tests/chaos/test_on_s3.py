"""Real drivers with checkpoints in a real bucket: behind a proxy that fails on purpose, and two drivers on one
checkpoint.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.racing import run_race, serve_through_faults
from tests.servers import skip_without_s3a

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _programs() -> None:
    skip_without_s3a()


def test_one_of_two_drivers_on_the_same_checkpoint_terminates(tmp_path: Path) -> None:
    """If two drivers write the same checkpoint at once, one continues and the other terminates with a message that a
    different driver writes it.
    """
    raced = run_race(tmp_path / "site")
    assert (raced.damage, raced.both) == ("", 0), raced
    assert raced.met > 0
    [said] = raced.ended.values()
    assert "another driver writes this checkpoint" in said


def test_two_drivers_with_sparks_checkpoint_manager_both_continue(tmp_path: Path) -> None:
    """Negative control: with Spark's own checkpoint manager both drivers continue, each believes it committed every
    batch, and damage is found.
    """
    raced = run_race(tmp_path / "site", "create-only")
    assert (raced.both, len(raced.went_on)) == (3, 2), raced
    assert raced.damage


def test_a_driver_completes_all_batches_despite_failed_requests_and_lost_responses(tmp_path: Path) -> None:
    """With 5 % of requests refused and 5 % of responses lost, a driver completes all 40 batches and its table holds
    every row once.
    """
    lossy = serve_through_faults(tmp_path / "site", batches=40, refused=0.05, lost=0.05)
    assert (lossy.damage, lossy.batches) == ("", 40), lossy
    assert min(lossy.faults[kind] for kind in ("refused", "lost")) > 0


def test_without_its_mark_a_driver_terminates_after_a_lost_response(tmp_path: Path) -> None:
    """Negative control: without its mark in the file, a driver takes its own file for that of a different driver after
    a lost response, and terminates.
    """
    lossy = serve_through_faults(tmp_path / "site", "marks", batches=40, refused=0.0, lost=0.3)
    assert "another driver writes this checkpoint" in lossy.damage
