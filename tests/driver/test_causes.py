"""Tests of how an error is classified for a restart, with real errors where they can be raised without a server."""

from __future__ import annotations

import errno
import socket
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import requests
from pyspark.errors import PySparkException

from streamkeeper.driver.causes import judge, judge_links, judge_text
from streamkeeper.driver.ending import ending_for
from streamkeeper.driver.faults import describe_text
from streamkeeper.driver.raised import Link, links_of, links_of_text
from streamkeeper.errors import (
    CheckpointLost,
    Fenced,
    JobUnusable,
    OutputOutOfReach,
    SinkAhead,
    SourceOutOfReach,
    StoreUnavailable,
)
from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault, Judged
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.sinks.contract import reaching_output
from streamkeeper.sinks.databases import open_engine
from streamkeeper.sinks.kinds.known_kinds import KINDS
from streamkeeper.sinks.kinds.sink_kind import SinkKind
from streamkeeper.sinks.table_record import create_file


def closed_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def raised_by(url: str, *statements: str) -> BaseException:
    """Return the error that SQLAlchemy raises for one of the statements."""
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    engine = open_engine(url, pooled=False)
    create_file(url)
    try:
        with engine.begin() as connection:
            for statement in statements or ("SELECT 1",):
                connection.execute(text(statement))
    except SQLAlchemyError as error:
        return error
    finally:
        engine.dispose()
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "error", ['TimeoutError("shop 7 did not confirm")', 'ConnectionError("shop 7 is closed")', 'MemoryError("basket")']
)
def test_a_builtin_error_raised_by_the_jobs_code_is_its_failure(tmp_path: Path, error: str) -> None:
    """A built-in error that the job's own code raises is a failure of the job; negative control: the same error from
    outside of the job's code is not.
    """
    file = tmp_path / "own_job.py"
    file.write_text(f"def fail():\n    raise {error}\n")
    code: dict[str, Callable[[], None]] = {}
    exec(compile(file.read_text(), str(file), "exec"), code)
    with pytest.raises(Exception) as raised:
        code["fail"]()
    assert judge(raised.value, tmp_path) == Judged()
    assert judge(raised.value, tmp_path / "elsewhere") != Judged()


def test_a_refused_connection_is_a_dependency_error_even_in_the_jobs_code(tmp_path: Path) -> None:
    """A refused connection with an errno is classified as an unavailable dependency, even if it surfaces in the job's
    own code.
    """
    file = tmp_path / "own_job.py"
    file.write_text(f"import socket\ndef fail():\n    socket.create_connection(('127.0.0.1', {closed_port()}))\n")
    code: dict[str, Callable[[], None]] = {}
    exec(compile(file.read_text(), str(file), "exec"), code)
    with pytest.raises(ConnectionRefusedError) as raised:
        code["fail"]()
    assert judge(raised.value, tmp_path).cause is Cause.DEPENDENCY


def test_a_missing_file_is_not_classified_as_lost_input() -> None:
    """A missing file is not classified as lost input, because it may belong to a static table; the batch's own files
    are checked before the next run.
    """
    found = judge_text("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error", "FAILED_READ_FILE.FILE_NOT_EXIST")
    assert found.fault is not Fault.SOURCE_LOST


@pytest.mark.parametrize("error", [Fenced("f"), SinkAhead("s"), CheckpointLost("c"), JobUnusable("j")], ids=repr)
def test_typed_errors_that_waiting_cannot_resolve_are_permanent(error: Exception) -> None:
    """Errors that waiting cannot resolve are permanent, and their exit code keeps the supervisor from restarting the
    driver.
    """
    assert judge(error).cause is Cause.PERMANENT
    assert ending_for(error, "x").code in (ExitCode.FENCED, ExitCode.REFUSED)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (StoreUnavailable("s"), Cause.DEPENDENCY),
        (OutputOutOfReach("o"), Cause.DEPENDENCY),
        (SourceOutOfReach("s"), Cause.DEPENDENCY),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), Cause.DEPENDENCY),
        (socket.gaierror(-2, "unknown name"), Cause.DEPENDENCY),
        (TimeoutError("timed out"), Cause.DEPENDENCY),
        (OSError(errno.ENOSPC, "No space left on device"), Cause.CAPACITY),
        (BlockingIOError(errno.EAGAIN, "fork"), Cause.CAPACITY),
        (MemoryError(), Cause.CAPACITY),
        (RuntimeError("can't start new thread"), Cause.FAILURE),
        (ValueError("connection"), Cause.FAILURE),
        (FileNotFoundError(errno.ENOENT, "gone"), Cause.FAILURE),
        (RuntimeError("the connection was fine"), Cause.FAILURE),
    ],
    ids=repr,
)
def test_errors_are_classified_by_type_and_error_number(error: Exception, cause: Cause) -> None:
    """An error is classified by its type and error number as dependency, capacity or failure; an unknown error is a
    failure.
    """
    assert judge(error).cause is cause


