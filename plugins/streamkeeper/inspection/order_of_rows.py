"""Proves that the order of static rows does not affect the output of a job that lists the rows in its code and joins
them with a stream.

The proof requires that each row of the stream matches at most one of the static rows, and that nothing between the join
and the output depends on an order. Only the nodes, aggregates and expressions in a short list count as independent of
the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.plan_reading import class_name, expressions, items

_PASSES_COLUMNS = frozenset({"Filter", "Project"})
_ANY_ORDER = frozenset(
    {*_PASSES_COLUMNS, spark_classes.AGGREGATE, spark_classes.JOIN, spark_classes.WATERMARK, "SubqueryAlias", "Union"}
)
"""Nodes that return the same set of rows in whatever order they receive their input rows."""

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_AGGREGATES = f"{_EXPRESSIONS}aggregate."
_ANY_ORDER_AGGREGATES = frozenset(
    {spark_classes.AGGREGATE_EXPRESSION, "Average", "Count", "HyperLogLogPlusPlus", "Max", "Min", "Sum"}
)
_CODE = spark_classes.PYTHON_FUNCTIONS | spark_classes.JVM_FUNCTIONS
_EQUALITIES = frozenset({"EqualNullSafe", "EqualTo"})
_COLLATED = "collate"
"""The mark of a type for which different texts may count as equal, so that the order decides which text is kept."""

_COMPARED_BY_VALUE = (bool, date, Decimal, int, str)


def order_counts(relation: Any, above: Sequence[Any], rows: Sequence[Any]) -> bool:
    """Whether the query's output may depend on the order of ``rows``, which are the rows of ``relation``.

    ``above``: the nodes of the plan above ``relation``, the nearest first. Reading all these nodes takes calls to the
    JVM, so call this only for plans that contain rows.
    """
    # The contents of other rows are part of the plan itself.
    keys = _join_keys(relation, above) if class_name(relation) == "LogicalRDD" else []
    if not keys or not _are_unique([tuple(row[number] for number in keys) for row in rows]):
        return True
    return _is_collated(relation.schema()) or not all(map(_takes_any_order, above))


def _join_keys(relation: Any, above: Sequence[Any]) -> list[int]:
    """Return the indexes of the columns by which the nearest join looks up the rows; empty if they cannot be
    determined.
    """
    columns = {_number(attribute): number for number, attribute in enumerate(items(relation.output()))}
    for node in above:
        match class_name(node):
            case "Project":
                columns = dict(_renamed(node, columns))
            case "Filter":
                pass
            case spark_classes.JOIN if node.condition().isDefined():
                sides = [{_number(attribute) for attribute in items(side.output())} for side in items(node.children())]
                others = {number for side in sides if not side & columns.keys() for number in side}
                return sorted(set(_compared(node.condition().get(), columns, others)))
            case _:
                return []
    return []


def _renamed(project: Any, columns: dict[int, int]) -> Iterator[tuple[int, int]]:
    for found in items(project.projectList()):
        inner = found.child() if class_name(found) == "Alias" else found
        if class_name(inner) == "AttributeReference" and _number(inner) in columns:
            yield _number(found), columns[_number(inner)]


def _compared(condition: Any, columns: dict[int, int], others: set[int]) -> Iterator[int]:
    """Yield each of ``columns`` that the condition compares for equality with one of ``others``, the other side's
    columns.
    """
    if class_name(condition) == "And":
        for part in items(condition.children()):
            yield from _compared(part, columns, others)
    elif class_name(condition) in _EQUALITIES:
        sides = [side for side in items(condition.children()) if class_name(side) == "AttributeReference"]
        numbers = [_number(side) for side in sides]
        if len(numbers) == 2 and others & set(numbers):
            yield from (columns[number] for number in numbers if number in columns)


def _are_unique(keys: list[tuple[Any, ...]]) -> bool:
    plain = all(type(value) in _COMPARED_BY_VALUE for key in keys for value in key)
    return plain and len(set(keys)) == len(keys)


def _takes_any_order(node: Any) -> bool:
    kind = class_name(node)
    if kind == "Deduplicate":
        # Among rows that are equal in every column, it does not matter which one is kept.
        fits = {_number(key) for key in items(node.keys())} >= {_number(each) for each in items(node.output())}
    else:
        fits = kind in _ANY_ORDER
    if not fits or not node.subqueries().isEmpty() or _is_collated(node.schema()):
        return False
    return all(map(_asks_for_no_order, expressions(node)))


def _asks_for_no_order(expression: Any) -> bool:
    name, kind = str(expression.getClass().getName()), class_name(expression)
    if name.startswith(_AGGREGATES):
        if kind not in _ANY_ORDER_AGGREGATES:
            return False
    elif name.removeprefix(_EXPRESSIONS) != kind or kind in _CODE:
        return False
    return bool(expression.deterministic()) and _COLLATED not in str(expression.dataType().catalogString()).lower()


def _is_collated(schema: Any) -> bool:
    return _COLLATED in str(schema.catalogString()).lower()


def _number(attribute: Any) -> int:
    return int(attribute.exprId().id())
