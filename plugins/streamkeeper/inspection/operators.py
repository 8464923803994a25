"""The stateful operators and watermarks of a plan, from the bottom upward."""

from __future__ import annotations

from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.plan_reading import QueryPlan, bottom_up, class_name, columns, expression, items
from streamkeeper.model.manifest import Operator


def find_operators(plan: QueryPlan) -> tuple[Operator, ...]:
    """Every node that keeps state, and every streaming node that nobody has measured (kind ``unknown …``)."""
    return tuple(_operator(plan, node) for node in stateful_nodes(plan.chosen))


def stateful_nodes(plan: Any) -> list[Any]:
    """The nodes behind ``find_operators``, in the same order."""
    return [node for node in bottom_up(plan) if keeps_state(node)]


def keeps_state(node: Any) -> bool:
    """Whether a node may keep state on a stream; an unknown class counts as one that does."""
    if not node.isStreaming():
        return False
    name = class_name(node)
    if name == spark_classes.JOIN:
        return all(side.isStreaming() for side in items(node.children()))
    known = spark_classes.STATELESS | spark_classes.STREAMING_RELATIONS | {spark_classes.WATERMARK}
    return name not in known


def find_watermarks(plan: Any) -> tuple[str, ...]:
    """``column delay`` per watermark."""
    return tuple(
        f"{node.eventTime().sql()} {node.delay().toString()}"
        for node in bottom_up(plan)
        if class_name(node) == spark_classes.WATERMARK
    )


def _operator(plan: QueryPlan, node: Any) -> Operator:
    name = class_name(node)
    keys: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    detail: dict[str, str] = {}
    if name == spark_classes.AGGREGATE:
        kind = "aggregate"
        keys = tuple(expression(each) for each in items(node.groupingExpressions()))
        found = tuple(expression(each) for each in items(node.aggregateExpressions()))
    elif name in spark_classes.DEDUPLICATES:
        kind = spark_classes.DEDUPLICATES[name]
        keys = columns(node.keys())
    elif name == spark_classes.JOIN:
        kind, keys, found, detail = _join(node)
    elif name == spark_classes.GLOBAL_LIMIT:
        kind, found = "limit", (expression(node.limitExpr()),)
    elif name == spark_classes.PANDAS_WITH_STATE:
        kind, keys = "pandas-with-state", columns(node.groupingAttributes())
        detail = {"state": node.stateType().catalogString(), "timeout": node.timeout().toString()}
    elif name in spark_classes.TRANSFORMS_WITH_STATE:
        kind, detail = f"transform-with-state {name}", {"output": "; ".join(columns(node.output()))}
    else:
        kind = f"unknown {name}"
    rows = "; ".join(column for child in items(node.children()) for column in columns(child.output()))
    return Operator(
        kind=kind, keys=keys, expressions=found, upstream=plan.normalised(node), detail={**detail, "rows": rows}
    )


def _join(node: Any) -> tuple[str, tuple[str, ...], tuple[str, ...], dict[str, str]]:
    condition = node.condition()
    parts = _conjuncts(condition.get()) if condition.isDefined() else []
    keys = tuple(each.sql() for each in parts if class_name(each) in ("EqualTo", "EqualNullSafe"))
    rest = tuple(each.sql() for each in parts if class_name(each) not in ("EqualTo", "EqualNullSafe"))
    return "join", keys, rest, {"type": str(node.joinType().sql())}


def _conjuncts(condition: Any) -> list[Any]:
    if class_name(condition) == "And":
        return [*_conjuncts(condition.left()), *_conjuncts(condition.right())]
    return [condition]
