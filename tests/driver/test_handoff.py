"""Tests of real drivers that hand a query over to a new checkpoint version without losing or duplicating rows."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed, last_planned, numbered
from streamkeeper.checkpoints.seeding import REBASED
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from streamkeeper.model.records.journal_records import Assessed, OperationStarted
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.sinks.file_serving import serving_files
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TABLES = """
from pyspark.sql import functions as F
from streamkeeper import Param, Query, TableSink, streaming_job

SALES = "event_id string, customer string, amount long"


@streaming_job(name="tables", params={name: Param(str) for name in ("input", "other", "warehouse", "trigger")})
def tables(spark, params):
    sink = TableSink(params["warehouse"], table="sales", key=["event_id"])
    sales = spark.readStream.schema(SALES).csv(params["input"])
    yield Query("sales", sales, sink=sink, output_mode="append", trigger=params["trigger"])
    totals = spark.readStream.schema(SALES).csv(params["other"]).groupBy("customer").agg(
        F.count("*").alias("sales"),
        F.sum("amount").alias("total"),
        F.sum(F.col("amount") * F.col("amount")).alias("squares"),
    )
    sink = TableSink(params["warehouse"], table="sales_totals", key=["customer"])
    yield Query("totals", totals, sink=sink, output_mode="update", trigger=params["trigger"])
