"""Tests that the walk of a plan covers every argument of every node and is the same for two builds of one query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from conformance.walk import RESULTS, FunctionWalk, line_of, variants
from streamkeeper.inspection.canonical_expressions import Meanings, SessionSettings
from streamkeeper.inspection.lineage import Lineage
from streamkeeper.inspection.plan_tree import structure_digest
from streamkeeper.inspection.plan_walker import PlanWalker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SAMPLE = (
    "aggregate approx_count_distinct array_sort coalesce date_format decode from_csv from_json ilike in json_tuple lag "
    "named_struct overlay percentile_approx regexp_replace sequence split to_json transform translate window"
)
"""A sample with a function of every kind; ``python -m conformance.walk`` walks all functions."""


@pytest.fixture(scope="module")
def walk(spark: SparkSession) -> Iterator[FunctionWalk]:
    walking = FunctionWalk(spark)
    yield walking
    walking.close()


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A view over files, none of whose values is a literal that the optimizer could fold."""
    folder = tmp_path_factory.mktemp("walker") / "t"
    rows = spark.range(3).selectExpr(
        "id AS x", "cast(id AS string) AS s", "array(id) AS a", "timestamp_seconds(id) AS ts", "id % 2 = 0 AS b"
    )
    rows.write.parquet(str(folder))
    spark.read.parquet(str(folder)).createOrReplaceTempView("walked")
    return "walked"


def told(spark: SparkSession, sql: str) -> tuple[object, ...]:
    """Return the meaning of a query over the view."""
    walker = PlanWalker(spark)
    tree = walker.walk(walker.optimized(spark.sql(sql)._jdf.queryExecution().analyzed()))
    lineage = Lineage(tree, [], SessionSettings())
    assert not lineage.unknown
    return tuple(lineage.canonical(each) for each in lineage.output.columns), lineage.output.rows, lineage.output.shape


def test_a_change_of_any_literal_changes_the_meaning_of_a_spark_function(walk: FunctionWalk) -> None:
    """For a sample of Spark's functions a change of any literal changes the meaning, and the results equal the
    committed list, which covers the whole registry.
    """
    committed = dict(line.split("\t", 1) for line in RESULTS.read_text().splitlines())
    functions = walk.functions()
    assert set(functions) == set(committed) - {"function"}
    assert not [line for line in committed.values() if line.split("\t")[2] not in ("0", "alike")]
    for name in SAMPLE.split():
        walked = walk.walk(name, functions[name])
        assert walked.alike == []
        assert line_of(walked) == f"{name}\t{committed[name]}"


def test_query_variants_change_one_literal_at_a_time() -> None:
    """Variants of a query change one whole number, fraction or text at a time."""
    assert list(variants("SELECT f(1, 'a2', 0.5)")) == [
        "SELECT f(2, 'a2', 0.5)",
        "SELECT f(1, 'a2z', 0.5)",
        "SELECT f(1, '1a2', 0.5)",
        "SELECT f(1, 'a', 0.5)",
        "SELECT f(1, 'a3', 0.5)",
        "SELECT f(1, 'a2', 1.5)",
    ]


ARGUMENTS = (
    ("InSet", "hset", "s IN ('1','2','3','4','5','6','7','8','9','10','11')", "'11'", "'12'"),
    ("JsonToStructs", "options", "from_json(s, 'a timestamp', map('timestampFormat', 'yyyy'))", "yyyy", "yy"),
    ("First", "ignoreNulls", "first(s, true)", "true", "false"),
    ("Last", "ignoreNulls", "last(s, true)", "true", "false"),
    ("Cast", "dataType", "cast(x AS smallint)", "smallint", "tinyint"),
    (
        "StructsToJsonEvaluator",
        "options",
        "to_json(named_struct('a', ts), map('timestampFormat', 'yyyy'))",
        "yyyy",
        "yy",
    ),
    ("HyperLogLogPlusPlus", "relativeSD", "approx_count_distinct(s, 0.05)", "0.05", "0.04"),
    ("Like", "escapeChar", "s LIKE concat(s, '/_') ESCAPE '/'", "ESCAPE '/'", "ESCAPE '!'"),
    ("Add", "evalContext", "try_add(x, x)", "try_add(x, x)", "x + x"),
    ("LikeAll", "patterns", "s LIKE ALL ('a_b', 'c_d')", "'c_d'", "'e_d'"),
)


@pytest.mark.parametrize(("kind", "argument", "sql", "before", "after"), ARGUMENTS)
def test_queries_that_differ_in_one_argument_have_different_meanings(
    spark: SparkSession,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    argument: str,
    sql: str,
    before: str,
    after: str,
) -> None:
    """Two queries that differ in one argument have different meanings. Negative control: with that argument ignored,
    their meanings are equal.
    """
    one, other = (f"SELECT {each} AS c FROM {table}" for each in (sql, sql.replace(before, after)))
    assert told(spark, one) != told(spark, other)
    whole = Meanings.arguments

    def passing_over(self: Meanings, node: Any, *, without: frozenset[str] = frozenset()) -> Any:
        return whole(self, node, without=without | ({argument} if node.name == kind else set()))

    monkeypatch.setattr(Meanings, "arguments", passing_over)
    assert told(spark, one) == told(spark, other)


