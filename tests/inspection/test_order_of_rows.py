"""Tests static rows in a different order: no change if nothing depends on the order, and a change if something may."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from tests.inspection.queries import query, read, run_to_end, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = [("k1", 1), ("k2", 2), ("k3", 5)]
SAME_KEY = [("k1", 1), ("k1", 2), ("k3", 5)]
Build = Callable[["DataFrame", "DataFrame"], "DataFrame"]


def _sql(text: str) -> Build:
    """Return a builder of the SQL query, in which ``t`` is the stream joined with the rows."""

    def build(stream: DataFrame, rows: DataFrame) -> DataFrame:
        spark = stream.sparkSession
        stream.withWatermark("ts", "1 minute").createOrReplaceTempView("s")
        rows.createOrReplaceTempView("r")
        spark.sql("select s.*, r.z from s join r on s.k = r.k").createOrReplaceTempView("t")
        return spark.sql(text)

    return build


def _on_rows(change: Callable[[DataFrame], DataFrame]) -> Build:
    return lambda stream, rows: stream.join(change(rows), "k").groupBy("k").sum("z")


def _outer_renamed(stream: DataFrame, rows: DataFrame) -> DataFrame:
    named = rows.toDF("kk", "zz")
    return stream.join(named, stream["k"] == named["kk"], "left").groupBy("zz").count()


def _within_itself(stream: DataFrame, rows: DataFrame) -> DataFrame:
    """Return a query in which the list's own columns are compared with each other, which finds no row by a key."""
    own = rows.selectExpr("k", "z", "z + 0 as same")
    return own.join(stream, (own["k"] == stream["k"]) & (own["z"] == own["same"]), "right").groupBy("z").count()


IN_ANY_ORDER: dict[str, Build] = {
    "summed": _on_rows(lambda rows: rows),
    "filtered": _on_rows(lambda rows: rows.filter("z > 1")),
    "renamed, outer join": _outer_renamed,
    "in a window": _sql("select window(ts, '1 minute') w, z, sum(x) q, max(y) m, avg(x) from t group by 1, 2"),
    "distinct": _sql("select distinct k, z from t"),
}
IN_THIS_ORDER: dict[str, Build] = {
    "first": _sql("select k2, first(z) from t group by k2"),
    "last": _sql("select k2, last(z) from t group by k2"),
    "list": _sql("select k2, collect_list(z) from t group by k2"),
    "set": _sql("select k2, collect_set(z) from t group by k2"),
    "max_by": _sql("select k2, max_by(z, y) from t group by k2"),
    "one of several, kept": lambda stream, rows: stream.join(rows, "k").dropDuplicates(["k2"]),
    "limit": _on_rows(lambda rows: rows.limit(2)),
    "duplicates dropped": _on_rows(lambda rows: rows.dropDuplicates(["z"])),
    "numbered": _on_rows(lambda rows: rows.selectExpr("k", "monotonically_increasing_id() as z")),
    "row_number": _on_rows(lambda rows: rows.selectExpr("k", "row_number() over (order by 1) as z")),
    "partitions": _on_rows(lambda rows: rows.selectExpr("k", "spark_partition_id() as z")),
    "by chance": _on_rows(lambda rows: rows.selectExpr("k", "rand(3) as z")),
    "pandas": _on_rows(lambda rows: rows.mapInPandas(lambda frames: frames, "k string, z int")),
    "sampled": _on_rows(lambda rows: rows.sample(0.5, 3)),
    "by a range": lambda stream, rows: stream.join(rows, stream["y"] > rows["z"]).groupBy("z").count(),
    "collated": _sql("select k collate UTF8_LCASE, sum(z) from t group by 1"),
    "a subquery": _sql("select k, sum(x + (select first(z) from r)) from t group by k"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("order") / "in"
    write_files(path, 1)
    return path


@pytest.fixture
def change(spark: SparkSession, folder: Path) -> Callable[..., Any]:
    """Return a function that finds the changes from one list of rows to a different one; each list is described once
    per test.
    """

    @cache
    def described(build: Build, rows: tuple[tuple[str, int], ...]) -> Manifest:
        made = spark.createDataFrame(rows, "k string, z int")
        return describe(query(build(read(spark, folder), made)), spark, bundle_root=None)

    return lambda build, before, after: find_changes(described(build, tuple(before)), described(build, tuple(after)))


@pytest.mark.parametrize("build", IN_ANY_ORDER.values(), ids=IN_ANY_ORDER)
def test_reordered_rows_are_a_note_if_the_query_ignores_order(change: Callable[..., Any], build: Build) -> None:
    """Reordered rows are a note if the query does not depend on their order, while changed values, and reordered rows
    that share a key, require a SWITCH.
    """
    found = change(build, ROWS, ROWS[::-1])
    assert [each.rule for each in found] == ["rows-reordered"]
    assert verdict_of(found) is Verdict.RESUME
    assert found[0].severity.value == "note"
    for other in ([("k2", 2), ("k1", 1), ("k3", 6)], ROWS[1:], [*ROWS, ("k4", 5)], [("k1", 2), ("k2", 1), ("k3", 5)]):
        assert verdict_of(change(build, ROWS, other)) is Verdict.SWITCH
    assert verdict_of(change(build, SAME_KEY, SAME_KEY[::-1])) is Verdict.SWITCH


@pytest.mark.parametrize("build", IN_THIS_ORDER.values(), ids=IN_THIS_ORDER)
def test_reordered_rows_require_a_switch_if_the_query_may_depend_on_order(
    change: Callable[..., Any], build: Build
) -> None:
    """Reordered rows require a SWITCH if the query may depend on their order, as with first, last, lists, limits, row
    numbers, random values or Python.
    """
    assert verdict_of(change(build, ROWS, ROWS[::-1])) is Verdict.SWITCH


def test_columns_that_are_compared_with_each_other_make_no_key(change: Callable[..., Any]) -> None:
    """Columns that are compared only with each other do not make a key unique, so reordered rows with the same key
    require a SWITCH.
    """
    assert verdict_of(change(_within_itself, SAME_KEY, SAME_KEY[::-1])) is Verdict.SWITCH


def test_reordered_rows_of_sql_values_require_a_switch(spark: SparkSession, folder: Path) -> None:
    """Reordered rows of SQL's VALUES require a SWITCH, because the plan's digest contains their content."""

    def described(values: str) -> Manifest:
        rows = spark.sql(f"select * from values {values} as r(k, z)")
        return describe(query(read(spark, folder).join(rows, "k").groupBy("k").sum("z")), spark, bundle_root=None)

    found = find_changes(described("('k1', 1), ('k2', 2)"), described("('k2', 2), ('k1', 1)"))
    assert verdict_of(found) is Verdict.SWITCH
    assert "rows-reordered" not in [each.rule for each in found]


def test_spark_continues_with_equal_results_after_static_rows_are_reordered(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark continues on the same checkpoint with reordered rows and computes the same results as without the
    change.
    """
    build = IN_ANY_ORDER["summed"]
    results = []
    for name, second in (("same", ROWS), ("reordered", ROWS[::-1])):
        source = tmp_path / name
        last: dict[int, list[tuple[Any, ...]]] = {}
        for number, rows in enumerate((ROWS, second)):
            write_files(source, 1, first=number)
            made = spark.createDataFrame(rows, "k string, z int")
            last = run_to_end(build(read(spark, source), made), tmp_path / f"checkpoint-{name}")
        results.append(list(last.values()))
    assert results[0] == results[1] != [[]]
