"""Tests each proof that a difference is harmless, and each condition that it relies on: without it the verdict
rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from tests.inspection.queries import query, read, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NESTED = "k string, v struct<a:int,b:string,c:array<struct<d:int,e:int>>>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proofs") / "in"
    write_files(path, 1)
    return path


@pytest.fixture(scope="module")
def described(spark: SparkSession, folder: Path) -> Callable[..., Manifest]:
    """Return a function that describes SQL over the streams ``s``, ``nested``, ``w`` and ``w2`` and the tables ``dim``
    and ``rates``.
    """

    for name in ("dim", "rates"):
        rows = spark.range(4).selectExpr("id", "id * 2 AS price", "id % 2 = 0 AS active", "'fed' AS origin")
        rows.write.parquet(str(folder.parent / name))
        spark.read.parquet(str(folder.parent / name)).createOrReplaceTempView(name)
    for name in ("w", "w2"):
        read(spark, folder).withWatermark("ts", "10 minutes").createOrReplaceTempView(name)
    read(spark, folder).createOrReplaceTempView("s")
    spark.readStream.schema(NESTED).json(str(folder)).createOrReplaceTempView("nested")

    def build(sql: str, **conf: str) -> Manifest:
        with settings(spark, conf):
            return describe(query(spark.sql(sql)), spark, bundle_root=None)

    return build


@contextmanager
def settings(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """Set confs for the duration of the body; ``a_b=c`` sets ``spark.sql.a.b``."""
    keys = {f"spark.sql.{key.replace('_', '.')}": value for key, value in conf.items()}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in keys:
            spark.conf.unset(key)


LENIENT = "'allowSingleQuotes', 'true'"
"""Parser options; with any option, Spark's own optimizer does not prune the fields of parsed JSON."""


def json_sum(schema: str, options: str = "", used: str = "j.a") -> str:
    """Return SQL for a sum over a field of parsed JSON."""
    given = f", map({options})" if options else ""
    return f"SELECT k2, sum({used}) AS t FROM (SELECT k2, from_json(k, '{schema}'{given}) AS j FROM s) GROUP BY k2"


def exploded(element: str) -> str:
    """Return SQL for a sum over a field of the elements of a parsed array."""
    parsed = f"from_json(k, 'i array<struct<{element}>>', map({LENIENT}))"
    elements = f"SELECT k2, explode(j.i) AS e FROM (SELECT k2, {parsed} AS j FROM s)"
    return f"SELECT k2, sum(e.d) AS t FROM ({elements}) GROUP BY k2"


def reduced(element: str, read: str = "e.d") -> str:
    """Return SQL for a sum over a text that a lambda function builds from the elements of a parsed array."""
    parsed = f"from_json(k, 'i array<struct<{element}>>', map({LENIENT}))"
    text = f"concat_ws('', transform(j.i, e -> string({read})))"
    return f"SELECT k2, sum(length({text})) AS t FROM (SELECT k2, {parsed} AS j FROM s) GROUP BY k2"


def csv_sum(schema: str) -> str:
    """Return SQL for a sum over a field of parsed CSV, whose fields are found by position."""
    return f"SELECT k2, sum(j.b) AS t FROM (SELECT k2, from_csv(k, '{schema}') AS j FROM s) GROUP BY k2"


IN_LIST = "SELECT k, sum(x) AS t FROM s WHERE x IN ({0}) GROUP BY k"
CLOCK = "SELECT count_if(old) AS t FROM (SELECT k, ts < current_timestamp() AS old FROM s) GROUP BY k"

NEWEST = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY price) AS n FROM dim {0}) WHERE n = 1"
DEAREST = "SELECT id, max(price) AS price FROM dim {0} GROUP BY id"
OUTER = "SELECT dim.id, rates.price FROM dim LEFT JOIN (SELECT * FROM rates {0}) rates ON dim.id = rates.id"
JOINED = "SELECT w.k, w.x, w2.y FROM w {0} JOIN w2 ON {1} AND w.ts = w2.ts {2}"

