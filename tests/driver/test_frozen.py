"""A superseded driver that was frozen and wakes up writes nothing.

The proof of its death is deliberately not asked for here: another instance is appointed, and takes the outputs over,
while the first one is only stopped.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.waiting import wait_for
from streamkeeper.model.control import DriverState, ExitCode
from streamkeeper.model.journal import EpochClaimed
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink, newest_batch
from streamkeeper.sinks.table import TableSink
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FREEZES = ["python", "jvm", "both"]
UNFENCED = [str(Path(__file__).with_name("unfenced_driver.py"))]


@pytest.fixture
def table_house(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path)
    yield house
    house.close()


@pytest.fixture
def file_house(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path, "event_copy")
    yield house
    house.close()


def parts_of(process: subprocess.Popen[bytes], what: str) -> list[psutil.Process]:
    """The processes to freeze: Python, its JVM, or both."""
    python = psutil.Process(process.pid)
    jvms = [each for each in python.children() if each.name() == "java"]
    assert len(jvms) == 1
    return {"python": [python], "jvm": jvms, "both": [python, *jvms]}[what]


def take_over(house: DriverHouse, query: str) -> SinkContext:
    """Appoint another instance and claim the next epoch for it, as its driver would."""
    house.appoint("second")
    house.journal.append(
        lambda state: EpochClaimed(
            query=query,
            output="the same",
            epoch=state.epochs[query].epoch + 1,
            instance="second",
            generation=1,
            version="v0001",
        )
    )
    return SinkContext(job=house.job, query=query, version="v0001", epoch=2, output_mode="update")


@contextmanager
def frozen_unfenced(house: DriverHouse, query: str) -> Iterator[None]:
    """A driver with its checks switched off is frozen; after the body it wakes up to new input."""
    house.program = UNFENCED
    frozen = parts_of(serve(house, query), "both")
    for each in frozen:
        each.send_signal(signal.SIGSTOP)
    yield
    house.add([("a", 1000)])
    for each in frozen:
        each.send_signal(signal.SIGCONT)


def serve(house: DriverHouse, query: str, environ: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    house.add([("a", 1)])
    process = house.launch("first", environ=environ)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", process, query)
    wait_for(
        "the first commit to be told",
        lambda: (
            (status := house.status("first")) is not None
            and query in status.queries
            and status.queries[query].committed == 0
        ),
    )
    return process


@pytest.mark.parametrize("what", FREEZES)
def test_frozen_writer_of_a_table_wakes_up_and_writes_nothing(table_house: DriverHouse, what: str) -> None:
    """Python, its JVM or both are stopped, superseded, given new input, and woken: the table stays as it was."""
    house = table_house
    process = serve(house, "totals")
    frozen = parts_of(process, what)
    for each in frozen:
        each.send_signal(signal.SIGSTOP)
    before = house.totals()
    context = take_over(house, "totals")
    TableSink(f"sqlite:///{house.warehouse}", table="sales_totals", key=["customer"]).open(context).raise_fence()
    house.add([("a", 1000)])
    for each in frozen:
        each.send_signal(signal.SIGCONT)
    assert house.wait_exit(process, 120) == ExitCode.FENCED
    assert house.totals() == before
    with sqlite3.connect(house.warehouse) as connection:
        assert connection.execute("SELECT count(*) FROM sales_totals__staged").fetchone() == (0,)


@pytest.mark.parametrize("what", FREEZES)
def test_frozen_writer_of_files_wakes_up_and_writes_nothing(file_house: DriverHouse, what: str) -> None:
    """The same for files: neither a batch in the log nor a file beside it."""
    house = file_house
    process = serve(house, "copy")
    frozen = parts_of(process, what)
    for each in frozen:
        each.send_signal(signal.SIGSTOP)
    files = sorted((house.output / "v0001").glob("*.parquet"))
    FileSink(str(house.output)).open(take_over(house, "copy")).raise_fence()
    house.add([("a", 1000)])
    for each in frozen:
        each.send_signal(signal.SIGCONT)
    assert house.wait_exit(process, 120) == ExitCode.FENCED
    assert newest_batch(house.output / "v0001") == 0
    assert sorted((house.output / "v0001").glob("*.parquet")) == files


def test_without_fence_and_journal_check_the_woken_writer_of_a_table_writes(table_house: DriverHouse) -> None:
    """Negative control: with both checks switched off the superseded driver does change the table once it wakes up."""
    house = table_house
    with frozen_unfenced(house, "totals"):
        before = house.totals()
        context = take_over(house, "totals")
        TableSink(f"sqlite:///{house.warehouse}", table="sales_totals", key=["customer"]).open(context).raise_fence()
    wait_for("the damage", lambda: house.totals() != before)
    assert house.totals() == house.oracle()


def test_without_fence_and_journal_check_the_woken_writer_of_files_writes(file_house: DriverHouse) -> None:
    """Negative control: the same for files."""
    house = file_house
    with frozen_unfenced(house, "copy"):
        FileSink(str(house.output)).open(take_over(house, "copy")).raise_fence()
    wait_for("the damage", lambda: newest_batch(house.output / "v0001") == 1)
