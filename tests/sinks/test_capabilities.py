"""Tests every kind of sink against its declared capabilities, with real Spark, files and tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from pyspark.sql import functions as f
from sqlalchemy import Engine, event

from harness.kafka_broker import KafkaBroker
from streamkeeper import (
    AppendTableSink,
    BatchContext,
    DeltaSink,
    FileSink,
    ForeachBatch,
    KafkaSink,
    TableSink,
    read_serving,
)
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.webhdfs import WebHdfs
from streamkeeper.errors import StreamkeeperError
from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.model.manifests.sink_capabilities import ColumnChange, Numbering, Reconciliation, SinkCapabilities
from streamkeeper.sinks import delta_commit, file, file_serving, kafka
from streamkeeper.sinks.batch_headers import HEADERS, TASK_CLASS
from streamkeeper.sinks.delta_session import DeltaSession
from streamkeeper.sinks.delta_writer import DeltaWriter
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from tests.contracts.sink_contract import SCHEMA, SinkContract
from tests.contracts.sink_kill_contract import SinkKillContract, before_each_file_write
from tests.contracts.sink_rows_contract import SinkRowsContract
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Batches:
    """The batches that a query passes to a sink."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root / "held"
        self.root.mkdir()
        self._spark = spark

    def batch(self, row: tuple[str | None, int]) -> DataFrame:
        return self._spark.createDataFrame([row], SCHEMA)


class Table(Batches):
    """A table in a SQLite file."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(root, spark)
        self.where = f"sqlite:///{self.root}/warehouse.db"
        self.sink = TableSink(self.where, table="totals", key=["customer"])
        self.elsewhere = TableSink(self.where, table="others", key=["customer"])

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the rows as the database's own client reads them; none without a table."""
        reader = Warehouse(self.where)
        try:
            there = "totals" in reader.tables and reader.rows("SELECT customer, total FROM totals ORDER BY customer")
            return [(name, total) for name, total in there or ()]
        finally:
            reader.close()

    def before_each_write(self, act: Callable[[], None]) -> None:
        """Call ``act`` before each statement that is not a query, and before each commit."""

        def see(connection: object, cursor: object, statement: str, *_: object) -> None:
            if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
                act()

        event.listen(Engine, "before_cursor_execute", see)
        event.listen(Engine, "commit", lambda _: act())


class TableRows(Table):
    """A table without a key in a SQLite file."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(root, spark)
        self.sink = AppendTableSink(self.where, table="totals")
        self.elsewhere = AppendTableSink(self.where, table="others")

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the rows in order; SQLite puts a missing name first, and the contract expects it last."""
        return sorted(super().rows(), key=lambda row: (row[0] or "~", row[1]))


class Files(Batches):
    """Files, Parquet by default, which are read as the README describes."""

    def __init__(self, root: Path, spark: SparkSession, form: str = "parquet") -> None:
        super().__init__(root, spark)
        self.where = str(self.root / "out")
        self.sink = FileSink(self.where, format=form)
        self.elsewhere = FileSink(str(self.root / "others"))

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the rows that the sink's log lists; none before the first batch."""
        if not any("/_spark_metadata/" in path for path in tree_at(self.where).look().files):
            return []
        rows = read_serving(self._spark, self.where).select("customer", "total").collect()
        return sorted(((row.customer, row.total) for row in rows), key=lambda row: row[0] or "~")

    def before_each_write(self, act: Callable[[], None]) -> None:
        """Call ``act`` before each write by Python, and before and after each write by Spark."""
        self.before_each_write_by_python(act)
        sink_of = file._spark_sink

        class Seen:
            def __init__(self, sink: Any) -> None:
                self._sink = sink

            def addBatch(self, *args: Any) -> None:  # noqa: N802 - the JVM's name
                act()
                self._sink.addBatch(*args)
                act()

        file._spark_sink = lambda *args: Seen(sink_of(*args))

    def before_each_write_by_python(self, act: Callable[[], None]) -> None:
        before_each_file_write(self.root, act)


