"""Finds the Python functions below deduplications whose results are only carried through, and are not in the state.

The state of a deduplication contains its keys and their expiry times; the order of a key's rows decides which row is
emitted. A function below a deduplication therefore matters if a key, a filter, a join, a watermark or anything else is
computed from the function's result. The plan is read from the top downward. Below every other operator, and below an
unknown node, every function matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.plan_tree import Node, values_in

_PASSES = frozenset({"CollectMetrics", "ResolvedHint", "SubqueryAlias"})
"""Nodes that pass rows on in their order. Nodes that repartition are not among them, because they sort by
all columns.
"""

_COUNTS = frozenset({*spark_classes.DEDUPLICATES, spark_classes.WATERMARK})

Used = frozenset[int] | None
"""The columns, by expression id, from which something is computed further up; None if any column may be used."""


def carried_results(plan: Node) -> frozenset[int]:
    """Return the expression ids of those results of Python functions that deduplications pass on without using them.

    No node from the function up to the topmost deduplication uses such a result.
    """
    carried: set[int] = set()
    counted: set[int] = set()
    # Above the topmost deduplication, only a watermark uses columns in a way that matters.
    waiting: list[tuple[Node, bool, Used]] = [(plan, False, frozenset())]
    while waiting:
        node, counts, used = waiting.pop()
        results = node.fields["resultAttrs"] if node.name in spark_classes.PYTHON_EVALUATION else []
        for result in results:
            alone = counts and used is not None and result.expression_id not in used
            (carried if alone else counted).add(result.expression_id)
        counts = counts or node.name in _COUNTS
        waiting += [(child, counts, _used_below(node, counts, used)) for child in node.children]
    return frozenset(carried - counted)


def _used_below(node: Node, counts: bool, used: Used) -> Used:
    if used is None:
        return None
    fields, name = node.fields, node.name
    if not counts and name in spark_classes.STATELESS:
        return used
    if name in spark_classes.DEDUPLICATES:
        return used.union(_columns_in(fields["keys"]))
    if name == "Project":
        return frozenset(_columns_in([column for column in fields["projectList"] if _is_used(column, used)]))
    if name in spark_classes.PYTHON_EVALUATION:
        made = zip(fields["udfs"], fields["resultAttrs"], strict=True)
        return used.union(_columns_in([function for function, result in made if result.expression_id in used]))
    if name == "Filter":
        return used.union(_columns_in(fields["condition"]))
    if name == spark_classes.WATERMARK:
        return used.union(_columns_in(fields["eventTime"]))
    if name == spark_classes.JOIN and not all(_is_streaming(child) for child in node.children):
        return used.union(_columns_in(fields["condition"]))
    return used if name in _PASSES else None


def _is_used(column: Node, used: frozenset[int]) -> bool:
    return "exprId" not in column.fields or column.expression_id in used


def _is_streaming(plan: Node) -> bool:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if node.name in spark_classes.STREAMING_RELATIONS or node.fields.get("isStreaming"):
            return True
        waiting += node.children
    return False


def _columns_in(found: Any) -> Iterator[int]:
    """Yield the attributes that expressions refer to, including those in subqueries."""
    attributes = (node for node in values_in(found) if isinstance(node, Node) and node.name == "AttributeReference")
    return (attribute.expression_id for attribute in attributes)
