"""Tests the normalised form of plans, which is the same for two builds of one query."""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.inspection.normalised import normalised, normalised_text
from streamkeeper.inspection.plan_tree import EXPRESSION, PLAN, Node, Tagged, structure_digest


def attribute(number: int, name: str = "k") -> Node:
    fields = {"name": name, "dataType": Tagged("t", "string"), "exprId": Tagged("id", number)}
    return Node(EXPRESSION, "AttributeReference", fields)


def literal(value: Any, kind: str = "integer") -> Node:
    return Node(EXPRESSION, "Literal", {"value": value, "dataType": Tagged("t", kind)})


def plan(*nodes: Node) -> Node:
    return Node(PLAN, "Project", {"projectList": list(nodes)})


def rand(seed: int) -> Node:
    return Node(EXPRESSION, "Rand", {"child": literal(seed), "hideSeed": False})


def test_attribute_ids_are_renumbered_in_their_order() -> None:
    """Attribute ids, which grow with every build in a session, are renumbered in order of appearance, while different
    attributes stay distinct.
    """
    assert normalised_text("Project [k#17, x#9L, k#17]") == normalised_text("Project [k#3, x#40L, k#3]")
    assert normalised_text("Project [k#1, k#1]") != normalised_text("Project [k#1, k#2]")
    assert structure_digest(plan(attribute(7), attribute(9))) == structure_digest(plan(attribute(1), attribute(2)))
    assert structure_digest(plan(attribute(7), attribute(7))) != structure_digest(plan(attribute(1), attribute(2)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("StreamingRelation FileSource[/a/in], [k#1]", "StreamingRelation FileSource[/b/in], [k#1]"),
        (
            "~StreamingRelationV2 o.a.KafkaProvider@5e78faa0, kafka, o.a.Table@1f2eba62, [subscribe=a], [k#1]",
            "~StreamingRelationV2 o.a.KafkaProvider@11111111, kafka, o.a.Table@22222222, [subscribe=b], [k#1]",
        ),
        (
            "EventTimeWatermark b808c2f2-71be-4406-8d11-89ac2f2f053b, ts#2",
            "EventTimeWatermark 11111111-71be-4406-8d11-89ac2f2f053b, ts#2",
        ),
        ("lambdafunction((lambda x_1#4 + 1), lambda x_1#4)", "lambdafunction((lambda x_9#4 + 1), lambda x_9#4)"),
        ("Project [rand(-683935) AS r#1]", "Project [rand(12) AS r#1]"),
        ("Project [uuid(Some(-683935)) AS r#1]", "Project [uuid(Some(12)) AS r#1]"),
    ],
)
def test_locations_ids_generated_names_and_seeds_are_removed_from_the_plan_text(one: str, other: str) -> None:
    """Locations, object identities, node ids, generated names and seeds are removed from a plan's text."""
    assert normalised_text(one) == normalised_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Filter (x#1 > 3)", "Filter (x#1 > 4)"),
        ("EventTimeWatermark U, ts#2, 10 minutes", "EventTimeWatermark U, ts#2, 1 minutes"),
        ("Aggregate [sum(x#1)]", "Aggregate [max(x#1)]"),
        ("Project [a_1#1]", "Project [a_2#1]"),
        ("StreamingRelation FileSource[/a], [k#1]", "StreamingRelation RateSource[/a], [k#1]"),
    ],
)
def test_literals_functions_and_column_names_remain_in_the_plan_text(one: str, other: str) -> None:
    """Literals, intervals, functions, column names and source types remain in a plan's text."""
    assert normalised_text(one) != normalised_text(other)


def test_a_literal_that_resembles_an_id_is_compared_as_a_value() -> None:
    """The string literal '#12' is compared as a value by the plan's structure, although the text alone would treat it
    as an attribute's id.
    """
    one = normalised("Filter (k#4 = #12)", plan(attribute(4), literal("#12", "string")))
    assert one == normalised("Filter (k#12 = #12)", plan(attribute(12), literal("#12", "string")))
    assert one != normalised("Filter (k#4 = #13)", plan(attribute(4), literal("#13", "string")))


def test_the_type_of_a_literal_shows_only_in_the_structure() -> None:
    """The plan's structure distinguishes the literal ``3`` as an int from ``3`` as a long, which have the same text."""
    assert normalised("Filter 3", plan(literal(3))) != normalised("Filter 3", plan(literal(3, "long")))


def test_only_the_seed_of_a_random_expression_is_masked() -> None:
    """The seed of a random expression is masked, and a literal beside it keeps its value."""
    assert structure_digest(plan(rand(1), literal(5))) == structure_digest(plan(rand(2), literal(5)))
    assert structure_digest(plan(rand(1), literal(5))) != structure_digest(plan(rand(1), literal(6)))