HARMLESS = [
    ("json field added", json_sum("a int", LENIENT), json_sum("a int, b string", LENIENT)),
    ("json field added before", json_sum("a int"), json_sum("b string, a int")),
    ("json field removed", json_sum("a int, b string"), json_sum("a int")),
    ("json field retyped", json_sum("a int, b string", LENIENT), json_sum("a int, b date", LENIENT)),
    (
        "nested json field added",
        json_sum("a struct<c:int>", "", "j.a.c"),
        json_sum("a struct<c:int,d:int>", "", "j.a.c"),
    ),
    ("permissive said", json_sum("a int, b int"), json_sum("a int, b date")),
    (
        "sum widened",
        "SELECT k, sum(cast(y AS int)) AS t FROM s GROUP BY k",
        "SELECT k, sum(cast(cast(y AS int) AS long)) AS t FROM s GROUP BY k",
    ),
    (
        "mean widened",
        "SELECT k, avg(cast(y AS int)) AS t FROM s GROUP BY k",
        "SELECT k, avg(cast(cast(y AS int) AS long)) AS t FROM s GROUP BY k",
    ),
    (
        "lambda variable renamed",
        "SELECT sum(size(transform(array(x, y), a -> a + 1))) AS t FROM s GROUP BY k",
        "SELECT sum(size(transform(array(x, y), b -> b + 1))) AS t FROM s GROUP BY k",
    ),
    ("commuted", "SELECT sum(x + y) AS t FROM s GROUP BY k", "SELECT sum(y + x) AS t FROM s GROUP BY k"),
    (
        "least and greatest of others in another order",
        "SELECT sum(least(x, length(k), y)) AS t, max(greatest(ts, now())) AS m FROM s GROUP BY k",
        "SELECT sum(least(y, x, length(k))) AS t, max(greatest(now(), ts)) AS m FROM s GROUP BY k",
    ),
    (
        "the least in a lambda",
        *(
            f"SELECT sum(aggregate(array(x, y), 0L, (acc, v) -> acc + least({each}))) AS t FROM s GROUP BY k"
            for each in ("v, element_at(map('a', y), 'a')", "element_at(map('a', y), 'a'), v")
        ),
    ),
    ("permissive said aloud", json_sum("a int", LENIENT), json_sum("a int", f"{LENIENT}, 'mode', 'permissive'")),
    ("values in another order", IN_LIST.format("1, 2"), IN_LIST.format("2, 1")),
    ("element field added", exploded("d int"), exploded("d int, f string")),
    ("clock in a filter", CLOCK, CLOCK),
    ("element field unused by a lambda", reduced("d int"), reduced("d int, f string")),
    ("csv field added at the end", csv_sum("a int, b int"), csv_sum("a int, b int, c string")),
    (
        "percentile of the same sketch",
        "SELECT percentile_approx(x, 0.5) AS t FROM s GROUP BY k",
        "SELECT percentile_approx(x, 0.9) AS t FROM s GROUP BY k",
    ),
    (
        "a length in other units",
        *(f"SELECT k, max(ts + interval {each}) AS t FROM s GROUP BY k" for each in ("12 minutes", "720 seconds")),
    ),
    (
        "branches that exclude each other, in another order",
        "SELECT sum(CASE k WHEN 'a' THEN x WHEN 'b' THEN -x ELSE 0 END) AS t FROM s GROUP BY k",
        "SELECT sum(CASE WHEN k = 'b' THEN -x WHEN k = 'a' THEN x ELSE 0 END) AS t FROM s GROUP BY k",
    ),
    (
        "a value with its default, in other words",
        "SELECT max(CASE WHEN k2 IS NULL THEN k ELSE k2 END) AS t FROM s GROUP BY k",
        "SELECT max(coalesce(k2, k)) AS t FROM s GROUP BY k",
    ),
    (
        "a length in other units, in a join",
        *(
            JOINED.format("", f"w.k = w2.k AND w.ts <= w2.ts + interval {each}", "")
            for each in ("1 hour", "60 minutes")
        ),
    ),
    (
        "nested field beside",
        "SELECT sum(v.a) AS t FROM nested GROUP BY k",
        "SELECT sum(w.v.a) AS t FROM (SELECT k, struct(v, k) AS w FROM nested) GROUP BY k",
    ),
]
"""Pairs of queries whose difference a proof shows to be harmless."""


