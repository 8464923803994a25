"""Tests the manifests of real plans, and the verdicts on changes between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import UNREADABLE, Manifest, columns_of
from tests.inspection.queries import query, read, totals, varied, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Build = Callable[["DataFrame"], "DataFrame"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("describe") / "in"
    write_files(path, 1)
    return path


@pytest.fixture
def manifest(spark: SparkSession, folder: Path) -> Callable[..., Manifest]:
    """Return a function that describes the query a builder creates from the stream."""

    def build(make: Build, **changes: Any) -> Manifest:
        return describe(query(make(read(spark, folder)), **changes), spark, bundle_root=None)

    return build


def aggregate(expression: str = "sum(x)", *, key: str = "k", before: str = "", after: str = "") -> Build:
    """Return a builder of one aggregation, optionally with a filter below or above it."""

    def make(stream: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        kept = stream.filter(before) if before else stream
        grouped = kept.groupBy(F.expr(key).alias("k")).agg(F.expr(expression).alias("s"))
        return grouped.filter(after) if after else grouped

    return make


def windowed(size: str, delay: str = "10 minutes", of: str = "window") -> Build:
    def make(stream: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        marked = stream.withWatermark("ts", delay)
        return marked.groupBy(getattr(F, of)("ts", size).alias("w"), "k").agg(F.sum("x").alias("s"))

    return make


def with_code(function: Callable[[Any], Any], *, below: bool) -> Build:
    def make(stream: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        run = F.udf(function, "long")
        if below:
            return totals(stream.withColumn("x", run("x")))
        return totals(stream).withColumn("s", run("s"))

    return make


def select(*columns: str) -> Build:
    return lambda stream: stream.selectExpr(*columns)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (aggregate(), aggregate("max(x)"), "aggregate-function-changed"),
        (aggregate(), aggregate("sum(y)"), "aggregate-input-changed"),
        (aggregate(), aggregate("sum(x * 2)"), "aggregate-input-changed"),
        (aggregate("sum(try_cast(k2 AS long))"), aggregate("sum(cast(k2 AS long))"), "aggregate-input-changed"),
        (aggregate(), aggregate(key="k2"), "grouping-key-changed"),
        (aggregate(), aggregate(key="upper(k)"), "grouping-key-changed"),
        (aggregate(), lambda s: aggregate()(s.selectExpr("k", "x * 100 AS x")), "aggregate-input-changed"),
        (aggregate(), lambda s: aggregate()(s.selectExpr("k2 AS k", "x")), "grouping-key-changed"),
        (aggregate(), lambda s: aggregate()(s.selectExpr("explode(array(k, k)) AS k", "x")), "grouping-key-changed"),
        (windowed("10 minutes"), windowed("20 minutes"), "window-changed"),
        (windowed("10 minutes", of="session_window"), windowed("5 minutes", of="session_window"), "window-changed"),
        (windowed("10 minutes"), windowed("10 minutes", "30 minutes"), "watermark-delay-increased"),
        (aggregate(), select("k", "x AS s"), "stateful-operator-removed"),
        (aggregate(), lambda s: aggregate()(s.dropDuplicates(["k"])), "stateful-operator-added"),
        (lambda s: s.dropDuplicates(["k"]), lambda s: s.dropDuplicates(["k2"]), "deduplication-key-changed"),
    ],
)
def test_changes_that_would_silently_corrupt_state_are_named_and_require_a_switch(
    manifest: Any, old: Build, new: Build, rule: str
) -> None:
    """Changes that Spark mostly accepts because it compares only types, such as a different aggregate function or key,
    are named by a rule and require a SWITCH.
    """
    findings = find_changes(manifest(old), manifest(new))
    assert rule in {each.rule for each in findings}
    assert verdict_of(findings) is Verdict.SWITCH


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (select("k", "x"), select("k", "x + 1 AS x"), "stateless-change"),
        (select("k", "x"), lambda s: s.select("k", "x").filter("x > 3"), "stateless-change"),
        (select("k", "x"), select("k", "explode(array(x, x)) AS x"), "stateless-change"),
        (select("k", "x"), lambda s: s.select("k", "x").repartition(3), "stateless-change"),
        (aggregate(), aggregate(after="s > 3"), "above-state-changed"),
        (aggregate(), aggregate(before="x > 3"), "filter-below-state-changed"),
        (aggregate(before="x > 3"), aggregate(before="x > 4"), "filter-below-state-changed"),
        (aggregate(), aggregate(after="k > 'k1'"), "filter-below-state-changed"),
        (aggregate(), lambda s: aggregate()(s.selectExpr("x", "upper(k2) AS z", "k")), "rewritten-below-state"),
        (aggregate(), lambda s: aggregate("sum(amount)")(s.withColumnRenamed("x", "amount")), "rewritten-below-state"),
        (windowed("10 minutes", "10 minutes"), windowed("10 minutes", "1 minute"), "watermark-delay-decreased"),
        (lambda s: s.limit(3), lambda s: s.limit(6), "limit-changed"),
        (with_code(lambda x: x + 1, below=False), with_code(lambda x: x + 2, below=False), "code-above-state-changed"),
    ],
)
def test_benign_changes_are_resumed_with_a_note(manifest: Any, old: Build, new: Build, rule: str) -> None:
    """Stateless changes, changes above all state and other harmless changes yield one finding and resume."""
    findings = find_changes(manifest(old), manifest(new))
    assert [each.rule for each in findings] == [rule]
    assert verdict_of(findings) is Verdict.RESUME


def test_a_changed_python_function_below_state_requires_a_backup(manifest: Any) -> None:
    """A changed body of a Python function below state requires a BACKUP although no plan shows it, and an unchanged
    body yields no finding.
    """
    old = manifest(with_code(lambda x: x + 1, below=True))
    assert find_changes(old, manifest(with_code(lambda x: x + 1, below=True))) == ()
    findings = find_changes(old, manifest(with_code(lambda x: x + 2, below=True)))
    assert [each.rule for each in findings] == ["code-in-state-changed"]
    assert verdict_of(findings) is Verdict.BACKUP


def test_a_broadcast_counts_by_its_value(spark: SparkSession, manifest: Any) -> None:
    """A function that uses a broadcast variable is readable, and a different broadcast value counts as a code
    change.
    """

    def built(rate: int) -> Build:
        rates = spark.sparkContext.broadcast({"eu": rate})
        return with_code(lambda x: x * rates.value["eu"], below=True)

    old = manifest(built(2))
    assert not any(each.startswith(UNREADABLE) for each in old.functions.values())
    assert find_changes(old, manifest(built(2))) == ()
    assert [each.rule for each in find_changes(old, manifest(built(3)))] == ["code-in-state-changed"]


def test_changed_rows_that_the_job_creates_below_state_are_reported(spark: SparkSession, manifest: Any) -> None:
    """Changed rows that the job itself creates and joins below state are reported, although Spark's plan shows only
    their columns.
    """

    def joined(rows: list[tuple[str, int]]) -> Build:
        return lambda s: totals(s.join(spark.createDataFrame(rows, "k string, z int"), "k"))

    one, other = manifest(joined([("k1", 1)])), manifest(joined([("k1", 1), ("k2", 2)]))
    assert find_changes(one, manifest(joined([("k1", 1)]))) == ()
    assert [each.rule for each in find_changes(one, other)] == ["rows-in-state-changed"]


def test_changed_methods_of_a_stateful_processor_count_as_a_code_change(manifest: Any) -> None:
    """A change in the methods of a ``transformWithState`` processor counts as a code change in state."""
    from pyspark.sql.streaming import StatefulProcessor

    def processed(step: int) -> Build:
        class Counter(StatefulProcessor):
            def init(self, handle: Any) -> None:
                self.handle = handle

            def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:
                yield key, step

            def close(self) -> None:
                pass

        return lambda s: s.groupBy("k").transformWithStateInPandas(Counter(), "k string, n long", "Update", "None")

    one = manifest(processed(1))
    assert [each.kind for each in one.operators] == ["transform-with-state TransformWithStateInPySpark"]
    assert find_changes(one, manifest(processed(1))) == ()
    assert [each.rule for each in find_changes(one, manifest(processed(2)))] == ["code-in-state-changed"]


def test_a_manifest_lists_sources_operators_output_and_settings(
    spark: SparkSession, folder: Path, manifest: Any
) -> None:
    """A manifest lists sources with location and limits kept separate, operators, watermarks, output, trigger, sink and
    settings.
    """
    found = manifest(windowed("10 minutes"), trigger="1 second")
    (source,) = found.sources
    assert (source.kind, source.location, source.options) == ("file", str(folder), {"format": "json"})
    assert source.limits == {"maxfilespertrigger": "1"}
    assert source.schema.splitlines()[:2] == ["k string", "k2 string"]
    (operator,) = found.operators
    assert operator.kind == "aggregate"
    assert operator.keys[1] == "k string"
    assert operator.expressions[-1] == "sum(x) AS s bigint"
    assert found.watermarks == ("ts 10 minutes",)
    assert found.output_schema.splitlines()[1:] == ["k string", "s bigint"]
    assert (found.output_mode, found.trigger, found.sink.kind) == ("update", "1 second", "foreach")
    assert found.confs["spark.sql.session.timeZone"] == "UTC"
    assert found.confs["spark.sql.streaming.stateStore.checkpointFormatVersion"] == "2"
    assert str(folder) not in found.plan


def test_a_stream_read_twice_is_one_source(spark: SparkSession, folder: Path) -> None:
    """A stream that is used twice in a query counts as one source, as in Spark's checkpoint."""
    found = describe(query(varied(spark, folder)["twice"]()), spark, bundle_root=None)
    assert len(found.sources) == 2


