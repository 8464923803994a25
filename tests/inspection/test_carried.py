"""Tests which Python functions a deduplication only carries along, and which its state or its rows depend on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from tests.inspection.queries import query, read, write_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.spark

Function = Callable[..., "Column"]
Build = Callable[["DataFrame", Function], "DataFrame"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("carried") / "in"
    write_files(path, 1)
    return path


@pytest.fixture
def described(spark: SparkSession, folder: Path) -> Callable[[Build, int], Manifest]:
    from pyspark.sql import functions as F

    def build(of: Build, step: int) -> Manifest:
        function = F.udf(lambda x: (x or 0) + step, "long")
        return describe(query(of(read(spark, folder), function), output_mode="append"), spark, bundle_root=None)

    return build


def dims(stream: DataFrame) -> DataFrame:
    """Return static rows."""
    return stream.sparkSession.range(9).selectExpr("id AS d", "id * 2 AS price")


def joined(stream: DataFrame, other: DataFrame) -> DataFrame:
    """Return a join of two streams."""
    from pyspark.sql import functions as F

    return stream.join(other.selectExpr("k AS o", "y AS z"), F.expr("k = o"))


CARRIED: dict[str, Build] = {
    "beside the key": lambda s, f: s.withColumn("c", f("x")).dropDuplicates(["k"]).select("k", "c"),
    "renamed and computed with": lambda s, f: (
        s.withColumn("c", f("x")).selectExpr("k", "c + 1 AS d").filter("k > 'a'").dropDuplicates(["k"])
    ),
    "called on another": lambda s, f: s.withColumn("c", f(f("x") + 1)).dropDuplicates(["k"]),
    "with a filter above": lambda s, f: s.withColumn("c", f("x")).dropDuplicates(["k"]).filter("c > 3 AND x > c"),
    "past two deduplications": lambda s, f: s.withColumn("c", f("x")).dropDuplicates(["k", "k2"]).dropDuplicates(["k"]),
    "within a watermark": lambda s, f: (
        s.withColumn("c", f("x")).withWatermark("ts", "1 minute").dropDuplicatesWithinWatermark(["k"])
    ),
    "through a static join": lambda s, f: (
        s.withColumn("c", f("x")).withColumnRenamed("y", "d").join(dims(s), "d", "left").dropDuplicates(["k"])
    ),
}
COUNTED: dict[str, Build] = {
    "the key": lambda s, f: s.withColumn("c", f("x")).dropDuplicates(["c"]),
    "the key, under another name": lambda s, f: (
        s.withColumn("c", f("x")).selectExpr("k", "c * 2 AS d").dropDuplicates(["d"]).select("k")
    ),
    "all columns are keys": lambda s, f: s.withColumn("c", f("x")).dropDuplicates(),
    "what the key is called with": lambda s, f: s.withColumn("c", f(f("x"))).dropDuplicates(["c"]),
    "a filter": lambda s, f: s.withColumn("c", f("x")).filter("c > 3").dropDuplicates(["k"]).select("k"),
    "how many rows come": lambda s, f: (
        s.withColumn("c", f("x")).selectExpr("k", "explode(sequence(0L, c)) AS n").dropDuplicates(["k"])
    ),
    "the condition of a static join": lambda s, f: (
        s.withColumn("d", f("x")).join(dims(s), "d", "left").dropDuplicates(["k"])
    ),
    "the time of a watermark": lambda s, f: (
        s.withColumn("w", f("x").cast("timestamp")).withWatermark("w", "1 minute").dropDuplicates(["k"])
    ),
    "the time of a watermark further up": lambda s, f: (
        s.withColumn("w", f("x").cast("timestamp")).dropDuplicates(["k"]).withWatermark("w", "1 minute")
    ),
    "which rows a watermark further up is made of": lambda s, f: (
        s.withColumn("c", f("x")).dropDuplicates(["k"]).filter("c > 3").withWatermark("ts", "1 minute")
    ),
    "below an aggregate": lambda s, f: (
        s.withColumn("c", f("x")).dropDuplicates(["k"]).withWatermark("ts", "1 minute").groupBy("ts").agg({"c": "max"})
    ),
    "a stream join": lambda s, f: joined(s.withColumn("c", f("x")), s).dropDuplicates(["k"]),
    "the order of rows": lambda s, f: (
        s.withColumn("c", f("x")).repartition(3).dropDuplicates(["k"]).dropDuplicates(["k2"])
    ),
    "a limit": lambda s, f: s.withColumn("c", f("x")).limit(3).dropDuplicates(["k"]),
    "a branch of a union": lambda s, f: s.withColumn("c", f("x")).union(s.withColumn("c", s.x)).dropDuplicates(["k"]),
    "both a key and carried": lambda s, f: (
        s.withColumn("c", f("x")).selectExpr("c", "c + 1 AS d", "k").dropDuplicates(["c", "k"])
    ),
    "rows that Python makes": lambda s, f: (
        s.withColumn("c", f("x"))
        .select("k", "c")
        .mapInPandas(lambda frames: frames, "k string, c long")
        .dropDuplicates(["k"])
    ),
}


@pytest.mark.parametrize("case", CARRIED)
def test_a_changed_function_resumes_if_its_result_is_only_carried_past_state(
    described: Callable[[Build, int], Manifest], case: str
) -> None:
    """A changed function whose result is only carried past a deduplication resumes, because the state holds keys and
    the result leaves with its row.
    """
    one, again, other = (described(CARRIED[case], step) for step in (1, 1, 2))
    assert find_changes(one, again) == ()
    findings = find_changes(one, other)
    assert {each.rule for each in findings} == {"code-beside-state-changed"}
    assert verdict_of(findings) is Verdict.RESUME


@pytest.mark.parametrize("case", COUNTED)
def test_a_changed_function_requires_a_backup_if_keys_or_state_use_it(
    described: Callable[[Build, int], Manifest], case: str
) -> None:
    """A changed function requires a BACKUP if keys, the choice or number of rows, lateness or any other state depend on
    it.
    """
    findings = find_changes(described(COUNTED[case], 1), described(COUNTED[case], 2))
    assert "code-in-state-changed" in {each.rule for each in findings}
    assert verdict_of(findings) is Verdict.BACKUP
