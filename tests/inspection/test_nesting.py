"""Tests expressions nested as deeply as Spark plans them and deeper than Python's own recursion limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from operator import add, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.authoring.definition import JobDefinition
from streamkeeper.compatibility.assess import find_changes
from streamkeeper.errors import JobUnusable
from streamkeeper.inspection import query_manifest as describing
from streamkeeper.inspection.canonical_expressions import SessionSettings
from streamkeeper.inspection.lineage import Lineage
from streamkeeper.inspection.nesting import Nesting
from streamkeeper.inspection.normalised import normalised
from streamkeeper.inspection.plan_tree import EXPRESSION, PLAN, Node, Tagged, structure_digest
from streamkeeper.inspection.query_manifest import describe
from tests.inspection.queries import query, read, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEPTH = 20_000
SPARKS_DEPTH = 200
"""A depth below the 260 to 320 levels at which Spark stops on the JVM's default stack, depending on the expressions'
shape and on the code compiled so far.
"""
SPARKS_WIDTH = 100
"""A width above the 25 fields after which Spark by default truncates the text of a plan's node."""


def test_nested_calls_may_exceed_the_recursion_limit() -> None:
    """Nested calls exceed Python's recursion limit, and that limit and the counted depth are unchanged afterwards."""
    nesting, limit = Nesting(), sys.getrecursionlimit()

    def count(number: int) -> int:
        return 1 + nesting.call(count, number - 1) if number else 0

    assert nesting.call(count, DEPTH) == DEPTH
    assert sys.getrecursionlimit() == limit
    assert nesting._open == 0


def test_an_exception_in_a_deeply_nested_call_reaches_the_caller_unchanged() -> None:
    """An exception in a deeply nested call reaches the caller unchanged and resets the counted depth."""
    nesting = Nesting()

    def fail(number: int) -> int:
        if not number:
            raise KeyError("at the bottom")
        return nesting.call(fail, number - 1)

    with pytest.raises(KeyError, match="at the bottom"):
        nesting.call(fail, 200)
    assert nesting._open == 0