def test_two_builds_are_equal_and_leave_the_session_as_it_was(spark: SparkSession, folder: Path) -> None:
    """Two builds of a query have identical manifests, and describing them restores every setting of the session,
    including unset ones.
    """
    before = dict(spark.conf.getAll)
    for build in varied(spark, folder).values():
        one = describe(query(build()), spark, bundle_root=None)
        assert to_json(one) == to_json(describe(query(build()), spark, bundle_root=None))
    assert dict(spark.conf.getAll) == before


def test_a_long_plan_is_described_whole(manifest: Any) -> None:
    """A change in the last of 200 columns is detected, because the plan's text is not truncated."""
    many = [f"x + {number} AS c{number}" for number in range(200)]
    one, other = manifest(select(*many)), manifest(select(*many[:-1], "x + 999 AS c199"))
    assert "more fields" not in one.plan
    assert [each.rule for each in find_changes(one, other)] == ["stateless-change"]


def test_columns_with_spaces_in_their_names_are_distinguished(spark: SparkSession, folder: Path) -> None:
    """Columns with spaces in their names are distinguished in a source's schema, in the output's schema and in the
    state's meaning.
    """
    from pyspark.sql import functions as F

    def described(kind: str, key: str = "order id") -> Manifest:
        stream = spark.readStream.schema(f"`order id` {kind}, `order no` int, x long").json(str(folder))
        return describe(query(stream.groupBy(key).agg(F.sum("x").alias("the sum"))), spark, bundle_root=None)

    before = described("int")
    assert before.sources[0].schema.splitlines() == ["`order id` int", "`order no` int", "x bigint"]
    assert before.output_schema.splitlines() == ["`order id` int", "`the sum` bigint"]
    assert dict(columns_of(before.sources[0].schema)) == {"order id": "int", "order no": "int", "x": "bigint"}
    assert "source-column-type-changed" in {each.rule for each in find_changes(before, described("bigint"))}
    assert "grouping-key-changed" in {each.rule for each in find_changes(before, described("int", "order no"))}