def test_two_builds_of_a_query_have_one_structure(spark: SparkSession, table: str) -> None:
    """Two builds of one query have the same structure digest although ids, lambda variables, seeds and the current time
    differ.
    """
    sql = f"SELECT transform(a, (e, i) -> e + i) AS t, now() AS n, rand() AS r FROM {table} WHERE x > 0"
    walker = PlanWalker(spark)
    digests = {
        structure_digest(walker.walk(walker.optimized(spark.sql(sql)._jdf.queryExecution().analyzed())))
        for _ in range(2)
    }
    assert len(digests) == 1


OPERATORS = (
    ("SELECT x FROM {t} WHERE x > 1", "x > 1", "x > 2"),
    ("SELECT x, s FROM {t}", "x, s", "s, x"),
    ("SELECT x FROM {t} ORDER BY x LIMIT 3", "LIMIT 3", "LIMIT 4"),
    ("SELECT x FROM {t} ORDER BY x LIMIT 3", "ORDER BY x", "ORDER BY s"),
    ("SELECT x FROM {t} LIMIT 3 OFFSET 1", "OFFSET 1", "OFFSET 2"),
    ("SELECT x FROM {t} TABLESAMPLE (10 PERCENT) REPEATABLE (1)", "10 PERCENT", "20 PERCENT"),
    ("SELECT DISTINCT x FROM {t}", "DISTINCT x", "x"),
    ("SELECT s, sum(x) FROM {t} GROUP BY s", "GROUP BY s", "GROUP BY s, b"),
    ("SELECT s, sum(x) FROM {t} GROUP BY s HAVING sum(x) > 1", "> 1", "> 2"),
    ("SELECT s, sum(x) FROM {t} GROUP BY ROLLUP (s, b)", "ROLLUP", "CUBE"),
    ("SELECT sum(x) FILTER (WHERE b) FROM {t}", "WHERE b", "WHERE NOT b"),
    ("SELECT l.x FROM {t} l JOIN {t} r ON l.x = r.x", "l.x = r.x", "l.s = r.s"),
    ("SELECT l.x FROM {t} l JOIN {t} r ON l.x = r.x", " JOIN", " LEFT JOIN"),
    ("SELECT l.x FROM {t} l SEMI JOIN {t} r ON l.x = r.x", "SEMI", "ANTI"),
    ("SELECT l.x FROM {t} l JOIN {t} r ON l.x = r.x WHERE r.b", "r.b", "NOT r.b"),
    ("SELECT x FROM {t} UNION ALL SELECT size(a) FROM {t}", "size(a)", "x"),
    ("SELECT x FROM {t} UNION SELECT size(a) FROM {t}", "UNION", "UNION ALL"),
    ("SELECT x FROM {t} EXCEPT SELECT size(a) FROM {t}", "EXCEPT", "INTERSECT"),
    ("SELECT x, explode(a) FROM {t}", "explode(a)", "explode(array(x))"),
    ("SELECT x, explode(a) FROM {t}", "explode", "explode_outer"),
    ("SELECT x, posexplode(a) FROM {t}", "posexplode(a)", "explode(map(x, x))"),
    ("SELECT x FROM {t} LATERAL VIEW OUTER explode(a) e AS c", "OUTER ", ""),
    ("SELECT x, row_number() OVER (PARTITION BY s ORDER BY x) FROM {t}", "PARTITION BY s", "PARTITION BY b"),
    ("SELECT x, row_number() OVER (PARTITION BY s ORDER BY x) FROM {t}", "ORDER BY x", "ORDER BY x DESC"),
    ("SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {t}", "1 PREC", "2 PREC"),
    ("SELECT x FROM {t} WHERE x = (SELECT max(x) FROM {t})", "max(x)", "min(x)"),
    ("SELECT x FROM {t} WHERE x IN (SELECT x FROM {t} WHERE b)", "WHERE b", "WHERE NOT b"),
    ("SELECT x FROM {t} l WHERE EXISTS (SELECT 1 FROM {t} r WHERE r.x = l.x)", "r.x = l.x", "r.s = l.s"),
    ("WITH c AS (SELECT x + 1 AS y FROM {t}) SELECT y FROM c", "x + 1", "x + 2"),
    ("SELECT * FROM {t} PIVOT (sum(x) FOR s IN ('1', '2'))", "'2'", "'3'"),
    ("SELECT * FROM (SELECT x, size(a) AS z FROM {t}) UNPIVOT (v FOR n IN (x, z))", "(x, z)", "(z, x)"),
    ("SELECT t.x, u.y FROM {t} t, LATERAL (SELECT t.x + 1 AS y) u", "+ 1", "+ 2"),
    ("SELECT x FROM VALUES (1), (2) AS v(x)", "(2)", "(3)"),
    ("SELECT id FROM range(1, 9, 2)", "9, 2", "9, 3"),
    ("SELECT stack(2, x, 1, x, 2) FROM {t}", "x, 2)", "x, 3)"),
    ("SELECT inline(array(struct(x, s))) FROM {t}", "x, s", "s, x"),
)


@pytest.mark.parametrize(("sql", "before", "after"), OPERATORS)
def test_a_change_of_any_operator_argument_changes_the_meaning(
    spark: SparkSession, table: str, sql: str, before: str, after: str
) -> None:
    """A change of any operator argument that SQL can express changes the query's meaning."""
    assert before in sql
    one, other = (each.format(t=table) for each in (sql, sql.replace(before, after, 1)))
    assert told(spark, one) == told(spark, one)
    assert told(spark, one) != told(spark, other)