class PartitionedFiles(Files):
    """A file output with one folder for each customer."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(root, spark)
        self.sink = FileSink(self.where, partition_by=["customer"])


class RemoteFiles(Files):
    """Files in a bucket or in HDFS."""

    def __init__(self, root: Path, spark: SparkSession, folder: str, **sink: Any) -> None:
        super().__init__(root, spark)
        self.where = f"{folder}/out"
        self.sink = FileSink(self.where, **sink)
        self.elsewhere = FileSink(f"{folder}/others")

    def before_each_write_by_python(self, act: Callable[[], None]) -> None:
        for owner, names in ((S3Tree, ("create", "delete")), (WebHdfs, ("create", "rename", "delete"))):
            for name in names:
                before_each_call(owner, name, act)


class Delta(Batches):
    """A Delta table with a key."""

    key: tuple[str, ...] = ("customer",)

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(root, spark)
        self.where = str(self.root / "totals")
        self.sink = DeltaSink(self.where, key=self.key)
        self.elsewhere = DeltaSink(str(self.root / "others"), key=self.key)

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the rows as any reader of Delta sees them; none before the first batch."""
        session = DeltaSession(self._spark)
        if not any(path.endswith(".parquet") for path in tree_at(self.where).look().files):
            return []
        rows = session.spark.read.format("delta").load(self.where).select("customer", "total").collect()
        return sorted(((row.customer, row.total) for row in rows), key=lambda row: row[0] or "~")

    def before_each_write(self, act: Callable[[], None]) -> None:
        """Call ``act`` before and after each commit to the table or to a shadow table."""

        def around(owner: Any, name: str) -> None:
            do = getattr(owner, name)

            def acting(*args: Any, **named: Any) -> None:
                act()
                do(*args, **named)
                act()

            setattr(owner, name, acting)

        around(delta_commit.DeltaTable, "commit")
        around(DeltaWriter, "_save")
        around(DeltaWriter, "_merge")


def before_each_call(owner: type[Any], name: str, act: Callable[[], None]) -> None:
    """Make this process call ``act`` before each call of a method."""
    do = getattr(owner, name)

    def acting(*args: Any, **named: Any) -> Any:
        act()
        return do(*args, **named)

    setattr(owner, name, acting)


class DeltaOnS3(Delta):
    """A Delta table with a key in a bucket."""

    def __init__(self, root: Path, spark: SparkSession, bucket: str) -> None:
        super().__init__(root, spark)
        self.where = f"{bucket}/totals"
        self.sink = DeltaSink(self.where, key=self.key)
        self.elsewhere = DeltaSink(f"{bucket}/others", key=self.key)


class DeltaRows(Delta):
    """A Delta table whose rows have no key."""

    key = ()


class Function(Batches):
    """A function that appends the rows of its batches to a file."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(root, spark)
        self.where, self._file = "", self.root / "rows"
        self.sink = self._append_to(self._file)
        self.elsewhere = self._append_to(self.root / "others")

    def _append_to(self, kept: Path) -> ForeachBatch:
        def append(batch: DataFrame, _: BatchContext) -> None:
            with kept.open("a") as stream:
                stream.writelines(f"{row.customer or ''} {row.total}\n" for row in batch.collect())

        return ForeachBatch(append)

    def rows(self) -> list[tuple[str | None, int]]:
        """Return all rows of the file."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        rows = ((name or None, int(total)) for name, _, total in (line.partition(" ") for line in lines))
        return sorted(rows, key=lambda row: row[0] or "~")

    def before_each_write(self, act: Callable[[], None]) -> None:
        """Call ``act`` before the function opens its file."""
        before_each_file_write(self.root, act)


