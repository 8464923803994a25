"""Decodes a plan that ``PlanWalker.java`` has written, with every argument of every node, and computes its digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.model.secret_names import is_secret
from streamkeeper.model.secret_references import MASK

PLAN, EXPRESSION = "p", "e"

_NUMBERED = re.compile(r"\b(_common_expr|_gen_alias)_\d+\b")


class Tagged:
    """A value that JSON cannot represent. ``tag`` is the kind that ``PlanWalker.java`` gives the value, such as ``t``
    for a data type.
    """

    __slots__ = ("found", "tag")

    def __init__(self, tag: str, found: Any) -> None:
        self.tag = tag
        self.found = found


class Node:
    """A node of a plan, such as an expression: its class, and its arguments as name -> value, in order.

    The value of a field is None (also for Spark's None), a bool, an int, a text, a list, a ``Node`` or a ``Tagged``.
    ``written``: the ``file:line`` of the Python call that created an expression, if Spark has recorded it. No digest
    contains it.
    """

    __slots__ = ("fields", "kind", "name", "written")

    def __init__(self, kind: str, name: str, fields: dict[str, Any], written: str = "") -> None:
        self.kind = kind
        self.name = name
        self.fields = fields
        self.written = written

    @property
    def children(self) -> list[Node]:
        """The arguments, or elements of list arguments, that are nodes of the same kind as this node, in order."""
        return [node for value in self.fields.values() for node in _nodes(value) if node.kind == self.kind]

    @property
    def expression_id(self) -> int:
        """The number by which other nodes refer to an attribute or alias."""
        return int(self.fields["exprId"].found)


def read_plan(text: str) -> Node:
    """Decode a walked plan, and return its root node."""
    plan = json.loads(text)
    shells = [Node(encoded["k"], encoded["n"], {}, encoded.get("w", "")) for encoded in plan["nodes"]]
    for shell, encoded in zip(shells, plan["nodes"], strict=True):
        shell.fields = {name: _decoded(value, shells) for name, value in encoded["f"]}
    return shells[plan["root"]]


def structure_digest(plan: Node) -> str:
    """Return the sha256 of a whole plan, without the sources' locations: equal for two builds of a query."""
    return hashlib.sha256("".join(_canonical(plan)).encode()).hexdigest()


def unnumbered(text: str) -> str:
    """Return the text without the numbers of generated columns, because Spark numbers these columns across the whole
    session.
    """
    return _NUMBERED.sub(r"\1", text)


def texts(found: Any) -> Iterator[str]:
    """Yield every text in a plan's arguments, such as literals, names and options, in no particular order."""
    return (value for value in values_in(found) if isinstance(value, str))


def values_in(found: Any) -> Iterator[Any]:
    """Yield an argument and every value inside it, including nodes and lists, in no particular order."""
    waiting = [found]
    while waiting:
        value = waiting.pop()
        yield value
        match value:
            case Node(fields=fields):
                waiting += fields.values()
            case Tagged(found=inner):
                waiting.append(inner)
            case list(parts):
                waiting += parts
            case _:
                pass


def _nodes(value: Any) -> list[Node]:
    if isinstance(value, Node):
        # The branches of a CASE are stored in pairs, which are no expressions themselves.
        return (
            [value]
            if value.kind in (PLAN, EXPRESSION)
            else [n for field in value.fields.values() for n in _nodes(field)]
        )
    return [node for part in value for node in _nodes(part)] if isinstance(value, list) else []


def _decoded(value: Any, shells: list[Node]) -> Any:
    if isinstance(value, list):
        return [_decoded(part, shells) for part in value]
    if not isinstance(value, dict):
        return value
    [(tag, found)] = value.items()
    if tag == "n":
        return shells[found]
    if tag in ("s", "m"):
        found = [_decoded(part, shells) for part in found]
    if tag == "m":
        found = [[key, MASK if isinstance(key, str) and is_secret(key) else part] for key, part in found]
    return Tagged(tag, found)


class _Json(str):
    """A finished fragment of the canonical JSON, as opposed to a text that occurs in the plan."""

    __slots__ = ()


def _canonical(plan: Node) -> Iterator[str]:
    """Yield a plan as the JSON of nested lists, with ids renumbered in the order in which they appear.

    The function does not recurse, because an expression may be as deep as Spark can plan, and Python's encoder cannot
    process that depth.
    """
    numbers: dict[tuple[str, int], int] = {}
    waiting: list[Any] = [plan]
    while waiting:
        match waiting.pop():
            case _Json() as ready:
                yield ready
            case Node() as node:
                fields = [[_Json(_json(name)), value] for name, value in stable_fields(node)]
                waiting += [_Json("]"), fields, _Json(f"[{_json(node.name)},")]
            case list(parts):
                separated = [part for piece in parts for part in (_Json(","), piece)][1:]
                waiting += [_Json("]"), *reversed(separated), _Json("[")]
            case Tagged(tag="id" | "f" as tag, found=found):
                yield _json({tag: numbers.setdefault((tag, found), len(numbers))})
            case Tagged(tag="s" | "m" as tag, found=found):
                waiting += [_Json("}"), found, _Json(f"{{{_json(tag)}:")]
            case Tagged(tag=tag, found=found):
                yield _json({tag: found})
            case found:
                yield _json(unnumbered(found) if isinstance(found, str) else found)


def _json(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))


def stable_fields(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a node that are equal in two builds of the same query and may affect the rows.

    For a streaming source, yield only the output, because the source is described separately.
    """
    if node.name in spark_classes.STREAMING_RELATIONS:
        # The described sources say what is read, and how.
        yield "output", node.fields["output"]
        return
    for name, value in node.fields.items():
        if name not in spark_classes.UNSTABLE_FIELDS and (node.name, name) not in spark_classes.UNSTABLE_ARGUMENTS:
            yield name, value