def over(table: str, condition: str) -> str:
    """Return SQL for a sum over a static table that is computed from filtered rows."""
    return f"SELECT s.k, sum(d.price) AS t FROM s JOIN ({table.format(condition)}) d ON s.x = d.id GROUP BY s.k"


CHANGING = [
    (
        "another length",
        *(f"SELECT k, max(ts + interval {each}) AS t FROM s GROUP BY k" for each in ("12 minutes", "721 seconds")),
    ),
    (
        "the same length taken off",
        *(
            f"SELECT k, max(ts {each}) AS t FROM s GROUP BY k"
            for each in ("+ interval '12' minute", "- interval '720' second")
        ),
    ),
    (
        "a month is no number of days",
        *(f"SELECT k, max(ts + interval {each}) AS t FROM s GROUP BY k" for each in ("1 month", "30 days")),
    ),
    (
        "branches of which two may apply",
        "SELECT sum(CASE WHEN x < 2 THEN 1 WHEN x < 9 THEN 2 END) AS t FROM s GROUP BY k",
        "SELECT sum(CASE WHEN x < 9 THEN 2 WHEN x < 2 THEN 1 END) AS t FROM s GROUP BY k",
    ),
    (
        "branches with their values the other way round",
        "SELECT sum(CASE k WHEN 'a' THEN x WHEN 'b' THEN -x END) AS t FROM s GROUP BY k",
        "SELECT sum(CASE k WHEN 'a' THEN -x WHEN 'b' THEN x END) AS t FROM s GROUP BY k",
    ),
    (
        "branches of a column that ignores case",
        "SELECT sum(CASE k COLLATE UTF8_LCASE WHEN 'a' THEN 1 WHEN 'A' THEN 2 END) AS t FROM s GROUP BY k2",
        "SELECT sum(CASE k COLLATE UTF8_LCASE WHEN 'A' THEN 2 WHEN 'a' THEN 1 END) AS t FROM s GROUP BY k2",
    ),
    (
        "a length that is a column",
        *(f"SELECT max(x * interval {each}) AS t FROM s GROUP BY k" for each in ("'12' minute", "'720' second")),
    ),
    (
        "a length that becomes a text",
        *(f"SELECT max(string(interval {each})) AS t FROM s GROUP BY k" for each in ("'12' minute", "'720' second")),
    ),
    ("rows below a static aggregate", over(DEAREST, ""), over(DEAREST, "WHERE active")),
    ("rows below a static window", over(NEWEST, ""), over(NEWEST, "WHERE active")),
    ("rows of a static optional side", over(OUTER, ""), over(OUTER, "WHERE active")),
    (
        "the type of a parsed map's values",
        *(
            f"SELECT sum(length(string(from_json(k, 'map<string,{each}>')['v']))) AS t FROM s GROUP BY k2"
            for each in ("int", "double")
        ),
    ),
    (
        "fields of a struct that is read by their names",
        *(
            "SELECT sum(variant_get(to_variant_object(named_struct("
            f"'{a}', x, '{b}', y)), '$.a', 'long')) AS t FROM s GROUP BY k"
            for a, b in ("ab", "ba")
        ),
    ),
    (
        "a column whose name begins like a key",
        JOINED.format("", "w.k2 = w2.k2", ""),
        JOINED.format("", "w.k2 = w2.k2", "WHERE w.k IS NOT NULL"),
    ),
    (
        "a key of the side that is kept",
        JOINED.format("LEFT", "w.k2 = w2.k2", ""),
        JOINED.format("LEFT", "w.k2 = w2.k2", "WHERE w.k2 IS NOT NULL"),
    ),
    (
        "sums that Spark keeps apart",
        *(
            f"SELECT sum(a), sum({each}) AS u FROM (SELECT k, cast(x AS int) a, cast(y AS int) b FROM s) GROUP BY k"
            for each in ("cast(a AS long)", "cast(b AS long)")
        ),
    ),
    (
        "another branch around an aggregate",
        *(
            f"SELECT k, CASE WHEN {each} > 2 THEN 'hot' ELSE 'cold' END AS t FROM s GROUP BY k"
            for each in ("count(*)", "sum(x)")
        ),
    ),
    ("a used json field", json_sum("a int"), json_sum("a int", "", "j.a + 1")),
    ("a used json field retyped", json_sum("a int, b int"), json_sum("a double, b int")),
    ("another json field", json_sum("a int, b int"), json_sum("a int, b int", "", "j.b")),
    (
        "not permissive",
        json_sum("a int", "'mode', 'FAILFAST'"),
        json_sum("a int, b int", "'mode', 'FAILFAST'"),
    ),
    ("dropping", json_sum("a int", "'mode', 'DROPMALFORMED'"), json_sum("a int, b int", "'mode', 'DROPMALFORMED'")),
    (
        "corrupt records kept",
        json_sum("a int, _corrupt_record string", LENIENT),
        json_sum("a int, b int, _corrupt_record string", LENIENT),
    ),
    (
        "a parser option",
        json_sum("a int", "'allowSingleQuotes', 'true'"),
        json_sum("a int", "'allowSingleQuotes', 'false'"),
    ),
    (
        "the whole struct in use",
        json_sum("a int", "", "length(to_json(j))"),
        json_sum("a int, b int", "", "length(to_json(j))"),
    ),
    (
        "another percentile's accuracy",
        *(f"SELECT percentile_approx(x, 0.5, {each}) AS t FROM s GROUP BY k" for each in (9, 8)),
    ),
    ("a used field of a lambda's element", reduced("d int"), reduced("d short")),
    ("a lambda's element in whole", reduced("d int", "to_json(e)"), reduced("d int, f string", "to_json(e)")),
    ("csv field added before", csv_sum("a int, b int"), csv_sum("c string, a int, b int")),
    ("csv field retyped before", csv_sum("a int, b int"), csv_sum("a string, b int")),
    ("a used element field", exploded("d int"), exploded("d string")),
    (
        "a narrowing cast",
        "SELECT k, sum(y) AS t FROM s GROUP BY k",
        "SELECT k, sum(cast(y AS int)) AS t FROM s GROUP BY k",
    ),
    (
        "a widened maximum",
        "SELECT k, max(cast(y AS int)) AS t FROM s GROUP BY k",
        "SELECT k, max(cast(cast(y AS int) AS long)) AS t FROM s GROUP BY k",
    ),
    (
        "whole to floating",
        "SELECT k, sum(cast(y AS int)) AS t FROM s GROUP BY k",
        "SELECT k, sum(cast(cast(y AS int) AS double)) AS t FROM s GROUP BY k",
    ),
    (
        "lambda variables swapped",
        "SELECT sum(size(zip_with(array(x), array(y), (a, b) -> a - b))) AS t FROM s GROUP BY k",
        "SELECT sum(size(zip_with(array(x), array(y), (a, b) -> b - a))) AS t FROM s GROUP BY k",
    ),
    ("what does not commute", "SELECT sum(x - y) AS t FROM s GROUP BY k", "SELECT sum(y - x) AS t FROM s GROUP BY k"),
    (
        "the greatest of floating numbers, of which 0.0 and -0.0 are equal",
        *(
            f"SELECT sum(1 / greatest({each})) AS t FROM (SELECT k, double(x) a, double(y) b FROM s) GROUP BY k"
            for each in ("a, b", "b, a")
        ),
    ),
    (
        "the least of texts, of which a collation takes others for equal",
        *(
            f"SELECT first(least({each})) AS t FROM (SELECT k, k2 COLLATE UTF8_LCASE a, x, k COLLATE UTF8_LCASE b "
            "FROM s) GROUP BY x"
            for each in ("a, b", "b, a")
        ),
    ),
    (
        "the least or the greatest",
        *(f"SELECT max({each}(x, y)) AS t FROM s GROUP BY k" for each in ("least", "greatest")),
    ),
    ("one more to choose from", *(f"SELECT max(least({each})) AS t FROM s GROUP BY k" for each in ("x, y", "x, y, 3"))),
    ("first to last of nulls", "SELECT first(x) AS t FROM s GROUP BY k", "SELECT last(x, true) AS t FROM s GROUP BY k"),
    ("first to last of another", "SELECT first(x) AS t FROM s GROUP BY k", "SELECT last(y) AS t FROM s GROUP BY k"),
    (
        "braces in a regex",
        "SELECT sum(length(regexp_replace(k, 'a{1,2}', ''))) AS t FROM s GROUP BY k2",
        "SELECT sum(length(regexp_replace(k, 'a{2,3}', ''))) AS t FROM s GROUP BY k2",
    ),
    (
        "null and 'null'",
        "SELECT count(nullif(k, 'null')) AS t FROM s GROUP BY k2",
        "SELECT count(nullif(k, 'nulls')) AS t FROM s GROUP BY k2",
    ),
    (
        "below the present time",
        "SELECT k, max(p), sum(x) AS t FROM (SELECT k, now() AS p, x FROM s) GROUP BY k",
        "SELECT k, max(p), sum(x) AS t FROM (SELECT k, now() AS p, y AS x FROM s) GROUP BY k",
    ),
]
"""Pairs of queries that differ in something a proof relies on."""


