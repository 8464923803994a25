"""Tests of how the demo compares a finished operation with the outcome, verdict and transition that its step
expects.
"""

from __future__ import annotations

from typing import Any

import pytest

from demo.deploys import Asked, find_wrong
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest

ASKED = Asked(name="a step", form={"job": "a_job"}, verdict=Verdict.SWITCH, way=Transition.REBUILD)


def _done(**changes: Any) -> OperationState:
    given: dict[str, Any] = {
        "outcome": Outcome.SUCCEEDED,
        "verdict": Verdict.SWITCH,
        "transitions": {"q": QueryTransition(way=Transition.REBUILD)},
        **changes,
    }
    return OperationState(operation="op", request=DeployRequest(job="a_job"), steps=(), started=1, **given)


def test_an_operation_with_the_expected_outcome_is_accepted() -> None:
    """An operation with the expected outcome, verdict and transition is accepted; an expectation that is left open
    accepts any value.
    """
    assert find_wrong(ASKED, _done()) == ""
    first = Asked(name="first", form={"job": "a_job"})
    assert find_wrong(first, _done(verdict=None, transitions={})) == ""


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (_done(outcome=Outcome.FELL_BACK), "was to end as succeeded, and is fell-back"),
        (_done(outcome=None), "was to end as succeeded, and is nothing yet"),
        (_done(verdict=Verdict.RESUME), "its verdict was to be SWITCH, and is RESUME"),
        (
            _done(transitions={"q": QueryTransition(way=Transition.HANDOFF)}),
            "its way was to be rebuild, and is handoff",
        ),
        (_done(transitions={}), "its way was to be rebuild, and is none"),
    ],
    ids=["another outcome", "no outcome", "another verdict", "another way", "no way"],
)
def test_an_operation_that_differs_from_the_expectation_is_reported(done: OperationState, told: str) -> None:
    """An operation that differs from the expected outcome, verdict or transition is reported with both values, even if
    it succeeded.
    """
    assert find_wrong(ASKED, done) == told
