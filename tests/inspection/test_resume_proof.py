"""Tests drills of closed file sets: good ones pass with correct counts, damaged ones fail, and the damage that Spark
does not detect is known.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.state_layouts import LAYOUTS
from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.inspection import resume_proof as drilling
from streamkeeper.inspection.diverted import run_planned
from streamkeeper.inspection.resume_proof import NOT_AT_BATCH, STATE_UNPROVEN, TIMED_OUT, drill
from streamkeeper.inspection.state_export import StateCount
from streamkeeper.model.protocol.drill_messages import DrillAnswer
from streamkeeper.sinks.foreach import ForeachBatch
from tests.inspection.queries import query, read, totals, write_files
from tests.inspection.stateful import rows_of, run, session_with, sums_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NEWEST = 5
"""Batches 0 to 5 read one file each; there is no new input after the last."""


class Live:
    """A query's input and its checkpoint in one state layout; ``restored`` returns closed file sets of it."""

    def __init__(self, spark: SparkSession, root: Path, folder: Path, layout: str) -> None:
        self.folder = folder
        self.session = session_with(spark, layout)
        self.checkpoint = root / layout
        self._root = root
        run(totals(self.stream()), self.checkpoint, "update")
        assert last_committed(LocalTree(self.checkpoint)) == NEWEST

    def stream(self) -> DataFrame:
        """Return the input as a stream, one file per batch."""
        return read(self.session, self.folder)

    def restored(self, batch: int, *, pending: bool = False) -> Path:
        """Return a new scratch directory that contains only a batch's closed file set."""
        target = self._root / f"restored-{time.monotonic_ns()}"
        clone(LocalTree(self.checkpoint), LocalTree(target), batch, pending=pending)
        return target

    def drill(self, checkpoint: Path, batch: int, df: DataFrame | None = None, **changes: Any) -> DrillAnswer:
        """Return the drill's answer, by default for the query that wrote the checkpoint."""
        timeout_s = changes.pop("timeout_s", 120.0)
        built = query(totals(self.stream()) if df is None else df, **changes)
        return drill(self.session, built, LocalTree(checkpoint), batch, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Live]:
    """Return a function that maps a layout to its checkpoint, built once."""
    root = tmp_path_factory.mktemp("drill")
    write_files(root / "in", NEWEST + 1, keys=7)
    known: dict[str, Live] = {}

    def get(layout: str) -> Live:
        if layout not in known:
            known[layout] = Live(spark, root, root / "in", layout)
        return known[layout]

    return get


@pytest.fixture
def live(made: Callable[[str], Live]) -> Live:
    """The checkpoint in the layout of new checkpoint versions."""
    return made("format-2")


