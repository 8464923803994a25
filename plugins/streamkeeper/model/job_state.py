"""What a job's journal adds up to. ``fold`` is total: any sequence of entries has one state."""

from __future__ import annotations

from typing import assert_never

import msgspec

from streamkeeper.model.finding import Verdict
from streamkeeper.model.journal import (
    AbortRequested,
    Assessed,
    CheckpointVersionCreated,
    DeployRequest,
    Entry,
    EpochClaimed,
    FallBackDecided,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
    StartOffsetsKnown,
    StepBegun,
    StepDone,
)
from streamkeeper.model.names import version_number
from streamkeeper.model.release import Release, ReleaseContent

FORMAT = 1


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """One driver instance: planned, perhaps appointed, perhaps ended (``proof`` non-empty)."""

    instance: str
    operation: str
    release: str
    role: Role
    appointed: bool = False
    proof: str = ""
    exit: str = ""

    @property
    def ended(self) -> bool:
        return bool(self.proof)


class EpochState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch of one query."""

    query: str
    output: str
    epoch: int
    instance: str
    generation: int
    version: str


class CheckpointVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version of a query; ``start_offsets`` once its first batch was planned."""

    query: str
    version: str
    release: str
    origin: str
    state_format: str
    start_offsets: tuple[str, ...] | None = None


