"""Determines where the state of a plan comes from: for each stateful operator, which columns and rows reach it, and
through which nodes.

The walked plan is read bottom-up. Before that, Spark's own optimizer has pushed down filters, pruned columns and folded
constants. Names, order and unused columns below an operator are left out; every other argument of a node counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.canonical_expressions import Meanings, SessionSettings
from streamkeeper.inspection.fields import EXPLODED, EXPLODED_STEP
from streamkeeper.inspection.plan_parts import (
    attributes_in,
    attributes_not_null,
    column_name,
    flattened,
    is_plan,
    join_kind,
)
from streamkeeper.inspection.plan_text import type_text
from streamkeeper.inspection.plan_tree import EXPRESSION, Node

_TRANSPARENT = frozenset(
    {"CollectMetrics", "RebalancePartitions", "Repartition", "RepartitionByExpression", "ResolvedHint", "SubqueryAlias"}
)
"""Nodes that change neither rows nor columns."""

_ORDER_AND_LIMIT = frozenset({"LocalLimit", "Sort"})
"""Nodes without a meaning on a stream, where Spark accepts them only at the end. On static rows, they select rows."""

_LEFT_ONLY = ("LeftSemi", "LeftAnti")
_INNER = ("Cross", "Inner")
_COMPARES = frozenset({"EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"})
"""Comparisons that are never true if an operand is null."""

_NOT_KEPT = {
    "Inner": ("left", "right"),
    "LeftSemi": ("left", "right"),
    "LeftOuter": ("right",),
    "RightOuter": ("left",),
}
"""For each join type, the sides of which a row without a partner does not appear in the output."""

_READS_BY_NAME = frozenset(
    {"FlatMapCoGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas"}
    | {"MapInArrow", "MapInPandas"}
)
"""Nodes whose Python function finds its columns by name."""

_EXPLODES = ("Explode", "PosExplode")
_EQUALITIES = ("equalto(", "equalnullsafe(")
_OUTPUTS = ("output", "outputAttrs", "outputAttr")
_OWN_BY_OTHER_RULES = frozenset(
    {
        *_OUTPUTS,
        "groupingAttributes",
        "groupingAttributesLen",
        "functionExpr",
        "keys",
        "stateType",
        "timeMode",
        "timeout",
    }
)
"""Arguments of a stateful node that other rules compare."""


class Flow(msgspec.Struct, kw_only=True):
    """The columns and rows that a node of a plan outputs."""

    columns: list[int]
    """The columns by expression id, in order."""
    rows: tuple[str, ...]
    """The filters that select the rows."""
    shape: tuple[str, ...]
    """The joins, unions and other nodes that the rows came through."""
    streaming: bool
    """Whether the rows are a stream."""
    not_null: frozenset[int] = frozenset()
    """Columns that Spark's physical filter marks as not null. A projection loses this mark."""


class OperatorInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one stateful operator. Meanings of columns are canonical expressions
    (``inspection.canonical_expressions``)."""

    keys: tuple[str, ...]
    """The grouping or join keys."""
    values: tuple[str, ...]
    """Each aggregate, in the order of the plan."""
    condition: tuple[str, ...]
    """The condition of a join, without its keys."""
    inputs: tuple[tuple[str, ...], ...]
    """The meanings of the columns of each child."""
    not_null: tuple[tuple[bool, ...], ...]
    """For each of these columns, whether a filter has excluded null."""
    rows: tuple[str, ...]
    """The filters between the sources and the operator."""
    shape: tuple[str, ...]
    """The joins, unions, generators and Python functions between the sources and the operator."""
    definition: str
    """The other arguments of the operator."""
    node: Node
    """The operator's node with all nodes below it."""
    complete: bool
    """Whether all parts of the input could be resolved."""
    unknown: tuple[str, ...]
    """Classes in the input that this version of Streamkeeper does not recognise."""