@pytest.mark.parametrize(("old", "new"), [each[1:] for each in HARMLESS], ids=[each[0] for each in HARMLESS])
def test_a_difference_proven_harmless_resumes_in_both_directions(
    described: Callable[..., Manifest], old: str, new: str
) -> None:
    """A difference that is proven harmless resumes in both directions."""
    before, after = described(old), described(new)
    for findings in (find_changes(before, after), find_changes(after, before)):
        assert verdict_of(findings) is Verdict.RESUME, [(each.rule, each.evidence) for each in findings]


@pytest.mark.parametrize(("old", "new"), [each[1:] for each in CHANGING], ids=[each[0] for each in CHANGING])
def test_a_difference_that_breaks_a_condition_of_a_proof_requires_a_switch(
    described: Callable[..., Manifest], old: str, new: str
) -> None:
    """A difference that breaks a condition of a proof requires a SWITCH in both directions."""
    before, after = described(old), described(new)
    for findings in (find_changes(before, after), find_changes(after, before)):
        assert verdict_of(findings) is Verdict.SWITCH, [(each.rule, each.evidence) for each in findings]


def test_swapped_python_functions_or_inputs_require_a_switch(
    described: Callable[..., Manifest], spark: SparkSession, folder: Path
) -> None:
    """Swapping two Python functions or two inputs of a Python function requires a SWITCH, although their bodies and
    names are not in the plan.
    """
    from pyspark.sql import functions as F

    more, less = F.udf(lambda x: x + 1, "long"), F.udf(lambda x: x - 1, "long")

    def of(value: str) -> Manifest:
        stream = read(spark, folder).withColumn("a", more("x")).withColumn("b", less("x"))
        kept = stream.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes"), "k")
        return describe(query(kept.agg(F.sum(F.expr(value)).alias("t"))), spark, bundle_root=None)

    def mapped(one: str, other: str) -> Manifest:
        named = read(spark, folder).selectExpr("k", f"x AS {one}", f"y AS {other}")
        rows = named.mapInPandas(lambda frames: (each.assign(z=each.a - each.b) for each in frames), "k string, z long")
        return describe(query(rows.groupBy("k").agg(F.sum("z").alias("t"))), spark, bundle_root=None)

    assert verdict_of(find_changes(of("a - b"), of("a - b"))) is not Verdict.SWITCH
    assert verdict_of(find_changes(of("a - b"), of("b - a"))) is Verdict.SWITCH
    assert verdict_of(find_changes(mapped("a", "b"), mapped("b", "a"))) is Verdict.SWITCH