def test_an_output_on_a_server_is_not_taken_for_the_store() -> None:
    """A server of an output that does not answer is reported as the sink, and not as the store of the records."""
    with pytest.raises(OutputOutOfReach) as caught, reaching_output():
        raise StoreUnavailable("cannot read s3a://bucket/table: 503") from ConnectionError("refused")
    assert judge(caught.value) == Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    assert judge(StoreUnavailable("the store")).fault is Fault.STORE_LOST


SPARK, KAFKA = "org.apache.spark.sql.kafka010", "org.apache.kafka"
READS = f"{SPARK}.consumer.KafkaDataConsumer.get(KafkaDataConsumer.scala:300)"
SENDS = f"{KAFKA}.clients.producer.KafkaProducer.doSend(KafkaProducer.java:990)"
WRITES = f"{SPARK}.KafkaWriteTask.execute(KafkaWriteTask.scala:60)"


@pytest.mark.parametrize(
    ("inner", "message", "fault"),
    [
        ((READS, WRITES), "Cannot fetch record for offset 7", Fault.SOURCE_DOWN),
        ((SENDS, WRITES), "cannot send", Fault.SINK_DOWN),
        ((WRITES,), "cannot send", Fault.SINK_DOWN),
        ((), "Topic totals not present in metadata after 60000 ms.", Fault.SINK_DOWN),
    ],
)
def test_the_innermost_frame_tells_whether_a_source_or_an_output_of_one_kind_is_down(
    inner: tuple[str, ...], message: str, fault: Fault
) -> None:
    """In a job that reads from Kafka and writes to Kafka, brokers that do not answer are the source's or the output's
    according to the innermost frame of Spark's reader or writer; a producer's own message needs no frame.
    """
    job = Link(kind="org.apache.spark.SparkException", message="aborted", frames=(WRITES,), java=True)
    cause = Link(kind=f"{KAFKA}.common.errors.TimeoutException", message=message, frames=inner, java=True)
    assert judge_links((job, cause)) == Judged(Cause.DEPENDENCY, fault)


def test_a_database_that_refuses_connections_is_an_unavailable_dependency() -> None:
    """A database that refuses connections is classified as an unavailable dependency, with the exit code
    ``DEPENDENCY_DOWN``.
    """
    error = raised_by(f"postgresql+psycopg://nobody@127.0.0.1:{closed_port()}/x")
    assert judge(error).cause is Cause.DEPENDENCY
    ending = ending_for(error, "x")
    assert (ending.state, ending.code) == (DriverState.STARTING, ExitCode.DEPENDENCY_DOWN)


def test_a_database_that_answers_with_an_error_is_a_failure(tmp_path: Path) -> None:
    """Negative control: an error that a reachable database returns is a failure, although its classes are the same; a
    database that cannot be opened is an unavailable dependency.
    """
    wrong = raised_by(f"sqlite:///{tmp_path}/w.db", "SELECT * FROM nothing")
    assert judge(wrong).cause is Cause.FAILURE
    away = raised_by(f"sqlite:///{tmp_path}/unmounted/w.db")
    assert judge(away).cause is Cause.DEPENDENCY


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    """A database that another process keeps locked is classified as an unavailable dependency."""
    path = tmp_path / "w.db"
    with sqlite3.connect(path) as owner:
        owner.execute("CREATE TABLE t (x)")
        owner.commit()
        owner.execute("BEGIN EXCLUSIVE")
        with sqlite3.connect(path, timeout=0.01) as other, pytest.raises(sqlite3.OperationalError) as caught:
            other.execute("INSERT INTO t VALUES (1)")
    assert judge(caught.value).cause is Cause.DEPENDENCY


