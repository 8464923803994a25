"""Tests the comparison before a cutover, which measures how far the rebuilt output equals the serving one, for tables
and files.
"""

from __future__ import annotations

import re
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.comparison import named_row
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.file import FileSink, FileWriter
from streamkeeper.sinks.table_writer import TableWriter
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "customer string, total long"


@pytest.fixture
def tables(spark: SparkSession, warehouse: Warehouse) -> Any:
    """A function that writes v0001 at batch 4 and v0002 in shadow at batch 1, and returns the shadow's writer."""

    def write(
        old: list[tuple[Any, ...]],
        new: list[tuple[Any, ...]],
        schema: str = SCHEMA,
        old_schema: str = SCHEMA,
        **options: Any,
    ) -> Any:
        serving = warehouse.writer("v0001", 1)
        serving.raise_fence()
        serving.write(spark.createDataFrame(old, old_schema), 4)
        shadow = warehouse.writer("v0002", 2, shadow=True, **options)
        shadow.raise_fence()
        shadow.write(spark.createDataFrame(new, schema), 1)
        return shadow

    return write


def test_equal_tables_are_reported_as_equal(tables: Any) -> None:
    """Two tables with the same rows, NULL values included, are reported as equal, together with the newest batch of
    each.
    """
    compared = tables([("a", 1), ("b", None)], [("b", None), ("a", 1)]).compare()
    assert compared.comparable
    assert (compared.old_rows, compared.new_rows) == (2, 2)
    assert (compared.only_old, compared.only_new, compared.differing, compared.sample) == (0, 0, 0, ())
    assert (compared.old_batch, compared.new_batch) == (4, 1)


def test_every_kind_of_difference_is_counted_and_shown(tables: Any) -> None:
    """A comparison counts and shows rows that only one table has and rows whose values differ, NULL values included."""
    compared = tables([("a", 1), ("b", 2), ("c", None), ("d", 4)], [("b", 20), ("c", 3), ("d", 4), ("e", 5)]).compare()
    assert (compared.only_old, compared.only_new, compared.differing) == (1, 1, 2)
    assert sorted(compared.sample) == [
        ("customer='a'", "", "there", "missing"),
        ("customer='b'", "total", "2", "20"),
        ("customer='c'", "total", "NULL", "3"),
        ("customer='e'", "", "missing", "there"),
    ]
    assert from_json(to_json(compared), OutputComparison, where="its driver's status") == compared


def test_a_difference_in_a_column_that_may_differ_is_counted_but_accepted(tables: Any, warehouse: Warehouse) -> None:
    """A difference in a column that may differ is counted for that column but makes no row a differing one; it is in
    the sample only if nothing else differs.
    """
    schema = "customer string, total long, largest long"
    serving = [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]
    shadow = tables(serving, [("a", 1, 11), ("b", 2, 21), ("c", 3, 30)], schema, old_schema=schema)
    strict, told = shadow.compare(), shadow.compare(("largest",))
    assert (strict.differing, strict.columns, strict.allowed) == (2, {"largest": 2}, ())
    assert strict.exceeds(0, 0) == "2 of 3 common rows differ (largest 2)"
    assert (told.differing, told.columns, told.allowed) == (0, {"largest": 2}, ("largest",))
    assert told.exceeds(0, 0) == ""
    assert told.sentence == "3 rows and 3: the same, apart from largest (2), which may differ"
    assert sorted(told.sample)[0] == ("customer='a'", "largest", "10", "11")
    warehouse.execute("UPDATE totals__v0002 SET total = 5 WHERE customer = 'a'")
    both = shadow.compare(("largest",))
    assert (both.differing, both.columns) == (1, {"total": 1, "largest": 2})
    assert both.sample == (("customer='a'", "total", "1", "5"),)


def test_rows_that_only_the_new_table_has_exceed_a_limit_of_zero(tables: Any) -> None:
    """Rows that only the new table has exceed a limit of 0, because over the same input there should be none, for
    example if a key is newly distinguished by case.
    """
    compared = tables([("a", 1)], [("a", 1), ("A", 1)]).compare(("total",))
    assert compared.exceeds(0, 0) == "1 rows of the new output are not in the current output, which has 1"
    assert compared.exceeds(0, 1) == ""


def test_the_sample_of_differing_rows_is_limited_to_ten(tables: Any) -> None:
    """Of 40 differing rows all are counted, but only ten are in the sample."""
    compared = tables([(f"c{n}", n) for n in range(40)], [(f"c{n}", n + 1) for n in range(40)]).compare()
    assert (compared.differing, len(compared.sample)) == (40, 10)


