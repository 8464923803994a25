"""Tests of a checkpoint directory that disappears under a driver or before the next one starts: no query starts from
the beginning.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from tests.checkpoints.damaging import remove
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JOB = """
from streamkeeper import ForeachBatch, Param, Query, streaming_job


def append(path):
    def called(batch, context):
        ids = [row.event_id for row in batch.select("event_id").collect()]
        with open(path, "a") as file:
            file.writelines(f"{context.batch_id} {each}\\n" for each in sorted(ids))

    return called


@streaming_job(name="calls", params={name: Param(str) for name in ("input", "output", "trigger")})
def calls(spark, params):
    events = spark.readStream.schema("event_id string, customer string, amount long").csv(params["input"])
    yield Query("calls", events, sink=ForeachBatch(append(params["output"])), trigger=params["trigger"])
"""
QUERY = "calls"


class Calls(DriverHouse):
    """A job whose function records every event that it is called with."""

    def __init__(self, root: Path) -> None:
        (root / "jobs").mkdir()
        (root / "jobs" / "calls.py").write_text(JOB)
        super().__init__(root, "calls", root / "jobs")

    def params(self) -> dict[str, object]:  # type: ignore[override]
        return {"input": str(self.input), "output": str(self.output), "trigger": "100 milliseconds"}

    @property
    def called(self) -> list[str]:
        """The recorded events in the order of the calls."""
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return [line.split()[1] for line in lines]

    @property
    def directory(self) -> Path:
        return self.checkpoint(QUERY, "v0001")

    def serve(self, instance: str, batches: int) -> subprocess.Popen[bytes]:
        """Start a driver, feed it this number of files, one per batch, and return its process."""
        process = self.launch(instance)
        self.wait_state(instance, DriverState.STANDBY)
        self.go(instance, process, QUERY)
        for _ in range(batches):
            files = self.files
            self.add([("a", 1), ("b", 2)])
            wait_for(f"file {files + 1}", lambda files=files: len(self.called) == 2 * (files + 1))
        newest = self.files - 1
        wait_for("the last commit", lambda: last_committed(LocalTree(self.directory)) == newest)
        wait_for("its word", lambda: self.commits(instance) == newest)
        return process

    def commits(self, instance: str) -> int | None:
        """Return the newest batch that the driver reports as committed."""
        status = self.status(instance)
        return status.commits.get(f"{QUERY}/v0001") if status is not None else None


take_last_batch = remove("offsets/2", "commits/2")
"""Remove the last batch, which leaves what a driver shows between listing and planning files."""

SLOW = JOB.replace(
    """    yield Query("calls", events""",
    """    slow = ForeachBatch(slowly(append(params["output"] + ".slow")))
    yield Query("slow", events, sink=slow, trigger=params["trigger"])
    yield Query("calls", events""",
).replace(
    "@streaming_job",
    """def slowly(append):
    def called(batch, context):
        append(batch, context)
        # A job of Spark's, for that is what an end interrupts.
        batch.sparkSession.sparkContext.parallelize([2], 1).foreach(__import__("time").sleep)

    return called


@streaming_job""",
)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Calls]:
    house = Calls(tmp_path)
    yield house
    house.close()


def test_a_driver_whose_checkpoint_disappears_exits_and_is_not_replaced(house: Calls) -> None:
    """A driver whose checkpoint disappears exits with an error that names the checkpoint and the remedy, after the
    current batch of another query has finished. Neither a new nor a restarted driver takes over a missing or older
    checkpoint.

    A commit that a crash has removed is no loss: its batch is replayed under the same id.
    """
    whole, older = house.root / "whole", house.root / "older"
    _lose_beside_a_slow_query(house, whole, older)
    called, epochs = house.called, house.journal.state().epochs

    process = house.launch("next")
    house.wait_state("next", DriverState.STANDBY)
    house.go("next", process, QUERY)
    _is_refused(house, "next", process)
    assert not house.directory.exists()
    shutil.copytree(older, house.directory)
    before = sorted(house.directory.rglob("*"))
    _is_refused(house, "next", house.start("next", 2))
    assert sorted(house.directory.rglob("*")) == before
    assert (house.called, house.journal.state().epochs) == (called, epochs)

    shutil.rmtree(house.directory)
    os.rename(whole, house.directory)
    remove("commits/1")(house.directory)
    second = house.launch("second")
    house.wait_state("second", DriverState.STANDBY)
    house.go("second", second, QUERY)
    wait_for("the batch again, and the next one", lambda: house.commits("second") == 2)
    assert house.called == ["f1e0", "f2e0", "f2e0", "f3e0"]
    take_last_batch(house.directory)
    house.add([("d", 4)])
    _ends_for_good(house, "second", second)
    assert house.called == ["f1e0", "f2e0", "f2e0", "f3e0"]


def _lose_beside_a_slow_query(house: Calls, whole: Path, older: Path) -> None:
    """Make a driver of two queries lose one checkpoint; its state at batch 1 is kept in ``whole`` and at batch 0 in
    ``older``. Later drivers get the job without the slow query.
    """
    file = house.jobs_root / "calls.py"
    file.write_text(SLOW)
    slow, slow_directory = house.output.with_name(house.output.name + ".slow"), house.checkpoint("slow", "v0001")
    first = house.launch("first")
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", first, "slow", QUERY)
    house.add([("a", 1)])
    directories = (house.directory, slow_directory)
    wait_for("both", lambda: [last_committed(LocalTree(each)) for each in directories] == [0, 0])
    shutil.copytree(house.directory, older)
    house.add([("b", 2)])
    wait_for("a slow batch", lambda: slow.read_text().count("\n") == 2)
    wait_for("its quick sibling", lambda: last_committed(LocalTree(house.directory)) == 1)
    os.rename(house.directory, whole)
    house.add([("c", 3)])
    _ends_for_good(house, "first", first)
    assert last_committed(LocalTree(slow_directory)) == slow.read_text().count("\n") - 1
    assert (house.called, house.commits("first")) == (["f1e0", "f2e0"], 1)
    file.write_text(JOB)


def _ends_for_good(house: Calls, instance: str, process: subprocess.Popen[bytes]) -> None:
    assert house.wait_exit(process, 90) == ExitCode.REFUSED
    status = house.wait_state(instance, DriverState.FAILED)
    assert "checkpoint v0001 of calls/calls" in status.error
    assert "streamkeeper snapshot restore calls/calls" in status.error


def _is_refused(house: Calls, instance: str, process: subprocess.Popen[bytes]) -> None:
    assert house.wait_exit(process, 120) == ExitCode.REFUSED
    assert "is not what was recorded" in house.wait_state(instance, DriverState.FAILED).error


def test_batches_are_repeated_after_a_checkpoint_loss_without_the_checks(house: Calls) -> None:
    """Negative control: without the checks, a driver plans a removed batch's files anew and calls its function with
    them twice, and after the whole checkpoint has disappeared it repeats every call while still serving.
    """
    house.program = [str(Path(__file__).with_name("forgetful_driver.py"))]
    first = house.serve("first", 3)
    house.send("first", first, CommandKind.DRAIN)
    assert house.wait_exit(first) == ExitCode.DRAINED
    called = house.called
    take_last_batch(house.directory)
    process = house.launch("next")
    house.wait_state("next", DriverState.STANDBY)
    house.go("next", process, QUERY)
    wait_for("the calls that come again", lambda: house.called == called + called[-2:])
    wait_for("their commit", lambda: last_committed(LocalTree(house.directory)) == 2)
    shutil.rmtree(house.directory)
    house.add([("d", 4)])
    wait_for("all calls again", lambda: set(called) <= set(house.called[len(called) + 2 :]))
    status = house.status("next")
    assert status is not None
    assert (status.state, status.generation) == (DriverState.SERVING, 1)