def deep_plan(depth: int, literal: int) -> Node:
    """Return the plan of ``SELECT 0 + 1 + … FROM`` a range, with the given literal in the middle."""

    def number(value: int) -> Node:
        return Node(EXPRESSION, "Literal", {"value": value, "dataType": Tagged("t", "long")})

    terms = [number(literal if each == depth // 2 else 1) for each in range(depth)]
    whole = reduce(lambda left, right: Node(EXPRESSION, "Add", {"left": left, "right": right}), terms)
    column = Node(EXPRESSION, "Alias", {"child": whole, "name": "c", "exprId": Tagged("id", 1)})
    rows = Node(PLAN, "Range", {"start": 0, "output": []})
    return Node(PLAN, "Project", {"projectList": [column], "child": rows})


def test_a_literal_deep_inside_is_part_of_digest_and_meaning() -> None:
    """A literal nested 3000 levels deep, deeper than Spark's stack allows, changes the plan's digest, its normalised
    form and its meaning.
    """
    one, same, other = deep_plan(3000, 7), deep_plan(3000, 7), deep_plan(3000, 8)
    assert structure_digest(one) == structure_digest(same) != structure_digest(other)
    assert normalised("plan", one) == normalised("plan", same) != normalised("plan", other)
    meanings = [Lineage(each, [], SessionSettings()).canonical(1) for each in (one, same, other)]
    assert meanings[0] == meanings[1] != meanings[2]


def test_plans_inside_each_other_are_read_at_any_depth() -> None:
    """A plan of 3000 nested filters is read completely, and each filter's condition counts."""
    condition = Node(EXPRESSION, "Literal", {"value": True, "dataType": Tagged("t", "boolean")})
    plan = Node(PLAN, "Range", {"start": 0, "output": []})
    for _ in range(3000):
        plan = Node(PLAN, "Filter", {"condition": condition, "child": plan})
    assert Lineage(plan, [], SessionSettings()).output.rows == ("True:boolean",)


Build = Callable[["DataFrame", int], "DataFrame"]


def sum_of_terms(stream: DataFrame, literal: int) -> DataFrame:
    from pyspark.sql import functions as F

    terms = [F.col("x") * (literal if each == SPARKS_DEPTH // 2 else 1) for each in range(SPARKS_DEPTH)]
    return stream.groupBy("k").agg(F.sum(reduce(add, terms)).alias("s"))


def columns_of_columns(stream: DataFrame, literal: int) -> DataFrame:
    from pyspark.sql import functions as F

    for each in range(SPARKS_DEPTH):
        stream = stream.withColumn("x", F.col("x") % 1000 * 3 + (literal if each == SPARKS_DEPTH // 2 else 1))
    return stream.groupBy("k").agg(F.sum("x").alias("s"))


def wide_select(stream: DataFrame, literal: int) -> DataFrame:
    wide = [f"x + {literal if each == 50 else 1000 + each} AS c{each}" for each in range(SPARKS_WIDTH)]
    sums = [f"sum(c{each})" for each in range(SPARKS_WIDTH)]
    from pyspark.sql import functions as F

    return stream.selectExpr("k", *wide).groupBy("k").agg(*(F.expr(each) for each in sums))


def cases_in_cases(stream: DataFrame, literal: int) -> DataFrame:
    from pyspark.sql import functions as F

    case = F.lit(-1)
    for each in range(SPARKS_DEPTH):
        case = F.when(F.col("x") == (literal if each == SPARKS_DEPTH // 2 else 1000 + each), each).otherwise(case)
    return stream.groupBy("k").agg(F.sum(case).alias("s"))


def one_long_case(stream: DataFrame, literal: int) -> DataFrame:
    cases = [f"WHEN x = {literal if each == 50 else 1000 + each} THEN {each}" for each in range(SPARKS_WIDTH)]
    from pyspark.sql import functions as F

    return stream.groupBy("k").agg(F.expr(f"sum(CASE {' '.join(cases)} END)").alias("s"))


def alternatives(stream: DataFrame, literal: int) -> DataFrame:
    from pyspark.sql import functions as F

    each_one = [
        (F.col("x") == (literal if n == SPARKS_DEPTH // 2 else 1000 + n)) & (F.col("y") > n) for n in range(200)
    ]
    return stream.groupBy("k").agg(F.max(reduce(or_, each_one)).alias("s"))


def calls_in_calls(stream: DataFrame, literal: int) -> DataFrame:
    from pyspark.sql import functions as F

    key = F.col("k")
    for each in range(SPARKS_DEPTH):
        key = F.regexp_replace(key, f"a{literal if each == SPARKS_DEPTH // 2 else 1000 + each}", "b")
    return stream.groupBy(key.alias("g")).agg(F.sum("x").alias("s"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (sum_of_terms, "aggregate-input-changed"),
        (columns_of_columns, "aggregate-input-changed"),
        (wide_select, "aggregate-input-changed"),
        (cases_in_cases, "aggregate-input-changed"),
        (one_long_case, "aggregate-input-changed"),
        (alternatives, "aggregate-input-changed"),
        (calls_in_calls, "grouping-key-changed"),
    ],
)
def test_a_changed_deeply_nested_literal_is_reported_by_its_rule(
    spark: SparkSession, tmp_path: Path, build: Build, rule: str
) -> None:
    """A changed literal deep inside a query that Spark itself can run is reported by the matching rule."""
    write_files(tmp_path / "in", 1)

    def described(literal: int) -> Any:
        return describe(query(build(read(spark, tmp_path / "in"), literal)), spark, bundle_root=None)

    before, after = described(7), described(8)
    assert [each.rule for each in find_changes(before, before)] == []
    assert rule in {each.rule for each in find_changes(before, after)}


@pytest.mark.spark
def test_a_job_nested_too_deeply_for_spark_fails_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    """A job that is nested too deeply for Spark fails with one line that names the job, the error and ``-Xss16m``,
    which gives the JVM more stack.
    """
    write_files(tmp_path / "in", 1)

    def build(session: SparkSession, params: object) -> Any:
        from pyspark.sql import functions as F

        yield query(read(session, tmp_path / "in").select(reduce(add, [F.col("x")] * 5000)))

    with pytest.raises(JobUnusable, match="-Xss16m") as refused:
        list(JobDefinition(name="deep", params={}, function=build).build(spark, {}))
    assert "job deep failed to build" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("calling o1.sql.\n: java.lang.StackOverflowError\n\tat x"), "for Spark to plan it.*-Xss16m"),
        (RecursionError("maximum recursion depth exceeded"), "to be described.*fewer steps"),
    ],
)
def test_a_query_that_overflows_the_stack_is_named_in_the_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """A query that overflows the stack of the JVM or of Python fails with a message that names the query and the
    remedy.
    """
    write_files(tmp_path / "in", 1)

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(describing, "_described", fail)
    with pytest.raises(JobUnusable, match=f"query totals is nested too deeply {told}"):
        describe(query(read(spark, tmp_path / "in")), spark, bundle_root=None)
