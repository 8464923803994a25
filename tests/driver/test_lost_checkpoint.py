"""A checkpoint directory that goes away under a driver, or before the next one: nothing begins anew."""

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
from streamkeeper.model.control import CommandKind, DriverState, ExitCode
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
    """A job whose function writes down every event that it is called with."""

    def __init__(self, root: Path) -> None:
        (root / "jobs").mkdir()
        (root / "jobs" / "calls.py").write_text(JOB)
        super().__init__(root, "calls", root / "jobs")

    def params(self) -> dict[str, object]:  # type: ignore[override]
        return {"input": str(self.input), "output": str(self.output), "trigger": "100 milliseconds"}

    @property
    def called(self) -> list[str]:
        """The events in the order of the calls."""
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return [line.split()[1] for line in lines]

    @property
    def directory(self) -> Path:
        return self.checkpoint(QUERY, "v0001")

    def serve(self, instance: str, batches: int) -> subprocess.Popen[bytes]:
        """A driver that has been given so many files, one a batch."""
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
        """The newest batch that the driver said to have committed."""
        status = self.status(instance)
        return status.commits.get(f"{QUERY}/v0001") if status is not None else None


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Calls]:
    house = Calls(tmp_path)
    yield house
    house.close()


WITHOUT_ITS_LAST_BATCH = "without its last batch"
take_last_batch = remove("offsets/2", "commits/2")
"""What is left is what a driver shows between listing files and planning them."""


@pytest.mark.parametrize("how", ["deleted", "emptied", "replaced by an older copy", WITHOUT_ITS_LAST_BATCH])
def test_a_checkpoint_that_goes_away_under_its_driver_ends_it(house: Calls, how: str) -> None:
    """Its query does not begin again at batch 0 in the same process: the error has its own words and the way out."""
    first = house.serve("first", 2)
    shutil.copytree(house.directory, house.root / "older")
    house.add([("c", 3)])
    wait_for("the third batch", lambda: house.commits("first") == 2)
    if how == WITHOUT_ITS_LAST_BATCH:
        take_last_batch(house.directory)
    else:
        shutil.rmtree(house.directory)
    if how == "emptied":
        house.directory.mkdir()
    elif how.startswith("replaced"):
        os.rename(house.root / "older", house.directory)
    house.add([("d", 4)])
    assert house.wait_exit(first, 90) == ExitCode.REFUSED
    assert house.called == sorted(set(house.called))
    status = house.wait_state("first", DriverState.FAILED)
    assert "checkpoint v0001 of calls/calls" in status.error
    assert "streamkeeper snapshot restore calls/calls" in status.error


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


def test_another_query_finishes_its_batch_before_the_driver_ends(tmp_path: Path) -> None:
    """Cut short, its function would be called with the same batch again, and its own checkpoint is not lost."""
    house = Calls(tmp_path)
    (tmp_path / "jobs" / "calls.py").write_text(SLOW)
    slow = house.output.with_name(house.output.name + ".slow")
    try:
        process = house.launch("first")
        house.wait_state("first", DriverState.STANDBY)
        house.go("first", process, "slow", QUERY)
        house.add([("a", 1)])
        directories = (house.directory, house.checkpoint("slow", "v0001"))
        wait_for("both", lambda: [last_committed(LocalTree(each)) for each in directories] == [0, 0])
        house.add([("b", 2)])
        wait_for("a slow batch", lambda: slow.read_text().count("\n") == 2)
        wait_for("its quick sibling", lambda: last_committed(LocalTree(house.directory)) == 1)
        shutil.rmtree(house.directory)
        house.add([("c", 3)])
        assert process.wait(60) == ExitCode.REFUSED
        assert last_committed(LocalTree(directories[1])) == slow.read_text().count("\n") - 1
    finally:
        house.close()


def test_without_that_look_its_query_begins_again(house: Calls) -> None:
    """The negative control: in the same generation, standing serving, the function is called with everything again."""
    house.program = [str(Path(__file__).with_name("forgetful_driver.py"))]
    house.serve("first", 2)
    shutil.rmtree(house.directory)
    house.add([("c", 3)])
    wait_for("the calls that come again", lambda: len(house.called) > len(set(house.called)))
    status = house.status("first")
    assert status is not None
    assert (status.state, status.generation) == (DriverState.SERVING, 1)


def test_no_driver_takes_over_less_than_was_recorded(house: Calls) -> None:
    """Neither the next one nor a restarted one, of whatever is there instead: nothing is claimed, made or called."""
    first = house.serve("first", 2)
    older = house.root / "older"
    shutil.copytree(house.directory, older)
    house.add([("c", 3)])
    wait_for("the third batch", lambda: house.commits("first") == 2)
    house.send("first", first, CommandKind.DRAIN)
    assert house.wait_exit(first) == ExitCode.DRAINED
    called, epochs = house.called, house.journal.state().epochs
    whole = shutil.copytree(house.directory, house.root / "whole")
    for number, how in enumerate(("missing", "empty", "another query's", WITHOUT_ITS_LAST_BATCH, "gone back")):
        shutil.rmtree(house.directory, ignore_errors=True)
        if how == "empty":
            house.directory.mkdir()
        elif how == WITHOUT_ITS_LAST_BATCH:
            shutil.copytree(whole, house.directory)
            take_last_batch(house.directory)
        elif how != "missing":
            shutil.copytree(older, house.directory)
        if how == "another query's":
            (house.directory / "metadata").write_text('{"id":"0a0a0a0a-eaab-48e1-8081-cfb9a2991009"}')
        before, instance = sorted(house.directory.parent.rglob("*")), f"next-{number}"
        process = house.launch(instance)
        house.wait_state(instance, DriverState.STANDBY)
        house.go(instance, process, QUERY)
        _is_refused(house, instance, process)
        if how == "gone back":
            _is_refused(house, instance, house.start(instance, 2))
        assert (house.called, house.journal.state().epochs) == (called, epochs)
        assert sorted(house.directory.parent.rglob("*")) == before


def test_without_that_look_the_batch_that_was_taken_runs_again(house: Calls) -> None:
    """The negative control: the next driver plans the files that are listed, and its function is called with them."""
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


def _is_refused(house: Calls, instance: str, process: subprocess.Popen[bytes]) -> None:
    assert house.wait_exit(process, 120) == ExitCode.REFUSED
    assert "is not what was recorded" in house.wait_state(instance, DriverState.FAILED).error


def test_a_commit_that_a_crash_has_taken_is_made_again(house: Calls) -> None:
    """The plan of the newest batch is there: it runs again under its own id, as after any crash."""
    first = house.serve("first", 2)
    house.send("first", first, CommandKind.DRAIN)
    assert house.wait_exit(first) == ExitCode.DRAINED
    for name in ("1", ".1.crc"):
        (house.directory / "commits" / name).unlink()
    house.serve("second", 1)
    assert sorted(set(house.called)) == sorted(f"f{n}e{m}" for n in (1, 2, 3) for m in (0, 1))