class Topic(Batches):
    """A Kafka topic; the content of a record is a row as JSON, and its key is the customer."""

    def __init__(self, root: Path, spark: SparkSession, broker: KafkaBroker) -> None:
        super().__init__(root, spark)
        load_task_class(spark, TASK_CLASS)
        self._broker, self._topic = broker, broker.create_topic()
        self.where = broker.servers
        self.sink = KafkaSink(broker.servers, self._topic)
        self.elsewhere = KafkaSink(broker.servers, broker.create_topic())

    def batch(self, row: tuple[str | None, int]) -> DataFrame:
        return super().batch(row).selectExpr("customer AS key", "to_json(struct(*)) AS value")

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the rows of all records, without the filter of ``newest_attempts``."""
        found = map(json.loads, self._broker.read(self._topic))
        return sorted(((row.get("customer"), row["total"]) for row in found), key=lambda row: row[0] or "~")

    def before_each_write(self, act: Callable[[], None]) -> None:
        """Call ``act`` before and after Spark sends a batch."""
        do = kafka.send

        def acting(*args: Any) -> None:
            act()
            do(*args)
            act()

        kafka.send = acting


class TestTable(SinkContract, SinkRowsContract, SinkKillContract):
    """A SQLite table keeps the sink contracts; what differs in PostgreSQL is tested in ``test_table_postgres``."""

    fewest_kills = 3

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> Table:
        return Table(tmp_path, spark)


class TestTableRows(SinkContract, SinkRowsContract, SinkKillContract):
    """A SQLite table without a key keeps the sink contracts; what differs in PostgreSQL is tested in
    ``test_append_table``.
    """

    fewest_kills = 3

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> TableRows:
        return TableRows(tmp_path, spark)


class TestFiles(SinkContract, SinkKillContract):
    """A file output in a local directory keeps the sink contracts."""

    fewest_kills = 3

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> Files:
        return Files(tmp_path, spark)


class TestRowsOfFiles(SinkRowsContract):
    """A file output with a partition column, which decides the folder of each row, keeps the contract on rows."""

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> PartitionedFiles:
        return PartitionedFiles(tmp_path, spark)


@pytest.mark.storage
@pytest.mark.s3
class TestFilesOnS3(SinkContract, SinkKillContract):
    """A file output in a bucket keeps the sink contracts; a cutover is a single request there."""

    fewest_kills = 1

    @pytest.fixture
    def place(self, tmp_path: Path, files_spark_on_s3: SparkSession, s3_url: str) -> RemoteFiles:
        return RemoteFiles(tmp_path, files_spark_on_s3, s3_url.replace("s3:", "s3a:"))


@pytest.mark.storage
@pytest.mark.s3
class TestRowsOfFilesOnS3(SinkRowsContract):
    """A file output in a bucket with a partition column keeps the contract on rows."""

    @pytest.fixture
    def place(self, tmp_path: Path, files_spark_on_s3: SparkSession, s3_url: str) -> RemoteFiles:
        return RemoteFiles(tmp_path, files_spark_on_s3, s3_url.replace("s3:", "s3a:"), partition_by=["customer"])


@pytest.mark.storage
@pytest.mark.hdfs
class TestFilesInHdfs(SinkContract, SinkKillContract):
    """A file output in HDFS keeps the sink contracts; a cutover creates a draft and renames it."""

    fewest_kills = 2

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession, hdfs_url: str, monkeypatch: pytest.MonkeyPatch) -> RemoteFiles:
        monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", f"{hdfs_url}/checkpoints")
        return RemoteFiles(tmp_path, spark, hdfs_url)


class TestDelta(SinkContract, SinkRowsContract):
    """A Delta table with a key keeps the sink contracts."""

    @pytest.fixture
    def place(self, tmp_path: Path, delta_spark: SparkSession) -> Delta:
        return Delta(tmp_path, delta_spark)


@pytest.mark.storage
class TestKilledDelta(SinkKillContract):
    """A Delta table with a key keeps the contract on killed writers."""

    fewest_kills = 2

    @pytest.fixture
    def place(self, tmp_path: Path, delta_spark: SparkSession) -> Delta:
        return Delta(tmp_path, delta_spark)


@pytest.mark.storage
@pytest.mark.s3
class TestDeltaOnS3(SinkContract, SinkRowsContract, SinkKillContract):
    """A Delta table with a key in a bucket keeps the sink contracts."""

    fewest_kills = 2

    @pytest.fixture
    def place(self, tmp_path: Path, delta_spark_on_s3: SparkSession, s3_url: str) -> DeltaOnS3:
        return DeltaOnS3(tmp_path, delta_spark_on_s3, s3_url.replace("s3:", "s3a:"))


@pytest.mark.storage
class TestDeltaRows(SinkContract, SinkKillContract):
    """A Delta table without a key keeps the sink contracts."""

    fewest_kills = 2

    @pytest.fixture
    def place(self, tmp_path: Path, delta_spark: SparkSession) -> DeltaRows:
        return DeltaRows(tmp_path, delta_spark)


class TestFunction(SinkContract, SinkRowsContract, SinkKillContract):
    """A function that the job's author provides keeps the sink contracts."""

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> Function:
        return Function(tmp_path, spark)


@pytest.mark.kafka
class TestTopic(SinkContract, SinkRowsContract, SinkKillContract):
    """A Kafka topic keeps the sink contracts."""

    changes = {
        ColumnChange.ADDED: lambda rows: rows.withColumn("partition", f.lit(0)),
        ColumnChange.REMOVED: lambda rows: rows.drop("headers"),
        ColumnChange.REORDERED: lambda rows: rows.select("value", "headers", "key"),
        ColumnChange.RETYPED: lambda rows: rows.withColumn("key", f.col("key").cast("binary")),
        ColumnChange.NULLABLE: lambda rows: rows.withColumn("key", f.lit(None).cast("string")),
    }

    def noted(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("headers", f.expr(f"CAST(array() AS {HEADERS})"))

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker) -> Topic:
        return Topic(tmp_path, spark, kafka)