def test_a_database_file_on_a_full_disk_is_a_lack_of_room(tmp_path: Path) -> None:
    """A full SQLite database is classified as a full disk, also if SQLAlchemy wraps the error."""
    full = raised_by(f"sqlite:///{tmp_path}/w.db", "PRAGMA max_page_count = 1", "CREATE TABLE t (x)")
    assert judge(full) == Judged(Cause.CAPACITY, Fault.DISK_FULL)


def test_a_kind_of_sink_judges_the_errors_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of sink classifies the errors of its client by its declaration, including an error in an attribute of
    another one, but not a class with the same name in the job's own code.
    """

    class LogBusy(Exception):
        """An error of the client."""

    class Wrapped(Exception):
        """An error of the client that keeps its cause in an attribute."""

    LogBusy.__module__ = "lake.client"
    wrapped = Wrapped()
    wrapped.inner = LogBusy()  # type: ignore[attr-defined]
    assert judge(LogBusy()) == judge(wrapped) == Judged()
    away = Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    lake = SinkKind(
        name="lake",
        sink="LakeSink",
        module="",
        capabilities=SinkCapabilities(),
        judge=lambda error: away if "LogBusy" in error.names else None,
        cause_attribute="inner",
    )
    monkeypatch.setitem(KINDS, "lake", lake)
    assert judge(LogBusy()) == judge(wrapped) == away
    LogBusy.__module__ = "__main__"
    assert judge(LogBusy()) == Judged()


def test_a_job_that_cannot_be_built_is_classified_by_the_underlying_cause() -> None:
    """A job that cannot be built because a server is down waits for the dependency; one with an error in its code, or
    with a lost checkpoint, fails permanently.
    """
    error = JobUnusable("job sales cannot be built")
    error.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert judge(error).cause is Cause.DEPENDENCY
    error.__cause__ = ZeroDivisionError()
    assert judge(error).cause is Cause.PERMANENT
    lost = CheckpointLost("gone")
    lost.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert judge(lost).cause is Cause.PERMANENT


def test_an_error_of_a_terminated_jvm_is_classified_by_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the JVM has terminated, the chain of errors is read from the text of the py4j exception."""

    class Gone:
        def __getattr__(self, name: str) -> NoReturn:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the JVM has ended")

    text = "org.apache.spark.SparkException: Job aborted\nCaused by: java.net.ConnectException: Connection refused"
    error = PySparkException(message=text)
    monkeypatch.setattr(error, "_origin", Gone(), raising=False)
    assert [link.kind.rpartition(".")[2] for link in links_of(error)][-1] == "ConnectException"


