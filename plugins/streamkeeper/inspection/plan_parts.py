"""Reads names, kinds and conditions from single nodes of a walked plan."""

from __future__ import annotations

from streamkeeper.inspection.plan_tree import PLAN, Node
from streamkeeper.model.manifests.quoting import quoted_name


def join_kind(node: Node) -> str:
    """Return the type of a join, such as ``LeftOuter``."""
    found = node.fields["joinType"]
    return found.name if isinstance(found, Node) else str(found.found).rpartition(".")[2].rstrip("$")


def column_name(attribute: Node) -> str:
    """Return the name of an attribute, in quotes unless it is a plain word."""
    return quoted_name(str(attribute.fields["name"]))


def attributes_in(found: object) -> list[Node]:
    """Return the attributes among some arguments."""
    parts = found if isinstance(found, list) else [found]
    return [part for part in parts if isinstance(part, Node) and part.name == "AttributeReference"]


def is_plan(found: object) -> bool:
    """Whether an argument is a plan or contains a plan."""
    parts = found if isinstance(found, list) else [found]
    return any(isinstance(part, Node) and part.kind == PLAN for part in parts)


def flattened(condition: Node, name: str) -> list[Node]:
    """Return the parts of a condition that are joined by ``name`` (And, Or), in the order in which they are written."""
    found: list[Node] = []
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.name == name:
            waiting += reversed(part.children)
        else:
            found.append(part)
    return found


def attributes_not_null(condition: Node) -> frozenset[int]:
    """Return the attributes for which a condition contains ``IS NOT NULL``, either as the whole condition or joined by
    AND.
    """
    checked = [part.children[0] for part in flattened(condition, "And") if part.name == "IsNotNull"]
    return frozenset(operand.expression_id for operand in checked if operand.name == "AttributeReference")