def state_file(checkpoint: Path) -> Path:
    """Return a state file that holds rows: an SST or delta file if one exists, else the oldest changelog file."""
    files = [each for each in sorted(checkpoint.glob("state/0/0/**/*")) if each.suffix in (".sst", ".delta")]
    return (files or sorted(checkpoint.glob("state/0/0/*.changelog")))[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_good_closed_file_set_continues_with_the_next_batch(made: Callable[[str], Live], layout: str) -> None:
    """A good closed file set continues with the next batch, planned or not, or with none if the input is exhausted, and
    its counts equal those that Python computes.
    """
    live = made(layout)
    for batch, pending in ((3, False), (3, True), (NEWEST, False)):
        found = live.drill(live.restored(batch, pending=pending), batch)
        ran = None if batch == NEWEST else batch + 1
        read = len(rows_of(live.folder, batch + 1, batch + 1))
        keys = len(sums_of(rows_of(live.folder, last=batch + 1)))
        assert (found.ok, found.error_class, found.batch) == (True, "", ran)
        assert (found.rows, found.stores, found.state_rows) == (read, 1, keys)
        what = "no new input" if ran is None else f"batch {ran} ran ({read} rows)"
        assert found.message == f"{what}; 1 state store holds {keys} rows"


def lose(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_state_fails_a_drill_although_nothing_ran(made: Callable[[str], Live], layout: str) -> None:
    """A missing, truncated or altered state file fails a drill although Spark itself loads no state while the source is
    idle.
    """
    live = made(layout)
    for damage in (lose, cut, flip):
        checkpoint = live.restored(NEWEST)
        damage(state_file(checkpoint))
        found = live.drill(checkpoint, NEWEST)
        assert (found.ok, found.batch) == (False, None)
        assert found.error_class.startswith("CANNOT_LOAD_STATE_STORE.")
        assert found.message.startswith("no new input, but state store 0/default cannot be read: CANNOT_LOAD")
        # Spark's uncategorized errors say nothing of their own: the cause is told.
        assert not found.message.endswith("An error occurred during loading state.  SQLSTATE: 58030")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_state_fails_the_batch(made: Callable[[str], Live], layout: str) -> None:
    """With new input, a missing state file makes Spark refuse the batch, and the drill fails."""
    live = made(layout)
    checkpoint = live.restored(3)
    lose(state_file(checkpoint))
    found = live.drill(checkpoint, 3)
    assert not found.ok
    assert found.message.startswith("Spark refused: CANNOT_LOAD_STATE_STORE.")


def test_without_reading_the_state_an_idle_drill_proves_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without reading the state, an idle drill passes although a state file is missing; with reading
    it fails.
    """
    checkpoint = live.restored(NEWEST)
    lose(state_file(checkpoint))
    with monkeypatch.context() as patch:
        patch.setattr(drilling, "read_all_state", lambda *_, **__: StateCount(1, 7))
        assert live.drill(checkpoint, NEWEST).ok
    assert not live.drill(checkpoint, NEWEST).ok


def test_a_missing_state_partition_fails_an_idle_drill(live: Live) -> None:
    """A missing state partition fails an idle drill, although Spark's own reader skips it."""
    checkpoint = live.restored(NEWEST)
    shutil.rmtree(checkpoint / "state/0/1")
    found = live.drill(checkpoint, NEWEST)
    assert not found.ok
    assert found.message.endswith("partition 1 of 2 is missing")


@pytest.mark.parametrize("layout", ["hdfs", "changelog", "format-2"])
def test_state_of_another_partition_or_version_is_accepted_by_spark(made: Callable[[str], Live], layout: str) -> None:
    """A complete state file of a different partition or version under the expected name passes a drill; only a
    snapshot's hashes can detect it.
    """
    live = made(layout)
    for donor, rows in (("state/0/1", 11), ("state/0/0", 7)):
        checkpoint = live.restored(NEWEST)
        changes = [each for each in sorted((checkpoint / donor).iterdir()) if each.suffix in (".delta", ".changelog")]
        shutil.copyfile(changes[0] if donor != "state/0/0" else changes[-1], state_file(checkpoint))
        found = live.drill(checkpoint, NEWEST)
        assert (found.ok, found.state_rows) == (True, rows)


def test_a_missing_commit_of_the_batch_fails_a_drill(live: Live) -> None:
    """A drill fails if the batch's commit is missing, because Spark would silently run that batch a second time under
    its number.
    """
    checkpoint = live.restored(3)
    (checkpoint / "commits/3").unlink()
    found = live.drill(checkpoint, 3)
    assert (found.ok, found.error_class) == (False, NOT_AT_BATCH)
    assert found.message == "the checkpoint is not at batch 3: it has no commit"
    unnoticed = live.restored(2, pending=True)
    assert run_planned(query(totals(live.stream())), LocalTree(unnoticed), timeout_s=120).fault is None
    assert last_committed(LocalTree(unnoticed)) == 3


def test_a_checkpoint_with_a_later_batch_than_expected_fails_a_drill(live: Live) -> None:
    """A drill fails if a later batch than the expected one is committed or planned."""
    assert live.drill(live.restored(4), 3).message == ("the checkpoint is not at batch 3: its last commit is batch 4")
    further = live.restored(3)
    shutil.copyfile(live.checkpoint / "offsets/5", further / "offsets/5")
    assert live.drill(further, 3).message == "the checkpoint is not at batch 3: batch 5 is planned"


@pytest.mark.parametrize(("entry", "batch"), [("offsets/5", 5), ("offsets/3", 3), ("commits/5", 5), ("metadata", 3)])
def test_a_truncated_offset_commit_or_metadata_file_fails_a_drill(live: Live, entry: str, batch: int) -> None:
    """A truncated offset, commit or metadata file fails a drill."""
    checkpoint = live.restored(batch)
    (checkpoint / entry).write_bytes((checkpoint / entry).read_bytes()[:10])
    assert not live.drill(checkpoint, batch).ok


def test_another_querys_checkpoint_is_refused_once_a_batch_runs(live: Live) -> None:
    """A checkpoint of a query with a different key type is refused by Spark once a batch runs; with an idle source it
    is not compared, and the message states that there was no new input.
    """
    from pyspark.sql import functions as F

    other = live.stream().groupBy(F.col("y").alias("k")).agg(F.sum("x").alias("s"))
    found = live.drill(live.restored(3), 3, other)
    assert (found.ok, found.error_class) == (False, "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")
    assert found.message.startswith("Spark refused: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE: Provided key schema")
    idle = live.drill(live.restored(NEWEST), NEWEST, other)
    assert idle.message.startswith("no new input; ")


def test_a_drill_reads_one_batch_of_a_backlog(live: Live) -> None:
    """A drill reads one batch within the source's limits. Negative control: an unlimited run reads the whole backlog of
    80 rows.
    """
    checkpoint = live.restored(1)
    found = live.drill(checkpoint, 1)
    assert (found.batch, found.rows, last_committed(LocalTree(checkpoint))) == (2, 20, 2)
    ran = run_planned(query(totals(live.stream())), LocalTree(live.restored(1)), timeout_s=120)
    assert ran.rows[2] == len(rows_of(live.folder, 2, NEWEST)) == 80


def test_the_sink_is_not_written(live: Live) -> None:
    """A drill does not call the author's sink function."""
    calls: list[int] = []
    assert live.drill(live.restored(1), 1, sink=ForeachBatch(lambda _, context: calls.append(context.batch_id))).ok
    assert calls == []


def test_a_drill_reports_missing_source_files_of_a_planned_batch(live: Live, tmp_path: Path) -> None:
    """A drill reports missing source files of a planned batch, which Spark runs silently without them."""
    folder, checkpoint = tmp_path / "in", tmp_path / "live"
    write_files(folder, 2)
    run(totals(read(live.session, folder)), checkpoint, "update")
    clone(LocalTree(checkpoint), LocalTree(tmp_path / "restored"), 0, pending=True)
    (folder / "f0001.json").unlink()
    found = live.drill(tmp_path / "restored", 0, totals(read(live.session, folder)))
    assert (found.ok, found.batch, found.rows) == (True, 1, 0)
    assert f"; 1 of 1 source files of batch 1 are missing, such as {folder}/f0001.json: Spark runs" in found.message


def test_a_drill_whose_batch_does_not_finish_is_stopped_and_fails(live: Live) -> None:
    """A drill whose batch does not finish is stopped, and its message states the time limit."""
    from pyspark.sql import functions as F

    def hang(value: Any) -> Any:
        import threading

        threading.Event().wait(600)

    stuck = totals(live.stream().withColumn("x", F.udf(hang, "long")("x")))
    found = live.drill(live.restored(3), 3, stuck, timeout_s=2)
    assert (found.ok, found.batch, found.error_class) == (False, None, TIMED_OUT)
    assert found.message == "batch 4 did not end within 2 s"
    assert not live.session.streams.active


def test_a_drill_reports_the_message_of_the_job_error(live: Live) -> None:
    """A drill reports the message of the job's own error."""
    from pyspark.sql import functions as F

    def fail(value: Any) -> Any:
        raise ValueError("no such region")

    found = live.drill(live.restored(3), 3, totals(live.stream().withColumn("x", F.udf(fail, "long")("x"))))
    assert not found.ok
    assert "no such region" in found.message


def test_state_unsupported_by_the_reader_is_proven_only_by_a_batch(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """State that Spark's reader does not support is proven by a batch that loads it; without a batch the drill reports
    the state as unproven.
    """
    monkeypatch.setattr(drilling, "read_all_state", lambda *_, **__: StateCount(0, 0, ("0/queue: STDS_X: unknown",)))
    ran, idle = live.drill(live.restored(3), 3), live.drill(live.restored(NEWEST), NEWEST)
    assert (ran.ok, ran.batch) == (True, 4)
    assert "Spark's reader does not know 0/queue" in ran.message
    assert (idle.ok, idle.error_class) == (False, STATE_UNPROVEN)


def test_a_drill_without_a_checkpoint_fails_without_raising_an_exception(live: Live, tmp_path: Path) -> None:
    """A drill of an empty or missing directory fails without raising an exception."""
    assert not live.drill(tmp_path, 3).ok
    assert not live.drill(tmp_path / "none", 3).ok


def test_a_query_without_state_passes(live: Live, tmp_path: Path) -> None:
    """A drill of a query without state passes and reports that no state was read."""
    checkpoint = tmp_path / "live"
    run(live.stream().select("k"), checkpoint, "append")
    clone(LocalTree(checkpoint), LocalTree(tmp_path / "restored"), 3)
    found = live.drill(tmp_path / "restored", 3, live.stream().select("k"), output_mode="append")
    assert (found.ok, found.stores, found.message) == (True, 0, "batch 4 ran (20 rows); no state was read")
