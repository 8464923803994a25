"""Runs a job file with real Spark, all runs in one session: each run takes a checkpoint and returns the rows of each
batch.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from conformance.matrix.case import JOB_NAME, QUERY_NAME, Job
from conformance.matrix.state_rows import read_state_rows
from streamkeeper.authoring.definition import Query, load_job
from streamkeeper.driver.queries import restore_confs
from streamkeeper.driver.session import Session, session_conf, start_session
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.manifests.trigger import parse_trigger
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.table import TableSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENTRY = "job.py"
ROUTES = "routed."
"""The prefix of the ``__qualname__`` of a sink's function that the run does call: such a function writes Parquet to one
directory per place of its output.
"""
NEVER_ENDS = "NEVER_ENDS"
_LONGEST_S = 180
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_DAY = re.compile(r"\d{4}-[01]\d-[0-3]\dT")
_PREFIX = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)
_STORED_TIME = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d\.\d{6})?")
_WRAPPERS = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR"})

Cells = tuple[str, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run of a query: the output batch by batch, each row as text. ``error_class`` is empty after a
    run without an error.

    ``held``: the rows that a reader of the sink finds afterwards; None if nothing can be read, with the reason in
    ``unread``. ``key``: the columns that identify a row of a table. ``state``: the rows of the query's state; None if
    they were not requested.
    """

    columns: Cells = ()
    batches: dict[int, list[Cells]] = {}
    error_class: str = ""
    message: str = ""
    kind: str = "foreach"
    key: Cells = ()
    held: list[dict[str, str]] | None = None
    unread: str = ""
    state: list[str] | None = None

    @property
    def rows(self) -> list[Cells]:
        """Return the rows of all batches, in the order of the batches."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]


class UnitRun(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a unit: ``head`` is the run over the rows before the change, ``tail`` (only if requested) the run
    over the rows after it.
    """

    head: Run
    tail: Run | None = None


@contextmanager
def open_session(scratch: Path) -> Iterator[SparkSession]:
    """Provide a driver's Spark session; its JVM is stopped at the end of the block."""
    scratch.mkdir(parents=True, exist_ok=True)
    # A reused Python worker keeps the modules that an earlier job file imported in it.
    given = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.python.worker.reuse": "false"}
    session: Session = start_session(session_conf(given, scratch, "matrix"), {}, scratch, [_stage() / "job"])
    session.spark.sparkContext.setLogLevel("OFF")
    try:
        yield session.spark
    finally:
        session.kill()
        # Else a later session of this process would not become the active one of its JVM.
        type(session.spark)._instantiatedSession = None


def write_job(job: Job, folder: Path) -> None:
    """Write the job file and its modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((ENTRY, job.render()), *job.files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run_job(
    spark: SparkSession,
    folder: Path,
    *,
    checkpoint: Path,
    params: Mapping[str, ParamValue],
    conf: Mapping[str, str],
    epoch: int,
    with_state: bool = False,
) -> Run:
    """Run the job below ``folder`` over all available input; every error becomes part of the result."""
    run = _Running(epoch, Path(str(params["output"])))
    before = dict(spark.conf.getAll)
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        job = load_job(_staged(folder), ENTRY, JOB_NAME)
        with _code_by_value(job.root):
            [query] = [each for each in job.build(spark, params) if each.name == QUERY_NAME]
            run.take(query)
            run.serve(checkpoint)
            if with_state:
                run.take_state(read_state_rows(spark, checkpoint, cell_text))
    except Exception as error:  # a refusal, by Streamkeeper, Spark or the sink, is what is measured
        run.fail(error)
    finally:
        restore_confs(spark, before)
        _unload_state(spark)
    return run.result(spark)


class _Running:
    def __init__(self, epoch: int, output: Path) -> None:
        self._epoch = epoch
        self._output = output
        self._query: Query | None = None
        self._batches: dict[int, list[Cells]] = {}
        self._raised: list[Exception] = []
        self._error = ("", "")
        self._state: list[str] | None = None

    def take(self, query: Query) -> None:
        self._query = query

    def take_state(self, rows: list[str]) -> None:
        self._state = rows

    def serve(self, checkpoint: Path) -> None:
        query = self._query
        assert query is not None
        context = SinkContext(
            job=JOB_NAME, query=QUERY_NAME, version="v0001", epoch=self._epoch, output_mode=query.output_mode
        )
        opens = query.sink.kind != "foreach" or _routes(query.sink)
        writer = query.sink.open(context) if opens else None
        if writer is not None:
            writer.raise_fence()

        def write(batch: DataFrame, number: int) -> None:
            try:
                self._batches[number] = [tuple(cell_text(cell) for cell in row) for row in batch.collect()]
                if writer is not None:
                    writer.write(batch, number)
            except Exception as error:  # kept as it is: through the JVM only its text comes back
                self._raised.append(error)
                raise

        stream = query.df.writeStream.outputMode(query.output_mode).option("checkpointLocation", str(checkpoint))
        try:
            _await(stream.foreachBatch(write), query.trigger)
        finally:
            if writer is not None:
                writer.close()

    def fail(self, error: Exception) -> None:
        # A query that is stopped after a deadlock raises in its function as well; the deadlock is the cause.
        cause = error if isinstance(error, TimeoutError) or not self._raised else self._raised[0]
        self._error = (_error_class(cause), _first_line(cause))

    def result(self, spark: SparkSession) -> Run:
        if self._query is None:
            return Run(error_class=self._error[0], message=self._error[1])
        sink = self._query.sink
        held, unread = (None, "") if self._error[0] else _read_back(spark, sink, self._output)
        return Run(
            columns=tuple(self._query.df.columns),
            batches=self._batches,
            error_class=self._error[0],
            message=self._error[1],
            kind=sink.kind,
            key=tuple(sink.key) if isinstance(sink, TableSink) else (),
            held=held,
            unread=unread,
            state=self._state,
        )


def _await(writer: Any, timing: str) -> None:
    trigger = parse_trigger(timing)
    if trigger.available_now:
        running = writer.trigger(availableNow=True).start()
        ended = running.awaitTermination(_LONGEST_S)
        if not ended:
            running.stop()
            raise TimeoutError(NEVER_ENDS)
        return
    running = writer.trigger(processingTime=trigger.text).start()
    try:
        running.processAllAvailable()
    finally:
        running.stop()


@functools.cache
def _stage_kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="matrix-")


def _stage() -> Path:
    return Path(_stage_kept().name).resolve()


def _staged(folder: Path) -> Path:
    """Copy the job's files into the one directory that all jobs are loaded from, and return it. Unloading the modules
    of hundreds of different roots would take seconds each time.
    """
    stage = _stage() / "job"
    shutil.rmtree(stage, ignore_errors=True)
    return Path(shutil.copytree(folder, stage, ignore=shutil.ignore_patterns("__pycache__")))


@contextmanager
def _code_by_value(folder: Path | None) -> Iterator[None]:
    """Pickle the functions of the job's modules by value, because Spark's Python workers outlive a job file and would
    otherwise resolve them by module name.

    This holds only inside the body, since job files that are loaded later may have modules of the same names.
    """
    from pyspark import cloudpickle

    beside = f"{folder}/"
    # By name, as they are registered: a module may be loaded under two keys.
    modules = {
        each.__name__: each
        for each in list(sys.modules.values())
        if (getattr(each, "__file__", None) or "").startswith(beside)
    }
    for module in modules.values():
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules.values():
            cloudpickle.unregister_pickle_by_value(module)


def _unload_state(spark: SparkSession) -> None:
    """Close the state stores of this run, because their directories are about to be deleted."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def _error_class(error: Any) -> str:
    """Return Spark's innermost error class or, without one, the name of the innermost exception."""
    if isinstance(error, TimeoutError):
        return NEVER_ENDS
    found = [each for each in _CONDITION.findall(str(error)) if each not in _WRAPPERS]
    ask = getattr(error, "getCondition", None)
    condition = str(ask() or "") if callable(ask) else ""
    if condition and condition not in _WRAPPERS:
        return condition
    if found:
        return str(found[-1])
    cause, name = getattr(error, "_origin", None) or getattr(error, "java_exception", None), type(error).__name__
    while cause is not None:
        name, cause = str(cause.getClass().getSimpleName()), cause.getCause()
    return name