"""


@pytest.fixture
def files(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path, "event_copy")
    yield house
    house.close()


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[DriverHouse]:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "tables.py").write_text(TABLES)
    (tmp_path / "other").mkdir()
    house = DriverHouse(tmp_path, "tables", jobs_root=jobs)
    yield house
    house.close()


def events_of(house: DriverHouse) -> list[str]:
    """Return the event ids in the serving output, with duplicates."""
    import pyarrow.parquet as pq

    return sorted(
        value.as_py() for file in serving_files(str(house.output)) for value in pq.read_table(file)["event_id"]
    )


def written(house: DriverHouse) -> list[str]:
    """Return the event ids of all input so far, which consists of files of one row."""
    return sorted(f"f{number}e0" for number in range(1, house.files + 1))


def feed(house: DriverHouse, files: int = 2) -> None:
    for _ in range(files):
        house.add([("a", 1)])


def release_resources(process: subprocess.Popen[bytes], tree: list[psutil.Process]) -> None:
    """Wait until a killed driver and all its child processes have stopped, which an operation requires as a proof."""
    assert process.wait(timeout=120) == -9
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert alive == []


def tree_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.storage
def test_files_are_handed_over_after_a_drain_and_after_a_kill(files: DriverHouse) -> None:
    """A drained driver's files continue in v0002, and v0003 continues after a driver that was killed between write and
    commit. The successor is killed before and after creating the checkpoint, and resumes without losing or duplicating
    an event.
    """
    house, params = files, {**files.params(), "files_per_trigger": 1}
    feed(house)
    first = house.launch("first", params=params)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", first, "copy")
    wait_for("the first events", lambda: events_of(house) == written(house))
    second = house.launch("second", params=params, environ={"STREAMKEEPER_CRASH": "driver.batch.written:3"})
    house.wait_state("second", DriverState.STANDBY)
    feed(house)
    house.send("first", first, CommandKind.DRAIN)
    assert house.wait_exit(first) == ExitCode.DRAINED
    at = last_committed(LocalTree(house.checkpoint("copy", "v0001")))

    house.create("copy", "v0002", parent="v0001")
    feed(house)
    tree = tree_of(second)
    house.switch("second", second, {"copy": "v0002"})
    feed(house)
    release_resources(second, tree)
    handed = house.journal.state().version("copy", "v0002")
    assert handed is not None
    assert (handed.parent_batch, handed.batch) == (at, REBASED)
    old = house.checkpoint("copy", "v0002")
    assert (last_committed(LocalTree(old)), last_planned(LocalTree(old))) == (3, 4)

    house.create("copy", "v0003", parent="v0002")
    third = house.launch("third", params=params, environ={"STREAMKEEPER_CRASH": "driver.handoff.record.after"})
    house.wait_state("third", DriverState.STANDBY)
    tree = tree_of(third)
    house.switch("third", third, {"copy": "v0003"})
    release_resources(third, tree)
    assert not house.checkpoint("copy", "v0003").exists()
    again = house.start("third", 2, environ={"STREAMKEEPER_CRASH": "driver.handoff.seed.after"})
    assert again.wait(timeout=120) == -9
    house.start("third", 3)
    feed(house)
    wait_for("every event", lambda: set(events_of(house)) == set(written(house)), 180)
    assert events_of(house) == written(house)
    spans = [(each.version, each.last) for each in house.journal.state().segments("copy", "v0003")]
    assert spans == [("v0001", at), ("v0002", 4), ("v0003", None)]


def test_a_table_batch_is_not_written_twice_after_a_handoff(tables: DriverHouse) -> None:
    """A batch that the table holds and the checkpoint has not committed is not written twice after a handoff. A query
    that gives up its state reads new rows only, in batches from 0, and counts from zero.
    """
    house, params = tables, {**tables.params(), "other": str(tables.root / "other")}
    feed(house)
    (house.root / "other" / "1.csv").write_text("e1,a,1\ne2,b,2\n")
    # The first batch of each query is written before the second one of the sales.
    first = house.launch("first", params=params, environ={"STREAMKEEPER_CRASH": "driver.batch.written:3"})
    house.wait_state("first", DriverState.STANDBY)
    tree = tree_of(first)
    house.go("first", first, "sales", "totals")
    wait_for("the first rows", lambda: sold(house) == written(house))
    wait_for("the commit", lambda: last_committed(LocalTree(house.checkpoint("totals", "v0001"))) == 0)
    feed(house)
    release_resources(first, tree)
    give_up_state(house)
    for query in ("sales", "totals"):
        house.create(query, "v0002", parent="v0001", operation="op")
    second = house.launch("second", params=params)
    house.wait_state("second", DriverState.STANDBY)
    house.switch("second", second, {"sales": "v0002", "totals": "v0002"})
    feed(house)
    wait_for("all rows", lambda: sold(house) == written(house))
    handed = house.journal.state().version("sales", "v0002")
    assert handed is not None
    assert (handed.parent_batch, handed.batch) == (1, 1)
    assert output_row(house) == ("v0002", last_planned(LocalTree(house.checkpoint("sales", "v0002"))))
    assert sorted(numbered(LocalTree(house.checkpoint("sales", "v0002")), "offsets"))[:3] == [0, 1, 2]

    (house.root / "other" / "2.csv").write_text("e3,a,5\n")
    wait_for("the new batch", lambda: house.totals().get("a") == (1, 5, 25))
    assert house.totals()["b"] == (1, 2, 4)
    handed = house.journal.state().version("totals", "v0002")
    assert handed is not None
    assert (handed.parent_batch, handed.batch) == (0, -1)
    assert last_planned(LocalTree(house.checkpoint("totals", "v0002"))) in (0, 1)


def give_up_state(house: DriverHouse) -> None:
    """Record the transitions of an operation that accepts the loss of the totals' state."""
    way = QueryTransition(way=Transition.HANDOFF, before="v0001", version="v0002")
    request = DeployRequest(job=house.job, accept_state_loss=True)
    house.journal.append(lambda _: OperationStarted(operation="op", request=request, steps=()))
    house.journal.append(
        lambda _: Assessed(
            operation="op",
            verdict=Verdict.SWITCH,
            reverse=Verdict.SWITCH,
            sentence="",
            report="",
            transitions={"sales": way, "totals": replace(way, state_given_up=True)},
        )
    )


def sold(house: DriverHouse) -> list[str]:
    """Return the event ids in the table."""
    if "sales" not in house.tables():
        return []
    with sqlite3.connect(house.warehouse, timeout=30) as connection:
        return sorted(each for (each,) in connection.execute("SELECT event_id FROM sales"))


def output_row(house: DriverHouse) -> tuple[str, int] | None:
    """Return the version and the newest batch that the table records."""
    asked = "SELECT version, batch_id FROM streamkeeper_outputs WHERE output = 'sales'"
    with sqlite3.connect(house.warehouse, timeout=30) as connection:
        return connection.execute(asked).fetchone()