class OperationState(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, open until it has an outcome."""

    operation: str
    request: DeployRequest
    steps: tuple[str, ...]
    started: int
    begun: tuple[str, ...] = ()
    done: dict[str, dict[str, str]] = {}
    verdict: Verdict | None = None
    reverse: Verdict | None = None
    verdict_sentence: str = ""
    report: str = ""
    fall_back: str = ""
    untouched: Outcome = Outcome.FAILED
    abort: str = ""
    outcome: Outcome | None = None
    sentence: str = ""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job after entry ``number``. ``appointed`` is the only instance that may claim epochs."""

    format: int = FORMAT
    job: str
    number: int = 0
    releases: dict[str, Release] = {}
    described: dict[str, dict[str, str]] = {}
    operations: dict[str, OperationState] = {}
    instances: dict[str, InstanceState] = {}
    epochs: dict[str, EpochState] = {}
    versions: dict[str, tuple[CheckpointVersion, ...]] = {}
    appointed: str = ""
    serving_release: str = ""
    serving_instance: str = ""

    @property
    def open_operation(self) -> OperationState | None:
        """The operation that has no outcome yet, if any."""
        return next((op for op in self.operations.values() if op.outcome is None), None)

    def release_of(self, content: ReleaseContent) -> Release | None:
        """The release with exactly this content, if it was registered before."""
        return next((release for release in self.releases.values() if release.content == content), None)

    def current_version(self, query: str) -> CheckpointVersion | None:
        """The newest checkpoint version of a query."""
        versions = self.versions.get(query, ())
        return max(versions, key=lambda each: version_number(each.version), default=None)

    @property
    def owners(self) -> list[InstanceState]:
        """The instances that may have opened a checkpoint and are not proven dead."""
        return [each for each in self.instances.values() if each.appointed and not each.ended]

    def instances_of(self, operation: str, role: Role) -> list[InstanceState]:
        """The instances an operation planned in a role, oldest first."""
        return [each for each in self.instances.values() if each.operation == operation and each.role is role]


def fold(state: JobState, entry: Entry) -> JobState:
    """The state after ``entry``; entries that name the unknown, or come twice, change nothing but the number."""
    state = msgspec.structs.replace(state, number=entry.number)
    record = entry.record
    match record:
        case ReleaseRegistered(release=release):
            return _put(state, "releases", release.name, release)
        case ReleaseDescribed(release=name, manifests=manifests):
            return _put(state, "described", name, manifests)
        case OperationStarted():
            return _started(state, record)
        case InstancePlanned():
            return _planned(state, record)
        case InstanceAppointed(instance=instance):
            return _appointed(state, instance)
        case InstanceEnded():
            return _ended(state, record)
        case EpochClaimed():
            return _claimed(state, record)
        case CheckpointVersionCreated() | StartOffsetsKnown():
            return _versioned(state, record)
        case ReleasePromoted(release=name, instance=instance):
            return msgspec.structs.replace(state, serving_release=name, serving_instance=instance)
        case StepBegun() | StepDone() | Assessed() | FallBackDecided() | AbortRequested() | OperationFinished():
            return _progressed(state, record)
        case _:
            assert_never(record)


def _put(state: JobState, field: str, key: str, value: object) -> JobState:
    return msgspec.structs.replace(state, **{field: {**getattr(state, field), key: value}})


def _change_operation(state: JobState, operation: str, **changes: object) -> JobState:
    before = state.operations.get(operation)
    if before is None:
        return state
    return _put(state, "operations", operation, msgspec.structs.replace(before, **changes))


def _started(state: JobState, record: OperationStarted) -> JobState:
    if record.operation in state.operations:
        return state
    operation = OperationState(
        operation=record.operation, request=record.request, steps=record.steps, started=state.number
    )
    return _put(state, "operations", record.operation, operation)


def _planned(state: JobState, record: InstancePlanned) -> JobState:
    if record.instance in state.instances:
        return state
    instance = InstanceState(
        instance=record.instance, operation=record.operation, release=record.release, role=record.role
    )
    return _put(state, "instances", record.instance, instance)


def _appointed(state: JobState, instance: str) -> JobState:
    before = state.instances.get(instance)
    if before is None or before.ended:
        return state
    state = msgspec.structs.replace(state, appointed=instance)
    return _put(state, "instances", instance, msgspec.structs.replace(before, appointed=True))


def _ended(state: JobState, record: InstanceEnded) -> JobState:
    before = state.instances.get(record.instance)
    if before is None or before.ended:
        return state
    after = msgspec.structs.replace(before, proof=record.proof, exit=record.exit)
    return _put(state, "instances", record.instance, after)


def _claimed(state: JobState, record: EpochClaimed) -> JobState:
    before = state.epochs.get(record.query)
    if before is not None and before.epoch >= record.epoch:
        return state
    epoch = EpochState(
        query=record.query,
        output=record.output,
        epoch=record.epoch,
        instance=record.instance,
        generation=record.generation,
        version=record.version,
    )
    return _put(state, "epochs", record.query, epoch)


def _versioned(state: JobState, record: CheckpointVersionCreated | StartOffsetsKnown) -> JobState:
    known = state.versions.get(record.query, ())
    match record:
        case CheckpointVersionCreated():
            if any(each.version == record.version for each in known):
                return state
            created = CheckpointVersion(
                query=record.query,
                version=record.version,
                release=record.release,
                origin=record.origin,
                state_format=record.state_format,
            )
            return _put(state, "versions", record.query, (*known, created))
        case StartOffsetsKnown():
            return _put(state, "versions", record.query, tuple(_with_offsets(each, record) for each in known))


def _with_offsets(version: CheckpointVersion, record: StartOffsetsKnown) -> CheckpointVersion:
    if version.version != record.version or version.start_offsets is not None:
        return version
    return msgspec.structs.replace(version, start_offsets=record.offsets)


def _progressed(
    state: JobState, record: StepBegun | StepDone | Assessed | FallBackDecided | AbortRequested | OperationFinished
) -> JobState:
    before = state.operations.get(record.operation)
    if before is None or before.outcome is not None:
        return state
    match record:
        case StepBegun(step=step):
            if step in before.begun:
                return state
            changes: dict[str, object] = {"begun": (*before.begun, step)}
        case StepDone(step=step, result=result):
            if step in before.done:
                return state
            changes = {"done": {**before.done, step: result}}
        case Assessed():
            changes = {
                "verdict": record.verdict,
                "reverse": record.reverse,
                "verdict_sentence": record.sentence,
                "report": record.report,
            }
        case FallBackDecided(reason=reason, untouched=untouched):
            if before.fall_back:
                return state
            changes = {"fall_back": reason, "untouched": untouched}
        case AbortRequested(reason=reason):
            changes = {"abort": before.abort or reason or "no reason given"}
        case OperationFinished(outcome=outcome, sentence=sentence):
            changes = {"outcome": outcome, "sentence": sentence}
    return _change_operation(state, record.operation, **changes)
