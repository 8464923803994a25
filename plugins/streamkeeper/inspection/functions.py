"""Computes digests of the functions and static rows that a plan uses, because a plan does not show their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.batch_columns import BatchColumns, columns_of_function
from streamkeeper.inspection.carried import carried_results
from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.operators import keeps_state
from streamkeeper.inspection.order_of_rows import order_counts
from streamkeeper.inspection.plan_reading import QueryPlan, class_name, expressions, items, walk
from streamkeeper.inspection.written import line_of_function, lines_in_bundle
from streamkeeper.model.manifests.manifest import ABOVE_STATE, ALL_COLUMNS, BELOW_STATE, SINK_FUNCTION, UNREADABLE
from streamkeeper.model.secret_names import masked
from streamkeeper.sinks.contract import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_ROWS = 10_000
_MOST_WORDS = 500
_UNORDERED = "1:"
"""The version of unordered digests. It is raised when ``order_of_rows`` proves more, because older digests must not
equal newer ones.
"""
_SQL = re.compile(
    r"\s*(alter|copy|create|delete|drop|insert|merge|replace|select|truncate|update|with)\s", re.IGNORECASE
)


class PlanFunctions(NamedTuple):
    """The functions and static rows of a plan. Each has a name of the form ``place/number name``.

    ``model.manifests.manifest`` documents which part of the plan each ``place`` stands for.
    """

    digests: dict[str, str]
    """Name -> digest."""
    lines: dict[str, str]
    """Name of a Python function -> ``file:line``."""
    carried: list[str]
    """The names of functions whose results deduplications only carry."""
    essentials: dict[str, str]
    """Name -> digest, as in ``Manifest.essentials``."""
    rewritten: dict[str, str]
    """Name -> digest, as in ``Manifest.rewritten``."""


class _Found(NamedTuple):
    """One function, or one set of static rows, of a node."""

    name: str
    """The name of the function, or ``rows``."""
    digest: str
    """The digest of the function or the rows."""
    line: str = ""
    """The ``file:line`` of a Python function."""
    is_carried: bool = False
    """Whether a deduplication only carries the function's result."""
    essential: str = ""
    """The digest for ``Manifest.essentials``; empty without one."""
    rewritten: str = ""
    """The digest for ``Manifest.rewritten``; empty without one."""


def find_functions(plan: QueryPlan, digests: CodeDigest) -> PlanFunctions:
    """Return the functions and static rows that a plan uses, from the bottom of the plan upward."""
    found = PlanFunctions({}, {}, [], {}, {})
    results = carried_results(plan.tree)
    for node, place, above in reversed(_top_down(plan.chosen)):
        for each in _of_node(plan.spark, node, above, digests, results):
            number = sum(1 for key in found.digests if key.startswith(place))
            known = f"{place}{number} {each.name}"
            found.digests[known] = each.digest
            found.lines[known] = each.line
            if each.is_carried and place == BELOW_STATE:
                found.carried.append(known)
            if each.essential:
                found.essentials[known] = each.essential
            if each.rewritten:
                found.rewritten[known] = each.rewritten
    return found


class _Above(NamedTuple):
    """The nodes above a node, as a linked list that starts with the nearest."""

    node: Any
    further: _Above | None

    def nodes(self) -> Iterator[Any]:
        above: _Above | None = self
        while above is not None:
            yield above.node
            above = above.further


def _top_down(plan: Any) -> list[tuple[Any, str, _Above | None]]:
    """Return every node with its place and the nodes above it; a node precedes its children, the last child first."""
    found: list[tuple[Any, str, _Above | None]] = []
    waiting: list[tuple[Any, str, _Above | None]] = [(plan, ABOVE_STATE, None)]
    while waiting:
        node, place, above = waiting.pop()
        place = BELOW_STATE if place == BELOW_STATE or keeps_state(node) else place
        found.append((node, place, above))
        waiting += [(child, place, _Above(node, above)) for child in items(node.children())]
    return found


