"""Tests clones that run beside their owner: side effects of source options, the job's functions and its listeners are
prevented.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sqlite3
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from harness.waiting import wait_until
from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.warm_up import rehearse_query
from streamkeeper.errors import Unsupported
from streamkeeper.inspection import clones, diverted
from streamkeeper.inspection.clones import clone_of, guard
from streamkeeper.inspection.diverted import EFFECT_STOPPED, run_next
from streamkeeper.inspection.resume_proof import drill
from tests.inspection.queries import query, read, run_to_end, totals, write_files
from tests.inspection.stateful import Remember

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Protected = pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])


def run(df: DataFrame, folder: Path) -> Any:
    """Run one batch of a clone with a new checkpoint."""
    return run_next(query(df, output_mode="append"), LocalTree(folder / "clone"), timeout_s=60)


@Protected
@pytest.mark.parametrize("cleaner", ["delete", "archive"])
def test_a_clone_does_not_delete_or_archive_its_input_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleaner: str, protected: bool
) -> None:
    """A clone leaves its input files in place for the owner. Negative control: with the source's own ``cleanSource``
    option, Spark deletes or archives a file.
    """
    write_files(tmp_path / "in", 2)
    options = {"CLEANSOURCE": cleaner, "sourceArchiveDir": str(tmp_path / "archive")}
    if not protected:
        monkeypatch.setattr(diverted, "clone_of", lambda df: df)
    found = run(read(spark, tmp_path / "in", **options), tmp_path)
    assert (found.fault, found.rows) == (None, {0: 20})

    def moved() -> tuple[int, int]:
        return len(list((tmp_path / "in").iterdir())), len(list(tmp_path.glob("archive/**/*.json")))

    if protected:
        assert moved() == (2, 0)
    else:
        # Spark's cleaner is a thread of its own.
        assert wait_until(lambda: moved() == (1, int(cleaner == "archive")), timeout_s=10)


def _writes(path: str) -> None:
    Path(path).write_text("changed")


def _removes(path: str) -> None:
    os.remove(f"{path}.there")


def _asks_a_server(path: str) -> None:
    socket.create_connection(("127.0.0.1", int(Path(f"{path}.port").read_text()))).close()


def _starts_a_process(path: str) -> None:
    subprocess.run(["/bin/sh", "-c", 'echo changed > "$0"', path], check=True)


def _spawns_a_process(path: str) -> None:
    spawning = multiprocessing.get_context("spawn")
    spawned = spawning.Process(target=os.mkdir, args=(path,))
    spawned.start()
    spawned.join(timeout=60)


def _opens_a_database(path: str) -> None:
    sqlite3.connect(path).close()


def _attaches_a_database(path: str) -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("ATTACH ? AS other", (path,))
        connection.execute("CREATE TABLE other.t (x)")


def _makes_a_pipe(path: str) -> None:
    os.mkfifo(path)


def _binds_a_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)


class _Server:
    """A server that counts the connections it receives."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.asked = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._socket.accept()[0].close()
            self.asked += 1


EFFECTS = [_writes, _removes, _asks_a_server, _starts_a_process, _opens_a_database, _spawns_a_process]
EFFECTS += [_attaches_a_database, _makes_a_pipe, _binds_a_socket]


@Protected
def test_side_effects_of_python_functions_in_a_clone_are_stopped_and_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """Each of nine side effects of a Python function in a clone is stopped and named, even if the function catches the
    error. Negative control: without the guard the effects occur.
    """
    from pyspark.sql import functions as F

    write_files(tmp_path / "in", 1, rows=1)
    server, path = _Server(), str(tmp_path / "effect")
    Path(f"{path}.there").touch()
    Path(f"{path}.port").write_text(str(server.port))
    effects = list(EFFECTS)

    def change(value: Any) -> Any:
        told = []
        for number, effect in enumerate(effects):
            try:
                effect(f"{path}{number}" if effect not in (effects[1], effects[2]) else path)
            except BaseException as error:
                told.append(f"{type(error).__name__} {error}")
        return "; ".join(told)

    seen = []
    if not protected:
        monkeypatch.setattr(clones, "guard", lambda: b"")
    monkeypatch.setattr("streamkeeper.sinks.foreach.compute", lambda batch: seen.extend(batch.collect()))
    changing = F.udf(change, "string")
    found = run(read(spark, tmp_path / "in").select(changing("k").alias("told")), tmp_path)
    assert found.fault is None
    left = sorted(each.name for each in tmp_path.glob("effect*"))
    if protected:
        assert seen[0].told.count("EffectInClone") == len(EFFECTS)
        assert (left, server.asked) == (["effect.port", "effect.there"], 0)
    else:
        assert (left, server.asked) == (["effect.port", *(f"effect{number}" for number in (0, 3, 4, 5, 6, 7, 8))], 1)


