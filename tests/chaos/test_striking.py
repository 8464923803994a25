"""A campaign strikes at the named step, and reports a hit only if it hit something."""

from __future__ import annotations

import time

import msgspec

from chaos.striking import Striker, names_of, step_of
from harness.waiting import wait_for
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest


def test_the_current_step_is_the_first_unfinished_step_of_an_operation() -> None:
    """The current step of an operation is its first unfinished one, according to the assessed transitions; falling back
    overrides it, and a finished operation has none.
    """
    operation = OperationState(operation="d1", request=DeployRequest(job="ledgers"), steps=(), started=1)
    assert step_of(operation) is Step.BUNDLE
    rebuild = {"counts": QueryTransition(way=Transition.REBUILD, version="v0002")}
    done: dict[str, dict[str, str]] = {each.tag: {} for each in (Step.BUNDLE, Step.STANDBY, Step.ASSESS)}
    assessed = msgspec.structs.replace(operation, verdict=Verdict.SWITCH, transitions=rebuild, done=done)
    assert step_of(assessed) is Step.SHADOW
    resumed = msgspec.structs.replace(
        assessed, transitions={"counts": QueryTransition(way=Transition.RESUME, version="v0001")}
    )
    assert step_of(resumed) is Step.DRAIN
    assert step_of(msgspec.structs.replace(assessed, fall_back="broken")) is Step.FALL_BACK
    assert step_of(msgspec.structs.replace(assessed, outcome=Outcome.ABORTED)) is None


def test_a_case_with_several_strikes_is_split_into_one_name_per_strike() -> None:
    """A case with several strikes is split into one name per strike, so that a missed one can be reported and retried
    alone.
    """
    assert names_of("broker/kill@drain+freeze@go") == ["broker/kill@drain", "broker/freeze@go"]


def test_a_strike_is_retried_until_it_hits_and_counts_once() -> None:
    """A strike is retried until it hits something and then counts once, only for a new operation and only while the
    named step runs.
    """
    old = OperationState(operation="d1", request=DeployRequest(job="ledgers"), steps=(), started=1)
    new = msgspec.structs.replace(old, operation="d2")
    states = [JobState(job="ledgers", operations={"d1": old})]
    struck: list[str] = []

    def strike(name: str) -> bool:
        struck.append(name)
        return len(struck) > 2

    with Striker(lambda: states[-1], ["frozen/driver@bundle", "frozen/driver@drain"], strike) as striker:
        time.sleep(0.3)
        assert struck == []
        states.append(JobState(job="ledgers", operations={"d1": old, "d2": new}))
        wait_for("a strike", lambda: bool(striker.hits), timeout_s=10)
        time.sleep(0.3)
    assert striker.hits == ["frozen/driver@bundle"]
    assert struck == ["frozen/driver@bundle"] * 3
