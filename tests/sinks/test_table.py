"""Tests TableSink with real SQLite and Spark: every batch is written exactly once and is fenced in the transaction of
its rows.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import Fenced, InvalidInput, OperationRefused, OutputLost, PermanentError, Unsupported
from streamkeeper.sinks import staging, table_writer
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "customer string, total long"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "warehouse.db"


def writer_of(
    database: Path, epoch: int, *, mode: str = "update", key: tuple[str, ...] = ("customer",), **context: Any
) -> TableWriter:
    sink = TableSink(f"sqlite:///{database}", table="totals", key=key)
    given = {"version": "v0001", "epoch": epoch, "output_mode": mode, **context}
    return sink.open(SinkContext(job="sales", query="totals", **given))


def rows(database: Path, statement: str = "SELECT * FROM totals ORDER BY customer") -> list[tuple]:
    with sqlite3.connect(database) as connection:
        return connection.execute(statement).fetchall()


def test_update_keeps_one_row_per_key(spark: SparkSession, database: Path) -> None:
    """In update mode a later batch replaces the rows of its keys and keeps the others, and no row stays in the staging
    table.
    """
    writer = writer_of(database, 1)
    writer.raise_fence()
    assert writer.last_batch() is None
    writer.write(spark.createDataFrame([("a", 1), ("b", 2)], SCHEMA), 0)
    writer.write(spark.createDataFrame([("b", 5), ("c", 7)], SCHEMA), 1)
    assert rows(database) == [("a", 1), ("b", 5), ("c", 7)]
    assert writer.last_batch() == 1
    assert rows(database, "SELECT count(*) FROM totals__staged") == [(0,)]
    writer.close()


def test_a_replayed_batch_changes_no_rows_of_its_first_write(spark: SparkSession, database: Path) -> None:
    """A replayed batch does not change the rows of its first write, not even under a newer epoch."""
    first = writer_of(database, 1)
    first.raise_fence()
    first.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)
    second = writer_of(database, 2)
    second.raise_fence()
    second.write(spark.createDataFrame([("a", 99)], SCHEMA), 0)
    assert rows(database) == [("a", 1)]


def test_complete_mode_replaces_all_rows(spark: SparkSession, database: Path) -> None:
    """In complete mode a key that the batch lacks is deleted."""
    writer = writer_of(database, 1, mode="complete")
    writer.raise_fence()
    writer.write(spark.createDataFrame([("a", 1), ("b", 2)], SCHEMA), 0)
    writer.write(spark.createDataFrame([("b", 3)], SCHEMA), 1)
    assert rows(database) == [("b", 3)]


def test_superseded_writer_writes_and_stages_nothing(spark: SparkSession, database: Path) -> None:
    """Once a newer epoch has raised the fence, an older writer gets ``Fenced`` and changes neither the table nor the
    staging table.
    """
    old, new = writer_of(database, 1), writer_of(database, 2)
    old.raise_fence()
    old.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)
    new.raise_fence()
    with pytest.raises(Fenced, match="superseded by epoch 2"):
        old.write(spark.createDataFrame([("a", 99)], SCHEMA), 1)
    assert rows(database) == [("a", 1)]
    assert rows(database, "SELECT count(*) FROM totals__staged") == [(0,)]
    with pytest.raises(Fenced):
        old.raise_fence()


def test_writer_superseded_after_staging_writes_nothing(
    spark: SparkSession, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is superseded between staging and its transaction is stopped by the transaction."""
    old, new = writer_of(database, 1), writer_of(database, 2)
    old.raise_fence()
    monkeypatch.setattr(table_writer, "crash_point", lambda name: new.raise_fence() if name == "sink.staged" else None)
    with pytest.raises(Fenced):
        old.write(spark.createDataFrame([("a", 99)], SCHEMA), 0)
    assert rows(database) == []


def test_a_writer_whose_record_is_missing_reports_a_lost_output(spark: SparkSession, database: Path) -> None:
    """A writer whose record is missing, because a table was dropped or the URL leads to a different database, reports a
    lost output and not a second writer.
    """
    writer = writer_of(database, 1)
    writer.raise_fence()
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM streamkeeper_outputs")
    with pytest.raises(OutputLost, match="its database no longer holds the record of epoch 1"):
        writer.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)


