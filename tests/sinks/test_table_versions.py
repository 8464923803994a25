"""Tests TableSink over several checkpoint versions: a shadow is written, swapped with the serving table in one
transaction, and swapped back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import Fenced, InvalidInput, Unsupported
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks import table_writer
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "customer string, total long"
Write = Callable[..., None]


@pytest.fixture
def write(spark: SparkSession) -> Write:
    """A function that writes a batch of (customer, total) rows."""

    def write(writer: TableWriter, batch_id: int, *rows: tuple[Any, ...], schema: str = SCHEMA) -> None:
        writer.write(spark.createDataFrame(list(rows), schema), batch_id)

    return write


@pytest.fixture
def serving(warehouse: Warehouse, write: Write) -> TableWriter:
    """The writer of v0001 under epoch 1, which has written up to batch 4."""
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    write(writer, 4, ("a", 1), ("b", 2))
    return writer


@pytest.fixture
def shadow(warehouse: Warehouse, serving: TableWriter, write: Write) -> TableWriter:
    """The writer of v0002 under epoch 2, in shadow, which has written up to batch 1."""
    writer = warehouse.writer("v0002", 2, shadow=True)
    writer.raise_fence()
    write(writer, 1, ("a", 10), ("b", 20), ("c", 30))
    return writer


def cut_over(warehouse: Warehouse, version: str, epoch: int, **options: Any) -> TableWriter:
    writer = warehouse.writer(version, epoch, **options)
    writer.raise_fence()
    return writer


def test_a_new_version_continues_the_existing_table_after_a_handoff(
    warehouse: Warehouse, serving: TableWriter, write: Write
) -> None:
    """After a handoff the new version writes to the existing table under the next batch numbers, and the old writer is
    fenced.
    """
    second = cut_over(warehouse, "v0002", 2)
    assert second.last_batch() is None
    assert warehouse.rows() == [("a", 1), ("b", 2)]
    write(second, 5, ("b", 7))
    assert warehouse.rows() == [("a", 1), ("b", 7)]
    assert warehouse.outputs == {"totals": (2, "v0002", 5)}
    with pytest.raises(Fenced):
        write(serving, 5, ("b", 99))


def test_shadow_and_serving_table_are_written_under_separate_epochs(
    warehouse: Warehouse, serving: TableWriter, shadow: TableWriter, write: Write
) -> None:
    """The shadow and the serving table are written side by side under separate epochs, and readers of the serving table
    do not see the shadow.
    """
    write(serving, 5, ("a", 2))
    assert warehouse.rows() == [("a", 2), ("b", 2)]
    assert warehouse.rows("SELECT count(*) FROM totals__v0002") == [(3,)]
    assert (serving.last_batch(), shadow.last_batch()) == (5, 1)
    assert warehouse.outputs == {"totals": (1, "v0001", 5), "totals__v0002": (2, "v0002", 1)}
    newer = warehouse.writer("v0002", 3, shadow=True)
    newer.raise_fence()
    with pytest.raises(Fenced):
        write(shadow, 2, ("a", 99))
    write(serving, 6, ("a", 3))


def test_cutover_and_rollback_swap_the_tables(warehouse: Warehouse, shadow: TableWriter, write: Write) -> None:
    """Cutover and rollback swap the tables: each version continues with its own rows and batch number, and the replaced
    one is kept.
    """
    second = cut_over(warehouse, "v0002", 3)
    assert second.last_batch() == 1
    assert warehouse.rows() == [("a", 10), ("b", 20), ("c", 30)]
    write(second, 1, ("a", 99))
    write(second, 2, ("a", 11))
    assert warehouse.outputs == {"totals": (3, "v0002", 2), "totals__v0001": (3, "v0001", 4)}
    assert warehouse.tables == {"totals", "totals__staged", "totals__v0001"}
    cut_over(warehouse, "v0002", 4)
    first = cut_over(warehouse, "v0001", 5)
    assert first.last_batch() == 4
    write(first, 4, ("a", 99))
    write(first, 5, ("a", 2))
    assert warehouse.rows() == [("a", 2), ("b", 2)]
    second = cut_over(warehouse, "v0002", 6)
    assert second.last_batch() == 2
    assert warehouse.rows() == [("a", 11), ("b", 20), ("c", 30)]
    assert warehouse.outputs["totals__v0001"][1:] == ("v0001", 5)


def test_rolling_back_to_an_unwritten_version_continues_the_table_of_its_parent(
    warehouse: Warehouse, shadow: TableWriter, write: Write
) -> None:
    """Rolling back to a handed-over or restored version that has written nothing continues in the table of its
    parent.
    """
    second = cut_over(warehouse, "v0002", 3)
    write(second, 2, ("a", 11))
    lineage = (OutputSegment("v0002", last=2), OutputSegment("v0003"))
    warehouse.writer("v0003", 4, *lineage).raise_fence()
    assert warehouse.rows() == [("a", 11), ("b", 20), ("c", 30)]
    rebuilt = warehouse.writer("v0004", 5, shadow=True)
    rebuilt.raise_fence()
    write(rebuilt, 0, ("z", 1))
    cut_over(warehouse, "v0004", 6)
    assert warehouse.rows() == [("z", 1)]
    for epoch in (7, 8):
        third = warehouse.writer("v0003", epoch, *lineage)
        third.raise_fence()
        assert third.last_batch() is None
        assert warehouse.rows() == [("a", 11), ("b", 20), ("c", 30)]
    write(third, 3, ("a", 12))
    assert warehouse.outputs == {"totals": (8, "v0003", 3), "totals__v0004": (7, "v0004", 0)}
    cut_over(warehouse, "v0004", 9)
    assert warehouse.rows() == [("z", 1)]
    warehouse.writer("v0005", 10, OutputSegment("v0003", last=3), OutputSegment("v0005")).raise_fence()
    assert warehouse.rows() == [("a", 12), ("b", 20), ("c", 30)]


def test_rebuilt_table_may_have_other_columns_and_another_key(
    warehouse: Warehouse, serving: TableWriter, write: Write
) -> None:
    """A rebuilt table may have different columns and a different key, because a shadow is only checked against itself;
    after a rollback the old columns are back.
    """
    schema, key = "customer string, shop string, spent double", ("customer", "shop")
    shadow = warehouse.writer("v0002", 2, shadow=True, key=key)
    shadow.raise_fence()
    write(shadow, 0, ("a", "x", 1.5), ("a", "y", 2.5), schema=schema)
    second = cut_over(warehouse, "v0002", 3, key=key)
    write(second, 1, ("a", "y", 3.5), schema=schema)
    assert warehouse.rows("SELECT customer, shop, spent FROM totals ORDER BY shop") == [
        ("a", "x", 1.5),
        ("a", "y", 3.5),
    ]
    first = cut_over(warehouse, "v0001", 4)
    write(first, 5, ("b", 3))
    assert warehouse.rows() == [("a", 1), ("b", 3)]


def test_only_the_table_just_replaced_is_kept(warehouse: Warehouse, shadow: TableWriter, write: Write) -> None:
    """A cutover keeps only the table that it replaced and drops older versions; tables of a different query and foreign
    tables stay, whatever their names.
    """
    other = warehouse.writer("v0001", 1, table="totals__v0007", query="other")
    other.raise_fence()
    write(other, 0, ("z", 1))
    warehouse.execute("CREATE TABLE totals__v0008 (a integer)")
    cut_over(warehouse, "v0002", 3)
    third = warehouse.writer("v0003", 4, shadow=True)
    third.raise_fence()
    write(third, 0, ("a", 100))
    cut_over(warehouse, "v0003", 5)
    assert warehouse.rows() == [("a", 100)]
    assert set(warehouse.outputs) == {"totals", "totals__v0002", "totals__v0007"}
    assert warehouse.tables == {
        "totals",
        "totals__v0002",
        "totals__v0007",
        "totals__v0007__staged",
        "totals__v0008",
    }
    write(other, 1, ("z", 2))


def test_a_concurrent_reader_always_finds_the_table_and_its_sum_never_decreases(
    warehouse: Warehouse, serving: TableWriter, write: Write
) -> None:
    """During ten cutovers a concurrent reader always finds the table, and its sum never decreases."""
    sums: list[int] = []
    failures: list[Exception] = []
    over = threading.Event()

    def sample() -> None:
        while not over.is_set():
            try:
                sums.append(int(warehouse.rows("SELECT sum(total) FROM totals")[0][0]))
            except Exception as error:
                failures.append(error)

    reader = threading.Thread(target=sample)
    reader.start()
    try:
        for number in range(2, 12):
            shadow = warehouse.writer(f"v{number:04d}", 2 * number, shadow=True)
            shadow.raise_fence()
            write(shadow, number, ("a", 10 * number))
            cut_over(warehouse, f"v{number:04d}", 2 * number + 1)
    finally:
        over.set()
        reader.join()
    assert not failures
    assert len(set(sums)) > 5
    assert sums == sorted(sums)


def test_a_reader_in_a_transaction_keeps_its_table(warehouse: Warehouse, shadow: TableWriter, write: Write) -> None:
    """A reader in a transaction reads the same rows twice across a cutover: PostgreSQL's swap waits for the reader, and
    SQLite's runs beside it.
    """
    done = threading.Event()

    def swap() -> None:
        cut_over(warehouse, "v0002", 3)
        done.set()

    with warehouse.engine.connect() as connection:
        if warehouse.sqlite:
            connection.exec_driver_sql("BEGIN")
        read = "SELECT sum(total) FROM totals"
        before = connection.exec_driver_sql(read).scalar_one()
        swapping = threading.Thread(target=swap)
        swapping.start()
        assert done.wait(1.0) == warehouse.sqlite
        assert connection.exec_driver_sql(read).scalar_one() == before == 3
        connection.rollback()
    assert done.wait(10)
    swapping.join()
    assert warehouse.rows(read) == [(60,)]


KILLED = """
import sys
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.table import TableSink
context = SinkContext(job="sales", query="totals", version="v0002", epoch=3)
TableSink(sys.argv[1], table="totals", key=["customer"]).open(context).raise_fence()
"""


def test_a_swap_that_is_killed_before_its_commit_changes_nothing(
    warehouse: Warehouse, serving: TableWriter, shadow: TableWriter, write: Write
) -> None:
    """After a SIGKILL within the swap's transaction, tables, batch numbers and epochs are unchanged, both writers can
    continue, and a rerun swaps.
    """
    before = (warehouse.tables, warehouse.outputs, warehouse.rows())
    environment = {**os.environ, "STREAMKEEPER_CRASH": "sink.swapped"}
    killed = subprocess.run([sys.executable, "-c", KILLED, warehouse.url], env=environment, timeout=60)
    assert killed.returncode == -9
    assert (warehouse.tables, warehouse.outputs, warehouse.rows()) == before
    write(serving, 5, ("a", 2))
    write(shadow, 2, ("a", 11))
    cut_over(warehouse, "v0002", 3)
    assert warehouse.rows() == [("a", 11), ("b", 20), ("c", 30)]


def freeze(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Run ``meanwhile`` once, while a writer is between staging and its transaction."""
    left = [meanwhile]
    monkeypatch.setattr(
        table_writer, "crash_point", lambda name: left.pop()() if name == "sink.staged" and left else None
    )


