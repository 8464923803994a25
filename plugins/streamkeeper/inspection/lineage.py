"""Where the state of a plan comes from: per stateful operator, what reaches it and through what.

Read from the plan's JSON, bottom-up; Spark's own optimizer has pushed filters down, pruned columns and folded
constants before. What is renamed, reordered or unused below an operator leaves no trace here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.meaning import Meanings, Tree, expression_id, is_expression, read_plan, read_tree

_TRANSPARENT = frozenset(
    {
        "CollectMetrics",
        "EventTimeWatermark",
        "LocalLimit",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "View",
    }
)
"""Nodes that change neither rows nor columns."""

_PYTHON_EVALUATION = frozenset({"ArrowEvalPython", "BatchEvalPython"})
_LEFT_ONLY = ("LeftSemi", "LeftAnti")
_EQUALITIES = ("equalto(", "equalnullsafe(")


class Flow(msgspec.Struct, kw_only=True):
    """What comes out of a node: columns by expression id in order, which rows, and through what they came.

    ``not_null``: columns that Spark's physical filter marks as such; a projection forgets it.
    """

    columns: list[int]
    rows: tuple[str, ...]
    shape: tuple[str, ...]
    streaming: bool
    not_null: frozenset[int] = frozenset()


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What reaches one stateful operator; meanings as in ``inspection.meaning``.

    ``values``: each aggregate, in the plan's order; ``condition``: of a join, apart from its keys; ``inputs``: a tuple
    of column meanings per child; ``not_null``: which of them a filter has made not null; ``rows``: the filters on the
    way; ``shape``: joins, unions, generators and Python on the way; ``complete``: whether all of it could be resolved.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    condition: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    not_null: tuple[tuple[bool, ...], ...]
    rows: tuple[str, ...]
    shape: tuple[str, ...]
    complete: bool


class Lineage:
    """The operators and watermarks of one plan, bottom-up, in the order of ``operators.stateful_nodes``."""

    def __init__(
        self, structure: list[dict[str, Any]], text: str, source_names: list[str | None], time_zone: str
    ) -> None:
        self._meanings = Meanings(time_zone)
        self._source_names = source_names
        self._sources: dict[tuple[int, ...], str] = {}
        self._statics = 0
        self.operators: list[Reached] = []
        self.watermarks: list[str] = []
        self.output = self._flow(read_plan(structure, text))

    def meaning(self, number: int) -> str:
        """What a column of the output means."""
        return self._meanings.known(number) or "?"

    def _flow(self, node: Tree) -> Flow:
        below = [self._flow(each) for each in node.children]
        unknown = len(self._meanings.unknown)
        self._meanings.tries = node.tries
        flow = self._through(node, below)
        if spark_classes.keeps_state(node.name, flow.streaming, [each.streaming for each in below]):
            self._add_operator(node, below, complete=len(self._meanings.unknown) == unknown)
        return flow

    def _through(self, node: Tree, below: list[Flow]) -> Flow:
        name = node.name
        if name in spark_classes.STREAMING_RELATIONS:
            return self._source(node)
        if name in _TRANSPARENT:
            if name == spark_classes.WATERMARK:
                self.watermarks.append(self._meanings.of(node.fields["eventTime"]))
            return below[0]
        if name == "Project":
            return self._columns(below[0], node.fields["projectList"])
        if name == "Filter":
            rows = self._meanings.conjuncts(node.fields["condition"])
            checked = below[0].not_null | _not_null(node.fields["condition"])
            return msgspec.structs.replace(below[0], rows=_merged(below[0].rows, rows), not_null=checked)
        if name == spark_classes.AGGREGATE:
            return self._aggregate(node, below[0])
        if name == spark_classes.JOIN:
            return self._join(node, below)
        if name == "Union":
            return self._union(node, below)
        if name == "Expand":
            return self._expand(node, below[0])
        if name in _PYTHON_EVALUATION:
            functions = [self._meanings.of(each) for each in node.fields["udfs"]]
            new = self._define_each(node.fields["resultAttrs"], functions)
            return msgspec.structs.replace(below[0], columns=[*below[0].columns, *new])
        if name == "Generate":
            return self._generate(node, below[0])
        return self._other(node, below)

    def _source(self, node: Tree) -> Flow:
        numbers = [expression_id(each[0]) for each in node.fields["output"]]
        label = self._sources.get(tuple(numbers))
        if label is None:
            position = len(self._sources)
            given = self._source_names[position] if position < len(self._source_names) else ""
            label = self._sources[tuple(numbers)] = f'source "{given}"' if given else f"source {position}"
        for number, attribute in zip(numbers, node.fields["output"], strict=True):
            self._meanings.define(number, f"{label}.{attribute[0]['name']}")
        return Flow(columns=numbers, rows=(), shape=(label,), streaming=True)

    def _columns(self, below: Flow, expressions: list[list[dict[str, Any]]]) -> Flow:
        columns = [self._column(each) for each in expressions]
        return msgspec.structs.replace(below, columns=columns, not_null=frozenset())

    def _column(self, nodes: list[dict[str, Any]]) -> int:
        number = expression_id(nodes[0]) if "exprId" in nodes[0] else -1
        meaning = self._meanings.of(nodes)
        if number >= 0:
            self._meanings.define(number, meaning)
        return number

    def _define_each(self, attributes: list[list[dict[str, Any]]], meanings: list[str]) -> list[int]:
        numbers = [expression_id(each[0]) for each in attributes]
        for number, meaning in zip(numbers, meanings, strict=True):
            self._meanings.define(number, meaning)
        return numbers

    def _aggregate(self, node: Tree, below: Flow) -> Flow:
        keys = ", ".join(self._meanings.of(each) for each in node.fields["groupingExpressions"])
        flow = self._columns(below, node.fields["aggregateExpressions"])
        return msgspec.structs.replace(flow, shape=(*below.shape, f"group by ({keys})"))

    def _join(self, node: Tree, below: list[Flow]) -> Flow:
        kind = str(node.fields["joinType"].get("object", "")).rpartition(".")[2].rstrip("$")
        condition = node.fields.get("condition")
        text = " and ".join(self._meanings.conjuncts(condition)) if condition and is_expression(condition) else ""
        left, right = below
        columns = left.columns if kind in _LEFT_ONLY else [*left.columns, *right.columns]
        sides = (f"left: {'; '.join(left.shape)}", f"right: {'; '.join(right.shape)}")
        return Flow(
            columns=columns,
            rows=self._joined_rows(below),
            shape=(*sides, f"join {kind} on {text}"),
            streaming=left.streaming or right.streaming,
        )

    def _union(self, node: Tree, below: list[Flow]) -> Flow:
        for position, number in enumerate(below[0].columns):
            branches = [self.meaning(each.columns[position]) for each in below]
            # The union's columns carry the first branch's numbers.
            self._meanings.redefine(
                number, branches[0] if len(set(branches)) == 1 else f"either({', '.join(branches)})"
            )
        rows = tuple(f"branch {number}: {row}" for number, each in enumerate(below) for row in each.rows)
        shape = tuple(f"branch {number}: {'; '.join(each.shape)}" for number, each in enumerate(below))
        streaming = any(each.streaming for each in below)
        return Flow(columns=below[0].columns, rows=tuple(sorted(rows)), shape=shape, streaming=streaming)

    def _expand(self, node: Tree, below: Flow) -> Flow:
        projections = [[self._meanings.of(each) for each in one] for one in node.fields["projections"]]
        columns = [_one_of("each", parts) for parts in zip(*projections, strict=True)]
        numbers = self._define_each(node.fields["output"], columns)
        return msgspec.structs.replace(below, columns=numbers, shape=(*below.shape, f"expand {len(projections)}"))

    def _generate(self, node: Tree, below: Flow) -> Flow:
        generator = self._meanings.of(node.fields["generator"])
        outer = " outer" if node.fields.get("outer") else ""
        attributes = node.fields["generatorOutput"]
        new = self._define_each(attributes, [f"{generator}[{number}]" for number in range(len(attributes))])
        shape = (*below.shape, f"generate{outer} {generator}")
        return msgspec.structs.replace(below, columns=[*below.columns, *new], shape=shape)

    def _other(self, node: Tree, below: list[Flow]) -> Flow:
        """Any other node: its own expressions are part of what its columns mean."""
        text = self._own_text(node)
        attributes = next((node.fields[key] for key in ("output", "outputAttrs") if key in node.fields), None)
        columns = [number for each in below[:1] for number in each.columns]
        if attributes is not None and all(is_expression(each) for each in attributes):
            label = text
            if not below:
                label, self._statics = f"static {self._statics}", self._statics + 1
            names = [str(each[0].get("name")) for each in attributes]
            meanings = (
                [f"{label}.{name}" for name in names] if not below else [f"{text}[{n}]" for n in range(len(names))]
            )
            columns = self._define_each(attributes, meanings)
            text = text if below else f"{node.name} {', '.join(names)}"
        elif node.name in spark_classes.DEDUPLICATES or node.name == spark_classes.GLOBAL_LIMIT:
            pass
        elif not below:
            self._meanings.unknown.append(node.name)
        shape = tuple(part for each in below for part in each.shape)
        rows = tuple(part for each in below for part in each.rows)
        streaming = any(each.streaming for each in below) or bool(node.fields.get("isStreaming"))
        return Flow(columns=columns, rows=rows, shape=(*shape, text), streaming=streaming)

    def _own_text(self, node: Tree) -> str:
        parts = []
        for key, value in sorted(node.fields.items()):
            if key in ("output", "outputAttrs", "class") or key in spark_classes.UNSTABLE_FIELDS:
                continue
            if is_expression(value):
                parts.append(self._meanings.of(value))
            elif isinstance(value, list) and value and all(is_expression(each) for each in value):
                parts += [self._meanings.of(each) for each in value]
            elif isinstance(value, dict) and "object" in value:
                parts.append(str(value["object"]).rpartition(".")[2].rstrip("$"))
            elif isinstance(value, bool | str | float):
                parts.append(f"{key}={value}")
        return f"{node.name}({', '.join(parts)})"

    def _add_operator(self, node: Tree, below: list[Flow], *, complete: bool) -> None:
        inputs = tuple(tuple(self.meaning(number) for number in each.columns) for each in below)
        joins = node.name == spark_classes.JOIN
        rows = self._joined_rows(below) if joins else tuple(part for each in below for part in each.rows)
        shape = tuple(part for each in below for part in each.shape)
        keys, values, condition = self._own(node, inputs)
        if joins:
            rows = tuple(each for each in rows if not _implied(each, (*keys, *condition)))
        complete = complete and not any(each.startswith("?") for side in inputs for each in side)
        self.operators.append(
            Reached(
                keys=keys,
                values=values,
                condition=condition,
                inputs=inputs,
                not_null=tuple(tuple(number in each.not_null for number in each.columns) for each in below),
                rows=rows,
                shape=shape,
                complete=complete,
            )
        )

    def _own(
        self, node: Tree, inputs: tuple[tuple[str, ...], ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Keys, aggregates, and a join's condition apart from its keys."""
        fields, of = node.fields, self._meanings.of
        if node.name == spark_classes.AGGREGATE:
            return tuple(of(each) for each in fields["groupingExpressions"]), tuple(self._aggregates(node)), ()
        if node.name in spark_classes.DEDUPLICATES:
            return tuple(of(each) for each in fields["keys"]), (), ()
        if node.name == spark_classes.PANDAS_WITH_STATE:
            return tuple(of(each) for each in fields["groupingAttributes"]), (), ()
        if "groupingAttributesLen" in fields:
            return inputs[0][: int(fields["groupingAttributesLen"])], (), ()
        if node.name == spark_classes.JOIN and is_expression(fields.get("condition")):
            parts = self._meanings.ordered_conjuncts(fields["condition"])
            keys = tuple(each for each in parts if each.startswith(_EQUALITIES))
            return keys, (), tuple(sorted(each for each in parts if each not in keys))
        return (), (), ()

    def _aggregates(self, node: Tree) -> list[str]:
        """Each aggregate, in the order in which it appears."""
        found: list[str] = []

        def visit(tree: Tree) -> None:
            if tree.name == spark_classes.AGGREGATE_EXPRESSION:
                found.append(self._meanings.of_tree(tree))
                return
            for each in tree.children:
                visit(each)

        for nodes in node.fields["aggregateExpressions"]:
            visit(read_tree(nodes))
        return found

    def _joined_rows(self, below: list[Flow]) -> tuple[str, ...]:
        left, right = below
        return _merged([f"left: {each}" for each in left.rows], [f"right: {each}" for each in right.rows])


def _not_null(condition: list[dict[str, Any]]) -> frozenset[int]:
    """The attributes that a condition requires not to be null, one by one."""
    tree = read_tree(condition)
    found: set[int] = set()

    def visit(part: Tree) -> None:
        if part.name == "And":
            for each in part.children:
                visit(each)
        elif part.name == "IsNotNull" and part.children[0].name == "AttributeReference":
            found.add(expression_id(part.children[0].fields))

    visit(tree)
    return frozenset(found)


def _one_of(word: str, meanings: Sequence[str]) -> str:
    return meanings[0] if len(set(meanings)) == 1 else f"{word}({', '.join(meanings)})"


def _merged(before: tuple[str, ...] | list[str], more: list[str]) -> tuple[str, ...]:
    return tuple(sorted({*before, *more}))


def _implied(row: str, conditions: tuple[str, ...]) -> bool:
    """Whether a filter on a join's side only says what the join's condition needs: that a column of it is not null."""
    _, _, predicate = row.partition(": ")
    column = predicate.removeprefix("isnotnull(").removesuffix(")")
    return predicate.startswith("isnotnull(") and any(column in each for each in conditions)
