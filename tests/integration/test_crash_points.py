"""Deploys that die in the middle, on real drivers; the whole campaign is ``make campaign``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.cases import Stage
from chaos.switching import SwitchStage
from harness.bed import fresh_bed
from harness.places import ROOT
from streamkeeper.model.records.transitions import Transition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DRIVER_AT = "driver.batch.written"
SWITCH_AT = (
    "record.shadow-appointed.after",
    "sink.swapped",
    "act.go.send.before",
)
"""One point before the cutover, one in it and one after it; the simulation dies at every one
(``tests/simulation/test_crash_points.py``).
"""


class Deploys(SwitchStage):
    """Those of the campaign, without a wait for more than one batch."""

    haste = ("--drain-s", "20", "--first-commit-s", "240", "--probation-batches", "0", "--probation-s", "240")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deploys]:
    """A site for one job with a table, a file and a foreach sink, with input coming."""
    root = tmp_path_factory.mktemp("campaign") / "site"
    with fresh_bed(root, [ROOT / "chaos/jobs/ledgers.py"]) as bed:
        yield Deploys(bed)


def test_a_driver_that_dies_goes_on_and_the_ledger_is_clean(stage: Deploys) -> None:
    """Killed between the write and the commit of a batch: nothing lost, nothing doubled, one driver left, and it
    serves.
    """
    result = Stage.play(stage, f"first:{DRIVER_AT}")
    assert result.hits == [DRIVER_AT]
    assert result.outcomes == ["succeeded"]
    assert result.damage == []


def test_a_switch_that_dies_is_carried_on_and_no_reader_sees_it(stage: Deploys) -> None:
    """Rebuild, handoff and resume in one deploy, killed three times, once in the swap: no total ever goes back, nothing
    is lost or doubled, and one driver is left, which serves."""
    result = stage.play(f"switch/points:{'+'.join(SWITCH_AT)}")
    state = stage.state()
    assert result.hits == list(SWITCH_AT)
    assert result.outcomes[-1] == "succeeded"
    assert result.damage == []
    ways = list(state.operations.values())[-1].transitions
    assert {query: each.way for query, each in ways.items()} == {
        "totals": Transition.REBUILD,
        "copies": Transition.HANDOFF,
        "audit": Transition.RESUME,
    }
    assert {query: each.version for query, each in ways.items()} == state.current
