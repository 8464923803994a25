"""What single nodes of a walked plan say: names, kinds and conditions."""

from __future__ import annotations

from streamkeeper.inspection.plan_text import quoted_name
from streamkeeper.inspection.plan_tree import PLAN, Node


def join_kind(node: Node) -> str:
    """A join's type, such as ``LeftOuter``."""
    found = node.fields["joinType"]
    return found.name if isinstance(found, Node) else str(found.found).rpartition(".")[2].rstrip("$")


def column_name(attribute: Node) -> str:
    """An attribute's name, in quotes unless it is a plain word."""
    return quoted_name(" ".join(str(attribute.fields["name"]).split()))


def attributes_in(found: object) -> list[Node]:
    """The attributes among some arguments."""
    parts = found if isinstance(found, list) else [found]
    return [each for each in parts if isinstance(each, Node) and each.name == "AttributeReference"]


def is_plan(found: object) -> bool:
    """Whether an argument is a plan, or holds one."""
    parts = found if isinstance(found, list) else [found]
    return any(isinstance(each, Node) and each.kind == PLAN for each in parts)


def attributes_not_null(condition: Node) -> frozenset[int]:
    """The attributes that a condition requires not to be null, one by one."""
    found: set[int] = set()

    def visit(part: Node) -> None:
        if part.name == "And":
            for each in part.children:
                visit(each)
        elif part.name == "IsNotNull" and part.children[0].name == "AttributeReference":
            found.add(part.children[0].expression_id)

    visit(condition)
    return frozenset(found)


def conjuncts_of(condition: Node | None) -> list[Node]:
    """The parts of a condition."""
    if condition is None or condition.name != "And":
        return [] if condition is None else [condition]
    return [part for each in condition.children for part in conjuncts_of(each)]