@pytest.mark.parametrize("form", ["json", "orc"])
@pytest.mark.parametrize("change", ColumnChange)
def test_json_and_orc_files_accept_the_declared_changes_of_columns(
    tmp_path: Path, spark: SparkSession, form: str, change: ColumnChange
) -> None:
    """JSON and ORC files accept the declared changes of columns, as Parquet files do."""
    SinkRowsContract().test_accepted_column_changes_keep_all_rows_of_the_version_readable(
        Files(tmp_path, spark, form), capabilities_of("file"), change
    )


WRONG: list[tuple[type[Any], str, Any, Callable[..., None]]] = [
    (Table, "takes_again", "", SinkContract.test_a_replayed_batch_has_the_declared_effect),
    (Function, "takes_again", "by a key", SinkContract.test_a_replayed_batch_has_the_declared_effect),
    (Table, "fences", False, SinkContract.test_a_writer_with_a_superseded_epoch_cannot_write_to_a_fenced_output),
    (Function, "fences", True, SinkContract.test_a_writer_with_a_superseded_epoch_cannot_write_to_a_fenced_output),
    (Files, "knows_batches", False, SinkContract.test_the_newest_batch_is_reported_by_another_writer_and_a_lookup),
    (Function, "knows_batches", True, SinkContract.test_the_newest_batch_is_reported_by_another_writer_and_a_lookup),
    (
        Table,
        "server_options",
        ("hosts",),
        SinkContract.test_options_that_name_servers_or_need_an_approval_are_in_the_description,
    ),
    (
        Table,
        "approved_options",
        {"hosts": "batches would be sent to other hosts"},
        SinkContract.test_options_that_name_servers_or_need_an_approval_are_in_the_description,
    ),
    (Files, "shadows", False, SinkContract.test_shadow_rows_are_invisible_to_readers_and_removed_on_discard),
    (Table, "delivers", True, SinkContract.test_an_output_that_delivers_rows_passes_each_written_row_on),
    (Function, "delivers", True, SinkContract.test_shadow_rows_are_invisible_to_readers_and_removed_on_discard),
    (Function, "shadows", True, SinkContract.test_comparing_a_shadow_with_the_output_reports_equal_or_different_rows),
    (
        Table,
        "reconciles",
        Reconciliation.CUT_BACK,
        SinkContract.test_a_restore_treats_later_batches_of_the_old_version_as_declared,
    ),
    (
        TableRows,
        "reconciles",
        Reconciliation.REPLAY,
        SinkContract.test_a_restore_treats_later_batches_of_the_old_version_as_declared,
    ),
    (
        Files,
        "reconciles",
        Reconciliation.REPLAY,
        SinkContract.test_a_restore_treats_later_batches_of_the_old_version_as_declared,
    ),
    (
        Function,
        "reconciles",
        Reconciliation.REPLAY,
        SinkContract.test_a_restore_treats_later_batches_of_the_old_version_as_declared,
    ),
    (Table, "one_place", False, SinkRowsContract.test_an_added_column_is_refused_if_both_versions_share_one_place),
    (Files, "one_place", True, SinkRowsContract.test_an_added_column_is_refused_if_both_versions_share_one_place),
    (Table, "names_place", False, SinkRowsContract.test_outputs_of_two_places_differ_in_identity_as_declared),
    (Function, "names_place", True, SinkRowsContract.test_outputs_of_two_places_differ_in_identity_as_declared),
    (Table, "of_one_machine", {}, SinkRowsContract.test_a_sink_on_a_local_disk_is_tied_to_one_machine),
    (Files, "of_one_machine", {}, SinkRowsContract.test_a_sink_on_a_local_disk_is_tied_to_one_machine),
    (Files, "read_as", "", SinkRowsContract.test_the_output_is_readable_as_a_stream_by_the_declared_source_only),
    (Table, "read_as", "file", SinkRowsContract.test_the_output_is_readable_as_a_stream_by_the_declared_source_only),
    (Files, "log_folder", "", SinkRowsContract.test_a_log_with_one_file_per_batch_is_in_the_declared_folder),
    (Table, "log_folder", "_delta_log", SinkRowsContract.test_a_log_with_one_file_per_batch_is_in_the_declared_folder),
    (
        Function,
        "not_from_elsewhere",
        "",
        SinkRowsContract.test_a_sink_that_permits_writes_from_surviving_executors_fences,
    ),
    (
        Table,
        "columns",
        {"": frozenset({ColumnChange.ADDED})},
        SinkRowsContract.test_accepted_column_changes_keep_all_rows_of_the_version_readable,
    ),
    (Table, "placed_by", "", SinkRowsContract.test_placing_columns_are_in_the_declared_option_only),
    (Table, "placed_by", "partition_by", SinkRowsContract.test_placing_columns_are_in_the_declared_option_only),
    (
        Function,
        "placing_columns",
        ("customer",),
        SinkRowsContract.test_placing_columns_with_fixed_names_leave_no_place_for_other_columns,
    ),
    (Table, "needs_place", False, SinkRowsContract.test_a_null_in_a_placing_column_is_refused_if_required),
    (PartitionedFiles, "needs_place", True, SinkRowsContract.test_a_null_in_a_placing_column_is_refused_if_required),
    (Table, "complete_replaces", False, SinkRowsContract.test_a_batch_in_complete_mode_replaces_all_rows_as_declared),
    (Function, "complete_replaces", True, SinkRowsContract.test_a_batch_in_complete_mode_replaces_all_rows_as_declared),
]
"""Each entry: the kind of output, a capability, a false value for it, and the contract's test that finds it."""


