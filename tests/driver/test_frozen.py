"""Tests that a superseded driver that was frozen writes nothing when it resumes.

The proof of its death is deliberately skipped here: another instance is appointed and takes over the outputs while the
first one is only stopped.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode
from streamkeeper.model.records.journal_records import EpochClaimed
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink, newest_batch
from streamkeeper.sinks.table import TableSink
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

UNFENCED = [str(Path(__file__).with_name("unfenced_driver.py"))]


JOB = """
from pyspark.sql import functions as F
from streamkeeper import FileSink, Param, Query, TableSink, streaming_job


@streaming_job(name="sales", params={name: Param(str) for name in ("input", "output", "warehouse", "trigger")})
def sales(spark, params):
    sales = spark.readStream.schema("event_id string, customer string, amount long").csv(params["input"])
    totals = sales.groupBy("customer").agg(
        F.count("*").alias("sales"),
        F.sum("amount").alias("total"),
        F.sum(F.col("amount") * F.col("amount")).alias("squares"),
    )
    table = TableSink(params["warehouse"], table="sales_totals", key=["customer"])
    files = FileSink(params["output"], format="parquet")
    yield Query("totals", totals, sink=table, output_mode="update", trigger=params["trigger"])
    yield Query("copy", sales, sink=files, output_mode="append", trigger=params["trigger"])
"""
QUERIES = ("totals", "copy")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    """A driver house with a job that writes a table and files."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "sales.py").write_text(JOB)
    house = DriverHouse(tmp_path, "sales", tmp_path / "jobs")
    yield house
    house.close()


def parts_of(process: subprocess.Popen[bytes], what: str) -> list[psutil.Process]:
    """Return the processes to freeze: Python, its JVM, or both."""
    python = psutil.Process(process.pid)
    jvms = [each for each in python.children() if each.name() == "java"]
    assert len(jvms) == 1
    return {"python": [python], "jvm": jvms, "both": [python, *jvms]}[what]


def take_over(house: DriverHouse) -> None:
    """Appoint another instance, and claim and fence the next epochs for it as its driver would."""
    house.appoint("second")
    for query in QUERIES:
        house.journal.append(
            lambda state, query=query: EpochClaimed(  # type: ignore[misc]
                query=query,
                output="the same",
                epoch=state.epochs[query].epoch + 1,
                instance="second",
                generation=1,
                version="v0001",
            )
        )
    table = TableSink(f"sqlite:///{house.warehouse}", table="sales_totals", key=["customer"])
    table.open(context("totals")).raise_fence()
    FileSink(str(house.output)).open(context("copy")).raise_fence()


def context(query: str) -> SinkContext:
    return SinkContext(job="sales", query=query, version="v0001", epoch=2, output_mode="update")


def freeze_and_wake(house: DriverHouse, what: str) -> subprocess.Popen[bytes]:
    """Stop a serving driver or a part of it, supersede it, add new input, and resume it."""
    house.add([("a", 1)])
    params = {**house.params(), "output": str(house.output)}
    process = house.launch("first", params=params)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", process, *QUERIES)
    wait_for("the first commits to be told", lambda: committed(house) == dict.fromkeys(QUERIES, 0))
    frozen = parts_of(process, what)
    for each in frozen:
        each.send_signal(signal.SIGSTOP)
    take_over(house)
    house.add([("a", 1000)])
    for each in frozen:
        each.send_signal(signal.SIGCONT)
    return process


def committed(house: DriverHouse) -> dict[str, int | None]:
    """Return the newest committed batch of each query according to the driver."""
    status = house.status("first")
    return {} if status is None else {query: each.committed for query, each in status.queries.items()}


def written(house: DriverHouse) -> list[Path]:
    return sorted((house.output / "v0001").glob("*.parquet"))


@pytest.mark.parametrize("what", ["python", "jvm"])
def test_a_frozen_writer_wakes_up_and_writes_nothing(house: DriverHouse, what: str) -> None:
    """A driver whose Python or JVM is stopped, superseded, given new input and resumed is fenced: the table stays
    unchanged, and neither a batch in the log nor a file is added.
    """
    assert house.wait_exit(freeze_and_wake(house, what), 120) == ExitCode.FENCED
    assert house.totals() == {"a": (1, 1, 1)}
    with sqlite3.connect(house.warehouse) as connection:
        assert connection.execute("SELECT count(*) FROM sales_totals__staged").fetchone() == (0,)
    assert newest_batch(f"{house.output}/v0001") == 0
    assert len(written(house)) == 1


def test_without_fence_and_journal_check_the_woken_writer_writes(house: DriverHouse) -> None:
    """Negative control: with the fence and the journal check switched off, the superseded driver changes the table and
    the files.
    """
    house.program = UNFENCED
    freeze_and_wake(house, "both")
    wait_for("the damage to the table", lambda: house.totals() == house.oracle())
    wait_for("the damage to the files", lambda: newest_batch(f"{house.output}/v0001") == 1)
    assert len(written(house)) == 2