def test_a_writer_of_the_old_version_is_fenced_after_the_cutover(
    warehouse: Warehouse, serving: TableWriter, shadow: TableWriter, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer of the old version is fenced after the cutover, whether its rows were already staged or not, although
    its table's name now means the new table.
    """
    freeze(monkeypatch, lambda: cut_over(warehouse, "v0002", 3))
    with pytest.raises(Fenced):
        write(serving, 5, ("a", 99))
    with pytest.raises(Fenced):
        write(serving, 5, ("a", 99))
    with pytest.raises(Fenced):
        serving.raise_fence()
    assert warehouse.rows() == [("a", 10), ("b", 20), ("c", 30)]
    assert warehouse.rows("SELECT * FROM totals__v0001 ORDER BY customer") == [("a", 1), ("b", 2)]
    assert warehouse.outputs == {"totals": (3, "v0002", 1), "totals__v0001": (3, "v0001", 4)}


@pytest.mark.parametrize("fenced", [True, False])
def test_the_epoch_alone_keeps_an_old_writer_out_after_a_cutover(
    warehouse: Warehouse, write: Write, monkeypatch: pytest.MonkeyPatch, fenced: bool
) -> None:
    """After a cutover the epoch keeps an old writer in complete mode out of the new table.

    Negative control: without the condition on the epoch, that writer deletes all rows of the rebuilt table.
    """
    old = cut_over(warehouse, "v0001", 1, mode="complete")
    write(old, 0, ("a", 1))
    shadow = warehouse.writer("v0002", 2, shadow=True, mode="complete")
    shadow.raise_fence()
    write(shadow, 0, ("a", 10))

    def succeed() -> None:
        second = cut_over(warehouse, "v0002", 3, mode="complete")
        write(second, 1, ("a", 11))
        if not fenced:
            monkeypatch.setattr(TableWriter, "_advance", lambda *_: True)

    freeze(monkeypatch, succeed)
    if fenced:
        with pytest.raises(Fenced):
            write(old, 1, ("a", 99))
    else:
        write(old, 1, ("a", 99))
    assert warehouse.rows() == ([("a", 11)] if fenced else [])


def test_zombie_of_a_shadow_changes_nothing(warehouse: Warehouse, shadow: TableWriter, write: Write) -> None:
    """An old writer of a shadow is fenced once its version serves and also once that version is retained, even with an
    equal epoch.
    """
    cut_over(warehouse, "v0002", 2)
    with pytest.raises(Fenced):
        write(shadow, 2, ("a", 99))
    with pytest.raises(Fenced, match="is current and no longer a shadow"):
        shadow.raise_fence()
    cut_over(warehouse, "v0001", 2)
    for wrong in (lambda: write(shadow, 2, ("a", 99)), shadow.raise_fence):
        with pytest.raises(Fenced):
            wrong()
    assert warehouse.rows("SELECT * FROM totals__v0002 ORDER BY customer") == [("a", 10), ("b", 20), ("c", 30)]


def test_discarding_drops_an_aborted_shadow_and_never_a_serving_version(
    warehouse: Warehouse, serving: TableWriter, shadow: TableWriter, write: Write
) -> None:
    """Discarding an aborted shadow drops its tables and its record; discarding a version that serves changes
    nothing.
    """
    shadow.discard()
    shadow.discard()
    assert warehouse.tables == {"totals", "totals__staged"}
    assert set(warehouse.outputs) == {"totals"}
    shadow.raise_fence()
    write(shadow, 0, ("a", 10))
    second = cut_over(warehouse, "v0002", 3)
    shadow.discard()
    second.discard()
    assert warehouse.rows() == [("a", 10)]
    assert second.last_batch() == 0


def test_discarding_in_an_empty_database_is_nothing(warehouse: Warehouse) -> None:
    """Discarding a shadow in an empty database does nothing, because an abort may come before any writer."""
    warehouse.writer("v0002", 1, shadow=True).discard()
    assert warehouse.tables == set()


def test_a_cutover_to_a_shadow_without_a_batch_is_refused(warehouse: Warehouse, serving: TableWriter) -> None:
    """A cutover to a shadow without a batch is refused, and epoch, batch and rows of the serving table stay
    unchanged.
    """
    warehouse.writer("v0002", 2, shadow=True).raise_fence()
    with pytest.raises(InvalidInput, match="has no batch"):
        cut_over(warehouse, "v0002", 3)
    assert warehouse.outputs["totals"] == (1, "v0001", 4)
    assert warehouse.rows() == [("a", 1), ("b", 2)]


def test_first_table_that_was_never_written_is_replaced(warehouse: Warehouse, write: Write) -> None:
    """A shadow replaces a claimed version without a batch and keeps no table of it; a table with rows that no batch
    wrote is refused.
    """
    cut_over(warehouse, "v0001", 1)
    shadow = warehouse.writer("v0002", 2, shadow=True)
    shadow.raise_fence()
    write(shadow, 0, ("a", 10))
    warehouse.execute("CREATE TABLE totals (customer text)", "INSERT INTO totals VALUES ('theirs')")
    with pytest.raises(InvalidInput, match="rows that no batch wrote"):
        cut_over(warehouse, "v0002", 3)
    warehouse.execute("DELETE FROM totals")
    second = cut_over(warehouse, "v0002", 3)
    write(second, 1, ("b", 20))
    assert warehouse.rows() == [("a", 10), ("b", 20)]
    assert set(warehouse.outputs) == {"totals"}


def test_a_foreign_table_under_the_name_of_a_shadow_table_is_refused(
    warehouse: Warehouse, serving: TableWriter
) -> None:
    """A foreign table under the name of a shadow's table is refused and left unchanged."""
    warehouse.execute("CREATE TABLE totals__v0002 (customer text)")
    shadow = warehouse.writer("v0002", 2, shadow=True)
    with pytest.raises(InvalidInput, match="no writer of totals created it"):
        shadow.raise_fence()
    shadow.discard()
    assert "totals__v0002" in warehouse.tables
    cut_over(warehouse, "v0002", 3)
    assert warehouse.rows() == [("a", 1), ("b", 2)]


def test_table_may_be_named_by_a_word_of_sql(warehouse: Warehouse, write: Write) -> None:
    """A table named by an SQL keyword such as ``order`` can be written and swapped."""
    for version, epoch, shadow in (("v0001", 1, False), ("v0002", 2, True), ("v0002", 3, False)):
        writer = warehouse.writer(version, epoch, shadow=shadow, table="order")
        writer.raise_fence()
        write(writer, epoch, ("a", epoch))
    assert warehouse.rows('SELECT * FROM "order"') == [("a", 3)]


def test_a_view_shows_the_new_table_or_the_shadow_is_refused(
    warehouse: Warehouse, serving: TableWriter, write: Write
) -> None:
    """A view in SQLite shows the new table after a cutover, because it refers to it by name; in PostgreSQL, where a
    view would silently stay with the old table, the shadow is refused.
    """
    warehouse.execute("CREATE VIEW seen AS SELECT customer, total FROM totals")
    shadow = warehouse.writer("v0002", 2, shadow=True)
    if not warehouse.sqlite:
        with pytest.raises(Unsupported, match="view seen would stay with the old table"):
            shadow.raise_fence()
        warehouse.execute("DROP VIEW seen")
    shadow.raise_fence()
    write(shadow, 0, ("a", 10))
    cut_over(warehouse, "v0002", 3)
    if warehouse.sqlite:
        assert warehouse.rows("SELECT * FROM seen") == [("a", 10)]


@pytest.mark.parametrize("warehouse", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_privileges_on_the_table_are_unchanged_by_a_cutover(warehouse: Warehouse, shadow: TableWriter) -> None:
    """Privileges on the table are the same before and after a cutover."""
    warehouse.execute(
        "DO $$ BEGIN CREATE ROLE analyst; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT ON totals TO analyst WITH GRANT OPTION",
        "GRANT SELECT ON totals TO PUBLIC",
    )
    cut_over(warehouse, "v0002", 3)
    question = "SELECT has_table_privilege('analyst', 'totals', '{}')"
    assert warehouse.rows(question.format("SELECT WITH GRANT OPTION")) == [(True,)]
    assert warehouse.rows(question.format("DELETE")) == [(False,)]
    assert "=r/" in str(warehouse.rows("SELECT relacl FROM pg_class WHERE relname = 'totals'"))


def test_a_table_name_too_long_for_the_suffix_is_refused_in_shadow() -> None:
    """A shadow requires a table name of at most 48 characters, so that its suffix fits into PostgreSQL's limit; a
    longer table can be written, but not in shadow.
    """
    for length, refused in ((48, False), (49, True)):
        sink = TableSink("postgresql+psycopg://u@localhost/db", table="t" * length, key=["customer"])
        context = SinkContext(job="sales", query="totals", version="v0002", epoch=1)
        sink.open(context).close()
        shadow = SinkContext(job="sales", query="totals", version="v0002", epoch=1, role=WriterRole.SHADOW)
        if refused:
            with pytest.raises(InvalidInput, match="at most 48"):
                sink.open(shadow)
        else:
            sink.open(shadow).close()


def test_a_table_ignores_the_list_of_served_segments_and_seeds(warehouse: Warehouse, serving: TableWriter) -> None:
    """A table ignores the list of served segments and seeds, because a handed-over table contains the rows of all its
    versions.
    """
    cut_over(warehouse, "v0002", 2)
    writer = warehouse.writer("v0002", 3, OutputSegment("v0001", last=4), OutputSegment("v0002"))
    writer.raise_fence()
    writer.seed(4)
    assert warehouse.rows() == [("a", 1), ("b", 2)]
