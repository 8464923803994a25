"""Tests AppendTableSink on both databases: which rows a restore deletes, which it keeps, and what the table records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from streamkeeper.errors import Fenced, InvalidInput, OutputUnfit
from streamkeeper.model.protocol.output_history import OutputHistory, find_output_loss
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks import append_table
from streamkeeper.sinks.append_table import AppendTableSink, AppendTableWriter
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.fences import read_fences
from streamkeeper.sinks.output_lookup import ask_output, reconcile
from streamkeeper.sinks.table_writer import TableWriter
from tests.contracts.sink_contract import question_about
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "customer string, total long"
ALL = "SELECT customer, total, _sk_version, _sk_batch FROM totals ORDER BY _sk_version, _sk_batch, customer"
V1, V2, V3 = (OutputSegment(version) for version in ("v0001", "v0002", "v0003"))

Open = Callable[..., TableWriter]
Write = Callable[..., None]


@pytest.fixture
def write(spark: SparkSession) -> Write:
    """A function that writes a batch of (customer, total) rows."""

    def write(writer: TableWriter, batch_id: int, *rows: tuple[Any, ...]) -> None:
        writer.write(spark.createDataFrame(list(rows), SCHEMA), batch_id)

    return write


@pytest.fixture
def raised(warehouse: Warehouse, request: pytest.FixtureRequest) -> Open:
    """A function that opens a writer of the table and raises its fence; ``serving`` is what readers see afterwards."""

    def raised(epoch: int, *serving: OutputSegment, shadow: str = "", begun: bool = False) -> TableWriter:
        context = SinkContext(
            job="sales",
            query="totals",
            version=shadow or serving[-1].version,
            epoch=epoch,
            role=WriterRole.SHADOW if shadow else WriterRole.SERVING,
            serving=serving,
            begun=begun,
        )
        writer = AppendTableSink(warehouse.url, table="totals").open(context)
        request.addfinalizer(writer.close)
        writer.raise_fence()
        return writer

    return raised


@pytest.fixture
def first(raised: Open, write: Write) -> TableWriter:
    """The writer of v0001 under epoch 1, which has written the batches 0 to 3; batch 2 has no rows."""
    writer = raised(1, V1)
    write(writer, 0, ("a", 1), ("a", 1))
    write(writer, 1, ("b", 2))
    write(writer, 2)
    write(writer, 3, ("a", 4))
    return writer


def held(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Return the rows with their version and batch."""
    return [tuple(row) for row in warehouse.rows(ALL)]


def loss_of(writer: TableWriter, version: str, committed: int) -> str:
    """Return the evidence that the table lacks batches of a version that were committed."""
    record = writer.read_record()
    assert record is not None
    return find_output_loss(OutputHistory(version=version), committed, record)


def test_equal_rows_are_all_kept_with_their_version_and_batch(
    warehouse: Warehouse, first: TableWriter, write: Write
) -> None:
    """Equal rows of one batch or of several batches are all kept, with the version and the batch that wrote them, and a
    replayed batch adds none.
    """
    write(first, 3, ("a", 4), ("x", 99))
    write(first, 4, ("a", 1))
    rows = [("a", 1, "v0001", 0), ("a", 1, "v0001", 0), ("b", 2, "v0001", 1), ("a", 4, "v0001", 3)]
    assert held(warehouse) == [*rows, ("a", 1, "v0001", 4)]
    assert first.last_batch() == 4