def test_a_clones_functions_run_in_workers_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """A clone's functions run in separate Python workers, so nothing that they cached or imported reaches the owner's
    tasks.
    """
    from pyspark.sql import functions as F

    write_files(tmp_path / "in", 1)

    def worker(value: Any) -> Any:
        return os.getpid()

    def workers(rows: list[Any]) -> set[int]:
        return {row.worker for row in rows}

    df = read(spark, tmp_path / "in").select(F.udf(worker, "long")("x").alias("worker"))
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streamkeeper.sinks.foreach.compute", lambda batch: seen.extend(batch.collect()))
        assert run(df, tmp_path).fault is None
    beside = spark.range(20).select(F.udf(worker, "long")("id").alias("worker")).collect()
    again = spark.range(20).select(F.udf(worker, "long")("id").alias("worker")).collect()
    assert workers(beside) & workers(again)
    assert not workers(beside) & workers(seen)


def test_a_function_that_catches_exceptions_cannot_suppress_the_guard(spark: SparkSession, tmp_path: Path) -> None:
    """A function with ``except Exception`` cannot suppress the guard's error, so a rehearsal never mistakes the
    substitute results for the query's.
    """
    from pyspark.sql import functions as F

    write_files(tmp_path / "in", 1)

    def asks(value: Any) -> Any:
        try:
            socket.create_connection(("127.0.0.1", 9)).close()
        except Exception:
            return 0
        return value

    found = run(read(spark, tmp_path / "in").select(F.udf(asks, "long")("x").alias("x")), tmp_path)
    assert found.fault is not None
    assert found.fault.error_class == EFFECT_STOPPED


def test_rehearsals_and_drills_report_stopped_side_effects_without_failing(spark: SparkSession, tmp_path: Path) -> None:
    """A rehearsal reports a stopped side effect in a note and a drill passes on the state alone; neither counts it as a
    failure of the query.
    """
    from pyspark.sql import functions as F

    out = tmp_path / "effect"
    write_files(tmp_path / "in", 2)

    def change(value: Any) -> Any:
        if not os.path.exists(f"{out}.quiet"):
            out.write_text("changed")
        return value

    df = totals(read(spark, tmp_path / "in").withColumn("x", F.udf(change, "long")("x")))
    Path(f"{out}.quiet").touch()
    run_to_end(df, tmp_path / "live")
    Path(f"{out}.quiet").unlink()
    told, findings = rehearse_query(
        spark, query(df), LocalTree(tmp_path / "live"), str(tmp_path / "scratch"), timeout_s=60
    )
    assert [(each.rule, each.severity.name) for each in findings] == [("function-has-effects", "NOTE")]
    assert told.startswith(f"{EFFECT_STOPPED}: ")
    assert f"open {out} for writing" in told
    clone(LocalTree(tmp_path / "live"), LocalTree(tmp_path / "restored"), 0)
    drilled = drill(spark, query(df), LocalTree(tmp_path / "restored"), 0, timeout_s=60)
    assert (drilled.ok, drilled.batch, drilled.state_rows) == (True, None, 5)
    assert drilled.message.startswith("batch 1 was stopped: a function of the job")
    assert not out.exists()


