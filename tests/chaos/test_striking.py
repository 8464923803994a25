"""What a campaign strikes with: it must come at the named step, and not say so when nobody was hit."""

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


def test_the_step_at_work_is_the_first_that_is_not_done() -> None:
    """A dual run's steps are known once it was assessed; who falls back is at no other step any more."""
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


def test_the_names_of_a_case_are_what_it_hits() -> None:
    """So that a missed one can be told, and tried again alone."""
    assert names_of("broker/kill@drain+freeze@go") == ["broker/kill@drain", "broker/freeze@go"]


def test_a_step_is_struck_once_while_it_runs_and_only_by_what_hit_somebody() -> None:
    """Not an operation of before, not another step, and again until there was somebody to hit."""
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
