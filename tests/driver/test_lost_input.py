"""Tests of input of an uncommitted batch that is deleted while its driver runs: a restarted query does not continue
without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode
from tests.driver.test_lost_checkpoint import JOB, QUERY, Calls

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

AWAY = JOB.replace(
    """        ids = [""",
    """        if __import__("os").path.exists(path + ".away"):
            raise ValueError("the output is away")
        ids = [""",
)


def failures(house: Calls) -> int:
    """Return the number of failures of the query since its last batch, as the driver reports it."""
    status = house.status("first")
    return status.queries[QUERY].failures if status is not None and QUERY in status.queries else 0


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Calls]:
    house = Calls(tmp_path)
    (tmp_path / "jobs" / "calls.py").write_text(AWAY)
    yield house
    house.close()


def lose_input_of_a_failing_batch(house: Calls) -> Path:
    """Make a batch fail, hide its file, and let later writes succeed; return the file's new location."""
    away = house.output.with_name(house.output.name + ".away")
    away.touch()
    house.add([("c", 3)])
    # Spark lists the files of a batch as it runs it; after its second failure the driver waits for four seconds.
    wait_for("two failures of the batch", lambda: failures(house) == 2)
    (gone,) = sorted(house.input.glob("*.csv"))[-1:]
    hidden = gone.rename(house.root / gone.name)
    away.unlink()
    return hidden


def test_a_query_restarted_in_process_without_a_planned_file_stops_its_driver(house: Calls) -> None:
    """A query that restarts in its process after a planned file was deleted stops its driver with the file's name; with
    the file restored, the next driver reads everything once.

    A batch with a file whose name Spark treats as a pattern stops the driver at its gate with the name of the file,
    without calling the function.
    """
    first = house.serve("first", 1)
    hidden = lose_input_of_a_failing_batch(house)
    assert house.wait_exit(first, 90) == ExitCode.REFUSED
    status = house.wait_state("first", DriverState.FAILED)
    assert f"1 of 1 files of open batch 1 are missing, such as {house.input}/{hidden.name}" in status.error
    assert last_committed(LocalTree(house.directory)) == 0
    hidden.rename(house.input / hidden.name)
    house.add([("d", 4)])
    (house.input / "[ab].csv").write_text("e1,a,1\n")
    before = sorted(house.input.iterdir())
    second = house.launch("second")
    house.wait_state("second", DriverState.STANDBY)
    house.go("second", second, QUERY)
    assert house.wait_exit(second, 90) == ExitCode.REFUSED
    assert f"{house.input}/[ab].csv" in house.wait_state("second", DriverState.FAILED).error
    assert house.called == ["f1e0", "f1e1", "f2e0"]
    assert sorted(house.input.iterdir()) == before
    tree = LocalTree(house.directory)
    assert (last_committed(tree), last_planned(tree)) == (1, 2)


def test_a_batch_loses_the_rows_of_a_missing_file_without_the_check(house: Calls) -> None:
    """Negative control: without the check of missing files, the driver commits the batch and the rows of the file are
    lost.
    """
    house.program = [str(Path(__file__).with_name("blind_driver.py"))]
    house.serve("first", 1)
    lose_input_of_a_failing_batch(house)
    wait_for("the commit without rows", lambda: last_committed(LocalTree(house.directory)) == 1, 60)
    assert house.called == ["f1e0", "f1e1"]
