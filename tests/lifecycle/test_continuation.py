"""Whether a supervisor starts another generation, after whatever was decided meanwhile."""

from __future__ import annotations

from streamkeeper.lifecycle.continuation import may_go_on
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    Entry,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleasePromoted,
    Role,
)
from streamkeeper.model.requests.request import DeployRequest

STOP = DesiredChanged(serve=False, requested_by="ada", reason="maintenance", operation="stop-1")


def state_of(*more: Record) -> JobState:
    """A job whose instance ``one`` serves, and what was recorded since."""
    state = JobState(job="sales")
    records: tuple[Record, ...] = (
        OperationStarted(operation="op", request=DeployRequest(job="sales"), steps=()),
        InstancePlanned(operation="op", instance="one", release="r0001", role=Role.CANDIDATE),
        InstanceAppointed(operation="op", instance="one"),
        ReleasePromoted(operation="op", release="r0001", instance="one"),
        OperationFinished(operation="op", outcome=Outcome.SUCCEEDED, sentence=""),
        *more,
    )
    for number, record in enumerate(records, 1):
        state = fold(state, Entry(number=number, at="", by="", record=record))
    return state


def second() -> tuple[Record, ...]:
    """Another deploy, open, with its candidate."""
    return (
        OperationStarted(operation="op2", request=DeployRequest(job="sales"), steps=()),
        InstancePlanned(operation="op2", instance="two", release="r0001", role=Role.CANDIDATE),
    )


def test_what_serves_goes_on() -> None:
    """The negative control of all the others; an instance that is on no record is an operation's to know."""
    assert may_go_on(state_of(), "one", ()).goes_on
    assert may_go_on(JobState(job="sales"), "one", ()).goes_on


def test_who_was_told_to_end_does_not() -> None:
    """A drained driver ends for good, also when it died before it had read the order."""
    drained = may_go_on(state_of(), "one", {CommandKind.GO, CommandKind.DRAIN})
    assert (drained.goes_on, drained.state) == (False, DriverState.DRAINED)
    stopped = may_go_on(state_of(), "one", {CommandKind.STOP})
    assert (stopped.goes_on, stopped.state) == (False, DriverState.STOPPED)


def test_who_serves_a_stopped_job_does_not() -> None:
    """Recorded, and not told yet: the stop died in between. Started again, it goes on."""
    verdict = may_go_on(state_of(STOP), "one", {CommandKind.GO})
    assert (verdict.goes_on, verdict.reason) == (False, "the job was stopped by ada")
    again = DesiredChanged(serve=True, requested_by="ada", reason="")
    assert may_go_on(state_of(STOP, again), "one", {CommandKind.GO}).goes_on


def test_the_candidate_of_a_stopped_job_goes_on() -> None:
    """Somebody deploys it: until it is promoted the job counts as stopped, and its operation decides."""
    appointed = InstanceAppointed(operation="op2", instance="two")
    assert may_go_on(state_of(STOP, *second(), appointed), "two", {CommandKind.GO}).goes_on


def test_who_was_superseded_does_not() -> None:
    """Another instance was appointed while the store was out of reach, or its death was recorded."""
    verdict = may_go_on(state_of(*second(), InstanceAppointed(operation="op2", instance="two")), "one", ())
    assert (verdict.goes_on, verdict.state) == (False, DriverState.FENCED)
    ended = InstanceEnded(operation="op2", instance="one", proof="gone", exit="failed")
    assert not may_go_on(state_of(ended), "one", ()).goes_on


def test_a_promotion_wants_the_job_to_serve() -> None:
    """Whoever deploys a stopped job wants that; until then nothing is wanted."""
    assert not state_of(STOP).wanted
    promoted = ReleasePromoted(operation="op2", release="r0001", instance="two")
    assert state_of(STOP, *second(), promoted).wanted
