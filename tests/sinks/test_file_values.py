"""Tests that files return the values and types that were written, in every format and with every partitioning."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks import file as file_module
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.file import FileSink, FileWriter, read_serving
from streamkeeper.sinks.file_schemas import read_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SCHEMAS = "_streamkeeper/schemas"
TEXTS = (
    *("007", "1e5", "true", "2024-01-01", "NaN", "null", "NULL", "", None, " ", " a ", "\t", "a\nb", "a\r\nb", "\r"),
    *('"', 'a"b', '""', "\\", "a\\", '\\"', "a,b", ",", "#c", "\\N", "ä€😀", "\u2028", "\ufeff", "\u0000", '" '),
)
MOMENT = datetime(2024, 11, 3, 5, 30, 0, 123_456, UTC)
NESTED = "tags array<string>, at struct<x:decimal(9,3),t:timestamp>, counts map<string,int>"


def writer_of(
    path: Path, version: str = "v0001", epoch: int = 1, *, spans: tuple[OutputSegment, ...] = (), **options: Any
) -> FileWriter:
    role = options.pop("role", WriterRole.SERVING)
    context = SinkContext(job="j", query="q", version=version, epoch=epoch, serving=spans, role=role)
    writer = FileSink(str(path), **options).open(context)
    writer.raise_fence()
    return writer


def values(spark: SparkSession) -> DataFrame:
    """Return a frame with awkward texts, numbers, times and a partition for each row."""
    schema = (
        "n long, text string, price decimal(30,20), ratio double, day date, at timestamp, local timestamp_ntz, p string"
    )
    local = datetime.fromisoformat("2024-03-10T02:30:00.000007")
    price = Decimal("0.12345678901234567890")
    rows = [
        (
            number,
            text,
            price,
            (float("nan"), float("inf"), -0.5)[number % 3],
            date(1500, 2, 3),
            MOMENT,
            local,
            f"0{number % 3}",
        )
        for number, text in enumerate(TEXTS)
    ]
    return spark.createDataFrame([*rows, (-1, "x", *[None] * 6)], schema).coalesce(1)


def as_told(frame: DataFrame, columns: list[str]) -> list[str]:
    return sorted(map(repr, frame.select(columns).collect()))


@pytest.mark.parametrize("partition_by", [[], ["p"], ["day", "p"]], ids=["flat", "one", "two"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "json", "csv"])
def test_every_format_returns_the_written_values_and_types(
    spark: SparkSession, tmp_path: Path, file_format: str, partition_by: list[str]
) -> None:
    """Every format and partitioning returns the written values and types.

    Negative control: without the recorded schema, text formats and partitioned files are read with guessed types, and
    rows differ.
    """
    frame = values(spark)
    writer = writer_of(tmp_path, format=file_format, partition_by=partition_by)
    writer.write(frame, 0)
    writer.write(frame.where("n < 0"), 1)
    wanted = as_told(frame.unionByName(frame.where("n < 0")), frame.columns)
    assert as_told(read_serving(spark, str(tmp_path)), frame.columns) == wanted
    shutil.rmtree(tmp_path / SCHEMAS)
    guessed = read_serving(spark, str(tmp_path))
    exact = not partition_by and file_format in ("parquet", "orc")
    same = set(frame.columns) == set(guessed.columns) and as_told(guessed, frame.columns) == wanted
    assert same is exact


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_readers_in_any_time_zone_get_the_same_moments_despite_path_brackets(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    """A reader in a different time zone gets the same moments from files and folder names, and the path ``out[1]`` does
    not match the folder ``out1``.
    """
    early = datetime(1800, 1, 1, 0, 0, 0, 1, UTC)
    frame = spark.createDataFrame([(1, MOMENT, MOMENT), (2, early, early)], "n long, at timestamp, p timestamp")
    other = writer_of(tmp_path / "out1", format=file_format, partition_by=["p"])
    other.write(frame, 0)
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        writer_of(tmp_path / "out[1]", format=file_format, partition_by=["p"]).write(frame, 0)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        found = as_told(read_serving(spark, str(tmp_path / "out[1]")), frame.columns)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found == as_told(frame, frame.columns)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "json"])
def test_nested_values_with_nulls_are_read_back_as_written(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    """Lists, structs and maps that contain NULLs are read back as they were written."""
    rows = [
        (["a", None, ""], (Decimal("1.500"), MOMENT), {"": 1}),
        (None, (None, None), {" ": 3}),
        (["007"], None, None),
    ]
    frame = spark.createDataFrame(rows, NESTED)
    writer_of(tmp_path, format=file_format).write(frame, 0)
    assert as_told(read_serving(spark, str(tmp_path)), frame.columns) == as_told(frame, frame.columns)


@pytest.mark.parametrize(
    ("file_format", "partition_by", "schema", "told"),
    [
        (
            "csv",
            [],
            "n long, tags array<string>",
            "column tags is array<string>, and CSV does not support nested values",
        ),
        ("csv", [], "n long, raw binary", "column raw is binary, and Spark writes bytes to CSV as text"),
        (
            "csv",
            [],
            "text string",
            "text is the only column of the CSV files. Spark writes a NULL in this column as an empty line",
        ),
        ("csv", ["p"], "text string, p string", "text is the only column"),
        ("json", [], "n long, m array<map<int,string>>", "JSON keys must be strings"),
        ("parquet", ["raw"], "n long, raw binary", "a folder cannot be named after bytes"),
        ("parquet", ["p"], "n long, p interval day to second", "a folder cannot be named after an interval"),
        ("orc", [], "n long, text string collate utf8_lcase", "cannot read strings with a collation from ORC"),
        ("json", [], "a long, A long", "columns a and A differ only in upper and lower case"),
    ],
)
def test_a_column_that_the_format_cannot_return_unchanged_is_refused(
    spark: SparkSession, tmp_path: Path, file_format: str, partition_by: list[str], schema: str, told: str
) -> None:
    """A column that the format cannot return unchanged is refused by a rehearsal and by the writer, before any batch is
    written.
    """
    frame = spark.createDataFrame([], schema)
    writer = writer_of(tmp_path, format=file_format, partition_by=partition_by)
    for write in (FileSink(str(tmp_path), file_format, partition_by).rehearse, lambda batch: writer.write(batch, 0)):
        with pytest.raises(InvalidInput, match=told):
            write(frame)
    assert not (tmp_path / "v0001").exists()


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_batches_without_a_schema_are_read_by_a_later_recorded_schema(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    """Batches that an older Streamkeeper wrote without a schema are read with the types of the schema that a later
    batch recorded.
    """
    rows = spark.createDataFrame([("007", MOMENT.replace(microsecond=0)), (None, None)], "code string, at timestamp")
    with monkeypatch.context() as before:
        before.setattr(file_module, "write_options", lambda _: {})
        before.setattr(file_module, "record_schema", lambda *_: None)
        writer_of(tmp_path, format=file_format).write(rows, 0)
    assert read_schemas(str(tmp_path), "v0001") == []
    writer_of(tmp_path, epoch=2, format=file_format).write(rows, 1)
    found = read_serving(spark, str(tmp_path))
    assert as_told(found, rows.columns) == as_told(rows.union(rows), rows.columns)


def test_json_batches_with_added_or_retyped_columns_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    """JSON accepts every change of columns: a missing column is read as NULL, and one with two types as a string."""
    writer = writer_of(tmp_path, format="json")
    writer.write(spark.createDataFrame([(1, 5, "gone")], "n long, code int, old string"), 0)
    writer.write(spark.createDataFrame([(2, "05", "new")], "n long, code string, more string"), 1)
    found = read_serving(spark, str(tmp_path)).select("n", "code", "old", "more").orderBy("n").collect()
    assert [tuple(row) for row in found] == [(1, "5", "gone", None), (2, "05", None, "new")]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "json"])
def test_a_nested_part_that_becomes_nullable_does_not_change_the_column_type(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    """A list element, map value or struct field that becomes nullable does not change the type of its column."""
    frame = spark.createDataFrame(
        [(["a"], {"k": 1}, (5,))], "tags array<string>, counts map<string,int>, at struct<x:int>"
    )
    never = frame.selectExpr("array('a') AS tags", "map('k', 1) AS counts", "named_struct('x', 5) AS at")
    writer = writer_of(tmp_path, format=file_format)
    writer.write(never, 0)
    writer.write(frame, 1)
    found = read_serving(spark, str(tmp_path))
    assert dict(found.dtypes) == dict(frame.dtypes)
    assert as_told(found, frame.columns) == as_told(frame.union(frame), frame.columns)


def test_json_batches_with_added_fields_or_wider_numbers_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    """JSON batches are read together when a struct gains a field or an int becomes a bigint, even beside a column named
    ``_corrupt_record``.
    """
    writer = writer_of(tmp_path, format="json")
    writer.write(spark.createDataFrame([((1,), 7, "x")], "at struct<x:int>, n int, _corrupt_record string"), 0)
    writer.write(
        spark.createDataFrame([((2, "b"), 2**40, "y")], "at struct<x:int,y:string>, n long, _corrupt_record string"), 1
    )
    found = read_serving(spark, str(tmp_path)).select("at.x", "at.y", "n", "_corrupt_record").orderBy("x").collect()
    assert [tuple(row) for row in found] == [(1, None, 7, "x"), (2, "b", 2**40, "y")]


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["flat", "partitioned"])
def test_csv_of_other_columns_is_refused_before_it_is_written(
    spark: SparkSession, tmp_path: Path, partition_by: list[str]
) -> None:
    """A CSV batch with different columns is refused before it is written, because CSV files do not record their columns
    and values would be read in the wrong ones.
    """
    writer = writer_of(tmp_path, format="csv", partition_by=partition_by)
    writer.write(spark.createDataFrame([("08", 2, "a")], "code string, n long, p string"), 0)
    with pytest.raises(InvalidInput, match="have code string, n long, p string, but the batch has n long, code string"):
        writer.write(spark.createDataFrame([(2, "08", "a")], "n long, code string, p string"), 1)
    assert writer.last_batch() == 0


def test_a_string_column_in_one_version_is_a_string_in_all(spark: SparkSession, tmp_path: Path) -> None:
    """If one version has a column as a string and an earlier version as a number, readers of both get a string."""
    first = writer_of(tmp_path)
    first.write(spark.createDataFrame([(1, 5)], "n long, code int"), 0)
    spans = (OutputSegment("v0001", 0), OutputSegment("v0002"))
    writer_of(tmp_path, "v0002", 2, spans=spans).write(spark.createDataFrame([(2, "a05")], "n long, code string"), 0)
    assert as_told(read_serving(spark, str(tmp_path)), ["n", "code"]) == ["Row(n=1, code='5')", "Row(n=2, code='a05')"]


def test_versions_of_several_formats_are_one_output(spark: SparkSession, tmp_path: Path) -> None:
    """Versions of different formats are read as one output, each by its own schema and up to the batch of its
    handoff.
    """
    rows = spark.createDataFrame([(1, "007"), (2, "08")], "n long, kind string")
    first = writer_of(tmp_path, format="csv")
    first.write(rows.where("n = 1"), 0)
    first.write(rows, 1)
    spans = (OutputSegment("v0001", 0), OutputSegment("v0002"))
    writer_of(tmp_path, "v0002", 2, spans=spans, format="orc", partition_by=["kind"]).write(rows.where("n = 2"), 0)
    assert as_told(read_serving(spark, str(tmp_path)), ["n", "kind"]) == as_told(rows, ["n", "kind"])


def test_a_schema_is_recorded_once_and_removed_with_its_discarded_shadow(spark: SparkSession, tmp_path: Path) -> None:
    """A replayed batch and a new writer record no second schema, a changed schema adds one, and discarding a shadow
    removes its schemas.
    """
    rows = spark.createDataFrame([(1, "a")], "n long, kind string")
    for epoch, batch in ((1, 0), (1, 0), (2, 1)):
        writer_of(tmp_path, epoch=epoch).write(rows, batch)
    assert [(each.batch, each.epoch) for each in read_schemas(str(tmp_path), "v0001")] == [(0, 1)]
    writer_of(tmp_path, epoch=3).write(rows.drop("kind"), 2)
    assert [(each.batch, each.epoch) for each in read_schemas(str(tmp_path), "v0001")] == [(0, 1), (2, 3)]
    shadow = writer_of(tmp_path, "v0002", 4, role=WriterRole.SHADOW)
    shadow.write(rows, 0)
    assert len(read_schemas(str(tmp_path), "v0002")) == 1
    shadow.discard()
    assert read_schemas(str(tmp_path), "v0002") == []


def test_a_changed_watermark_delay_records_no_new_schema(spark: SparkSession, tmp_path: Path) -> None:
    """A changed watermark delay does not record a new schema, because it does not affect the files."""
    write: Callable[[str, int], None] = lambda delay, batch: writer_of(tmp_path).write(  # noqa: E731
        spark.createDataFrame([(1, MOMENT)], "n long, at timestamp").withWatermark("at", delay), batch
    )
    write("1 minute", 0)
    write("2 minutes", 1)
    assert len(read_schemas(str(tmp_path), "v0001")) == 1