def test_an_older_copy_that_appears_during_staging_is_a_lost_output(
    spark: SparkSession, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older copy that replaces the output while a batch is staged is reported as lost; otherwise the rows that it
    lacks would stay missing unnoticed.
    """
    writer = writer_of(database, 1)
    writer.raise_fence()
    for batch in (0, 1):
        writer.write(spark.createDataFrame([(f"k{batch}", batch)], SCHEMA), batch)
    monkeypatch.setattr(table_writer, "crash_point", lambda name: put_back(database) if name == "sink.staged" else None)
    with pytest.raises(OutputLost, match="this process has seen batch 1 of v0001 in the output, but now finds only"):
        writer.write(spark.createDataFrame([("k2", 2)], SCHEMA), 2)
    assert rows(database) == [("k0", 0)]


def test_a_copy_that_appears_during_first_batch_staging_is_a_loss(
    spark: SparkSession, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy with an older batch that replaces the output while a version's first batch is staged is reported as lost,
    although the writer has seen no batch of its version.
    """
    writer = writer_of(database, 1)
    writer.raise_fence()

    def copy_comes(name: str) -> None:
        if name == "sink.staged":
            with sqlite3.connect(database) as connection:
                connection.execute("UPDATE streamkeeper_outputs SET version = 'v0001', batch_id = 3")

    monkeypatch.setattr(table_writer, "crash_point", copy_comes)
    with pytest.raises(OutputLost, match="the record of v0001 changed while batch 7 was staged"):
        writer.write(spark.createDataFrame([("a", 1)], SCHEMA), 7)
    assert rows(database) == []


def put_back(database: Path) -> None:
    """Restore the output to its state after batch 0."""
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE streamkeeper_outputs SET batch_id = 0")
        connection.execute("DELETE FROM totals WHERE customer = 'k1'")


def supersede(database: Path) -> None:
    """Advance only the epoch, without the cleanup that raising a fence does."""
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE streamkeeper_outputs SET epoch = 2")


def test_the_epoch_alone_keeps_a_superseded_writer_out(
    spark: SparkSession, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conditional update of the epoch alone stops a superseded writer whose rows are staged."""
    old = writer_of(database, 1)
    old.raise_fence()
    monkeypatch.setattr(
        table_writer, "crash_point", lambda name: supersede(database) if name == "sink.staged" else None
    )
    with pytest.raises(Fenced):
        old.write(spark.createDataFrame([("a", 99)], SCHEMA), 0)
    assert rows(database) == []


def test_without_the_fence_a_superseded_writer_does_write(
    spark: SparkSession, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the condition on the epoch, a superseded writer changes the table."""
    old = writer_of(database, 1)
    old.raise_fence()
    monkeypatch.setattr(
        table_writer, "crash_point", lambda name: supersede(database) if name == "sink.staged" else None
    )
    monkeypatch.setattr(TableWriter, "_advance", lambda *_: True)
    old.write(spark.createDataFrame([("a", 99)], SCHEMA), 0)
    assert rows(database) == [("a", 99)]


def test_key_twice_in_one_batch_is_refused(spark: SparkSession, database: Path) -> None:
    """A batch with one key in two rows is refused with that key, because their order is unknown, and is not
    recorded.
    """
    writer = writer_of(database, 1)
    writer.raise_fence()
    with pytest.raises(PermanentError, match="customer='a' more than once"):
        writer.write(spark.createDataFrame([("a", 1), ("a", 2), ("b", 1)], SCHEMA), 0)
    assert rows(database) == []
    assert writer.last_batch() is None


def test_row_without_a_key_is_refused(spark: SparkSession, database: Path) -> None:
    """A row with a NULL key is refused, because no later batch could replace it."""
    writer = writer_of(database, 1)
    writer.raise_fence()
    with pytest.raises(PermanentError, match="without a key"):
        writer.write(spark.createDataFrame([(None, 1)], SCHEMA), 0)


def test_values_of_the_usual_types_come_back(spark: SparkSession, database: Path) -> None:
    """Values of the usual types are stored without loss: instants in UTC, decimals to the last digit, and NULLs."""
    at = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    frame = spark.createDataFrame(
        [("a", 2**40, 7, 5, 1.5, 0.25, True, at, at.date(), Decimal("123456789012345678.01")), ("b", *[None] * 9)],
        "customer string, l long, i int, s short, d double, f float, b boolean, t timestamp, day date, m decimal(20,2)",
    )
    writer = writer_of(database, 1)
    writer.raise_fence()
    writer.write(frame, 0)
    assert rows(database) == [
        ("a", 2**40, 7, 5, 1.5, 0.25, 1, "2026-03-29 01:30:00.000000", "2026-03-29", "123456789012345678.01"),
        ("b", *[None] * 9),
    ]


def test_a_column_of_an_unsupported_type_is_refused(spark: SparkSession, database: Path) -> None:
    """A column of an unsupported type, such as an interval, is refused with its name and type."""
    writer = writer_of(database, 1)
    writer.raise_fence()
    with pytest.raises(Unsupported, match="column wait has the unsupported type interval day"):
        writer.write(spark.sql("SELECT 'a' customer, interval '1' day wait"), 0)


def test_a_query_whose_columns_do_not_fit_the_table_is_refused(spark: SparkSession, database: Path) -> None:
    """A query whose columns no longer fit the existing table is refused with the difference, and the rows stay
    unchanged.
    """
    writer = writer_of(database, 1)
    writer.raise_fence()
    writer.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)
    again = writer_of(database, 2)
    again.raise_fence()
    with pytest.raises(InvalidInput, match=r"total is BIGINT in the table, but DOUBLE.* in the query"):
        again.write(spark.createDataFrame([("a", 1.0)], "customer string, total double"), 1)
    assert rows(database) == [("a", 1)]


def test_table_of_another_query_is_refused(database: Path) -> None:
    """A table that a different query writes is refused, because their epochs would fence each other."""
    writer_of(database, 1).raise_fence()
    other = TableSink(f"sqlite:///{database}", table="totals", key=["customer"])
    with pytest.raises(InvalidInput, match="written by sales/totals"):
        other.open(SinkContext(job="other", query="totals", version="v0001", epoch=9)).raise_fence()


def test_a_batch_without_rows_is_recorded_as_written(spark: SparkSession, database: Path) -> None:
    """A batch without rows is recorded as written."""
    writer = writer_of(database, 1)
    writer.raise_fence()
    writer.write(spark.createDataFrame([], SCHEMA), 0)
    assert writer.last_batch() == 0


def test_a_rehearsal_leaves_neither_rows_nor_a_database_file(spark: SparkSession, database: Path) -> None:
    """A rehearsal runs workers and conversions and leaves nothing, not even a database file."""
    TableSink(f"sqlite:///{database}", table="totals", key=["customer"]).rehearse(
        spark.createDataFrame([("a", 1)], SCHEMA)
    )
    assert not database.exists()


def test_staging_again_replaces_the_partition(database: Path, spark: SparkSession) -> None:
    """A task that Spark runs twice stages its rows once."""
    writer = writer_of(database, 1)
    writer.raise_fence()
    writer.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)
    columns = TableSink(f"sqlite:///{database}", table="totals", key=["customer"]).columns_of(
        spark.createDataFrame([], SCHEMA)
    )
    plan = staging.StagingPlan(url=f"sqlite:///{database}", table="totals", columns=columns, epoch=1, token="t")
    staging.stage_partition(plan, iter([("a", 1, None), ("b", 2, None)]))
    staging.stage_partition(plan, iter([("a", 1, None), ("b", 2, None)]))
    assert rows(database, "SELECT customer FROM totals__staged ORDER BY 1") == [("a",), ("b",)]