def test_a_column_rewritten_in_many_steps_has_a_bounded_meaning(described: Callable[..., Manifest]) -> None:
    """A column rewritten in 14 steps, each of which uses the previous one three times, has a meaning of less than
    20,000 characters, and a changed first step is still detected.
    """
    inner = "SELECT k, x FROM s"
    for step in range(14):
        rewritten = f"CASE WHEN length(k) > {step} THEN regexp_replace(k, '{step}', k) ELSE k END"
        inner = f"SELECT {rewritten} AS k, x FROM ({inner})"
    one = described(f"SELECT k, sum(x) AS t FROM ({inner}) GROUP BY k")
    other = described(f"SELECT k, sum(x) AS t FROM ({inner.replace('> 0', '> 99')}) GROUP BY k")
    assert len(one.operators[0].key_columns[0].meaning) < 20_000
    assert verdict_of(find_changes(one, one)) is Verdict.RESUME
    assert verdict_of(find_changes(one, other)) is Verdict.SWITCH


@pytest.mark.parametrize(
    "conf",
    [{"json_enablePartialResults": "false"}, {"columnNameOfCorruptRecord": "b"}],
    ids=["partial results off", "another column for corrupt records"],
)
def test_a_setting_that_breaks_a_proof_requires_a_switch(
    described: Callable[..., Manifest], conf: dict[str, str]
) -> None:
    """A change that is harmless under Spark's defaults requires a SWITCH under a setting that breaks the proof."""
    before, after = (described(json_sum(schema, LENIENT), **conf) for schema in ("a int", "a int, b string"))
    assert verdict_of(find_changes(before, after)) is Verdict.SWITCH


