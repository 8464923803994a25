"""What an expression means, whatever it is called: its columns resolved down to the sources.

Names of columns, aliases and functions written in Python do not count, nor does the order of what commutes; types,
literals and structure do. Read from a plan's JSON, in which an expression is a list of nodes in pre-order. What that
leaves out (``try_cast`` looks like ``cast``) is taken from the plan's text, node by node.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from streamkeeper.inspection import spark_classes

SESSION = "session"
"""Stands for the session's time zone in a meaning."""

_CHILDREN = frozenset(
    {"child", "left", "right", "children", "aggregateFunction", "filter", "predicate", "trueValue", "falseValue"}
    | {"elseValue", "start", "interval", "base", "values", "function", "argument", "arguments"}
)
_NAMES = frozenset({"class", "num-children", "name", "qualifier", "metadata", "explicitMetadata", "names", "resultId"})
_TRANSPARENT = frozenset({"Alias", "KnownNullable", "KnownNotNull", "KnownNotContainsNull"})
_COMMUTES = frozenset({"Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "EqualNullSafe", "EqualTo", "Multiply"})
_MIRRORED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_ZONED_TYPES = frozenset({"date", "string", "timestamp", "timestamp_ntz"})
_MODES = frozenset({"evalContext", "evalMode"})
_SESSION_DEPENDENT = _MODES | {"ansiEnabled", "failOnError"}
"""How errors are told: the session's ANSI mode, which is compared as a setting."""
_TRY = re.compile(r"\btry_\w+")
_WINDOW = "precisetimestampconversion("
_WINDOW_PARTS = re.compile(r"(\d{4,}):long")


class Tree:
    """One node of a plan or expression: its JSON fields and its children."""

    def __init__(self, fields: dict[str, Any], children: list[Tree]) -> None:
        self.fields = fields
        self.children = children
        self.tries: tuple[str, ...] = ()
        self.name = str(fields["class"]).rpartition(".")[2]


def read_tree(nodes: list[dict[str, Any]]) -> Tree:
    """A tree from its nodes in pre-order."""
    return _read(iter(nodes))


def read_plan(nodes: list[dict[str, Any]], text: str) -> Tree:
    """A plan's tree; ``text``: its ``toString``, a line per node unless a literal breaks one."""
    root = read_tree(nodes)
    lines = text.rstrip().splitlines()
    every = list(_pre_order(root))
    for number, each in enumerate(every):
        each.tries = tuple(_TRY.findall(lines[number] if len(lines) == len(every) else text))
    return root


def _pre_order(tree: Tree) -> Iterator[Tree]:
    yield tree
    for each in tree.children:
        yield from _pre_order(each)


def _read(nodes: Iterator[dict[str, Any]]) -> Tree:
    fields = next(nodes)
    return Tree(fields, [_read(nodes) for _ in range(int(fields["num-children"]))])


def is_expression(found: object) -> bool:
    """Whether a field holds an expression, as a list of nodes."""
    return isinstance(found, list) and bool(found) and isinstance(found[0], dict) and "num-children" in found[0]


def expression_id(fields: Mapping[str, Any]) -> int:
    """The number by which others refer to an attribute or alias."""
    return int(fields["exprId"]["id"])


class Meanings:
    """Meanings of attributes so far, by expression id.

    ``unknown`` collects what could not be resolved; ``tries``: the functions of the node being read that give null
    instead of an error.
    """

    def __init__(self, time_zone: str) -> None:
        self._time_zone = time_zone
        self._of: dict[int, str] = {}
        self.tries: tuple[str, ...] = ()
        self.unknown: list[str] = []

    def define(self, number: int, meaning: str) -> None:
        """Set what an attribute means."""
        self._of.setdefault(number, meaning)

    def redefine(self, number: int, meaning: str) -> None:
        """Set anew what an attribute means from here upward."""
        self._of[number] = meaning

    def known(self, number: int) -> str | None:
        """What an attribute means, if it was defined."""
        return self._of.get(number)

    def of(self, nodes: list[dict[str, Any]]) -> str:
        """The meaning of an expression."""
        return self.of_tree(read_tree(nodes))

    def of_tree(self, tree: Tree) -> str:
        """The meaning of an expression that was read already."""
        name = tree.name
        if name in _TRANSPARENT:
            return self.of_tree(tree.children[0])
        if name == "AttributeReference":
            return self._attribute(tree)
        if name == "Literal":
            return f"{tree.fields.get('value')}:{_type(tree.fields.get('dataType'))}"
        if name in ("And", "Or"):
            return f"({f' {name.lower()} '.join(sorted(set(self._flat(tree, name))))})"
        parts = [self.of_tree(each) for each in tree.children]
        if name in _MIRRORED:
            name, parts = _MIRRORED[name], parts[::-1]
        elif name in _COMMUTES:
            parts = sorted(parts)
        elif name in spark_classes.SEEDED:
            return f"{name.lower()}(seed)"
        elif name == "AggregateExpression":
            distinct = ["distinct"] if tree.fields.get("isDistinct") else []
            return " ".join([parts[0], *distinct, *(f"where {each}" for each in parts[1:])])
        elif name == "CreateNamedStruct" and any(each.startswith(_WINDOW) for each in parts):
            return _window(parts)
        elif name == "CreateNamedStruct":
            fields = zip(parts[::2], parts[1::2], strict=True)
            return f"struct({', '.join(f'{_field(field)}{value}' for field, value in fields)})"
        return f"{name.lower()}({', '.join([*parts, *self._options(tree, name)])})"

    def conjuncts(self, nodes: list[dict[str, Any]]) -> list[str]:
        """The parts of a condition, in a fixed order."""
        return sorted(set(self._flat(read_tree(nodes), "And")))

    def ordered_conjuncts(self, nodes: list[dict[str, Any]]) -> list[str]:
        """The parts of a condition, in the order in which they are written."""
        return list(dict.fromkeys(self._flat(read_tree(nodes), "And")))

    def _flat(self, tree: Tree, name: str) -> list[str]:
        if tree.name == name:
            return [each for child in tree.children for each in self._flat(child, name)]
        return [self.of_tree(tree)]

    def _attribute(self, tree: Tree) -> str:
        found = self._of.get(expression_id(tree.fields))
        if found is None:
            shown = str(tree.fields.get("name"))
            self.unknown.append(shown)
            return f"?{shown}"
        return found

    def _options(self, tree: Tree, name: str) -> list[str]:
        found = []
        for key, value in sorted(tree.fields.items()):
            if value is None or value == [] or key in _SESSION_DEPENDENT | spark_classes.UNSTABLE_FIELDS:
                continue
            if key in _NAMES or key == "exprId" or _holds_expressions(value):
                continue
            if key in _CHILDREN and _refers(value, len(tree.children)):
                continue
            if key == "timeZoneId":
                if name != "Cast" or _zoned(tree):
                    found.append(f"in {SESSION if value == self._time_zone else value}")
            elif is_expression(value):
                found.append(self.of(value))
            else:
                found.append(f"{key}={_type(value) if key == 'dataType' else _canonical(value)}")
        if self.tries and _MODES & tree.fields.keys():
            found += self.tries
        return found


def _field(name: str) -> str:
    """A field's name, marked so that it can be told from what the field means."""
    return f"{{{name.removesuffix(':string').replace('}', '')}}}"


def _window(parts: list[str]) -> str:
    """A time window: its column, the durations in it in microseconds, and a digest of how they are used."""
    whole = ", ".join(parts)
    column = whole.rpartition(_WINDOW)[2].partition(",")[0].removeprefix("timestampaddinterval(")
    durations = sorted(set(_WINDOW_PARTS.findall(whole)), key=int)
    shown = ", ".join([column, *durations])
    return f"window({shown}; {hashlib.sha256(whole.encode()).hexdigest()[:8]})"


def _holds_expressions(found: object) -> bool:
    """Whether a field repeats children inside a structure of its own, such as the branches of a CASE."""
    if isinstance(found, dict):
        return any(is_expression(each) or _holds_expressions(each) for each in found.values())
    return isinstance(found, list) and not is_expression(found) and any(_holds_expressions(each) for each in found)


def _refers(value: object, children: int) -> bool:
    """Whether a field only says which child it is."""
    if isinstance(value, list):
        return all(_refers(each, children) for each in value)
    return isinstance(value, int) and not isinstance(value, bool) and value < max(children, 1)


def _zoned(cast: Tree) -> bool:
    """Whether a cast may depend on a time zone: from or to a time, a date or a text."""
    child = cast.children[0] if cast.children else None
    while child is not None and child.name in _TRANSPARENT:
        child = child.children[0]
    target = _type(cast.fields.get("dataType"))
    source = _type(child.fields.get("dataType")) if child is not None and "dataType" in child.fields else None
    both = {target, source or "timestamp"}
    return bool(both & {"date", "timestamp"}) and target in _ZONED_TYPES


def _type(found: object) -> str:
    return found if isinstance(found, str) else _canonical(nameless(found))


def nameless(found: Any) -> Any:
    """A type without the names of its fields: state keeps their types and order only."""
    match found:
        case {"type": "struct", "fields": fields}:
            return {"struct": [[nameless(each["type"]), each["nullable"]] for each in fields]}
        case dict():
            return {key: nameless(value) for key, value in found.items() if key != "metadata"}
        case _:
            return found


def _canonical(found: object) -> str:
    return json.dumps(found, sort_keys=True, separators=(",", ":")).strip('"')
