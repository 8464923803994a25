"""Tests how journal records fold into a job's state, including records that are repeated, late or unexpected."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import (
    AbortRequested,
    Assessed,
    CheckpointVersionCreated,
    Entry,
    EpochClaimed,
    FallBackDecided,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    Role,
    StartOffsetsKnown,
    StepBegun,
    StepDone,
)
from streamkeeper.model.requests.request import DeployRequest
from tests.properties.values import RECORDS

STARTED = OperationStarted(operation="op", request=DeployRequest(job="sales"), steps=("bundle", "go"))


def folded(*records: Record) -> JobState:
    entries = [Entry(number=number, at="", by="", record=each) for number, each in enumerate(records, start=1)]
    return reduce(fold, entries, JobState(job="sales"))


def planned(instance: str, role: Role = Role.CANDIDATE) -> InstancePlanned:
    return InstancePlanned(operation="op", instance=instance, release="r0001", role=role)


def ended(instance: str) -> InstanceEnded:
    return InstanceEnded(operation="op", instance=instance, proof="pid 7 is gone", exit="drained")


def appointed(instance: str) -> InstanceAppointed:
    return InstanceAppointed(operation="op", instance=instance)


def claimed(epoch: int, instance: str = "a") -> EpochClaimed:
    return EpochClaimed(query="totals", output="t", epoch=epoch, instance=instance, generation=1, version="v0001")


def finished(outcome: Outcome = Outcome.SUCCEEDED) -> OperationFinished:
    return OperationFinished(operation="op", outcome=outcome, sentence="done")


def created(version: str) -> CheckpointVersionCreated:
    return CheckpointVersionCreated(query="totals", version=version, release="r0001", origin="new", state_format="")


def test_operation_is_open_until_it_has_an_outcome() -> None:
    """An operation is open until its outcome is recorded, and its begun and completed steps accumulate."""
    state = folded(
        STARTED, StepBegun(operation="op", step="go"), StepDone(operation="op", step="go", result={"a": "b"})
    )
    assert state.open_operation is not None
    assert state.open_operation.begun == ("go",)
    assert state.open_operation.done == {"go": {"a": "b"}}
    assert folded(STARTED, finished()).open_operation is None


def test_finished_operation_does_not_change() -> None:
    """Late records of a finished operation change nothing."""
    late: list[Record] = [
        StepDone(operation="op", step="go"),
        AbortRequested(operation="op", requested_by="x", reason="y"),
        FallBackDecided(operation="op", reason="z"),
        finished(Outcome.FAILED),
    ]
    assert folded(STARTED, finished(), *late).operations == folded(STARTED, finished()).operations


def test_the_first_result_of_a_step_is_kept() -> None:
    """If two tasks complete the same step, the first result is kept."""
    state = folded(
        STARTED, StepDone(operation="op", step="go", result={"by": "1"}), StepDone(operation="op", step="go", result={})
    )
    assert state.operations["op"].done["go"] == {"by": "1"}


def test_the_first_reason_for_a_fall_back_is_kept() -> None:
    """The first recorded reason for a fall-back is kept."""
    state = folded(
        STARTED, FallBackDecided(operation="op", reason="first"), FallBackDecided(operation="op", reason="second")
    )
    assert state.operations["op"].fall_back == "first"


def test_abort_without_a_reason_is_an_abort() -> None:
    """An abort with an empty reason is still an abort."""
    state = folded(STARTED, AbortRequested(operation="op", requested_by="x", reason=""))
    assert state.operations["op"].abort


def test_last_assessment_counts() -> None:
    """The last assessment of an operation counts, as after a standby's restart."""

    def assessed(verdict: Verdict) -> Assessed:
        return Assessed(operation="op", verdict=verdict, reverse=Verdict.RESUME, sentence=verdict.name, report="")

    state = folded(STARTED, assessed(Verdict.RESUME), assessed(Verdict.SWITCH))
    assert state.operations["op"].verdict is Verdict.SWITCH
    assert state.operations["op"].verdict_sentence == "SWITCH"


def test_an_appointed_instance_owns_the_checkpoint_until_proven_dead() -> None:
    """An appointed instance owns the checkpoint until its end is proven; a planned one does not."""
    assert folded(planned("a"), planned("b")).owners == []
    state = folded(planned("a"), planned("b"), appointed("a"))
    assert [each.instance for each in state.owners] == ["a"]
    assert state.appointed == "a"
    state = folded(planned("a"), planned("b"), appointed("a"), ended("a"), appointed("b"))
    assert [each.instance for each in state.owners] == ["b"]