def _first_line(error: Exception) -> str:
    text = _PREFIX.sub("", str(error))
    return next(iter(text.splitlines()), "")[:300]


def cell_text(value: Any) -> str:
    """Return a cell as text. Lists are sorted, since Spark fixes no order for sets; any value of the current day
    becomes ``today``, since it differs between runs.
    """
    if isinstance(value, list):
        return "[" + ",".join(sorted(cell_text(each) for each in value)) + "]"
    if isinstance(value, tuple):
        return "(" + ",".join(cell_text(each) for each in value) + ")"
    if isinstance(value, datetime):
        return cell_text(value.date()) if _is_today(value.date()) else str(value)
    if isinstance(value, date) and _is_today(value):
        return "today"
    if isinstance(value, str) and _DAY.match(value) and _is_today(date.fromisoformat(value[:10])):
        return "today"
    return "NULL" if value is None else str(value)


def _stored_text(value: Any) -> str:
    """Return a cell of an SQLite table as text; SQLite stores times as text."""
    if isinstance(value, str) and _STORED_TIME.fullmatch(value):
        return cell_text(datetime.fromisoformat(value) if " " in value else date.fromisoformat(value))
    return cell_text(value)


def _is_today(day: date) -> bool:
    """Return whether a day is the current day in any time zone."""
    return abs((day - datetime.now(UTC).date()).days) <= 1


def _routes(sink: Any) -> bool:
    return str(getattr(getattr(sink, "function", None), "__qualname__", "")).startswith(ROUTES)


def _read_back(spark: SparkSession, sink: Any, output: Path) -> tuple[list[dict[str, str]] | None, str]:
    try:
        if _routes(sink):
            places = sorted(each.name for each in output.iterdir() if each.is_dir())
            frames = {place: spark.read.parquet(str(output / place)) for place in places}
            return [
                {"its place": place, **{name: cell_text(row[name]) for name in frame.columns}}
                for place, frame in frames.items()
                for row in frame.collect()
            ], ""
        if isinstance(sink, FileSink):
            frame = spark.read.format(sink.format).load(os.path.join(sink.path, "v0001"))
            return [{name: cell_text(row[name]) for name in frame.columns} for row in frame.collect()], ""
        if isinstance(sink, TableSink):
            with sqlite3.connect(sink.url.removeprefix("sqlite:///")) as connection:
                connection.row_factory = sqlite3.Row
                rows = connection.execute(f'select * from "{sink.table}"').fetchall()
            return [{name: _stored_text(row[name]) for name in row.keys()} for row in rows], ""  # noqa: SIM118
    except Exception as error:  # what a reader is told is what is measured
        return None, f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:200]}"
    return None, ""