def test_columns_of_one_side_or_of_different_types_prevent_equality(tables: Any) -> None:
    """A column that exists on one side only or has a different type is reported as not compared and prevents equality,
    unless it is declared as one that may differ.
    """
    schema = "customer string, total double, shop string"
    shadow = tables([("a", 1)], [("a", 2.0, "x")], schema)
    compared = shadow.compare()
    assert (compared.comparable, compared.old_rows, compared.differing) == (True, 1, 0)
    assert re.fullmatch(
        r"not compared: shop \(it is TEXT, it was missing\), total \(it is DOUBLE.*, it was BIGINT\)",
        compared.exceeds(0, 0),
    )
    assert compared.exceeds(0, 1) == ""
    assert compared.sentence == f"1 rows and 1: the same; {compared.exceeds(0, 0)}"
    assert shadow.compare(("shop", "total")).exceeds(0, 0) == ""


def test_another_key_cannot_be_compared(tables: Any) -> None:
    """Tables with different keys are not comparable: the reason names the other key, and row counts and batches are
    still reported.
    """
    compared = tables([("a", 1)], [("a", 1), ("a", 2)], key=("customer", "total")).compare()
    assert not compared.comparable
    assert "total" in compared.why
    assert (compared.old_rows, compared.new_rows, compared.new_batch) == (1, 2, 1)


def test_a_shadow_without_a_table_cannot_be_compared(warehouse: Warehouse) -> None:
    """A shadow without a table, before its first fence or its first batch, is not comparable, and the reason names the
    missing tables.
    """
    shadow = warehouse.writer("v0002", 2, shadow=True)
    assert not shadow.compare().comparable
    shadow.raise_fence()
    assert shadow.compare().why == "there is no table totals, totals__v0002 yet"