def test_the_guard_allows_temporary_files_and_ends_with_the_clone_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """A function in a clone may write temporary files, and the guard ends with the clone's tasks: later tasks of the
    owner may write.
    """
    from pyspark.sql import functions as F

    out = tmp_path / "effect"
    write_files(tmp_path / "in", 1)

    def note(value: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "note").write_text("mine")
            os.rename(f"{folder}/note", f"{folder}/renamed")
        return value

    found = run(read(spark, tmp_path / "in").withColumn("x", F.udf(note, "long")("x")), tmp_path)
    assert (found.fault, found.rows) == (None, {0: 20})

    def write(value: Any) -> Any:
        out.write_text("changed")
        return value

    spark.range(8).select(F.udf(write, "long")("id")).collect()
    assert out.exists()


def test_every_kind_of_python_function_is_guarded(spark: SparkSession, tmp_path: Path) -> None:
    """Every kind of pickled Python function in a clone's plan is prefixed with the guard."""
    from pyspark.sql import functions as F

    write_files(tmp_path / "in", 1)
    stream = read(spark, tmp_path / "in")
    schema = "k string, n long"

    @F.udtf(returnType="z long")  # type: ignore[arg-type]
    class Twice:
        def eval(self, x: int) -> Any:
            yield (x,)

    spark.udtf.register("twice", Twice)  # type: ignore[arg-type]
    stream.createOrReplaceTempView("rows_of_a_clone")
    kinds = {
        "udf": stream.select(F.udf(len, "int")("k")),
        "pandas": stream.select(F.pandas_udf(_same, "string")("k")),  # type: ignore[call-overload]
        "aggregate": stream.groupBy("k").agg(F.pandas_udf(_mean, "double")("x")),  # type: ignore[call-overload]
        "table": spark.sql("select r.k, z from rows_of_a_clone r, lateral twice(r.x)"),
        "map": stream.mapInPandas(lambda frames: frames, stream.schema),
        "group": stream.groupBy("k").applyInPandas(lambda frame: frame, stream.schema),
        "state": stream.groupBy("k").applyInPandasWithState(_count, schema, "n long", "update", "NoTimeout"),
        "processor": stream.groupBy("k").transformWithStateInPandas(Remember(), schema, "update", "None"),
    }
    wrapped = "ArraySeq(" + ", ".join(str(byte if byte < 128 else byte - 256) for byte in guard()[:60])
    for kind, df in kinds.items():
        cloned: Any = clone_of(df)
        plan = cloned._jdf.queryExecution().analyzed()
        found = [str(each) for each in _functions(plan)]
        assert found, kind
        assert all(wrapped in each for each in found), kind


def _same(values: pd.Series) -> pd.Series:
    return values


def _mean(values: pd.Series) -> float:
    return float(values.mean())


def _count(key: Any, frames: Any, state: Any) -> Any:
    yield from frames


def _functions(plan: Any) -> list[Any]:
    """Return the commands of all Python functions in a plan and its children."""
    found = []
    expressions, children = plan.expressions(), plan.children()
    left = [expressions.apply(at) for at in range(expressions.size())]
    while left:
        node = left.pop()
        below = node.children()
        left += [below.apply(at) for at in range(below.size())]
        if node.getClass().getSimpleName() in ("PythonUDF", "PythonUDTF", "PythonUDAF"):
            found.append(node.func().command())
        elif node.getClass().getSimpleName() == "LateralSubquery":
            found += _functions(node.plan())
    return found + [each for at in range(children.size()) for each in _functions(children.apply(at))]


def test_streaming_listeners_of_the_job_receive_no_event_of_a_clone(spark: SparkSession, tmp_path: Path) -> None:
    """The job's streaming listeners receive no event of a clone. Negative control: they receive the start of the query
    itself.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    heard: list[str] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            heard.append(str(event.runId))

        def onQueryProgress(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    session = spark.newSession()
    listener = Listener()
    session.streams.addListener(listener)
    try:
        write_files(tmp_path / "in", 1)
        df = read(session, tmp_path / "in")
        assert run(df, tmp_path).fault is None
        assert heard == []
        run_to_end(df, tmp_path / "live", mode="append")
        assert len(heard) == 1
    finally:
        session.streams.removeListener(listener)


def test_a_query_with_an_unknown_source_is_not_cloned(spark: SparkSession) -> None:
    """A query with an unknown source is not cloned, because reading the source may change its data."""
    with pytest.raises(Unsupported, match="a clone could change the data that it reads: source 'rate'"):
        clone_of(spark.readStream.format("rate").load())
