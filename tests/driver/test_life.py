"""Tests of a real driver process from launch to exit, with real files, SQLite and Spark."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.driver_messages import (
    CLAIM,
    CommandKind,
    DriverState,
    DriverStatus,
    ExitCode,
    Gather,
    ProcessRecord,
)
from streamkeeper.model.records.journal_keys import entry_key, journal_prefix
from streamkeeper.sinks.file import newest_batch
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path)
    yield house
    house.close()


def test_successive_drivers_handle_a_dead_jvm_drain_kill_and_lost_store(house: DriverHouse) -> None:
    """A standby claims nothing, ``go`` makes it serve, an idle driver drains at a commit, and the next driver continues
    from there with exact totals.

    A standby whose JVM dies during its looks stores no evidence, and its next generation repeats them. A driver that
    died and is restarted serves under a new epoch without a new order. A serving driver that cannot reach its store
    writes nothing more and exits within its lease.
    """
    house.add([("a", 1), ("b", 2)])
    first = house.launch("first")
    assert house.wait_state("first", DriverState.STANDBY).queries == {}
    assert set(house.control("first").read_manifests() or {}) == {"totals"}
    assert house.totals() == {}
    house.go("first", first, "totals")
    wait_for("the first totals", lambda: house.totals() == house.oracle())
    house.add([("a", 5)])
    wait_for("the next totals", lambda: house.totals() == house.oracle())
    wait_for("its start to be recorded", lambda: house.journal.state().versions["totals"][0].start_offsets is not None)
    assert house.journal.state().versions["totals"][0].start_offsets == ("null",)

    second = _stand_by_after_a_death(house)
    house.send("first", first, CommandKind.DRAIN)
    assert house.wait_exit(first) == ExitCode.DRAINED
    drained = house.wait_state("first", DriverState.DRAINED)
    assert (drained.last_command, drained.queries["totals"].epoch) == (2, 1)
    checkpoint = LocalTree(house.checkpoint("totals", "v0001"))
    assert drained.queries["totals"].committed == last_committed(checkpoint) == last_planned(checkpoint)
    assert drained.queries["totals"].admitted == last_committed(checkpoint)
    assert not (house.root / "home/scratch/first").exists()

    house.add([("b", 7), ("c", 1)])
    house.go("second", second, "totals")
    wait_for("the totals of the second driver", lambda: house.totals() == house.oracle())
    wait_for("its commit to be told", lambda: (told(house).queries["totals"].committed or 0) == 2)
    status = house.wait_state("second", DriverState.SERVING)
    assert (status.generation, status.queries["totals"].epoch) == (2, 2)
    _lose_the_store(house, _killed_and_gone_on(house, second))


def told(house: DriverHouse) -> DriverStatus:
    """Return the newest status of the second driver, even if it has exited."""
    status = house.status("second")
    assert status is not None
    return status


def _stand_by_after_a_death(house: DriverHouse) -> subprocess.Popen[bytes]:
    """Kill the JVM of ``second`` during its rehearsal and return its next generation, which stands by and will be
    killed at its second batch. No look is recorded as missed.
    """
    live = house.checkpoint("totals", "v0001")
    wait_for("the commit", lambda: last_committed(LocalTree(live)) == 1)
    second = house.launch("second", rehearse_on={"totals": str(live)}, gather=Gather(served=True), lease_s=15)
    wait_for("its rehearsal", lambda: [*(house.root / "home/scratch/second/rehearsal").glob("rehearsal-*")])
    [jvm] = [child for child in psutil.Process(second.pid).children() if "java" in child.name()]
    jvm.kill()
    assert house.wait_exit(second) == ExitCode.FAILED
    assert house.control("second").read_evidence() is None
    assert told(house).error.startswith("the JVM exited on its own")
    second = house.start("second", 2, environ={"STREAMKEEPER_CRASH": "driver.batch.written:2"})
    wait_for("its standby", lambda: told(house).state is DriverState.STANDBY)
    assert told(house).warm_up.startswith("ok: totals ran batch 1 again"), told(house).warm_up
    assert house.totals() == house.oracle()
    evidence = house.control("second").read_evidence()
    assert evidence is not None
    assert not evidence.queries["totals"].not_looked
    return second


def _killed_and_gone_on(house: DriverHouse, second: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Let the driver die after the sink has stored a batch and before Spark has committed it: the batch is replayed and
    counts once.

    A newer version has added a journal record that drivers may skip, and a foreign note lies beside the journal.
    """
    number = house.journal.state().number + 1
    frame = {"number": number, "at": "", "by": "tomorrow", "drivers_may_pass": True}
    tomorrow = {**frame, "record": {"type": "of-tomorrow"}}
    house.store.create(entry_key("sales_totals", number), json.dumps(tomorrow).encode())
    house.store.create(journal_prefix("sales_totals") + "note.txt", b"please leave this")
    house.add([("a", 5)])
    assert house.wait_exit(second) == -9
    assert house.totals() == house.oracle()
    again = house.start("second", 3)
    house.add([("c", 3)])
    wait_for("the totals after the crash", lambda: house.totals() == house.oracle(), 300)
    assert (told(house).generation, told(house).queries["totals"].epoch) == (3, 3)
    return again


