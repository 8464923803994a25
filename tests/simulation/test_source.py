"""Tests that the simulated topic and micro-batch loop keep the contract of the real sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.simulation.releases import QUERY
from harness.simulation.scheduler import Process
from harness.simulation.spark import Frame, Run, Session
from harness.simulation.world import World
from streamkeeper.checkpoints.trees import Tree
from tests.contracts.source_contract import ROWS_A_BATCH, Batches, SourceContract

_LONGEST_S = 60.0


class Listener:
    """A query listener that records when a run has read all input."""

    def __init__(self) -> None:
        self.idle = False

    def onQueryIdle(self, _event: Any) -> None:
        self.idle = True

    def onQueryProgress(self, _event: Any) -> None:
        """Ignore that a batch was committed."""

    def onQueryTerminated(self, _event: Any) -> None:
        """Ignore that the run has failed."""


class Place:
    """An input whose rows arrive when a test adds them; each run has its own driver and JVM."""

    def __init__(self, world: World) -> None:
        self._world, self._scheduler = world, world.scheduler
        self._rows: list[str] = []
        self.kind = world.manifests["r0001"][QUERY].sources[0].kind
        world.input.most_rows, world.input.until_s = ROWS_A_BATCH, 0.0

    def put(self, rows: list[str]) -> None:
        self._rows += rows
        while self._world.input.end() < len(self._rows):
            self._world.input.until_s += 0.1
            self._scheduler.run(max(self._scheduler.now_s, self._world.input.until_s))

    def tree(self, checkpoint: Path) -> Tree:
        return self._world.tree_at(str(checkpoint)).fresh()

    def take_away(self, checkpoint: Path) -> None:
        for path in self._world.files.below(str(checkpoint)):
            self._world.files.remove(f"{checkpoint}/{path}")

    def run(self, checkpoint: Path, *, fail_after: int | None = None) -> Batches:
        found: Batches = {}

        def take(frame: Frame, batch: int) -> None:
            found[batch] = [self._rows[row] for row in frame.rows]
            if batch == fail_after:
                raise InterruptedError("written, not committed")

        driver = Process("driver", "m1")
        session = Session(self._world, driver)
        listener = Listener()
        session.listeners.append(listener)
        stream: Any = Frame(session).writeStream.queryName(QUERY).option("checkpointLocation", str(checkpoint))
        runs: list[Run] = []
        self._scheduler.start(driver, "driver", lambda: runs.append(stream.foreachBatch(take).start()))
        end = self._scheduler.now_s + _LONGEST_S
        while not listener.idle and not (runs and not runs[0].isActive):
            assert self._scheduler.now_s < end, "the run has not read everything"
            self._scheduler.run(self._scheduler.now_s + 0.05)
        assert listener.idle is (fail_after is None)
        for process in reversed(driver.tree()):
            self._scheduler.kill(process, -9)
        return found


@pytest.fixture(params=[False, True], ids=["topic", "files"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world with an input that has no rows and no reader."""
    with World.opened(1, files=request.param) as opened:
        yield opened


@pytest.fixture
def place(world: World) -> Place:
    return Place(world)


class TestSimulatedInput(SourceContract):
    """A simulated topic with one partition and a simulated directory of files keep the source contract."""


def test_the_suite_detects_a_rerun_that_adds_new_rows_to_its_batch(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a rerun that adds all newly arrived rows to its batch fails the contract's test that equal
    offsets return equal rows.
    """
    end_of = Run._end_of

    def end_of_all(self: Run, batch: int | None) -> int:
        committed = batch is None or self._tree.has(f"commits/{batch}")
        return end_of(self, batch) if committed else self._world.input.end()

    monkeypatch.setattr(Run, "_end_of", end_of_all)
    with pytest.raises(AssertionError):
        SourceContract().test_the_same_offsets_give_the_same_rows(place, tmp_path)


@pytest.mark.parametrize(
    "test",
    [
        SourceContract.test_the_same_offsets_give_the_same_rows,
        SourceContract.test_comparing_two_checkpoints_reports_the_number_of_missing_rows,
        SourceContract.test_a_version_seeded_at_old_offsets_reads_every_later_row_once,
    ],
    ids=lambda test: test.__name__,
)
def test_the_suite_detects_a_plan_with_a_wrong_end_offset(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: Any
) -> None:
    """Negative control: a plan whose end offset is one row short reads that row twice and reports too few rows, and the
    contract's tests fail.
    """
    offsets = Run._offsets
    monkeypatch.setattr(Run, "_offsets", staticmethod(lambda end: offsets(end - 1)))
    with pytest.raises(AssertionError):
        test(SourceContract(), place, tmp_path)
