"""Finds the stateful operators and watermarks of a plan, from the bottom upward."""

from __future__ import annotations

import json
from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.lineage import Lineage, OperatorInput
from streamkeeper.inspection.normalised import normalised
from streamkeeper.inspection.plan_reading import QueryPlan, bottom_up, class_name, columns, expression, has, items, walk
from streamkeeper.inspection.plan_text import nameless
from streamkeeper.model.manifests.manifest import Operator, StateColumn, Watermark


def find_operators(plan: QueryPlan, lineage: Lineage) -> tuple[Operator, ...]:
    """Return every node that keeps state, and every streaming node that was not examined (kind ``unknown …``)."""
    nodes = stateful_nodes(plan.chosen)
    return tuple(_operator(*pair) for pair in zip(nodes, lineage.operators, strict=True))


def stateful_nodes(plan: Any) -> list[Any]:
    """Return the nodes of a plan that ``find_operators`` describes, in the order of its result."""
    return [node for node in bottom_up(plan) if keeps_state(node)]


def keeps_state(node: Any) -> bool:
    """Whether a node may keep state on a stream. A node of an unknown class counts as one that keeps state."""
    below = [bool(child.isStreaming()) for child in items(node.children())]
    return spark_classes.keeps_state(class_name(node), bool(node.isStreaming()), below)


def find_watermarks(plan: Any) -> tuple[str, ...]:
    """Return one text for each watermark of a plan, such as ``column delay``."""
    return tuple(
        f"{node.eventTime().sql()} {node.delay().toString()}"
        for node in bottom_up(plan)
        if class_name(node) == spark_classes.WATERMARK
    )


def find_delays(plan: Any, lineage: Lineage) -> tuple[Watermark, ...]:
    """Return the column and the delay of each watermark of a plan."""
    nodes = [node for node in bottom_up(plan) if class_name(node) == spark_classes.WATERMARK]
    return tuple(
        Watermark(column=column, delay_ms=int(node.getDelayMs(node.delay())))
        for node, column in zip(nodes, lineage.watermarks, strict=True)
    )


def _operator(node: Any, reached: OperatorInput) -> Operator:
    name = class_name(node)
    keys: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    detail: dict[str, str] = {}
    sides = zip(items(node.children()), reached.inputs, reached.not_null, strict=True)
    inputs = tuple(_inputs(*side) for side in sides)
    values: tuple[StateColumn, ...] = ()
    key_types: list[str] = []
    if name == spark_classes.AGGREGATE:
        kind = "aggregate"
        keys = tuple(expression(key) for key in items(node.groupingExpressions()))
        found = tuple(expression(aggregate) for aggregate in items(node.aggregateExpressions()))
        key_types = [_type(key) for key in items(node.groupingExpressions())]
        values = _aggregates(node, reached)
    elif name in spark_classes.DEDUPLICATES:
        kind = spark_classes.DEDUPLICATES[name]
        keys = columns(node.keys())
        key_types = [_type(key) for key in items(node.keys())]
    elif name == spark_classes.JOIN:
        kind, keys, found, detail = _join(node)
        detail["condition"] = " and ".join(reached.condition)
        values = tuple(column for side in inputs for column in side)
    elif name == spark_classes.GLOBAL_LIMIT:
        kind, found = "limit", (expression(node.limitExpr()),)
    elif name == spark_classes.PANDAS_WITH_STATE:
        kind, keys = "pandas-with-state", columns(node.groupingAttributes())
        detail = {
            "state": _kept(json.loads(node.stateType().json()), nullable=True),
            "timeout": node.timeout().toString(),
        }
        key_types = [_type(attribute) for attribute in items(node.groupingAttributes())]
        values = inputs[0]
    elif name in spark_classes.TRANSFORMS_WITH_STATE:
        kind = f"transform-with-state {name}"
        if has(node, "timeMode"):
            detail["time-mode"] = node.timeMode().toString()
        key_types = [column.type for column in inputs[0][: len(reached.keys)]]
        values = inputs[0][len(reached.keys) :]
    else:
        kind = f"unknown {name}"
    rows = "; ".join(column for child in items(node.children()) for column in columns(child.output()))
    types = key_types or [""] * len(reached.keys)
    return Operator(
        kind=kind,
        keys=keys,
        expressions=found,
        upstream=normalised(node.toString(), reached.node),
        detail={**detail, **({"definition": reached.definition} if reached.definition else {}), "rows": rows},
        key_columns=tuple(
            StateColumn(meaning=canonical, type=kind) for canonical, kind in zip(reached.keys, types, strict=True)
        ),
        values=values,
        rows=reached.rows,
        shape=reached.shape,
        resolved=reached.complete,
        unknown=reached.unknown,
    )


def _inputs(child: Any, meanings: tuple[str, ...], not_null: tuple[bool, ...]) -> tuple[StateColumn, ...]:
    attributes = items(child.output())
    return tuple(
        StateColumn(meaning=canonical, type=_type(attribute, checked=checked), name=str(attribute.name()))
        for attribute, canonical, checked in zip(attributes, meanings, not_null, strict=False)
    )


def _aggregates(node: Any, reached: OperatorInput) -> tuple[StateColumn, ...]:
    """Return each aggregate once, with the type of its buffer, in the order of the buffers in the state."""
    functions = [
        part.aggregateFunction()
        for top in items(node.aggregateExpressions())
        for part in walk(top)
        if class_name(part) == spark_classes.AGGREGATE_EXPRESSION
    ]
    found: dict[tuple[str, str], StateColumn] = {}
    for function, canonical in zip(functions, reached.values, strict=True):
        # Spark keeps one buffer for equal functions. Two functions may mean the same and still have a buffer each.
        key = (canonical, str(function.canonicalized().toString()))
        if key not in found:
            buffer = json.loads(function.aggBufferSchema().json())
            kept = ", ".join(_kept(field["type"], nullable=field["nullable"]) for field in buffer["fields"])
            found[key] = StateColumn(meaning=canonical, type=kept)
    return tuple(found.values())


def _type(found: Any, *, checked: bool = False) -> str:
    return _kept(json.loads(found.dataType().json()), nullable=bool(found.nullable()) and not checked)


def _kept(kind: object, *, nullable: bool) -> str:
    """Return the text of a type in the form that the state keeps: without the names of its fields."""
    shown = kind if isinstance(kind, str) else json.dumps(nameless(kind), sort_keys=True, separators=(",", ":"))
    return f"{shown}{'' if nullable else ' not null'}"


def _join(node: Any) -> tuple[str, tuple[str, ...], tuple[str, ...], dict[str, str]]:
    condition = node.condition()
    parts = _conjuncts(condition.get()) if condition.isDefined() else []
    keys = tuple(part.sql() for part in parts if class_name(part) in ("EqualTo", "EqualNullSafe"))
    rest = tuple(part.sql() for part in parts if class_name(part) not in ("EqualTo", "EqualNullSafe"))
    return "join", keys, rest, {"type": str(node.joinType().sql())}


def _conjuncts(condition: Any) -> list[Any]:
    found: list[Any] = []
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if class_name(part) == "And":
            waiting += [part.right(), part.left()]
        else:
            found.append(part)
    return found
