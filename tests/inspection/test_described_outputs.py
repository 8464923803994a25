"""Tests outputs of real plans: the meaning of their columns, and the verdicts on changes of keys, partitions and
values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.table import TableSink
from tests.inspection.queries import query, read, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamkeeper.authoring.definition import Query

pytestmark = pytest.mark.spark

Build = Callable[["DataFrame"], "Query"]
Described = Callable[[Build], Manifest]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outputs") / "in"
    write_files(path, 1)
    return path


@pytest.fixture
def described(spark: SparkSession, folder: Path) -> Described:
    """Return a function that describes the query a builder creates from the stream."""
    return lambda make: describe(make(read(spark, folder)), spark, bundle_root=None)


def into_table(columns: Callable[[DataFrame], DataFrame], mode: str = "update") -> Build:
    """Return a builder of totals per window and key with computed columns; ``at`` is the key of their table."""

    def make(stream: DataFrame) -> Query:
        from pyspark.sql import functions as F

        windows = stream.withWatermark("ts", "1 minute").groupBy(F.window("ts", "10 minutes").alias("w"), "k", "k2")
        sink = TableSink("sqlite:////tmp/out.db", table="totals", key=["at"])
        return query(columns(windows.agg(F.sum("x").alias("s"))), sink=sink, output_mode=mode)

    return make


def key(text: str, value: str = "s", **more: str) -> Build:
    return into_table(lambda totals: totals.selectExpr(f"{text} AS at", f"{value} AS s"), **more)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (key("w.start"), key("w.end")),
        (key("k"), key("upper(k)")),
        (key("date_format(w.start, 'yyyy-MM-dd')"), key("date_format(w.start, 'dd.MM.yyyy')")),
        (key("md5(k)"), key("sha2(k, 256)")),
        (key("concat(k, k2)"), key("concat(k2, k)")),
        (key("k", mode="append"), key("upper(k)", mode="append")),
    ],
)
def test_a_changed_table_key_requires_a_switch(described: Described, old: Build, new: Build) -> None:
    """A table key computed by a different expression requires a SWITCH although the state is the same."""
    findings = find_changes(described(old), described(new))
    assert [each.rule for each in findings] == ["sink-key-redefined"]
    assert verdict_of(findings) is Verdict.SWITCH


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (key("upper(k)"), key("UPPER( k )"), []),
        (
            key("upper(k)"),
            into_table(lambda t: t.toDF("w", "a", "b", "c").selectExpr("ucase(a) AS at", "c AS s")),
            ["rewritten-below-state"],
        ),
        (key("k"), key("k", "s * 100"), ["output-column-redefined"]),
        (key("k", mode="complete"), key("upper(k)", mode="complete"), ["output-column-redefined"]),
        (key("k"), into_table(lambda t: t.selectExpr("k AS at", "s").where("s > 3")), ["above-state-changed"]),
    ],
)
def test_an_equivalent_table_key_resumes(described: Described, old: Build, new: Build, rules: list[str]) -> None:
    """A table key that is written differently, that stands beside a changed value, or whose table each batch replaces
    resumes.
    """
    findings = find_changes(described(old), described(new))
    assert [each.rule for each in findings] == rules
    assert verdict_of(findings) is Verdict.RESUME


def test_map_order_matters_only_if_the_query_lists_the_keys(described: Described) -> None:
    """Reordering a literal map resumes if the query only looks up entries, and does not resume if the query lists its
    keys or if entries change.
    """

    def grouped(expression: str) -> Build:
        sink = TableSink("sqlite:////tmp/out.db", table="totals", key=["at"])
        return lambda stream: query(
            stream.selectExpr(f"{expression} AS at").groupBy("at").count(), sink=sink, output_mode="update"
        )

    def answer(old: str, new: str) -> Verdict:
        return verdict_of(find_changes(described(grouped(old)), described(grouped(new))))

    assert answer("map('a', 1, 'b', 2)[k]", "map('b', 2, 'a', 1)[k]") is Verdict.RESUME
    assert answer("map('a', 1, 'b', 2)[k]", "map('b', 1, 'a', 2)[k]") is not Verdict.RESUME
    assert answer("map_keys(map('a', 1, 'b', 2))", "map_keys(map('b', 2, 'a', 1))") is not Verdict.RESUME


def test_a_changed_function_requires_a_backup_only_for_a_computed_key(described: Described) -> None:
    """A changed function requires a BACKUP if it computes the table's key, and resumes if it computes a value."""
    from pyspark.sql import functions as F

    def labelled(of_key: Callable[[Any], Any], of_value: Callable[[Any], Any]) -> Build:
        made = {"at": F.udf(of_key, "string")("k"), "s": F.udf(of_value, "long")("s")}
        return into_table(lambda totals: totals.select(*(column.alias(name) for name, column in made.items())))

    def shop(k: str) -> str:
        return k.upper()

    def other_shop(k: str) -> str:
        return k.lower()

    def cents(s: int) -> int:
        return s * 100

    def thousands(s: int) -> int:
        return s // 1000

    old = described(labelled(shop, cents))
    assert [column.functions for column in old.columns] == [("above/0 shop",), ("above/1 cents",)]
    assert verdict_of(find_changes(old, described(labelled(shop, cents)))) is Verdict.RESUME
    assert verdict_of(find_changes(old, described(labelled(shop, thousands)))) is Verdict.RESUME
    assert verdict_of(find_changes(old, described(labelled(other_shop, cents)))) is Verdict.BACKUP


