"""The functions and static rows that a plan runs: their content shows nowhere in a plan, so it is digested here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.batch_columns import BatchColumns, columns_of_function
from streamkeeper.inspection.carried import carried_results
from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.operators import keeps_state
from streamkeeper.inspection.plan_reading import QueryPlan, class_name, expressions, items, walk
from streamkeeper.inspection.written import line_of_function, lines_in_bundle
from streamkeeper.model.manifest import ABOVE_STATE, ALL_COLUMNS, BELOW_STATE, SINK_FUNCTION, UNREADABLE
from streamkeeper.model.secret_names import masked
from streamkeeper.sinks.contract import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_ROWS = 10_000
_MOST_WORDS = 500
_SQL = re.compile(
    r"\s*(alter|copy|create|delete|drop|insert|merge|replace|select|truncate|update|with)\s", re.IGNORECASE
)


class PlanFunctions(NamedTuple):
    """Of all that a plan runs, by ``place/number name`` (``model.manifest`` has the places): ``digests``; ``lines``:
    ``file:line`` of those that are Python; ``carried``: which of them deduplications only carry."""

    digests: dict[str, str]
    lines: dict[str, str]
    carried: list[str]


def find_functions(plan: QueryPlan, digests: CodeDigest) -> PlanFunctions:
    """What a plan runs, from the bottom upward."""
    found = PlanFunctions({}, {}, [])
    results = carried_results(plan.tree)
    for node, place in reversed(_top_down(plan.chosen)):
        for name, digest, line, is_carried in _of_node(plan.spark, node, digests, results):
            number = sum(1 for key in found.digests if key.startswith(place))
            known = f"{place}{number} {name}"
            found.digests[known] = digest
            found.lines[known] = line
            if is_carried and place == BELOW_STATE:
                found.carried.append(known)
    return found


def _top_down(plan: Any) -> list[tuple[Any, str]]:
    """Every node with its place, a node before those below it, the last of these first."""
    found: list[tuple[Any, str]] = []
    waiting = [(plan, ABOVE_STATE)]
    while waiting:
        node, place = waiting.pop()
        place = BELOW_STATE if place == BELOW_STATE or keeps_state(node) else place
        found.append((node, place))
        waiting += [(child, place) for child in items(node.children())]
    return found


class SinkFunctions(NamedTuple):
    """Of all functions that a sink runs, by place and name: ``digests``; ``lines``: ``file:line``; ``routing``: digests
    of what may decide where rows go; ``names``: what they name in their code and in the values they hold, such as
    tables, paths, statements, sorted; ``columns``: what each does with its batch's.

    Secrets are masked; a text of several words counts as a name where it is SQL.
    """

    digests: dict[str, str]
    lines: dict[str, str]
    routing: dict[str, str]
    names: tuple[str, ...]
    columns: tuple[BatchColumns, ...] = ()

    def used(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Those of the output's columns that a function may use as a key, route or unit; None: any that it had."""
        if any(each.every for each in self.columns):
            return (ALL_COLUMNS,)
        of_each = [each.used(columns) for each in self.columns]
        known = {name for used in of_each for name in used or ()}
        return None if None in of_each else tuple(sorted(known))

    def reads(self, bundle_root: Path | None) -> dict[str, str]:
        """Columns that a function certainly reads -> ``file:line`` in the bundle, empty elsewhere."""
        found = {name: line for each in self.columns for name, line in each.reads.items()}
        lines = lines_in_bundle(found, bundle_root)
        return {name: lines.get(name, "") for name in sorted(found)}


def find_sink_functions(sink: Sink, digests: CodeDigest) -> SinkFunctions:
    """What the job's author gave the sink to call."""
    functions = {f"{SINK_FUNCTION}{name}": function for name, function in sorted(_sink_functions(sink).items())}
    read = {place: digests.read(function) for place, function in functions.items()}
    return SinkFunctions(
        digests={place: digest for place, (digest, _) in read.items()},
        lines={place: line_of_function(function) for place, function in functions.items()},
        routing={place: digests.routing(function) for place, function in functions.items()},
        names=tuple(sorted({masked(text) for _, texts in read.values() for text in texts if _is_name(text)})),
        columns=tuple(columns_of_function(function, digests.own) for function in functions.values()),
    )