ITEMS = "k string, items array<struct<d:int,e:int>>"
EXPLODED_ITEMS = "SELECT k, sum(item.d) AS t FROM (SELECT k, explode(items) AS item FROM listed) GROUP BY k"
ADDED_UP = "SELECT k, sum(aggregate(items, 0L, (total, item) -> total + item.d)) AS t FROM listed GROUP BY k"
CHOSEN = "SELECT k, count(*) AS t FROM listed WHERE exists(items, item -> item.d > 1) GROUP BY k"


@pytest.mark.parametrize("sql", [EXPLODED_ITEMS, ADDED_UP, CHOSEN], ids=["exploded", "added up", "chosen by"])
def test_only_fields_that_are_read_from_array_elements_affect_the_verdict(
    spark: SparkSession, folder: Path, sql: str
) -> None:
    """A new field beside the one that is read from an array's elements resumes in both directions, and a different type
    of the field that is read requires a SWITCH.
    """

    def built(schema: str) -> Manifest:
        spark.readStream.schema(schema).json(str(folder)).createOrReplaceTempView("listed")
        return describe(query(spark.sql(sql)), spark, bundle_root=None)

    old, more, retyped = (
        built(ITEMS),
        built(ITEMS.replace("e:int", "e:int,f:string")),
        built(ITEMS.replace("d:int", "d:bigint")),
    )
    assert [verdict_of(find_changes(*pair)) for pair in ((old, more), (more, old))] == [Verdict.RESUME] * 2
    assert [verdict_of(find_changes(*pair)) for pair in ((old, retyped), (retyped, old))] == [Verdict.SWITCH] * 2