def _lose_the_store(house: DriverHouse, process: subprocess.Popen[bytes]) -> None:
    before = house.totals()
    os.rename(house.store_directory, house.root / "gone")
    house.add([("a", 100)])
    assert house.wait_exit(process, 60) == ExitCode.STORE_LOST
    assert house.totals() == before
    assert b"lost the store" in (house.root / "second-3.log").read_bytes()
    os.rename(house.root / "gone", house.store_directory)


def test_drain_by_the_gate_under_load(tmp_path: Path) -> None:
    """Under constant load, the gate drains the driver between two batches, and the planned batch is run once by the
    next driver.
    """
    house = DriverHouse(tmp_path, "event_copy")
    try:
        params = {**house.params(), "files_per_trigger": 1, "trigger": "0 seconds"}
        for _ in range(40):
            house.add([("a", 1)])
        first = house.launch("first", params=params)
        house.wait_state("first", DriverState.STANDBY)
        house.go("first", first, "copy")
        wait_for("some batches", lambda: (newest_batch(f"{house.output}/v0001") or 0) >= 3)
        house.send("first", first, CommandKind.DRAIN)
        assert house.wait_exit(first) == ExitCode.DRAINED
        checkpoint = tmp_path / "checkpoints/event_copy/copy/v0001"
        drained_at = newest_batch(f"{house.output}/v0001")
        assert drained_at == last_committed(LocalTree(checkpoint))
        assert drained_at < 39
        drained = house.wait_state("first", DriverState.DRAINED)
        assert drained.queries["copy"].admitted == drained_at
        second = house.launch("second", params=params)
        house.wait_state("second", DriverState.STANDBY)
        house.go("second", second, "copy")
        wait_for("every event", lambda: newest_batch(f"{house.output}/v0001") == 39, 120)
        assert sorted(event_ids(house.output / "v0001")) == sorted(f"f{n}e0" for n in range(1, 41))
    finally:
        house.close()


def event_ids(directory: Path) -> list[str]:
    """Return the event ids of every Parquet file in a directory, including files that are not in the log."""
    import pyarrow.parquet as pq

    return [value.as_py() for file in directory.glob("*.parquet") for value in pq.read_table(file)["event_id"]]


def test_driver_that_is_not_appointed_is_fenced(house: DriverHouse) -> None:
    """A driver that receives ``go`` without an appointment in the journal exits with ``FENCED`` and opens neither a
    checkpoint nor an output.
    """
    house.add([("a", 1)])
    first = house.launch("first")
    house.wait_state("first", DriverState.STANDBY)
    house.send("first", first, CommandKind.GO, versions={"totals": "v0001"})
    assert house.wait_exit(first) == ExitCode.FENCED
    assert not (house.root / "checkpoints").exists()
    assert house.totals() == {}


@pytest.mark.parametrize("other", [True, False], ids=["another process", "no process"])
def test_a_driver_whose_claim_is_not_in_the_store_writes_nothing(tmp_path: Path, other: bool) -> None:
    """A driver whose claim is missing from the store, for example because an older copy was restored, is fenced and
    writes nothing. Negative control: with its claim in the store, it writes.
    """
    house = DriverHouse(tmp_path)
    try:
        house.add([("a", 1)])
        mine = ProcessRecord(instance="first", generation=1, machine="m1", host="one", pid=11, started=1)
        if other:
            house.control("first").write_process(structs.replace(mine, machine="m2", host="two"))
        process = house.launch("first", environ={CLAIM: to_json(mine).decode()})
        house.wait_state("first", DriverState.STANDBY)
        house.go("first", process, "totals")
        assert house.wait_exit(process) == ExitCode.FENCED
        told = house.wait_state("first", DriverState.FENCED).error
        named = "process 11 on two" if other else "no process"
        assert f"in the store, {named} has claimed generation 1 of first, not this process" in told
        assert house.journal.state().epochs == {}

        if not other:
            house.control("first").write_process(structs.replace(mine, generation=2))
            house.start("first", 2, environ={CLAIM: to_json(structs.replace(mine, generation=2)).decode()})
            wait_for("the totals", lambda: house.totals() == house.oracle())
    finally:
        house.close()