def test_a_literal_that_resembles_a_function_call_is_not_a_function(described: Described) -> None:
    """A quoted literal that resembles a Python function call is not counted as a function."""
    column = described(key("regexp_replace(k, 'pythonudf', 'func=1?')")).columns[0]
    assert column.functions == ()


def test_a_key_from_a_different_static_table_requires_a_backup(
    spark: SparkSession, described: Described, tmp_path: Path
) -> None:
    """A key from a different static table requires a BACKUP, a key from a different column of the same table requires a
    SWITCH, and a different table that only provides a value resumes.
    """
    from pyspark.sql import functions as F

    for name in ("cities", "towns"):
        spark.createDataFrame([("k1", "a", "b")], "k string, city string, area string").write.parquet(
            str(tmp_path / name)
        )

    def looked_up(table: str, of_key: str, of_value: str = "x") -> Build:
        static = spark.read.parquet(str(tmp_path / table))
        sink = TableSink("sqlite:////tmp/out.db", table="totals", key=["at"])
        return lambda stream: query(
            stream.join(F.broadcast(static), "k", "left").selectExpr(f"{of_key} AS at", f"{of_value} AS s"), sink=sink
        )

    old = described(looked_up("cities", "city"))
    assert find_changes(old, described(looked_up("cities", "city"))) == ()
    assert verdict_of(find_changes(old, described(looked_up("towns", "city")))) is Verdict.BACKUP
    assert verdict_of(find_changes(old, described(looked_up("cities", "area")))) is Verdict.SWITCH
    beside = described(looked_up("cities", "k", "city"))
    assert verdict_of(find_changes(beside, described(looked_up("towns", "k", "city")))) is Verdict.RESUME


def test_a_changed_partition_column_of_files_requires_a_switch(described: Described) -> None:
    """A changed partition column of files requires a SWITCH, and a change of a different column resumes."""

    def files(day: str, value: str = "x") -> Build:
        sink = FileSink("/tmp/out", partition_by=["day"])
        return lambda stream: query(
            stream.selectExpr(f"{day} AS day", f"{value} AS x"), sink=sink, output_mode="append"
        )

    old = described(files("to_date(ts)"))
    moved = find_changes(old, described(files("to_date(ts + interval 1 hour)")))
    assert "sink-partition-redefined" in {each.rule for each in moved}
    assert verdict_of(moved) is Verdict.SWITCH
    assert verdict_of(find_changes(old, described(files("to_date(ts)", "x * 100")))) is Verdict.RESUME