PYTHON = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "table.py", line 1, in f
{0}
"""


ANOTHER_WRITER = """Multiple streaming queries are concurrently using s3a://b/cp/offsets
Caused by: org.apache.hadoop.fs.FileAlreadyExistsException: s3a://b/cp/offsets/7: another writer was first
Suppressed: java.net.SocketTimeoutException: Read timed out
"""


@pytest.mark.parametrize(
    ("condition", "text", "cause"),
    [
        (
            "STREAM_FAILED",
            "java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.pollConnect",
            Cause.DEPENDENCY,
        ),
        ("", "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node", Cause.DEPENDENCY),
        ("", "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]", Cause.FAILURE),
        ("", PYTHON.format("psycopg.OperationalError: connection failed: Connection refused"), Cause.DEPENDENCY),
        (
            "",
            PYTHON.format("sqlalchemy.exc.OperationalError: (psycopg.OperationalError) server closed the connection"),
            Cause.DEPENDENCY,
        ),
        ("", PYTHON.format("sqlite3.OperationalError: no such table: t"), Cause.FAILURE),
        ("", PYTHON.format("ConnectionRefusedError: [Errno 111] Connection refused"), Cause.DEPENDENCY),
        ("", PYTHON.format("ValueError: no ConnectionRefused here"), Cause.FAILURE),
        ("", "java.io.IOException: No space left on device", Cause.CAPACITY),
        ("", "java.lang.OutOfMemoryError: unable to create native thread", Cause.CAPACITY),
        ("", "java.lang.OutOfMemoryError: Java heap space", Cause.FAILURE),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "a schema", Cause.PERMANENT),
        ("STATE_STORE_COMMIT_VALIDATION_FAILED.X", "one run's", Cause.FAILURE),
        ("STREAM_CHECKPOINT_ANY", "a file", Cause.PERMANENT),
        ("BATCH_METADATA_NOT_FOUND", "offsets/7", Cause.PERMANENT),
        ("CONCURRENT_STREAM_LOG_UPDATE", "two", Cause.PERMANENT),
        ("KAFKA_DATA_LOSS.START_OFFSET_DOES_NOT_MATCH_ASSIGNED", "gone", Cause.PERMANENT),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "Caused by: java.net.UnknownHostException: s3", Cause.DEPENDENCY),
        ("_LEGACY_ERROR_TEMP_2207", ANOTHER_WRITER, Cause.PERMANENT),
        ("", "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create /cp/1", Cause.DEPENDENCY),
        ("", "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.ipc.StandbyException): READ", Cause.DEPENDENCY),
        ("DIVIDE_BY_ZERO", "Division by zero", Cause.FAILURE),
        ("", "", Cause.FAILURE),
    ],
)
def test_spark_error_text_is_classified_by_condition_and_exception_classes(
    condition: str, text: str, cause: Cause
) -> None:
    """An error that Spark reports as text is classified by its condition and its exception classes: an unreachable
    server takes precedence over the condition that it caused, and prose is ignored.
    """
    assert judge_text(text, condition).cause is cause


def raised_in(source: str, file: str) -> BaseException:
    """Return the error that source code of this file raises."""
    try:
        exec(compile(source, file, "exec"), {})
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_error_message_is_classified_by_the_file_that_raised_it(tmp_path: Path) -> None:
    """The same error message is out of memory if Python's own module raises it, and an unclassified failure if the
    job's file does.
    """
    source = """raise RuntimeError("can't start new thread")"""
    found = judge(raised_in(source, threading.__file__))
    assert (found.cause, found.fault) == (Cause.CAPACITY, Fault.OUT_OF_MEMORY)
    assert judge(raised_in(source, str(tmp_path / "orders.py"))) == Judged(Cause.FAILURE, Fault.UNCLASSIFIED)


def test_a_job_defined_error_class_is_not_classified_by_its_name(tmp_path: Path) -> None:
    """An error class that the job defines is not classified by its name, neither live nor in a worker's traceback.
    Negative controls: a client's class of that name and a class derived from a known one are classified.
    """
    (tmp_path / "orders.py").write_text("")
    own = type("ReadTimeout", (Exception,), {"__module__": "orders"})
    theirs = type("ReadTimeout", (Exception,), {"__module__": "requests.exceptions"})
    derived = type("ShopDown", (ConnectionError,), {"__module__": "orders"})
    assert [judge(kind("x"), tmp_path).cause for kind in (own, theirs, derived)] == [
        Cause.FAILURE, Cause.DEPENDENCY, Cause.DEPENDENCY,
    ]  # fmt: skip
    (tmp_path / "requests").mkdir()
    assert judge(requests.exceptions.ReadTimeout("x"), tmp_path).cause is Cause.DEPENDENCY, "the library, not a folder"
    told = PYTHON.format("orders.ReadTimeout: shop 7"), PYTHON.format("requests.exceptions.ReadTimeout: shop 7")
    assert [judge_links(links_of_text(text), tmp_path).cause for text in told] == [Cause.FAILURE, Cause.DEPENDENCY]


@pytest.mark.parametrize(
    "message",
    [
        'upstream said:\nTraceback (most recent call last):\n  File "x", line 1\nConnectionRefusedError: no',
        "java.net.ConnectException: Connection refused",
        "Some data may have been lost, No space left on device, OutOfMemoryError",
    ],
)
def test_the_message_of_a_worker_error_does_not_affect_its_classification(message: str) -> None:
    """The message of a worker's error is ignored in its classification, even if it looks like another traceback or
    contains the name of an exception class.
    """
    assert judge_text(PYTHON.format(f"ValueError: {message}")) == Judged(Cause.FAILURE, Fault.UNCLASSIFIED)


def test_a_lost_executor_is_described_by_its_reason_and_exit_code() -> None:
    """A lost executor is described by the reason that Spark's scheduler reports, and exit code 52 is classified as out
    of memory.
    """
    told = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most"
        " recent failure: Lost task 0.3 in stage 3.0 (TID 7) (10.0.0.5 executor 1): ExecutorLostFailure (executor 1"
        " exited caused by one of the running tasks) Reason: Command exited with code 52\nDriver stacktrace:\n\tat x"
    )
    assert judge_text(told) == Judged(Cause.FAILURE, Fault.OUT_OF_MEMORY)
    assert describe_text(told) == "ExecutorLostFailure: executor 1: Command exited with code 52"