def _is_name(text: str) -> bool:
    words = text.split()
    return 0 < len(words) <= _MOST_WORDS and (len(words) == 1 or _SQL.match(text) is not None)


def _of_node(
    spark: SparkSession, node: Any, digests: CodeDigest, carried: frozenset[int]
) -> Iterator[tuple[str, str, str, bool]]:
    """Name, digest and line of each, and whether it is only carried."""
    for expression, is_carried in _expressions(node, carried):
        kind = class_name(expression)
        if kind in spark_classes.PYTHON_FUNCTIONS:
            yield str(expression.name()), *_python_digest(expression.func(), digests), is_carried
        elif kind in spark_classes.JVM_FUNCTIONS:
            name = expression.getClass().getName()
            yield kind, f"{UNREADABLE}{name}", "", is_carried
    subqueries = [inner for subquery in items(node.subqueries()) for inner in walk(subquery)]
    for plan_node in (node, *subqueries):
        if _holds_rows(plan_node):
            yield "rows", _rows_digest(spark, plan_node), "", False


def _expressions(node: Any, carried: frozenset[int]) -> Iterator[tuple[Any, bool]]:
    """Every expression of a node, with whether what it is for is only carried."""
    if class_name(node) not in spark_classes.PYTHON_EVALUATION:
        yield from ((expression, False) for expression in expressions(node))
        return
    for function, result in zip(items(node.udfs()), items(node.resultAttrs()), strict=True):
        yield from ((expression, int(result.exprId().id()) in carried) for expression in walk(function))
    for inner in (inner for subquery in items(node.subqueries()) for inner in walk(subquery)):
        yield from ((expression, False) for expression in expressions(inner))


def _holds_rows(node: Any) -> bool:
    return class_name(node) in spark_classes.STATIC_ROWS and not node.isStreaming() and not node.output().isEmpty()


def _python_digest(python: Any, digests: CodeDigest) -> tuple[str, str]:
    """Digest and line of what was pickled: the function, with the type that it returns."""
    from pyspark.serializers import CPickleSerializer

    try:
        with _broadcasts(python):
            function = CPickleSerializer().loads(bytes(python.command().unsafeArray()))
    except Exception as reason:  # unpickling runs the job's own code, which may raise anything
        return f"{UNREADABLE}{type(reason).__name__}", ""
    return digests.of(function), line_of_function(function[0] if isinstance(function, tuple) else function)


@contextmanager
def _broadcasts(python: Any) -> Iterator[None]:
    """The function's broadcast variables are there meanwhile to be unpickled, as they are in a Python worker."""
    from pyspark.core.broadcast import Broadcast, _broadcastRegistry

    given: dict[int, Any] = {}
    for broadcast in python.broadcastVars():
        path = broadcast.value().path()
        given[int(broadcast.id())] = Broadcast(path=path)
    before = dict(_broadcastRegistry)
    _broadcastRegistry.update(given)
    try:
        yield
    finally:
        _broadcastRegistry.clear()
        _broadcastRegistry.update(before)


def _rows_digest(spark: SparkSession, relation: Any) -> str:
    """Rows that the job itself made; a large set is not read."""
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, relation)
    rows = DataFrame(dataset, spark).limit(_MOST_ROWS + 1).collect()
    if len(rows) > _MOST_ROWS:
        return f"{UNREADABLE}more than {_MOST_ROWS} rows"
    return hashlib.sha256(json.dumps([repr(row) for row in rows]).encode()).hexdigest()


def _sink_functions(sink: Sink) -> dict[str, object]:
    """What the job's author gave the sink to call; a sink's own methods are not that."""
    names = getattr(sink, "__struct_fields__", None) or getattr(sink, "__dataclass_fields__", None) or vars(sink)
    return {str(name): getattr(sink, name) for name in names if callable(getattr(sink, name))}
