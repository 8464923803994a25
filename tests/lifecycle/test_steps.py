"""Tests the table of steps and the functions that read it."""

from __future__ import annotations

import pytest

from streamkeeper.lifecycle.deploy_steps import LADDERS
from streamkeeper.lifecycle.steps import STEPS, current_step, deadline_s, path, plan_deploy
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest

EVERYTHING = DeployRequest(job="j")


def operation(request: DeployRequest, *ways: QueryTransition) -> OperationState:
    return OperationState(
        operation="op", request=request, steps=(), started=1, transitions={str(at): way for at, way in enumerate(ways)}
    )


def test_the_table_has_every_step_once_and_every_step_decides() -> None:
    """Every step occurs once in the table and has its decisions."""
    assert [*(row.step for row in STEPS), Step.FALL_BACK] == list(Step) == list(LADDERS)


@pytest.mark.parametrize("serving", ["", "r0001"])
def test_a_plan_has_a_sentence_and_a_deadline_for_each_step(serving: str) -> None:
    """Every planned step has its sentences without unfilled placeholders and a positive deadline; the plan of a first
    deploy contains only the steps that do not need a current release.
    """
    plan = plan_deploy(EVERYTHING, serving=serving)
    assert [planned.step for planned in plan] == [row.step for row in STEPS if serving or row.first]
    for planned in plan:
        assert planned.does
        assert planned.otherwise
        assert "{" not in planned.does + planned.otherwise
        assert planned.deadline_s == deadline_s(planned.step, EVERYTHING) > 0


def test_the_plan_of_a_dry_run_ends_after_the_assessment() -> None:
    """The plan of a dry run ends after the candidate is assessed."""
    plan = plan_deploy(DeployRequest(job="j", dry_run=True), serving="r0001")
    assert [planned.step for planned in plan] == [Step.BUNDLE, Step.STANDBY, Step.ASSESS]


def test_a_deadline_is_that_of_the_request_where_it_has_one() -> None:
    """A step's deadline is the request's if the request has one, else the table's."""
    assert deadline_s(Step.DRAIN, DeployRequest(job="j", drain_s=7.0)) == 7.0
    assert deadline_s(Step.PROVE_DEAD, DeployRequest(job="j", drain_s=7.0)) == 30.0


@pytest.mark.parametrize(
    ("way", "request_", "beside"),
    [
        (QueryTransition(way=Transition.RESUME), {}, set()),
        (QueryTransition(way=Transition.RESUME, opaque=True), {}, {Step.KEEP_STATE, Step.APPROVE, Step.READY}),
        (QueryTransition(way=Transition.RESUME, opaque=True), {"accept_risk": True}, {Step.KEEP_STATE}),
        (
            QueryTransition(way=Transition.REBUILD),
            {},
            {Step.SHADOW, Step.CATCH_UP, Step.COMPARE, Step.CATCH_UP_AFTER_DRAIN},
        ),
        (
            QueryTransition(way=Transition.REBUILD, opaque_code=True),
            {"compare": False},
            {Step.SHADOW, Step.CATCH_UP, Step.REVIEW, Step.CATCH_UP_AFTER_DRAIN},
        ),
        (QueryTransition(way=Transition.RESTORE), {}, {Step.RESTORE}),
    ],
    ids=["resume", "opaque", "risk accepted", "rebuild", "not compared", "restore"],
)
def test_the_transitions_and_the_request_determine_the_steps(
    way: QueryTransition, request_: dict[str, bool], beside: set[Step]
) -> None:
    """The transitions and the request add exactly the expected steps to those of every deploy, in order; the current
    step is the first one that is not done.
    """
    always = set(path(operation(EVERYTHING)))
    taken = operation(DeployRequest(job="j", **request_), QueryTransition(way=Transition.RESUME), way)  # type: ignore[arg-type]
    assert set(path(taken)) - always == beside
    assert path(taken) == tuple(sorted(path(taken)))
    assert current_step(taken) is Step.BUNDLE