def test_a_restore_deletes_the_rows_of_later_batches_only(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """A restore to an older batch deletes the rows of later batches of the old version, keeps the others, and records
    the end of the old version, also across a repeated fence and if the restored batch has no rows.
    """
    for epoch in (2, 3):
        restored = raised(epoch, OutputSegment("v0001", 2), V2)
        assert restored.last_batch() is None
        assert [row[0] for row in held(warehouse)] == ["a", "a", "b"]
    assert (loss_of(restored, "v0001", 2), loss_of(restored, "v0001", 3)) == (
        "",
        "it holds batch 2 of v0001, and batch 3 of v0001 was committed",
    )
    write(restored, 3, ("c", 8))
    write(restored, 4)
    assert held(warehouse)[2:] == [("b", 2, "v0001", 1), ("c", 8, "v0002", 3)]
    record = restored.read_record()
    assert record is not None
    assert (record.last, record.every_version) == ({"v0001": 2, "v0002": 4}, True)
    with pytest.raises(Fenced):
        write(first, 4, ("a", 99))


def test_a_restore_may_cut_the_batches_of_an_earlier_version(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """After a handoff, a restore to a batch of the first version deletes all rows of the second version, too."""
    write(raised(2, OutputSegment("v0001", 3), V2), 4, ("c", 8))
    restored = raised(3, OutputSegment("v0001", 1), V3)
    assert [row[2:] for row in held(warehouse)] == [("v0001", 0), ("v0001", 0), ("v0001", 1)]
    record = restored.read_record()
    assert record is not None
    assert record.last == {"v0001": 1}


def test_a_restore_to_deleted_batches_is_refused(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """After a restore has deleted batches, a later restore that needs them is refused with the last batch that is left,
    and one to an earlier batch is not.
    """
    sink = AppendTableSink(warehouse.url, table="totals")
    asked = question_about(sink, where=warehouse.url)
    assert [reconcile(asked, batch).refusal for batch in (-1, 0, 3)] == ["", "", ""]
    write(raised(2, OutputSegment("v0001", 1), V2), 2, ("c", 8))
    assert ask_output(asked).batch == 1
    assert reconcile(asked, 1).refusal == ""
    refusal = reconcile(asked, 3).refusal
    assert refusal == (
        "the restore needs batch 3 of v0001, but table totals has its batches only up to 1; a restore or a rollback"
        " deleted the later ones"
    )
    unknown = reconcile(structs.replace(asked, version="v0009"), 0).refusal
    assert unknown == "the restore needs batch 0 of v0009, but table totals has no batch of v0009"


def test_a_version_whose_parent_is_not_in_the_table_deletes_nothing(
    warehouse: Warehouse, first: TableWriter, raised: Open
) -> None:
    """A version that continues another version than the table contains is refused, and the table keeps all its rows."""
    before = held(warehouse)
    with pytest.raises(OutputUnfit, match="no batch of v0002, which v0003 continues: its newest batch is 3 of v0001"):
        raised(2, OutputSegment("v0002", 5), V3)
    assert held(warehouse) == before
    assert warehouse.outputs["totals"] == (1, "v0001", 3)


def test_segments_that_a_rebuilt_journal_does_not_know_stay(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """If a rebuilt journal does not know the parents of versions, neither the next epoch of the current version nor a
    restore of one of its batches deletes the rows of the versions before it.
    """
    write(raised(2, OutputSegment("v0001", 3), V2), 4, ("c", 8))
    before = held(warehouse)
    write(raised(3, V2), 5, ("d", 9))
    assert held(warehouse) == [*before, ("d", 9, "v0002", 5)]
    restored = raised(4, OutputSegment("v0002", 4), V3)
    assert held(warehouse) == before
    record = restored.read_record()
    assert record is not None
    assert record.last == {"v0001": 3, "v0002": 4}


def test_batches_of_a_version_that_counts_anew_stay(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """A handoff that gives the state up begins with batch 0, and neither a restart of its driver nor a restore to one
    of its batches takes this number for a batch of the earlier version.
    """
    second = raised(2, OutputSegment("v0001", 3), V2)
    for number in range(3):
        write(second, number, ("c", number))
    before = held(warehouse)
    assert raised(3, OutputSegment("v0001", 3), V2).last_batch() == 2
    assert held(warehouse) == before
    raised(4, OutputSegment("v0001", 3), OutputSegment("v0002", 1), V3)
    assert held(warehouse) == before[:-1]


@pytest.mark.parametrize("begun", [False, True])
def test_a_version_that_continues_none_puts_the_table_aside(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write, begun: bool
) -> None:
    """A version that continues no other one begins an empty table and deletes no row, also if the loss of its own
    batches was accepted: the earlier table is kept, with the privileges of other roles, and can be restored.
    """
    before = held(warehouse)
    if not warehouse.sqlite:
        warehouse.execute("GRANT SELECT ON totals TO PUBLIC")
    for epoch in (2, 3):
        second = raised(epoch, V2, begun=begun)
    asked = question_about(AppendTableSink(warehouse.url, table="totals"), where=warehouse.url)
    assert (ask_output(asked).batch, reconcile(asked, 1).refusal) == (3, "")
    assert warehouse.rows("SELECT count(*) FROM totals__v0001") == [(4,)]
    write(second, 0, ("c", 8))
    assert held(warehouse) == [("c", 8, "v0002", 0)]
    if not warehouse.sqlite:
        assert warehouse.rows("SELECT position('=r/' IN relacl::text) > 0 FROM pg_class WHERE relname = 'totals'") == [
            (True,)
        ]
    assert raised(4, V1).last_batch() == 3
    assert held(warehouse) == before


def test_rows_in_an_earlier_segment_of_the_kept_table_can_be_restored(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """A table that a rebuild replaced is found by each version that has rows in it, so that a restore or a rollback to
    a version before its last one shows its rows again.
    """
    write(raised(2, OutputSegment("v0001", 3), V2), 4, ("c", 8))
    write(raised(3, shadow="v0003"), 0, ("a", 10))
    raised(4, V3)
    asked = question_about(AppendTableSink(warehouse.url, table="totals"), where=warehouse.url)
    assert (reconcile(asked, 3).refusal, ask_output(asked).batch) == ("", 3)
    raised(5, OutputSegment("v0001", 1), OutputSegment("v0004"))
    assert [row[2:] for row in held(warehouse)] == [("v0001", 0), ("v0001", 0), ("v0001", 1)]


def test_rows_that_others_wrote_are_refused(warehouse: Warehouse, raised: Open) -> None:
    """A table that already has rows is refused before the first deploy and by the fence, because a restore could delete
    them.
    """
    warehouse.execute(
        "CREATE TABLE totals (customer TEXT, total BIGINT, _sk_version TEXT NOT NULL, _sk_batch BIGINT NOT NULL)",
        "INSERT INTO totals VALUES ('a', 1, 'v0001', 7)",
    )
    sink = AppendTableSink(warehouse.url, table="totals")
    sentence = "table totals has rows that Streamkeeper did not write, and a restore could delete them"
    assert (sink.find_conflict(serves=False), sink.find_conflict(serves=True)) == (sentence, None)
    with pytest.raises(InvalidInput, match="has rows that Streamkeeper did not write"):
        raised(1, V1)


def test_an_accepted_loss_of_the_record_adds_no_row_twice(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write, spark: SparkSession
) -> None:
    """If only the record of the table was lost and a person accepts that, rows of a batch that was written but not
    committed are deleted before the batch is replayed.
    """
    before = held(warehouse)
    warehouse.execute("DELETE FROM streamkeeper_outputs")
    again = raised(2, V1, begun=True)
    again.begin_after(spark.createDataFrame([], SCHEMA), 2)
    write(again, 3, ("a", 4))
    assert held(warehouse) == before


def test_an_accepted_loss_of_the_record_keeps_the_batches_of_a_version_with_a_parent(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write, spark: SparkSession
) -> None:
    """If only the record of the table was lost and a person accepts that, the batches that a handed-over version wrote
    and committed itself stay.
    """
    second = raised(2, OutputSegment("v0001", 3), V2)
    write(second, 4, ("c", 8))
    write(second, 5, ("d", 9))
    before = held(warehouse)
    warehouse.execute("DELETE FROM streamkeeper_outputs")
    again = raised(3, OutputSegment("v0001", 3), V2, begun=True)
    again.seed(3)
    again.begin_after(spark.createDataFrame([], SCHEMA), 5)
    assert held(warehouse) == before
    assert again.last_batch() == 5


def test_a_loss_of_the_record_with_rows_of_an_abandoned_version_is_refused(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """If the record of the table is lost, and the table has rows of a version whose input would be read again, the
    fence refuses and changes nothing.
    """
    write(raised(2, OutputSegment("v0001", 3), V2), 4, ("c", 8))
    before = held(warehouse)
    warehouse.execute("DELETE FROM streamkeeper_outputs")
    with pytest.raises(OutputUnfit, match="table totals has rows of v0002, which v0003 does not continue"):
        raised(3, OutputSegment("v0001", 1), V3)
    assert held(warehouse) == before


def test_a_restore_after_a_loss_of_the_record_deletes_later_batches(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """If the record of the table was lost before the fence of a restored version, which a person accepted, the rows of
    later batches are deleted all the same.
    """
    warehouse.execute("DELETE FROM streamkeeper_outputs")
    restored = raised(2, OutputSegment("v0001", 1), V2)
    restored.seed(1)
    write(restored, 2, ("a", 4))
    assert [row[1:] for row in held(warehouse)] == [
        (1, "v0001", 0), (1, "v0001", 0), (2, "v0001", 1), (4, "v0002", 2)
    ]  # fmt: skip


def test_a_lost_journal_learns_the_earlier_versions_from_the_fence(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """The fence names the segments of the table and the version of the kept table, also if that one has a key, so that
    a rebuilt journal knows the parents.
    """
    write(raised(2, OutputSegment("v0001", 3), V2), 4, ("c", 8))
    (fence,) = read_fences(warehouse.url)
    assert fence.serving == (OutputSegment("v0001", 3), V2)
    shadow = warehouse.writer("v0003", 3, shadow=True)
    shadow.raise_fence()
    write(shadow, 0, ("a", 5))
    warehouse.writer("v0003", 4, V3).raise_fence()
    (fence,) = read_fences(warehouse.url)
    assert (fence.version, fence.serving, fence.versions) == ("v0003", (), ("v0002", "v0003"))


def test_without_the_limits_of_a_restore_rows_are_there_twice(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if the fence deleted no rows, a replayed batch would be in the table twice after a restore."""
    monkeypatch.setattr(AppendTableWriter, "_settle", lambda *_: None)
    write(raised(2, OutputSegment("v0001", 2), V2), 3, ("a", 4))
    assert [row for row in held(warehouse) if row[:2] == ("a", 4)] == [("a", 4, "v0001", 3), ("a", 4, "v0002", 3)]


def test_a_snapshot_before_the_first_batch_of_a_handoff_can_be_restored(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """A version that was handed over records the inherited batch as its own, so that a snapshot that was taken before
    its first batch can be restored, and a seed that is repeated after a batch changes nothing.
    """
    second = raised(2, OutputSegment("v0001", 3), V2)
    second.seed(3)
    asked = question_about(AppendTableSink(warehouse.url, table="totals"), "v0002", where=warehouse.url)
    assert reconcile(asked, 3).refusal == ""
    write(second, 4, ("c", 8))
    second.seed(3)
    assert second.last_batch() == 4
    restored = raised(3, OutputSegment("v0001", 3), OutputSegment("v0002", 3), V3)
    assert held(warehouse)[-1] == ("a", 4, "v0001", 3)
    record = restored.read_record()
    assert record is not None
    assert record.last == {"v0001": 3, "v0002": 3}


def test_a_superseded_writer_records_no_seed(warehouse: Warehouse, first: TableWriter, raised: Open) -> None:
    """A writer that was superseded before it records the batch with which it continues changes neither the record nor
    the rows.
    """
    second = raised(2, OutputSegment("v0001", 3), V2)
    raised(3, V1)
    with pytest.raises(Fenced):
        second.seed(3)
    assert warehouse.outputs["totals"] == (3, "v0001", 3)
    assert len(held(warehouse)) == 4


def test_rolling_back_a_handoff_deletes_the_rows_of_the_second_version(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """After a rollback to the version that was handed off, its batches continue, and the rows of the second version are
    deleted.
    """
    write(raised(2, OutputSegment("v0001", 3), V2), 4, ("c", 8))
    again = raised(3, V1)
    assert again.last_batch() == 3
    write(again, 4, ("c", 9))
    assert held(warehouse)[-1] == ("c", 9, "v0001", 4)
    assert {row[2] for row in held(warehouse)} == {"v0001"}


def test_cutover_rollback_and_restore_use_the_tables_of_their_versions(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """A cutover shows the rebuilt rows and keeps the old table, a rollback shows the old table again, and a restore of
    a batch of the kept table makes this table current and cuts it.
    """
    shadow = raised(2, shadow="v0002")
    write(shadow, 0, ("a", 10), ("b", 20))
    assert len(held(warehouse)) == 4
    second = raised(3, V2)
    assert held(warehouse) == [("a", 10, "v0002", 0), ("b", 20, "v0002", 0)]
    write(second, 1, ("c", 30))
    assert warehouse.outputs == {"totals": (3, "v0002", 1), "totals__v0001": (3, "v0001", 3)}
    asked = question_about(AppendTableSink(warehouse.url, table="totals"), where=warehouse.url)
    assert (reconcile(asked, 1).refusal, ask_output(asked).batch) == ("", 3)
    restored = raised(4, OutputSegment("v0001", 1), V3)
    assert [row[2:] for row in held(warehouse)] == [("v0001", 0), ("v0001", 0), ("v0001", 1)]
    assert restored.last_batch() is None
    back = raised(5, V2)
    assert (back.last_batch(), len(held(warehouse))) == (1, 3)
    assert loss_of(back, "v0002", 1) == ""


def test_tables_are_compared_as_multisets(warehouse: Warehouse, first: TableWriter, raised: Open, write: Write) -> None:
    """A shadow equals the table if both have each row equally often, whatever batches wrote them; otherwise the
    comparison counts and shows the rows that one of them has more often.
    """
    shadow = raised(2, shadow="v0002")
    write(shadow, 0, ("a", 4), ("b", 2), ("a", 1))
    found = shadow.compare()
    assert (found.comparable, found.old_rows, found.new_rows) == (True, 4, 3)
    assert (found.only_old, found.only_new, found.differing) == (1, 0, 0)
    assert found.sample == (("customer='a', total=1", "", "2", "1"),)
    write(shadow, 1, ("a", 1))
    assert shadow.compare().sample == ()
    assert shadow.compare(may_differ=["customer", "total"]).comparable is False
    write(shadow, 2, ("z", 1))
    assert (shadow.compare().only_old, shadow.compare().only_new) == (0, 1)
    assert shadow.compare(may_differ=["customer"]).allowed == ("customer",)


def test_each_kind_of_table_reports_its_own_fences(warehouse: Warehouse, first: TableWriter, write: Write) -> None:
    """A database with a table of each kind reports one fence for each of them."""
    keyed = warehouse.writer("v0001", 4, table="others", query="others")
    keyed.raise_fence()
    found = {fence.output.rpartition("#")[2]: (fence.owner, fence.epoch) for fence in read_fences(warehouse.url)}
    assert found == {"totals": ("sales/totals", 1), "others": ("sales/others", 4)}


def test_only_a_table_without_a_key_adds_the_column_of_segments(
    warehouse: Warehouse, raised: Open, write: Write
) -> None:
    """A table with a key leaves the table of outputs unchanged, also for a role that does not own it; the first table
    without a key adds the column of the segments.
    """
    keyed = warehouse.writer("v0001", 1, table="others", query="others")
    keyed.raise_fence()
    columns = {column for row in warehouse.rows("SELECT * FROM streamkeeper_outputs") for column in row}
    assert len(warehouse.rows("SELECT * FROM streamkeeper_outputs")[0]) == 6, columns
    write(raised(1, V1), 0, ("a", 1))
    assert warehouse.rows("SELECT segments FROM streamkeeper_outputs WHERE output = 'totals'") == [("[]",)]
    write(keyed, 0, ("b", 2))
    assert warehouse.rows("SELECT segments FROM streamkeeper_outputs WHERE output = 'others'") == [(None,)]


def test_a_rebuild_may_give_the_rows_a_key(
    warehouse: Warehouse, first: TableWriter, raised: Open, write: Write
) -> None:
    """A rebuilt version with a key replaces a table without one, records no segments, and a rollback shows the table
    without a key again.
    """
    shadow = warehouse.writer("v0002", 2, shadow=True)
    shadow.raise_fence()
    write(shadow, 0, ("a", 5))
    warehouse.writer("v0002", 3, V2).raise_fence()
    assert warehouse.rows() == [("a", 5)]
    assert warehouse.rows("SELECT segments FROM streamkeeper_outputs WHERE output = 'totals'") == [(None,)]
    assert raised(4, V1).last_batch() == 3
    assert len(held(warehouse)) == 4


def test_an_existing_table_with_a_key_is_refused(warehouse: Warehouse, spark: SparkSession, raised: Open) -> None:
    """A table that has a key is refused in the rehearsal, because the key would refuse equal rows."""
    warehouse.execute(
        "CREATE TABLE totals (customer TEXT PRIMARY KEY, total BIGINT, _sk_version TEXT, _sk_batch BIGINT)"
    )
    with pytest.raises(OutputUnfit, match=r"it has the key \(customer\), but the rows of this output have no key"):
        AppendTableSink(warehouse.url, table="totals").rehearse(spark.createDataFrame([("a", 1)], SCHEMA))


def test_the_answer_of_a_database_that_is_down_refuses_a_restore(tmp_path: Any) -> None:
    """If the database of the table is missing, a restore is refused with that reason."""
    url = f"sqlite:///{tmp_path}/missing.db"
    asked = question_about(AppendTableSink(url, table="totals"), where=url)
    assert append_table.refuse_cut(asked, 0) == f"sqlite:////{str(tmp_path).lstrip('/')}/missing.db does not exist"
