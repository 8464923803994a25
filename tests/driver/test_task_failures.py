"""Tests how errors that Spark raises for bad records and failed tasks in real runs are described in one line and
classified.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.driver.causes import is_lost_worker, judge, judge_links
from streamkeeper.driver.faults import describe_fault, describe_links
from streamkeeper.driver.raised import links_of, links_of_throwable
from streamkeeper.inspection.diverted import fault_of
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.restart_budgets import Cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "name string, amount int"


def failure_of(batch: DataFrame, root: Path, write: Callable[[Any], None] | None = None) -> BaseException:
    """Run a streaming query and return the exception of its first batch, as the driver's gate sees it."""
    raised: list[BaseException] = []

    def each(rows: DataFrame, _: int) -> None:
        try:
            (write or (lambda given: given.write.format("noop").mode("overwrite").save()))(rows)
        except BaseException as error:
            raised.append(error)
            raise

    started = batch.writeStream.foreachBatch(each).option("checkpointLocation", str(root / "cp"))
    query = started.trigger(availableNow=True).start()
    with pytest.raises(Exception):  # noqa: B017 - whichever Spark wraps it in
        query.awaitTermination()
    return raised[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("form", "content", "told"),
    [
        ("json", b'{"name":"a","amount":1}\n{"name":"b","amo', ("MALFORMED_RECORD_IN_PARSING", "JsonEOFException")),
        ("csv", b"a,1\nb,two\n", ("MALFORMED_RECORD_IN_PARSING", 'NumberFormatException: For input string: "two"')),
        ("parquet", b"PAR1 no more", ("FAILED_READ_FILE", "is not a Parquet file")),
    ],
)
def test_a_bad_record_is_named_with_its_class_its_cause_and_its_file(
    spark: SparkSession, folder: Path, form: str, content: bytes, told: tuple[str, ...]
) -> None:
    """An unreadable record is described in one line with its error class, cause and file, even if the user's function
    collects the batch; Spark's raw message only names py4j's call.
    """
    (folder / f"f1.{form}").write_bytes(content)
    stream = spark.readStream.schema(SCHEMA).option("mode", "FAILFAST").format(form).load(str(folder))
    error = failure_of(stream, folder.parent, lambda rows: rows.collect())
    line = describe_fault(error)
    assert all(part in line for part in (*told, f"{folder}/f1.{form}")), line
    assert ("\n" in line, "Py4JJavaError" in line, len(line) <= 500) == (False, False, True)
    assert f"{folder}/f1.{form}" in fault_of(error).message, "a rehearsal names it, too"
    assert (judge(error).fault, judge(error).cause) == (Fault.UNCLASSIFIED, Cause.FAILURE)
    assert "An error occurred while calling" in str(error).splitlines()[0]


def refuse_name(name: str) -> str:
    raise RuntimeError("upstream API returned 'Connection refused' for shop 7")


def die(name: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return name


def ask_nobody(name: str) -> str:
    import socket

    socket.create_connection(("127.0.0.1", 1))
    return name


def fill_the_disk(name: str) -> str:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("function", "told", "fault"),
    [
        (refuse_name, "test_task_failures.py:", Fault.UNCLASSIFIED),
        (die, "Python worker exited unexpectedly", Fault.UNCLASSIFIED),
        (ask_nobody, "ConnectionRefusedError: [Errno 111]", Fault.SINK_DOWN),
        (fill_the_disk, "OSError: [Errno 28]", Fault.DISK_FULL),
    ],
)
def test_a_python_worker_failure_is_classified_by_its_exception_class(
    spark: SparkSession, folder: Path, function: Callable[[str], str], told: str, fault: Fault
) -> None:
    """A failure in a Python worker is described by the error of the worker's own function and classified by the
    exception's class, not by words in its message.
    """
    from pyspark.sql import functions as F

    (folder / "f1.txt").write_text("a\n")
    stream = spark.readStream.text(str(folder)).select(F.udf(function, "string")("value"))
    error = failure_of(stream, folder.parent)
    assert told in describe_fault(error)
    assert judge(error).fault is fault
    assert is_lost_worker(links_of(error)) is (function is die), "only then the kernel's count is asked"


def test_an_unreadable_checkpoint_log_is_classified_by_the_raising_spark_class(
    spark: SparkSession, folder: Path
) -> None:
    """An unreadable checkpoint log is classified as a damaged checkpoint by the Spark class that raised the error,
    because Spark gives such errors no error condition.
    """
    (folder / "f1.txt").write_text("a\n")

    def run() -> Any:
        started = spark.readStream.text(str(folder)).writeStream.option("checkpointLocation", str(folder.parent / "cp"))
        query = started.foreachBatch(lambda rows, _: None).trigger(availableNow=True).start()
        query.processAllAvailable()
        query.awaitTermination()
        return query

    run()
    (folder.parent / "cp" / "commits" / "0").write_text("")
    (folder / "f2.txt").write_text("b\n")
    with pytest.raises(Exception) as caught:
        run()
    assert judge(caught.value).fault is Fault.CHECKPOINT_DAMAGED
    links = links_of_throwable(caught.value._origin)
    assert "Incomplete log file" in describe_links(links)
    assert judge_links(links).fault is Fault.CHECKPOINT_DAMAGED