def test_a_copied_installation_cannot_write_the_table(spark: SparkSession, database: Path) -> None:
    """A copied installation with the same job, query and epochs cannot write the table, neither as serving nor as
    shadow, and the original writer continues.
    """
    first = writer_of(database, 1, installation="a1")
    first.raise_fence()
    first.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)
    copies = [
        writer_of(database, 2, installation="b2"),
        writer_of(database, 2, installation="b2", role=WriterRole.SHADOW, version="v0002"),
    ]
    for copy in copies:
        with pytest.raises(OperationRefused, match=r"is written by the installation a1, not by this one \(b2\)"):
            copy.raise_fence()
    first.write(spark.createDataFrame([("b", 2)], SCHEMA), 1)
    assert rows(database) == [("a", 1), ("b", 2)]


def test_without_a_recorded_installation_a_copy_fences_out_the_original_writer(
    spark: SparkSession, database: Path
) -> None:
    """Negative control: without a recorded installation, as in older outputs, a copy fences out the original writer."""
    first = writer_of(database, 1)
    first.raise_fence()
    writer_of(database, 2, installation="b2").raise_fence()
    with pytest.raises(Fenced):
        first.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)


def test_a_newer_writer_adds_the_installation_column_to_an_older_table(spark: SparkSession, database: Path) -> None:
    """A table of outputs without an installation column gets one from the first newer writer, and an older writer can
    still insert its rows.
    """
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE TABLE streamkeeper_outputs (output TEXT NOT NULL, owner TEXT NOT NULL, epoch BIGINT NOT NULL,"
            " version TEXT, batch_id BIGINT, PRIMARY KEY (output))"
        )
        connection.execute("INSERT INTO streamkeeper_outputs VALUES ('totals', 'sales/totals', 3, 'v0001', 7)")
    older = writer_of(database, 4)
    assert older.last_batch() == 7
    newer = writer_of(database, 5, installation="a1")
    newer.raise_fence()
    newer.write(spark.createDataFrame([("a", 1)], SCHEMA), 8)
    assert rows(database, "SELECT epoch, batch_id, installation FROM streamkeeper_outputs") == [(5, 8, "a1")]
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO streamkeeper_outputs (output, owner, epoch) VALUES ('others', 'o/o', 1)")


@pytest.mark.parametrize("looks", [True, False], ids=["look", "control"])
def test_a_dry_run_neither_creates_nor_changes_a_database_file(tmp_path: Path, looks: bool) -> None:
    """A dry run neither creates a database file nor changes a byte of an existing one.

    Negative control: a writer changes the file, because it sets the journal mode.
    """
    there, missing = tmp_path / "there.db", tmp_path / "missing.db"
    with closing(sqlite3.connect(there)) as made:
        made.execute("create table other (k text)")
    before = there.read_bytes()
    context = SinkContext(job="j", query="q", version="v0001", epoch=0, looks=looks)
    for path in (there, missing) if looks else (there,):
        writer = TableSink(f"sqlite:///{path}", table="totals", key=["k"]).open(context)
        assert writer.last_batch() is None
        writer.close()
    assert (there.read_bytes() == before, missing.exists()) == (looks, False)
