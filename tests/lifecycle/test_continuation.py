"""Tests whether a supervisor starts another generation of its driver after the decisions that were recorded since."""

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
    """Return the state of a job whose instance ``one`` is serving, after the further records."""
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
    """Return the records of a second, open deploy with its candidate."""
    return (
        OperationStarted(operation="op2", request=DeployRequest(job="sales"), steps=()),
        InstancePlanned(operation="op2", instance="two", release="r0001", role=Role.CANDIDATE),
    )


def test_the_serving_or_an_unrecorded_instance_continues() -> None:
    """Negative control for the other tests: the serving instance continues, and so does an instance that is in no
    record, which its operation decides about.
    """
    assert may_go_on(state_of(), "one", ()).goes_on
    assert may_go_on(JobState(job="sales"), "one", ()).goes_on


def test_a_driver_with_a_drain_or_stop_command_does_not_restart() -> None:
    """A driver that has a DRAIN or STOP command does not start again, even if it died before it read the command."""
    drained = may_go_on(state_of(), "one", {CommandKind.GO, CommandKind.DRAIN})
    assert (drained.goes_on, drained.state) == (False, DriverState.DRAINED)
    stopped = may_go_on(state_of(), "one", {CommandKind.STOP})
    assert (stopped.goes_on, stopped.state) == (False, DriverState.STOPPED)


def test_the_driver_of_a_stopped_job_does_not_restart() -> None:
    """The driver of a stopped job does not start again, even if the stop died before it sent a command; once the job is
    wanted again, the driver may continue.
    """
    verdict = may_go_on(state_of(STOP), "one", {CommandKind.GO})
    assert (verdict.goes_on, verdict.reason) == (False, "the job was stopped by ada")
    again = DesiredChanged(serve=True, requested_by="ada", reason="")
    assert may_go_on(state_of(STOP, again), "one", {CommandKind.GO}).goes_on


def test_the_candidate_of_a_stopped_job_continues_until_promotion() -> None:
    """The candidate of a deploy continues although the job is recorded as stopped, because its operation decides until
    the promotion.
    """
    appointed = InstanceAppointed(operation="op2", instance="two")
    assert may_go_on(state_of(STOP, *second(), appointed), "two", {CommandKind.GO}).goes_on


def test_a_superseded_or_dead_instance_does_not_restart() -> None:
    """An instance does not start again after a different one was appointed or after its own death was recorded."""
    verdict = may_go_on(state_of(*second(), InstanceAppointed(operation="op2", instance="two")), "one", ())
    assert (verdict.goes_on, verdict.state) == (False, DriverState.FENCED)
    ended = InstanceEnded(operation="op2", instance="one", proof="gone", exit="failed")
    assert not may_go_on(state_of(ended), "one", ()).goes_on


def test_a_promotion_makes_a_stopped_job_wanted_again() -> None:
    """The promotion of a release makes a stopped job wanted again; a deploy before its promotion does not."""
    assert not state_of(STOP).wanted
    promoted = ReleasePromoted(operation="op2", release="r0001", instance="two")
    assert state_of(STOP, *second(), promoted).wanted