class SinkFunctions(NamedTuple):
    """All functions that a sink runs.

    Secrets are masked. A string of several words is in ``names`` only if the string is SQL.
    """

    digests: dict[str, str]
    """Name -> digest."""
    lines: dict[str, str]
    """Name -> ``file:line``."""
    routing: dict[str, str]
    """Name -> digest of the parts that may decide where rows are written."""
    names: tuple[str, ...]
    """Sorted names in the functions' code and values, such as tables, paths and statements."""
    columns: tuple[BatchColumns, ...] = ()
    """For each function, how it uses its batch's columns."""
    rewritten: Mapping[str, str] = MappingProxyType({})
    """Name -> digest, as in ``Manifest.rewritten``."""

    def used(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Return those of the given columns that the functions name in their code.

        A function may use such a column for more than its values, for example to identify or route rows. The result is
        only ``*`` if a function computes something from all columns at once. Otherwise it is None if a function may use
        any column.
        """
        if any(each.every for each in self.columns):
            return (ALL_COLUMNS,)
        of_each = [each.used(columns) for each in self.columns]
        known = {name for used in of_each for name in used or ()}
        return None if None in of_each else tuple(sorted(known))

    def reads(self, bundle_root: Path | None) -> dict[str, str]:
        """Return the columns that a function certainly reads from its batch, each with the ``file:line`` of the read.

        The ``file:line`` is empty for code outside the bundle.
        """
        found = {name: line for each in self.columns for name, line in each.reads.items()}
        lines = lines_in_bundle(found, bundle_root)
        return {name: lines.get(name, "") for name in sorted(found)}


def find_sink_functions(sink: Sink, digests: CodeDigest) -> SinkFunctions:
    """Return the functions that the job's author passed to the sink."""
    functions = {f"{SINK_FUNCTION}{name}": function for name, function in sorted(_sink_functions(sink).items())}
    read = {place: digests.read(function) for place, function in functions.items()}
    return SinkFunctions(
        digests={place: digest for place, (digest, _) in read.items()},
        lines={place: line_of_function(function) for place, function in functions.items()},
        routing={place: digests.routing(function) for place, function in functions.items()},
        names=tuple(sorted({masked(text) for _, texts in read.values() for text in texts if _is_name(text)})),
        columns=tuple(columns_of_function(function, digests.own) for function in functions.values()),
        rewritten={
            place: rewritten
            for place, function in functions.items()
            if (rewritten := digests.normal_forms(function).rewritten)
        },
    )


def _is_name(text: str) -> bool:
    words = text.split()
    return 0 < len(words) <= _MOST_WORDS and (len(words) == 1 or _SQL.match(text) is not None)


def _of_node(
    spark: SparkSession, node: Any, above: _Above | None, digests: CodeDigest, carried: frozenset[int]
) -> Iterator[_Found]:
    """Yield the functions and rows of one node.

    ``spark``: the session.
    ``node``: the node.
    ``above``: the nodes above it.
    ``digests``: computes digests.
    ``carried``: expression ids of results that are only carried.
    """
    for expression, is_carried in _expressions(node, carried):
        kind = class_name(expression)
        if kind in spark_classes.PYTHON_FUNCTIONS:
            yield _python(expression, digests)._replace(is_carried=is_carried)
        elif kind in spark_classes.JVM_FUNCTIONS:
            yield _Found(kind, f"{UNREADABLE}{expression.getClass().getName()}")
    if _holds_rows(node):
        yield _rows(spark, node, list(above.nodes()) if above else [])
    for inner in (inner for subquery in items(node.subqueries()) for inner in walk(subquery)):
        if _holds_rows(inner):
            yield _rows(spark, inner, [])


def _expressions(node: Any, carried: frozenset[int]) -> Iterator[tuple[Any, bool]]:
    """Yield every expression of a node, and whether deduplications only carry its result."""
    if class_name(node) not in spark_classes.PYTHON_EVALUATION:
        yield from ((expression, False) for expression in expressions(node))
        return
    for function, result in zip(items(node.udfs()), items(node.resultAttrs()), strict=True):
        yield from ((expression, int(result.exprId().id()) in carried) for expression in walk(function))
    for inner in (inner for subquery in items(node.subqueries()) for inner in walk(subquery)):
        yield from ((expression, False) for expression in expressions(inner))


def _holds_rows(node: Any) -> bool:
    return class_name(node) in spark_classes.STATIC_ROWS and not node.isStreaming() and not node.output().isEmpty()


def _python(expression: Any, digests: CodeDigest) -> _Found:
    """Return the digests of a pickled Python function together with its return type."""
    from pyspark.serializers import CPickleSerializer

    name, python = str(expression.name()), expression.func()
    try:
        with _broadcasts(python):
            function = CPickleSerializer().loads(bytes(python.command().unsafeArray()))
    except Exception as reason:  # unpickling runs the job's own code, which may raise anything
        return _Found(name, f"{UNREADABLE}{type(reason).__name__}")
    line = line_of_function(function[0] if isinstance(function, tuple) else function)
    renamed, rewritten = digests.normal_forms(function)
    return _Found(name, digests.of(function), line, essential=renamed, rewritten=rewritten)


@contextmanager
def _broadcasts(python: Any) -> Iterator[None]:
    """Provide the function's broadcast variables during the ``with`` block, so that the function can be unpickled as in
    a worker.
    """
    from pyspark.core.broadcast import Broadcast, _broadcastRegistry

    variables: dict[int, Any] = {}
    for broadcast in python.broadcastVars():
        path = broadcast.value().path()
        variables[int(broadcast.id())] = Broadcast(path=path)
    before = dict(_broadcastRegistry)
    _broadcastRegistry.update(variables)
    try:
        yield
    finally:
        _broadcastRegistry.clear()
        _broadcastRegistry.update(before)


def _rows(spark: SparkSession, relation: Any, above: Sequence[Any]) -> _Found:
    """Return the digests of rows that the job itself created. If there are too many rows, they count as unreadable."""
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, relation)
    rows = DataFrame(dataset, spark).limit(_MOST_ROWS + 1).collect()
    if len(rows) > _MOST_ROWS:
        return _Found("rows", f"{UNREADABLE}more than {_MOST_ROWS} rows")
    texts = [repr(row) for row in rows]
    unordered = "" if order_counts(relation, above, rows) else f"{_UNORDERED}{_sha256(sorted(texts))}"
    return _Found("rows", _sha256(texts), essential=unordered)


def _sha256(texts: list[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _sink_functions(sink: Sink) -> dict[str, object]:
    """Return the functions that the job's author passed to the sink, without the sink's own methods."""
    names = getattr(sink, "__struct_fields__", None) or getattr(sink, "__dataclass_fields__", None) or vars(sink)
    return {str(name): getattr(sink, name) for name in names if callable(getattr(sink, name))}