def test_both_tables_are_read_as_of_one_moment(
    spark: SparkSession, warehouse: Warehouse, tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison reads both tables as of one moment: it neither waits for a batch that is written at the same time
    nor sees a part of it.
    """
    shadow = tables([("a", 1)], [("a", 1)])
    serving = warehouse.writer("v0001", 1)
    real = TableWriter._is_known

    def look(writer: TableWriter, connection: Any) -> bool:
        known = real(writer, connection)
        if writer is shadow:
            connection.exec_driver_sql("SELECT count(*) FROM totals").all()
            writing = threading.Thread(target=serving.write, args=(spark.createDataFrame([("b", 2)], SCHEMA), 5))
            writing.start()
            writing.join(30)
            assert not writing.is_alive()
        return known

    monkeypatch.setattr(TableWriter, "_is_known", look)
    compared = shadow.compare()
    assert (compared.old_rows, compared.only_old, compared.old_batch) == (1, 0, 4)
    assert warehouse.rows() == [("a", 1), ("b", 2)]


class Files:
    """A file output with its checkpoint versions."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.epoch = spark, root, 0

    def writer(self, version: str, *serving: OutputSegment, shadow: bool = False, **options: Any) -> FileWriter:
        self.epoch += 1
        role = WriterRole.SHADOW if shadow else WriterRole.SERVING
        context = SinkContext(job="j", query="q", version=version, epoch=self.epoch, role=role, serving=serving)
        writer = FileSink(str(self.root), **options).open(context)
        writer.raise_fence()
        return writer

    def write(self, writer: FileWriter, *batches: list[tuple[Any, ...]], first: int = 0, schema: str = SCHEMA) -> None:
        for number, rows in enumerate(batches, start=first):
            writer.write(self.spark.createDataFrame(rows, schema), number)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    """A file output whose v0001 serves and has three batches."""
    files = Files(spark, tmp_path)
    files.write(files.writer("v0001"), [("a", 1)], [("a", 1), ("b", 2)], [("c", 3)])
    return files


def test_file_outputs_are_compared_by_how_often_each_row_occurs(files: Files) -> None:
    """File outputs are compared by how often each row occurs, whatever its batch: one ``a`` too few is one missing row.
    Batches after the given ones are ignored.
    """
    shadow = files.writer("v0002", shadow=True, format="orc")
    files.write(shadow, [("b", 2), ("a", 1), ("d", 4)], [("c", 3)])
    compared = shadow.compare("v0001", 1, 0, files.spark)
    assert compared.comparable
    assert (compared.old_rows, compared.new_rows, compared.only_old, compared.only_new) == (3, 3, 1, 1)
    assert (compared.old_batch, compared.new_batch, compared.differing) == (1, 0, 0)
    assert sorted(compared.sample) == [
        ('{"customer":"a","total":1}', "", "2", "1"),
        ('{"customer":"d","total":4}', "", "0", "1"),
    ]
    compared = shadow.compare("v0001", 2, 1, files.spark)
    assert (compared.only_old, compared.only_new) == (1, 1)


def test_handed_over_output_is_compared_as_a_whole(files: Files) -> None:
    """A rebuild is compared with the whole serving output after a handoff, which is the old version up to its last
    batch and the new one.
    """
    second = files.writer("v0002", OutputSegment("v0001", last=1), OutputSegment("v0002"))
    second.seed(0)
    files.write(second, [("e", 5)], [("f", 6)], first=1)
    shadow = files.writer("v0003", shadow=True)
    files.write(shadow, [("a", 1), ("a", 1), ("b", 2), ("e", 5)])
    compared = shadow.compare("v0002", 1, 0, files.spark)
    assert (compared.old_rows, compared.new_rows, compared.only_old, compared.only_new) == (4, 4, 0, 0)


def test_columns_of_files_may_have_any_name(files: Files) -> None:
    """Columns whose names contain dots, blanks or backticks are compared; a column of one side only is reported as not
    compared.
    """
    for shadow, extra in ((False, "x long"), (True, "y long")):
        writer = files.writer("v0003" if shadow else "v0002", shadow=shadow)
        files.write(writer, [("a", 1, 7)], [("b", 2, 8)], schema=f"`a.b c` string, `t``x` long, {extra}")
    compared = writer.compare("v0002", 0, 1, files.spark)
    assert (compared.old_rows, compared.new_rows, compared.only_new) == (1, 2, 1)
    assert compared.sample == (('{"a.b c":"b","t`x":2}', "", "0", "1"),)
    assert compared.uncompared == ("x (it is missing, it was bigint)", "y (it is bigint, it was missing)")


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_json_and_csv_files_are_compared_by_the_recorded_schema(files: Files, file_format: str) -> None:
    """JSON and CSV files are compared by the recorded schema, which distinguishes the strings 01234 and 1234.

    Negative control: without the recorded schema, Spark infers numbers from CSV and finds no difference.
    """
    schema = "code string, discount long"
    serving = files.writer("v0002", format=file_format)
    files.write(serving, [("01234", None)], schema=schema)
    shadow = files.writer("v0003", shadow=True, format=file_format)
    files.write(shadow, [("1234", None)], [("01234", 5)], schema=schema)
    kind = files.spark.createDataFrame([], schema).schema
    for batch, missing in ((0, '"code":"01234"'), (1, '"code":"01234"')):
        compared = shadow.compare("v0002", 0, batch, files.spark, schema=kind)
        assert (compared.only_old, compared.only_new) == (1, 1 + batch)
        assert any(missing in row for row, *_ in compared.sample)
    shutil.rmtree(files.root / "_streamkeeper/schemas")
    guessed = shadow.compare("v0002", 0, 0, files.spark)
    if file_format == "csv":
        assert (guessed.only_old, guessed.only_new) == (0, 0), "the negative control"


def test_a_column_of_files_that_may_differ_is_left_out(files: Files) -> None:
    """A column of files that may differ is left out of the comparison; if no other column remains, the outputs are not
    comparable.
    """
    shadow = files.writer("v0002", shadow=True)
    files.write(shadow, [("a", 1), ("a", 7), ("b", 8), ("c", 9)])
    strict = shadow.compare("v0001", 2, 0, files.spark)
    assert (strict.only_old, strict.only_new) == (3, 3)
    assert strict.exceeds(0, 0)
    told = shadow.compare("v0001", 2, 0, files.spark, may_differ=("total",))
    assert (told.only_old, told.only_new, told.allowed, told.exceeds(0, 0)) == (0, 0, ("total",), "")
    nothing = shadow.compare("v0001", 2, 0, files.spark, may_differ=("total", "customer"))
    assert not nothing.comparable
    assert "may differ" in nothing.why


def test_maps_are_compared_regardless_of_the_order_of_their_entries(files: Files) -> None:
    """Maps, even within structs, are compared regardless of the order of their entries; a different value is a
    difference.
    """
    schema = "name string, one map<string,int>, many struct<inner:map<string,map<string,int>>>"
    serving = files.writer("v0002")
    files.write(serving, [("a", {"x": 1, "y": 2}, ({"p": {"r": 1, "s": 2}},)), ("b", {"x": 1}, None)], schema=schema)
    shadow = files.writer("v0003", shadow=True)
    files.write(shadow, [("a", {"y": 2, "x": 1}, ({"p": {"s": 2, "r": 1}},)), ("b", {"x": 2}, None)], schema=schema)
    compared = shadow.compare("v0002", 0, 0, files.spark)
    assert (compared.only_old, compared.only_new) == (1, 1)
    assert all('"name":"b"' in row for row, *_ in compared.sample)


def test_files_without_a_common_column_or_a_batch_cannot_be_compared(files: Files) -> None:
    """File outputs without a common column, or with a new output that has no batch yet, are not comparable, and the
    reason states which applies.
    """
    shadow = files.writer("v0002", shadow=True)
    assert shadow.compare("v0001", 1, 0, files.spark).why == "the new output has no batch yet"
    files.write(shadow, [("a", 1.5)], schema="name string, total double")
    assert "no column in common" in shadow.compare("v0001", 1, 0, files.spark).why


def test_a_sampled_row_is_named_by_its_key_in_readable_values() -> None:
    """A row in the sample is named by its key in readable values, without class names of Python."""
    at = datetime(2026, 3, 1, 0, 7, tzinfo=UTC)
    assert named_row(["customer", "minute"], ("a", at, 3)) == "customer='a', minute='2026-03-01 00:07:00+00:00'"