class Lineage:
    """The stateful operators and the watermarks of one plan, bottom-up, in the order of ``stateful_nodes``."""

    def __init__(self, plan: Node, source_names: list[str | None], session: SessionSettings) -> None:
        self._meanings = Meanings(session, self._of_subquery)
        self.written, self.function_names = self._meanings.written, self._meanings.function_names
        self._source_names = source_names
        self._sources: dict[tuple[int, ...], str] = {}
        self._statics = 0
        self.operators: list[OperatorInput] = []
        self.watermarks: list[str] = []
        self.output = self._flow(plan)
        self.unknown = tuple(dict.fromkeys(self._meanings.unknown))

    def canonical(self, number: int) -> str:
        """Return the meaning of the plan's column with this expression id; ``?`` if no meaning is recorded."""
        return self._meanings.known(number) or "?"

    def _flow(self, node: Node) -> Flow:
        return self._meanings.nesting.call(self._flow_out_of, node)

    def _flow_out_of(self, node: Node) -> Flow:
        lost, unknown = len(self._meanings.unresolved), len(self._meanings.unknown)
        below = [self._flow(child) for child in node.children]
        flow = self._through(node, below)
        if spark_classes.keeps_state(node.name, flow.streaming, [inflow.streaming for inflow in below]):
            self._add_operator(node, below, lost, unknown)
        return flow

    def _of_subquery(self, plan: Node) -> str:
        """Return the meaning of a subquery's plan: its columns in order, its filters, and the nodes on the way."""
        flow = self._flow(plan)
        columns = ", ".join(self.canonical(number) for number in flow.columns)
        return f"plan([{columns}]; [{'; '.join(flow.rows)}]; [{'; '.join(flow.shape)}])"

    def _through(self, node: Node, below: list[Flow]) -> Flow:
        name = node.name
        if name in spark_classes.STREAMING_RELATIONS:
            return self._source(node)
        if name in _TRANSPARENT or (name in _ORDER_AND_LIMIT and below[0].streaming):
            return below[0]
        if name == spark_classes.WATERMARK:
            self.watermarks.append(self._meanings.of(node.fields["eventTime"]))
            return below[0]
        if name == "Project":
            return self._columns(below[0], node.fields["projectList"])
        if name == "Filter":
            rows = self._meanings.conjuncts(node.fields["condition"])
            checked = below[0].not_null | attributes_not_null(node.fields["condition"])
            return msgspec.structs.replace(below[0], rows=_merged(below[0].rows, rows), not_null=checked)
        if name == spark_classes.AGGREGATE:
            return self._aggregate(node, below[0])
        if name == spark_classes.JOIN:
            return self._join(node, below)
        if name == "Union":
            return self._union(below)
        if name == "Expand":
            return self._expand(node, below[0])
        if name in spark_classes.PYTHON_EVALUATION:
            functions = [self._meanings.of(function) for function in node.fields["udfs"]]
            new = self._define_each(node.fields["resultAttrs"], functions)
            return msgspec.structs.replace(below[0], columns=[*below[0].columns, *new])
        if name == "Generate":
            return self._generate(node, below[0])
        return self._other(node, below)

    def _source(self, node: Node) -> Flow:
        numbers = [attribute.expression_id for attribute in node.fields["output"]]
        label = self._sources.get(tuple(numbers))
        if label is None:
            position = len(self._sources)
            name = self._source_names[position] if position < len(self._source_names) else ""
            label = self._sources[tuple(numbers)] = f'source "{name}"' if name else f"source {position}"
        for attribute in node.fields["output"]:
            self._meanings.define(attribute.expression_id, f"{label}.{column_name(attribute)}")
        return Flow(columns=numbers, rows=(), shape=(label,), streaming=True)

    def _columns(self, below: Flow, expressions: list[Node]) -> Flow:
        columns = [self._column(expression) for expression in expressions]
        return msgspec.structs.replace(below, columns=columns, not_null=frozenset())

    def _column(self, node: Node) -> int:
        canonical = self._meanings.of(node)
        if "exprId" not in node.fields:
            return -1
        self._meanings.define(node.expression_id, canonical, node.fields["child"] if node.name == "Alias" else None)
        return node.expression_id

    def _define_each(self, attributes: list[Node], meanings: list[str]) -> list[int]:
        numbers = [attribute.expression_id for attribute in attributes]
        for number, canonical in zip(numbers, meanings, strict=True):
            self._meanings.define(number, canonical)
        return numbers

    def _aggregate(self, node: Node, below: Flow) -> Flow:
        below = _told_rows(below)
        keys = ", ".join(self._meanings.of(key) for key in node.fields["groupingExpressions"])
        flow = self._columns(below, node.fields["aggregateExpressions"])
        return msgspec.structs.replace(flow, shape=(*below.shape, f"group by ({keys})"))

    def _join(self, node: Node, below: list[Flow]) -> Flow:
        """Rows of a stream, or of both sides of an inner join, are filtered. Other static rows belong to the join."""
        kind = join_kind(node)
        condition = node.fields.get("condition")
        text = " and ".join(self._meanings.conjuncts(condition)) if condition is not None else ""
        left, right = below
        columns = left.columns if kind in _LEFT_ONLY else [*left.columns, *right.columns]
        sides = below if kind in _INNER else [_told_rows(flow) for flow in below]
        sides_shape = (f"{side}: {'; '.join(flow.shape)}" for side, flow in zip(("left", "right"), sides, strict=True))
        return Flow(
            columns=columns,
            rows=self._joined_rows(sides),
            shape=(*sides_shape, f"join {kind} on {text}"),
            streaming=left.streaming or right.streaming,
        )

    def _union(self, below: list[Flow]) -> Flow:
        for position, number in enumerate(below[0].columns):
            branches = [self.canonical(flow.columns[position]) for flow in below]
            # The columns of the union carry the expression ids of the first branch.
            self._meanings.redefine(number, _one_of("either", branches))
        rows = tuple(f"branch {number}: {row}" for number, flow in enumerate(below) for row in flow.rows)
        shape = tuple(f"branch {number}: {'; '.join(flow.shape)}" for number, flow in enumerate(below))
        streaming = any(flow.streaming for flow in below)
        return Flow(columns=below[0].columns, rows=tuple(sorted(rows)), shape=shape, streaming=streaming)

    def _expand(self, node: Node, below: Flow) -> Flow:
        projections = [[self._meanings.of(expression) for expression in one] for one in node.fields["projections"]]
        columns = [_one_of("each", parts) for parts in zip(*projections, strict=True)]
        numbers = self._define_each(node.fields["output"], columns)
        return msgspec.structs.replace(below, columns=numbers, shape=(*below.shape, f"expand {len(projections)}"))

    def _generate(self, node: Node, below: Flow) -> Flow:
        made, attributes = node.fields["generator"], node.fields["generatorOutput"]
        # The number of rows that come out does not depend on the contents of an element.
        exploded = made.fields["child"] if made.name in _EXPLODES else None
        array, field = self._exploded(exploded) if exploded is not None else ("", "")
        generator = f"{made.name}({array})" if exploded is not None else self._meanings.of(made)
        outer = " outer" if node.fields.get("outer") else ""
        for position, attribute in enumerate(attributes):
            kind = type_text(attribute.fields["dataType"])
            if exploded is not None and position == len(attributes) - 1:
                by = None if field else Node(EXPRESSION, EXPLODED, {"child": exploded})
                self._meanings.define(attribute.expression_id, f"{array}{EXPLODED_STEP}{field}:{kind}", by)
            else:
                self._meanings.define(attribute.expression_id, f"{generator}[{position}]:{kind}")
        unrequired = set(node.fields.get("unrequiredChildIndex") or ())
        kept = [number for index, number in enumerate(below.columns) if index not in unrequired]
        new = [attribute.expression_id for attribute in attributes]
        shape = (*below.shape, f"generate{outer} {generator}")
        return msgspec.structs.replace(below, columns=[*kept, *new], shape=shape)

    def _exploded(self, node: Node) -> tuple[str, str]:
        """Return the exploded array, and the field that is read of each element, which Spark may read before."""
        place = self._meanings.place(node)
        array, mark, field = place.rpartition("[].")
        return (
            (array, f".{field}") if mark and self._meanings.behind(node).name == "GetArrayStructFields" else (place, "")
        )

    def _other(self, node: Node, below: list[Flow]) -> Flow:
        """Return the flow out of any other node, whose arguments become part of the meaning of its columns."""
        text = self._own_text(node)
        below = [_told_rows(flow) for flow in below]
        if node.name in _READS_BY_NAME:
            read = [
                column_name(attribute) for attribute in attributes_in(node.fields["functionExpr"].fields["children"])
            ]
            text = f"{text} of [{', '.join(read)}]"
        attributes = next((attributes_in(node.fields[key]) for key in _OUTPUTS if key in node.fields), [])
        columns = [number for flow in below[:1] for number in flow.columns]
        if not below:
            label, self._statics = f"static {self._statics}", self._statics + 1
            meanings = [
                f"{label}.{column_name(attribute)}:{type_text(attribute.fields['dataType'])}"
                for attribute in attributes
            ]
            columns = self._define_each(attributes, meanings)
        elif attributes:
            columns = self._define_each(attributes, [f"{text}[{number}]" for number in range(len(attributes))])
        elif node.name == "Window":
            columns = [*columns, *(self._column(expression) for expression in node.fields["windowExpressions"])]
        shape = tuple(part for flow in below for part in flow.shape)
        rows = tuple(part for flow in below for part in flow.rows)
        streaming = any(flow.streaming for flow in below) or bool(node.fields.get("isStreaming"))
        return Flow(columns=columns, rows=rows, shape=(*shape, text), streaming=streaming)

    def _own_text(self, node: Node, without: frozenset[str] = frozenset(_OUTPUTS)) -> str:
        """Return all arguments of a node except the plans below it."""
        below = {key for key, value in node.fields.items() if is_plan(value)}
        arguments = self._meanings.arguments(node, without=without | below)
        return f"{node.name}({', '.join(f'{key}={text}' if key else text for key, text in arguments)})"

    def _add_operator(self, node: Node, below: list[Flow], lost: int, unknown: int) -> None:
        inputs = tuple(tuple(self.canonical(number) for number in flow.columns) for flow in below)
        joins = node.name == spark_classes.JOIN
        rows = self._joined_rows(below) if joins else tuple(part for flow in below for part in flow.rows)
        shape = tuple(part for flow in below for part in flow.shape)
        keys, values, condition = self._own(node, inputs)
        if joins:
            implied = self._implied(node)
            rows = tuple(row for row in rows if row not in implied)
        plain = joins or node.name in (spark_classes.AGGREGATE, spark_classes.GLOBAL_LIMIT)
        definition = "" if plain else self._own_text(node, _OWN_BY_OTHER_RULES)
        complete = len(self._meanings.unresolved) == lost
        complete = complete and not any(canonical.startswith("?") for side in inputs for canonical in side)
        self.operators.append(
            OperatorInput(
                keys=keys,
                values=values,
                condition=condition,
                inputs=inputs,
                not_null=tuple(tuple(number in flow.not_null for number in flow.columns) for flow in below),
                rows=rows,
                shape=shape,
                definition=definition,
                node=node,
                complete=complete,
                unknown=tuple(dict.fromkeys(self._meanings.unknown[unknown:])),
            )
        )

    def _implied(self, node: Node) -> frozenset[str]:
        """Return the filters that a join's keys imply: a compared column is not null on a side that drops others."""
        sides = _NOT_KEPT.get(join_kind(node), ())
        condition = node.fields.get("condition")
        parts = [part for part in flattened(condition, "And") if part.name in _COMPARES] if condition else []
        operands = [operand for part in parts for operand in part.children]
        shifted = [operand.children[0] for operand in operands if operand.name == "TimestampAddInterval"]
        compared = {self._meanings.of(operand) for operand in (*operands, *shifted)}
        return frozenset(f"{side}: isnotnull({canonical})" for side in sides for canonical in compared)

    def _own(
        self, node: Node, inputs: tuple[tuple[str, ...], ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the keys, the aggregates, and the condition of a join without its keys."""
        fields, of = node.fields, self._meanings.of
        if node.name == spark_classes.AGGREGATE:
            return (
                tuple(of(expression) for expression in fields["groupingExpressions"]),
                tuple(self._aggregates(node)),
                (),
            )
        if node.name in spark_classes.DEDUPLICATES:
            return tuple(of(key) for key in fields["keys"]), (), ()
        if node.name == spark_classes.PANDAS_WITH_STATE:
            return tuple(of(attribute) for attribute in fields["groupingAttributes"]), (), ()
        if "groupingAttributesLen" in fields:
            return inputs[0][: int(fields["groupingAttributesLen"])], (), ()
        if node.name == spark_classes.JOIN and fields.get("condition") is not None:
            parts = self._meanings.ordered_conjuncts(fields["condition"])
            keys = tuple(part for part in parts if part.startswith(_EQUALITIES))
            return keys, (), tuple(sorted(part for part in parts if part not in keys))
        return (), (), ()

    def _aggregates(self, node: Node) -> list[str]:
        """Return the aggregates, in the order in which they appear."""
        found: list[str] = []
        waiting = [*reversed(node.fields["aggregateExpressions"])]
        while waiting:
            expression = waiting.pop()
            if expression.name == spark_classes.AGGREGATE_EXPRESSION:
                found.append(self._meanings.of(expression))
            else:
                waiting += reversed(expression.children)
        return found

    def _joined_rows(self, below: list[Flow]) -> tuple[str, ...]:
        left, right = below
        return _merged([f"left: {row}" for row in left.rows], [f"right: {row}" for row in right.rows])


def _told_rows(flow: Flow) -> Flow:
    """For static rows that are e.g. aggregated, the filter that selects them is part of what is made of them."""
    if flow.streaming or not flow.rows:
        return flow
    return msgspec.structs.replace(flow, rows=(), shape=(*flow.shape, f"where {' and '.join(flow.rows)}"))


def _one_of(word: str, meanings: Sequence[str]) -> str:
    return meanings[0] if len(set(meanings)) == 1 else f"{word}({', '.join(meanings)})"


def _merged(before: tuple[str, ...] | list[str], more: list[str]) -> tuple[str, ...]:
    return tuple(sorted({*before, *more}))
