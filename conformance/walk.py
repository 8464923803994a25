"""``python -m conformance.walk``: does the plan walker see every argument of every function of Spark?

Each function's own examples (``ExpressionInfo``) are walked, then walked again with one literal changed at a time. If
the walker sees no difference between two plans, both must evaluate to the same rows, or differ only by a random seed.
``bench/results/walk.tsv`` has one line per function: how many changes were distinguished, how many were not but
evaluate to the same rows, how many were not although they evaluate differently, and how many examples could not be
built.

--only a,b    only these functions
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.places import ROOT
from streamkeeper.inspection.canonical_expressions import SessionSettings
from streamkeeper.inspection.lineage import Lineage
from streamkeeper.inspection.plan_walker import PlanWalker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = ROOT / "bench/results/walk.tsv"
_SEEDED = frozenset({"rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"})
_FOLDING = (
    "BooleanSimplification",
    "ConstantFolding",
    "ConvertToLocalRelation",
    "EvaluateUnresolvedInlineTable",
    "FoldablePropagation",
    "NullPropagation",
    "PropagateEmptyRelation",
    "SimplifyConditionals",
)
"""Optimizer rules that would replace an expression over literals by its result."""

_CONF = {
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{each}" for each in _FOLDING
    ),
    "spark.sql.timeType.enabled": "true",
}
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'|(?<![\w.'])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[LSYDF]?\b(?!')")
_DIGIT = re.compile(r"\d")


class Walked(msgspec.Struct):
    """The result of one function. ``alike``: changes that the walker did not distinguish although they evaluate
    differently.
    """

    function: str
    told: int = 0
    equal: int = 0
    alike: list[str] = []
    unknown: set[str] = set()
    unbuilt: int = 0


class FunctionWalk:
    """Walks the examples of functions in one session; it changes settings of that session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._walker = PlanWalker(spark)
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        for key, value in _CONF.items():
            spark.conf.set(key, value)
        self._zone = str(spark.conf.get("spark.sql.session.timeZone"))
        self._registry: Any = spark._jsparkSession.sessionState().functionRegistry()

    def close(self) -> None:
        """Unset the settings that were changed."""
        for key in _CONF:
            self._spark.conf.unset(key)

    def functions(self) -> dict[str, list[str]]:
        """Return the examples of each function, as SQL."""
        found = {}
        names = self._registry.listFunction().iterator()
        while names.hasNext():
            name = names.next()
            info = self._registry.lookupFunction(name)
            lines = str(info.get().getExamples()).splitlines() if info.isDefined() else []
            found[str(name.funcName())] = [
                line.strip()[2:].rstrip(";").strip() for line in lines if line.strip().startswith("> ")
            ]
        return dict(sorted(found.items()))

    def walk(self, function: str, examples: list[str]) -> Walked:
        """Compare every example with its variants, each of which has one literal changed."""
        result = Walked(function)
        for sql in examples:
            built = self._told(sql)
            if built is None:
                result.unbuilt += 1
                continue
            meaning, unknown = built
            result.unknown |= set(unknown)
            for changed in variants(sql):
                other = self._told(changed)
                if other is None:
                    continue
                if other[0] != meaning or other[1]:
                    result.told += 1
                elif function in _SEEDED or self._evaluate(sql) == self._evaluate(changed):
                    result.equal += 1
                else:
                    result.alike.append(changed)
        return result

    def _told(self, sql: str) -> tuple[object, tuple[str, ...]] | None:
        """Return the walker's canonical form of a query and the unknown classes in it, or None if Spark rejects the
        query.
        """
        try:
            analyzed = self._spark.sql(sql)._jdf.queryExecution().analyzed()
            tree = self._walker.walk(self._walker.optimized(analyzed))
        except Exception:  # a literal that does not fit its place is no change anybody could make
            return None
        lineage = Lineage(tree, [], SessionSettings(time_zone=self._zone))
        columns = [lineage.canonical(number) for number in lineage.output.columns]
        return (columns, lineage.output.rows, lineage.output.shape), lineage.unknown

    def _evaluate(self, sql: str) -> str:
        try:
            return str([tuple(row) for row in self._spark.sql(sql).collect()])
        except Exception as error:
            return type(error).__name__


def variants(sql: str) -> Iterator[str]:
    """Yield the query with one of its literals changed, in every way that may still be valid there."""
    for literal in _LITERAL.finditer(sql):
        text = literal[0]
        if text.startswith("'"):
            inner = text[1:-1]
            digit = _DIGIT.search(inner)
            others = [f"{inner}z", f"1{inner}", inner[:-1]]
            if digit is not None:
                others.append(f"{inner[: digit.start()]}{(int(digit[0]) + 1) % 10}{inner[digit.end() :]}")
            changed = [f"'{each}'" for each in others if each != inner]
        else:
            whole = re.match(r"\d+", text)
            assert whole is not None
            changed = [f"{int(whole[0]) + 1}{text[whole.end() :]}"]
        for each in changed:
            yield f"{sql[: literal.start()]}{each}{sql[literal.end() :]}"


def line_of(walked: Walked) -> str:
    """Return a function's line of the committed list."""
    cells = (walked.told, walked.equal, len(walked.alike), walked.unbuilt, " ".join(sorted(walked.unknown)))
    return "\t".join((walked.function, *(str(each) for each in cells)))


def main() -> int:
    """Walk the functions; return 1 if any change that evaluates differently was not distinguished."""
    from conformance.matrix.runs import open_session

    parser = argparse.ArgumentParser(prog="conformance.walk", description="Every argument of Spark's functions.")
    parser.add_argument("--only", default="")
    only = frozenset(filter(None, parser.parse_args().only.split(",")))
    lines, alike = [], []
    with open_session(Path(ROOT, "build/walk")) as spark:
        walk = FunctionWalk(spark)
        for function, examples in walk.functions().items():
            if not only or function in only:
                walked = walk.walk(function, examples)
                lines.append(line_of(walked))
                alike += [f"{function}: {each}" for each in walked.alike]
    head = "function\ttold apart\tequal\talike\texamples not built\tunknown"
    if only:
        print("\n".join((head, *lines)))
    else:
        RESULTS.write_text("\n".join((head, *lines)) + "\n")
        print(f"{len(lines)} functions, {sum(int(each.split(chr(9))[1]) for each in lines)} changes told apart")
    print("\n".join(alike))
    return 1 if alike else 0


if __name__ == "__main__":
    raise SystemExit(main())
