"""Tests rehearsals on real checkpoints: what Spark refuses, what it accepts, and what stays unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.compatibility.assess import assess
from streamkeeper.errors import (
    CheckpointChanged,
    CheckpointDamaged,
    InvalidInput,
    OutputOutOfReach,
    StreamkeeperError,
)
from streamkeeper.inspection import rehearsal
from streamkeeper.inspection.diverted import Diverted, RunFault
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.inspection.rehearsal import CLONE_DAMAGED, CLONE_FAILED, TIMED_OUT, rehearse
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.sinks.foreach import ForeachBatch
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.stores.local import LocalStore
from tests.inspection.queries import SCHEMA, query, read, run_to_end, totals, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Deployed:
    """A checkpoint of a deployed query, and the batches that the query wrote."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.folder = root / "in"
        self.checkpoint = root / "live"
        write_files(self.folder, 4)
        self.batches = run_to_end(totals(read(spark, self.folder)), self.checkpoint)

    def contents(self) -> dict[str, tuple[bytes, int]]:
        """Return every file of the live checkpoint with its bytes and its modification time."""
        files = [path for path in sorted(self.checkpoint.rglob("*")) if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def deployed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return Deployed(tmp_path_factory.mktemp("rehearsal"), spark)


@pytest.fixture
def run(spark: SparkSession, deployed: Deployed, tmp_path: Path) -> Callable[..., Any]:
    def rehearsed(df: DataFrame, *, checkpoint: Path | None = None, timeout_s: float = 90, **changes: Any) -> Any:
        where = checkpoint or deployed.checkpoint
        return rehearse(spark, query(df, **changes), LocalTree(where), str(tmp_path / "scratch"), timeout_s=timeout_s)

    return rehearsed


def retyped(stream: DataFrame) -> DataFrame:
    """Return the same query with a number as its key, which Spark refuses."""
    from pyspark.sql import functions as F

    return stream.groupBy(F.col("y").alias("k")).agg(F.sum("x").alias("s"))


def test_a_rehearsal_reruns_the_last_batch_without_changing_the_live_checkpoint(
    spark: SparkSession, deployed: Deployed, run: Any
) -> None:
    """A rehearsal reruns the last batch with the real state and changes nothing in the live checkpoint."""
    before = deployed.contents()
    found = run(totals(read(spark, deployed.folder)))
    assert (found.ok, found.batch, found.error_class, found.message) == (True, 3, "", "")
    assert deployed.contents() == before


def test_a_changed_key_type_is_refused_without_changing_the_live_checkpoint(
    spark: SparkSession, deployed: Deployed, run: Any
) -> None:
    """A key of a different type is refused with Spark's own error class, and the live checkpoint is unchanged."""
    before = deployed.contents()
    found = run(retyped(read(spark, deployed.folder)))
    assert (found.ok, found.batch, found.error_class) == (False, 3, "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")
    assert found.message == "Provided key schema does not match existing state key schema."
    assert deployed.contents() == before


def test_a_refused_candidate_without_rehearsal_leaves_offsets_in_the_checkpoint(
    spark: SparkSession, deployed: Deployed, tmp_path: Path
) -> None:
    """Negative control: the same candidate started on the checkpoint itself leaves the planned offsets of a batch
    behind.
    """
    live = tmp_path / "live"
    shutil.copytree(deployed.checkpoint, live)
    more = tmp_path / "in"
    shutil.copytree(deployed.folder, more)
    write_files(deployed.folder, 1, first=4)
    try:
        with pytest.raises(Exception, match="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"):
            run_to_end(retyped(read(spark, deployed.folder)), live)
    finally:
        (deployed.folder / "f0004.json").unlink()
    assert (live / "offsets" / "4").is_file()
    assert not (deployed.checkpoint / "offsets" / "4").exists()


def test_an_added_operator_is_refused(spark: SparkSession, deployed: Deployed, run: Any) -> None:
    """An added stateful operator shifts the operator numbers, and Spark refuses it."""
    found = run(totals(read(spark, deployed.folder).dropDuplicates(["k"])))
    assert not found.ok
    assert found.error_class.startswith("STREAMING_STATEFUL_OPERATOR")


def test_a_changed_aggregate_passes_a_rehearsal_but_its_manifest_requires_a_switch(
    spark: SparkSession, deployed: Deployed, run: Any
) -> None:
    """A sum replaced by a maximum passes a rehearsal and requires a SWITCH by the manifests, so neither check replaces
    the other.
    """
    from pyspark.sql import functions as F

    stream = read(spark, deployed.folder)
    candidate = stream.groupBy("k").agg(F.max("x").alias("s"))
    assert run(candidate).ok
    old = describe(query(totals(stream)), spark, bundle_root=None)
    new = describe(query(candidate), spark, bundle_root=None)
    assert assess({"totals": old}, {"totals": new}).verdict is Verdict.SWITCH


def test_an_error_in_the_candidate_function_is_reported_in_one_line(
    spark: SparkSession, deployed: Deployed, run: Any
) -> None:
    """An error in the candidate's own function is reported in one line with the function's message instead of the JVM's
    wrapper.
    """
    from pyspark.sql import functions as F

    def fail(value: Any) -> Any:
        raise ValueError("no such region")

    found = run(totals(read(spark, deployed.folder)).withColumn("z", F.udf(fail, "string")("k")))
    assert not found.ok
    assert "no such region" in found.message
    assert "\n" not in found.message


def test_a_query_that_hangs_is_stopped(spark: SparkSession, deployed: Deployed, run: Any) -> None:
    """A rehearsal whose query hangs is stopped after its timeout, and no query keeps running."""
    from pyspark.sql import functions as F

    def hang(value: Any) -> Any:
        import threading

        threading.Event().wait(600)

    found = run(totals(read(spark, deployed.folder)).withColumn("z", F.udf(hang, "string")("k")), timeout_s=3)
    assert (found.ok, found.error_class) == (False, TIMED_OUT)
    assert found.seconds < 60
    assert not spark.streams.active


def test_the_sink_is_not_written(spark: SparkSession, deployed: Deployed, run: Any) -> None:
    """A rehearsal does not call the author's sink function. Negative control: calling it directly records the batch."""
    calls: list[int] = []
    sink = ForeachBatch(lambda batch, context: calls.append(context.batch_id))
    assert run(totals(read(spark, deployed.folder)), sink=sink).ok
    assert calls == []
    sink.function(None, type("Context", (), {"batch_id": 3}))  # type: ignore[arg-type]
    assert calls == [3]


def test_the_first_batch_runs_on_empty_state(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    """Batch 0, which has no predecessor, is rehearsed from its plan and files alone, and a changed key is still
    refused.
    """
    write_files(tmp_path / "in", 1)
    checkpoint = tmp_path / "live"
    run_to_end(totals(read(spark, tmp_path / "in")), checkpoint)
    assert last_committed(LocalTree(checkpoint)) == 0
    found = run(totals(read(spark, tmp_path / "in")), checkpoint=checkpoint)
    assert (found.ok, found.batch) == (True, 0)
    refused = run(retyped(read(spark, tmp_path / "in")), checkpoint=checkpoint)
    assert refused.error_class == "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"


def test_a_checkpoint_without_a_batch_has_nothing_to_rehearse(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    """A rehearsal on a checkpoint without a batch succeeds and runs none."""
    write_files(tmp_path / "in", 1)
    found = run(totals(read(spark, tmp_path / "in")), checkpoint=tmp_path / "none")
    assert (found.ok, found.batch) == (True, None)


def test_with_named_sources_a_rehearsal_runs_the_next_batch_or_none(
    spark: SparkSession, tmp_path: Path, run: Any
) -> None:
    """With named sources, which Spark 4.2 cannot start from an open batch, a rehearsal runs the next batch or none, and
    reports which.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).name("events")
    write_files(tmp_path / "in", 2)
    run_to_end(totals(reader.json(str(tmp_path / "in"))), tmp_path / "live")
    idle = run(totals(reader.json(str(tmp_path / "in"))), checkpoint=tmp_path / "live")
    assert (idle.ok, idle.batch, idle.again, idle.without_rows) == (True, 1, False, True)
    assert idle.did == "started after batch 1, without new input and without loading the state"
    write_files(tmp_path / "in", 2, first=2)
    busy = run(totals(reader.json(str(tmp_path / "in"))), checkpoint=tmp_path / "live")
    assert (busy.ok, busy.batch, busy.again, busy.without_rows) == (True, 1, False, False)
    assert busy.did == "continued from batch 1 with batch 2"


@pytest.mark.parametrize("named", [False, True])
def test_a_rehearsal_reports_missing_source_files(spark: SparkSession, tmp_path: Path, run: Any, named: bool) -> None:
    """A rehearsal reports source files that are missing from the replayed batch, with and without named sources,
    although Spark runs the batch silently without them.
    """
    session = spark.newSession()
    if named:
        session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
        session.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")

    def stream() -> DataFrame:
        reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return (reader.name("events") if named else reader).json(str(tmp_path / "in"))

    write_files(tmp_path / "in", 2)
    run_to_end(totals(stream()), tmp_path / "live")
    whole = run(totals(stream()), checkpoint=tmp_path / "live")
    assert (whole.ok, whole.batch, whole.message) == (True, 1, "")
    (tmp_path / "in" / "f0001.json").unlink()
    found = run(totals(stream()), checkpoint=tmp_path / "live")
    assert (found.ok, found.batch) == (True, 1)
    assert found.message.startswith("1 of 1 source files of batch 1 are missing, such as /")
    assert found.message.endswith("/f0001.json: Spark runs it without them")


def test_a_damaged_checkpoint_fails_a_rehearsal_without_raising_an_exception(
    spark: SparkSession, deployed: Deployed, tmp_path: Path, run: Any
) -> None:
    """A rehearsal on a damaged checkpoint fails with a result that names the damaged file, without raising an
    exception.
    """
    broken = tmp_path / "broken"
    shutil.copytree(deployed.checkpoint, broken)
    (broken / "offsets" / "2").unlink()
    found = run(totals(read(spark, deployed.folder)), checkpoint=broken)
    assert (found.ok, found.error_class) == (False, CLONE_DAMAGED)
    assert "offsets/2" in found.message


@pytest.fixture
def restored(deployed: Deployed, tmp_path: Path) -> Callable[[int], Path]:
    """Return a function that restores the snapshot of a batch, which contains nothing from before that batch."""

    def restore_at(batch: int) -> Path:
        catalogue, target = Catalogue(LocalStore(tmp_path / "store"), "sales/totals"), tmp_path / f"restored{batch}"
        restore(catalogue, capture(LocalTree(deployed.checkpoint), catalogue, batch=batch).snapshot, LocalTree(target))
        return target

    return restore_at


@pytest.mark.parametrize(
    ("batch", "did"),
    [
        (2, "continued from batch 2 with batch 3"),
        (3, "loaded 5 rows of state at batch 3, without new input"),
    ],
)
def test_a_restored_checkpoint_is_rehearsed_by_its_next_batch_or_its_state(
    spark: SparkSession, deployed: Deployed, restored: Callable[[int], Path], run: Any, batch: int, did: str
) -> None:
    """On a restored checkpoint, a rehearsal runs the next batch or loads the state, because the last batch cannot be
    replayed without its predecessor's state.
    """
    found = run(totals(read(spark, deployed.folder)), checkpoint=restored(batch))
    assert (found.ok, found.error_class, found.batch, found.did) == (True, "", batch, did), found.message


def test_a_changed_key_type_or_truncated_state_fails_on_a_restored_checkpoint(
    spark: SparkSession, deployed: Deployed, restored: Callable[[int], Path], run: Any
) -> None:
    """Negative control: on a restored checkpoint, a different key type fails the rehearsal, and so do truncated state
    files if there is no new input.
    """
    assert not run(retyped(read(spark, deployed.folder)), checkpoint=restored(2)).ok
    last = restored(3)
    for state in (last / "state").rglob("*.changelog"):
        state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])
        state.with_name(f".{state.name}.crc").unlink(missing_ok=True)
    assert not run(totals(read(spark, deployed.folder)), checkpoint=last).ok


def test_a_checkpoint_that_changes_during_the_copy_does_not_blame_the_sources(
    spark: SparkSession, deployed: Deployed, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the live query changes the checkpoint faster than it can be copied, the rehearsal fails with a copy error that
    does not blame the sources.
    """

    def outrun(*_given: object, **_more: object) -> None:
        raise CheckpointChanged("state/0/0/3.delta was removed while it was being copied")

    monkeypatch.setattr(rehearsal, "clone_last_batch", outrun)
    found = run(totals(read(spark, deployed.folder)))
    assert (found.ok, found.error_class) == (False, CLONE_FAILED)


def test_checkpoint_damage_found_later_does_not_replace_the_candidate_error(
    spark: SparkSession, deployed: Deployed, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoint damage that is found after a failed batch does not replace the candidate's own error."""
    refused = run(retyped(read(spark, deployed.folder)))
    answers: list[Exception | None] = [None, CheckpointDamaged("its offsets cannot be read")]

    def look(*_given: object) -> dict[str, list[str]]:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return {}

    monkeypatch.setattr(rehearsal, "missing_in", look)
    found = run(retyped(read(spark, deployed.folder)))
    assert answers == []
    assert (found.ok, found.error_class) == (False, refused.error_class)
    assert refused.error_class not in ("", CLONE_DAMAGED, CLONE_FAILED)


def test_a_clone_of_every_batch_continues_with_the_same_results(
    spark: SparkSession, deployed: Deployed, tmp_path: Path
) -> None:
    """A clone of every committed batch continues with the same results as the live query, so no state file is
    missing.
    """
    for batch in range(4):
        copy = tmp_path / f"clone{batch}"
        clone(LocalTree(deployed.checkpoint), LocalTree(copy), batch - 1, pending=True)
        found = run_to_end(totals(read(spark, deployed.folder)), copy)
        assert found == {number: rows for number, rows in deployed.batches.items() if number >= batch}


def test_a_clone_without_one_changelog_file_cannot_load_its_state(
    spark: SparkSession, deployed: Deployed, tmp_path: Path
) -> None:
    """Negative control: a clone that lacks one changelog file cannot load its state, so every file of the closed set is
    needed.
    """
    clone(LocalTree(deployed.checkpoint), LocalTree(tmp_path / "copy"), 2, pending=True)
    lost = next(iter(sorted((tmp_path / "copy/state/0/0").glob("*.changelog"))))
    lost.unlink()
    with pytest.raises(Exception, match="CANNOT_LOAD_STATE_STORE"):
        run_to_end(totals(read(spark, deployed.folder)), tmp_path / "copy")


def finished(stream: DataFrame, divisor: int) -> DataFrame:
    """Return a query that emits windows when they close, with a function that divides by ``divisor``."""
    from pyspark.sql import functions as F

    share = F.udf(lambda x: x // divisor, "long")
    rows = stream.withColumn("at", F.timestamp_seconds(F.col("x"))).withColumn("part", share("x"))
    return rows.withWatermark("at", "1 second").groupBy(F.window("at", "1 second")).agg(F.sum("part").alias("s"))


def test_the_newest_nonempty_batch_is_rehearsed_if_the_last_one_is_empty(
    spark: SparkSession, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the last batch has no rows, the newest batch with rows is rehearsed too, so a function that fails on every row
    is found. Negative control: the last batch alone runs without an error.
    """
    write_files(tmp_path / "in", 2)
    stream = read(spark, tmp_path / "in")
    live = tmp_path / "live"
    run_to_end(finished(stream, 1), live, mode="append")
    assert last_committed(LocalTree(live)) == 2, "batch 2 only evicts state"
    same = run(finished(stream, 1), checkpoint=live, output_mode="append")
    assert (same.ok, same.without_rows) == (True, False)
    assert same.did == "ran batch 2 again, which has no rows, and batch 1"
    failed = run(finished(stream, 0), checkpoint=live, output_mode="append")
    assert (failed.ok, failed.batch, failed.again) == (False, 1, True)
    assert "ZeroDivisionError" in failed.message

    monkeypatch.setattr(rehearsal, "_newest_that_read", lambda *_: None)
    last = run(finished(stream, 0), checkpoint=live, output_mode="append")
    assert (last.ok, last.batch, last.without_rows) == (True, 2, True)


def test_an_earlier_batch_with_deleted_input_is_left_out_and_reported(
    spark: SparkSession, tmp_path: Path, run: Any
) -> None:
    """If the input of the newest batch with rows was deleted, that batch is left out and the rehearsal reports that no
    batch with rows ran.
    """
    write_files(tmp_path / "in", 2)
    stream = read(spark, tmp_path / "in")
    run_to_end(finished(stream, 1), tmp_path / "live", mode="append")
    (tmp_path / "in" / "f0001.json").unlink()
    found = run(finished(stream, 0), checkpoint=tmp_path / "live", output_mode="append")
    assert (found.ok, found.batch, found.without_rows) == (True, 2, True)


@pytest.mark.parametrize(
    ("error_class", "expected"),
    [("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", (True, 2, True)), ("DIVIDE_BY_ZERO", (False, 1, False))],
)
def test_a_state_schema_error_of_an_earlier_batch_is_ignored(
    spark: SparkSession, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, error_class: str, expected: Any
) -> None:
    """A state schema error of the earlier batch does not fail the candidate, whose last batch ran on the present state.
    Negative control: any other error of the earlier batch is reported.
    """
    write_files(tmp_path / "in", 2)
    stream = read(spark, tmp_path / "in")
    run_to_end(finished(stream, 1), tmp_path / "live", mode="append")
    answers = iter([rehearsal.run_planned, lambda *_, **__: Diverted(fault=RunFault(error_class, "told"))])
    monkeypatch.setattr(rehearsal, "run_planned", lambda *given, **named: next(answers)(*given, **named))
    found = run(finished(stream, 1), checkpoint=tmp_path / "live", output_mode="append")
    assert (found.ok, found.batch, found.without_rows) == expected
    assert not list(answers), "both batches ran"


@pytest.mark.parametrize(
    "error", [OutputOutOfReach("no answer", hint="start it"), InvalidInput("no topic", hint="add it")]
)
def test_an_error_of_the_sink_is_kept_with_its_remedy(
    spark: SparkSession, deployed: Deployed, run: Any, monkeypatch: pytest.MonkeyPatch, error: StreamkeeperError
) -> None:
    """An error that the sink raises in a rehearsal is kept as it is, and its remedy apart from its message, so that the
    finding can name that remedy.
    """

    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(ForeachBatch, "rehearse", refuse)
    found = run(totals(read(spark, deployed.folder)))
    assert (found.ok, found.error_class, found.message) == (False, type(error).__name__, error.message)
    assert (found.hint, found.error) == (error.hint, error)