@pytest.mark.parametrize("before", [(), (planned("a"), ended("a"))])
def test_unknown_or_dead_instance_is_not_appointed(before: tuple[Record, ...]) -> None:
    """An appointment of an instance that was never planned, or is proven dead, is ignored."""
    assert folded(*before, appointed("a")).appointed == ""


def test_the_relieved_instance_is_the_previously_serving_one() -> None:
    """The relieved instance is the previous serving one, not an instance that only stood by; before the second
    promotion it is empty.
    """
    first = (planned("a"), appointed("a"), ReleasePromoted(operation="op", release="r0001", instance="a"))
    assert folded(*first).relieved_instance == ""
    second = (planned("unused"), planned("b"), ended("a"), appointed("b"))
    assert folded(*first, *second).relieved_instance == ""
    promoted = ReleasePromoted(operation="op", release="r0002", instance="b")
    assert folded(*first, *second, promoted).relieved_instance == "a"


def test_instances_come_oldest_first() -> None:
    """An operation's instances are listed in the order in which they were planned, whatever their names."""
    names = ["op-candidate-9", "op-candidate-10", "a"]
    state = folded(*(planned(name) for name in names), planned("f", Role.FALLBACK))
    assert [each.instance for each in state.instances_of("op", Role.CANDIDATE)] == names


def test_epoch_never_goes_back() -> None:
    """A claim with an epoch that is not newer than the current one is ignored."""
    for late in (1, 2):
        assert folded(claimed(2, "new"), claimed(late, "old")).epochs["totals"].instance == "new"
    assert folded(claimed(2, "new"), claimed(3, "newest")).epochs["totals"].instance == "newest"


def test_current_version_is_the_highest() -> None:
    """The current version is the one with the highest number, regardless of text order and order of creation."""
    state = folded(created("v10000"), created("v0002"), created("v9999"))
    current = state.current_version("totals")
    assert current is not None
    assert current.version == "v10000"
    assert state.current_version("other") is None


def test_start_offsets_are_written_once() -> None:
    """The start offsets of a version are those that were recorded first; later records do not change them."""
    first = StartOffsetsKnown(query="totals", version="v0001", offsets=("0",))
    later = StartOffsetsKnown(query="totals", version="v0001", offsets=("9",))
    state = folded(created("v0001"), created("v0002"), first, later)
    assert [each.start_offsets for each in state.versions["totals"]] == [("0",), None]


def test_the_last_promotion_determines_the_serving_release() -> None:
    """The last promotion determines the serving release and instance."""
    state = folded(
        ReleasePromoted(operation="op", release="r0001", instance="a"),
        ReleasePromoted(operation="op", release="r0002", instance="b"),
    )
    assert (state.serving_release, state.serving_instance) == ("r0002", "b")


def test_releases_are_ordered_by_their_last_promotion() -> None:
    """Releases are ordered by their last promotion: after a rollback from r0002 to r0001 and a deploy of r0003, the
    previous release is r0001.
    """
    served: list[Record] = [
        created("v0001"),
        planned("a"),
        InstanceAppointed(operation="op", instance="a", versions={"totals": "v0001"}),
        *(ReleaseDescribed(release=each, manifests={"totals": ""}) for each in ("r0001", "r0002", "r0003")),
    ]
    order = ("r0001", "r0002", "r0001", "r0003")
    state = folded(*served, *(ReleasePromoted(operation="op", release=each, instance="a") for each in order))
    assert list(state.served) == ["r0002", "r0001", "r0003"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=st.lists(RECORDS, max_size=8), record=RECORDS)
def test_a_repeated_record_changes_only_the_states_number(before: list[Record], record: Record) -> None:
    """A repeated record, as after a killed task, changes only the state's number."""
    once, twice = folded(*before, record), folded(*before, record, record)
    assert replace(twice, number=once.number) == once


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records=st.lists(RECORDS, max_size=12))
def test_folding_leaves_earlier_states_as_they_were(records: list[Record]) -> None:
    """Folding a record never changes an earlier state in place."""
    states, copies = [JobState(job="sales")], [repr(JobState(job="sales"))]
    for number, record in enumerate(records, start=1):
        states.append(fold(states[-1], Entry(number=number, at="", by="", record=record)))
        copies.append(repr(states[-1]))
    assert [repr(state) for state in states] == copies