@pytest.mark.parametrize(
    ("of", "capability", "value", "test"), WRONG, ids=[f"{of.__name__}-{name}-{value}" for of, name, value, _ in WRONG]
)
def test_the_suite_sees_a_wrong_declaration(
    tmp_path: Path, spark: SparkSession, of: type[Any], capability: str, value: object, test: Callable[..., None]
) -> None:
    """Negative control: for each capability that is declared with a false value, the contract's test against the real
    output fails.
    """
    place, suite = of(tmp_path, spark), SinkRowsContract() if "Rows" in test.__qualname__ else SinkContract()
    wrong = structs.replace(capabilities_of(place.sink.kind), **{capability: value})
    change = (ColumnChange.ADDED,) if capability == "columns" else ()
    with pytest.raises((AssertionError, pytest.fail.Exception, StreamkeeperError)):
        test(suite, place, wrong, *change)


def test_the_suite_detects_a_false_declaration_of_batch_numbers_per_version(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Negative control: an output that keeps one newest batch number for all versions, but is declared to number each
    version anew, loses the first rows of the next version, and the contract's test fails.
    """
    newest = -1

    def append_newer(batch: DataFrame, context: BatchContext) -> None:
        nonlocal newest
        if context.batch_id > newest:
            newest = context.batch_id
            place.append(batch, context)

    place = Function(tmp_path, spark)
    place.append, place.sink = place.sink.function, ForeachBatch(append_newer)  # type: ignore[attr-defined]
    declared = capabilities_of("foreach")
    with pytest.raises(AssertionError):
        SinkContract().test_readers_see_the_rows_of_both_versions_after_a_handoff(
            place, structs.replace(declared, numbering=Numbering.REBASE)
        )


def test_the_suite_sees_a_batch_of_two_writes(tmp_path: Path, spark: SparkSession) -> None:
    """Negative control: an output that writes rows and their batch number in two writes duplicates the rows after a
    kill between them, and the contract's test fails.
    """
    place = Function(tmp_path, spark)
    append, numbers = place.sink.function, tmp_path / "held" / "numbers"
    numbers.touch()

    def append_new(batch: DataFrame, context: BatchContext) -> None:
        if str(context.batch_id) not in numbers.read_text().split():
            append(batch, context)
            with numbers.open("a") as stream:
                stream.write(f"{context.batch_id}\n")

    place.sink = ForeachBatch(append_new)
    declared = structs.replace(capabilities_of("foreach"), takes_again="by their number")
    with pytest.raises(AssertionError):
        SinkKillContract().test_a_kill_between_two_writes_leaves_a_batch_complete_or_absent(place, declared)


def test_the_suite_sees_a_cutover_of_two_writes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: an epoch file that is created empty and filled afterwards cannot be read after a kill between
    the two writes, and the contract's test fails.
    """

    def create_in_two(folder: LocalTree, name: str, content: bytes) -> bool:
        folder.root.mkdir(parents=True, exist_ok=True)
        (folder.root / name).touch()
        (folder.root / name).write_bytes(content)
        return True

    monkeypatch.setattr(file_serving, "create_once", create_in_two)
    with pytest.raises(StreamkeeperError):
        SinkKillContract().test_a_kill_during_a_cutover_leaves_one_output_complete(
            Files(tmp_path, spark), capabilities_of("file")
        )


def test_every_capability_has_a_wrong_declaration_that_is_seen() -> None:
    """Every capability has a false declaration that the contract's tests find, except ``place``,
    ``read_once_by``, ``receiver`` and ``result_of``, which are texts for people.
    """
    seen = {name for _, name, _, _ in WRONG} | {"numbering"}
    assert set(SinkCapabilities.__struct_fields__) - seen == {"place", "read_once_by", "receiver", "result_of"}
