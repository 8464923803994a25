"""Tests how each sink treats the batches that it contains beyond an older checkpoint that was restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import Fenced
from streamkeeper.model.manifests.sink_capabilities import Reconciliation
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.append_table import AppendTableSink
from streamkeeper.sinks.contract import Sink
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.foreach import ForeachBatch
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sinks.output_lookup import reconcile
from streamkeeper.sinks.table import TableSink
from tests.contracts.sink_contract import question_about
from tests.sinks.test_file_versions import Output, eager_compaction
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["eager_compaction"]
spark_test = pytest.mark.spark
SCHEMA = "customer string, total long"
BATCHES = {1: [("a", 1)], 2: [("b", 2)], 3: [("a", 4)], 4: [("c", 8)]}
"""The batches that v0001 has written."""
AGAIN = {3: [("a", 4), ("c", 8)], 4: [("b", 16)]}
"""The batches that are replayed after a restore to batch 2: the rows are distributed differently, and there are more of
them.
"""
ORACLE = [("a", 4), ("b", 16), ("c", 8)]


@pytest.mark.parametrize(
    ("sink", "how"),
    [
        (TableSink("sqlite:////tmp/w.db", table="totals", key=["customer"]), Reconciliation.REPLAY),
        (AppendTableSink("sqlite:////tmp/w.db", table="events"), Reconciliation.CUT_BACK),
        (FileSink("/tmp/out"), Reconciliation.CUT_BACK),
        (ForeachBatch(print), Reconciliation.REFUSE),
    ],
)
def test_the_description_of_a_sink_has_the_reconciliation_that_it_declares(sink: Sink, how: Reconciliation) -> None:
    """A lookup through the sink's description, which operations use, returns the same kind of reconciliation as the
    declared capabilities.
    """
    can, told = capabilities_of(sink.kind), reconcile(question_about(sink), 2)
    assert (can.reconciles, told.how) == (how, how)
    assert told.takes == can.takes_again


@spark_test
def test_a_table_accepts_replayed_batches_by_key_after_a_restore(warehouse: Warehouse, spark: SparkSession) -> None:
    """After a restore, a table accepts the replayed batches by key in a new version under the same numbers, and its
    rows match the input; the old writer is fenced.
    """
    first = warehouse.writer("v0001", 1)
    first.raise_fence()
    for number, rows in BATCHES.items():
        first.write(spark.createDataFrame(rows, SCHEMA), number)
    restored = warehouse.writer("v0002", 2, OutputSegment("v0001", last=2), OutputSegment("v0002"))
    restored.raise_fence()
    assert restored.last_batch() is None
    for number, rows in AGAIN.items():
        restored.write(spark.createDataFrame(rows, SCHEMA), number)
        restored.write(spark.createDataFrame(rows, SCHEMA), number)
    assert warehouse.rows() == ORACLE
    with pytest.raises(Fenced):
        first.write(spark.createDataFrame([("a", 99)], SCHEMA), 5)


@spark_test
def test_a_table_would_skip_replayed_batches_under_their_old_version(warehouse: Warehouse, spark: SparkSession) -> None:
    """Negative control: if an older checkpoint continued under its old version, which the driver refuses, the table
    would skip the replayed batches and lose a row.
    """
    first = warehouse.writer("v0001", 1)
    first.raise_fence()
    for number, rows in BATCHES.items():
        first.write(spark.createDataFrame(rows, SCHEMA), number)
    older = warehouse.writer("v0001", 2)
    older.raise_fence()
    assert older.last_batch() == 4
    for number, rows in AGAIN.items():
        older.write(spark.createDataFrame(rows, SCHEMA), number)
    assert warehouse.rows() == [("a", 4), ("b", 2), ("c", 8)]


def written(spark: SparkSession, root: Path, batches: int) -> tuple[Output, Any]:
    """Return an output and its writer after v0001 has written this many batches of one file each."""
    output = Output(spark, root / "out")
    first = output.writer("v0001", 1)
    for number in range(batches):
        output.write(first, number, f"e{number}")
    return output, first


@spark_test
def test_files_are_cut_back_to_the_restored_batch_without_duplicate_rows(spark: SparkSession, tmp_path: Path) -> None:
    """After a restore, readers see the old version up to the snapshot's batch and then the new one, each row once; the
    old writer is fenced.
    """
    output, first = written(spark, tmp_path, 5)
    assert reconcile(question_about(FileSink(str(output.root)), "v0001"), 2).refusal == ""
    restored = output.writer("v0002", 2, OutputSegment("v0001", last=2), OutputSegment("v0002"))
    restored.seed(2)
    assert output.ids == ["e0", "e1", "e2"]
    output.write(restored, 3, "e3", "e4")
    output.write(restored, 3, "e3", "e4")
    output.write(restored, 4, "e5")
    assert output.ids == [f"e{number}" for number in range(6)]
    with pytest.raises(Fenced):
        output.write(first, 5, "zombie")


@spark_test
def test_without_the_cut_of_the_old_version_replayed_rows_are_read_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Negative control: if the serving list lacks the last batch of the old version, replayed rows are read twice."""
    output, _ = written(spark, tmp_path, 5)
    restored = output.writer("v0002", 2, OutputSegment("v0001"), OutputSegment("v0002"))
    restored.seed(2)
    output.write(restored, 3, "e3", "e4")
    assert output.ids == ["e0", "e1", "e2", "e3", "e3", "e4", "e4"]


@spark_test
@pytest.mark.usefixtures("eager_compaction")
def test_files_that_cannot_be_cut_back_are_refused_before_anything_is_restored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """If Spark's compacted log no longer separates the batches, cutting the output back to the snapshot's batch is
    refused before anything is restored.
    """
    output, _ = written(spark, tmp_path, 8)
    sink = FileSink(str(output.root))
    assert reconcile(question_about(sink), 7).refusal == ""
    assert "compacted at batch" in reconcile(question_about(sink), 1).refusal
