"""The state of a job, folded from its journal. ``fold`` accepts every sequence of entries."""

from __future__ import annotations

from typing import assert_never

import msgspec

from streamkeeper.model.manifests.release import Release, ReleaseContent
from streamkeeper.model.names import version_name, version_number
from streamkeeper.model.protocol.output_history import OutputHistory
from streamkeeper.model.records.checkpoint_version import (
    CheckpointVersion,
    EpochState,
    checkpoint_location,
    claimed,
    completed,
    created,
    known_topics,
    opened,
    output_history,
    seen,
)
from streamkeeper.model.records.journal_records import (
    AbortRequested,
    About,
    ApprovalAnswered,
    Assessed,
    CheckpointVersionCreated,
    DesiredChanged,
    Entry,
    EpochClaimed,
    FallBackDecided,
    HandedOff,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    JobForgotten,
    OperationFinished,
    OperationStarted,
    PassedEntry,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
    ShadowAppointed,
    StartOffsetsKnown,
    StepBegun,
    StepDone,
)
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.rebuilt import JobRebuilt

FORMAT = 11
"""The parts that each format added. 2: place and identity of a checkpoint version. 3: approvers, inherited values, a
job's retirement. 4: a rebuilt journal. 5: an operation's fault, who stated an instance's end. 6: committed batches at
a version's creation and at a claim. 7: the first of the consecutive claims on a version. 8: the newest claim on each
version. 9: whether that claim continues the version's very first one. 10: the newest
topic ids of a version. 11: its first and earlier ones.
"""


UNKNOWN_RELEASE = "the release of before the store was lost"


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """One planned driver instance. ``proof`` and the fields after it are empty until the instance's end is recorded."""

    instance: str
    operation: str
    release: str
    role: Role
    appointed: bool = False
    proof: str = ""
    exit: str = ""
    stated_by: str | None = None
    fault: str = ""

    @property
    def ended(self) -> bool:
        return bool(self.proof)


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job after entry ``number``. ``appointed`` is the only instance that may claim epochs.

    ``shadow``: the instance that may fill the new versions of a rebuild, beside the current versions.
    ``current``: query -> current version, for the queries whose current version an appointment named.
    ``stopped``: the record of a stop, None if the job should run.
    ``forgotten``: the record of the job's retirement, None if there is none.
    ``rebuilt``: the record that the journal was rebuilt, None if there is none.
    ``served``: release -> query -> last version on which the release ran, ordered by when the release was last current.
    """

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
    shadow: str = ""
    current: dict[str, str] = {}
    served: dict[str, dict[str, str]] = {}
    stopped: DesiredChanged | None = None
    forgotten: JobForgotten | None = None
    rebuilt: JobRebuilt | None = None

    @property
    def wanted(self) -> bool:
        """Whether the job should run: a release was promoted, and no person has stopped the job since."""
        return bool(self.serving_release) and self.stopped is None

    @property
    def predecessor(self) -> str:
        """The release that a candidate would replace, as a text for a person; empty for a job that never ran."""
        return self.serving_release or (UNKNOWN_RELEASE if self.rebuilt is not None else "")

    def next_epoch(self, query: str) -> int:
        """Return an epoch above all claimed epochs, also above those in a lost journal that this journal replaces."""
        before, newest = self.rebuilt, self.epochs.get(query)
        return max(newest.epoch if newest is not None else 0, before.epoch if before is not None else 0) + 1

    @property
    def next_release(self) -> int:
        """Return a number that no release has ever had, neither in this journal nor in a lost journal that this one
        replaces.
        """
        before = self.rebuilt.newest_release if self.rebuilt is not None else 0
        return max((release.number for release in self.releases.values()), default=before) + 1

    @property
    def open_operation(self) -> OperationState | None:
        """The operation that has no outcome yet; None if every operation has one."""
        return next((op for op in self.operations.values() if op.outcome is None), None)

    def release_of(self, content: ReleaseContent) -> Release | None:
        """Return the registered release with exactly this content; None if no release has this content."""
        return next((release for release in self.releases.values() if release.content == content), None)

    def current_version(self, query: str) -> CheckpointVersion | None:
        """Return a query's current checkpoint version: the one that an appointment named, otherwise the newest."""
        if query in self.current:
            return self.version(query, self.current[query])
        versions = [version for version in self.versions.get(query, ()) if version.serves]
        return max(versions, key=lambda version: version_number(version.version), default=None)

    def version(self, query: str, version: str) -> CheckpointVersion | None:
        """Return the query's checkpoint version named ``version``; None if it is not recorded."""
        return next((known for known in self.versions.get(query, ()) if known.version == version), None)

    def checkpoint(self, query: str, version: str, root: str) -> str:
        """Return a checkpoint version's location: below its recorded root, or below ``root`` if none is recorded."""
        return checkpoint_location(self.root_of(query, version, root), self.job, query, version)

    def root_of(self, query: str, version: str, root: str) -> str:
        """Return the recorded root of a checkpoint version, or ``root`` if none is recorded."""
        recorded = self.version(query, version)
        return (recorded and recorded.root) or root

    def next_version(self, query: str) -> str:
        """Return the name of a query's next checkpoint version, which no recorded version has."""
        numbers = [version_number(known.version) for known in self.versions.get(query, ())]
        return version_name(max(numbers, default=0) + 1)

    def segments(self, query: str, version: str) -> tuple[OutputSegment, ...]:
        """Return the segments of the output while ``version`` is current: its ancestors' segments, then its own."""
        found, heir = [OutputSegment(version=version)], self.version(query, version)
        while heir is not None and heir.parent and heir.parent_batch is not None:
            found.append(OutputSegment(version=heir.parent, last=heir.parent_batch))
            heir = self.version(query, heir.parent)
        return tuple(reversed(found))

    def output_history(self, query: str, version: str) -> OutputHistory:
        """Return the batches that a query's output must contain while ``version`` is current."""
        return output_history(self.versions.get(query, ()), version, self.epochs.get(query))

    def offset_topics(self, query: str, version: str) -> dict[str, str]:
        """Return Kafka topic -> the id of the topic to which the offsets in a checkpoint version belong."""
        return known_topics(self.versions.get(query, ()), version)

    @property
    def owners(self) -> list[InstanceState]:
        """The instances that may have opened a checkpoint and whose end is not recorded."""
        return [instance for instance in self.instances.values() if instance.appointed and not instance.ended]

    @property
    def relieved_instance(self) -> str:
        """The instance that owned the checkpoints before the current instance; empty if there was none."""
        owned = [instance.instance for instance in self.instances.values() if instance.appointed]
        if self.serving_instance not in owned:
            return ""
        before = owned[: owned.index(self.serving_instance)]
        return before[-1] if before else ""

    def instances_of(self, operation: str, role: Role) -> list[InstanceState]:
        """Return the instances that an operation planned in a role, oldest first."""
        return [
            instance
            for instance in self.instances.values()
            if instance.operation == operation and instance.role is role
        ]


def fold(state: JobState, entry: Entry | PassedEntry) -> JobState:
    """Return the state after ``entry``. A repeated entry, or one with unknown names, changes only the state number."""
    state = msgspec.structs.replace(state, number=entry.number)
    if isinstance(entry, PassedEntry):
        return state
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
        case InstanceAppointed():
            return _appointed(state, record)
        case ShadowAppointed(instance=instance):
            return msgspec.structs.replace(state, shadow=instance) if instance in state.instances else state
        case InstanceEnded():
            return _ended(state, record)
        case EpochClaimed():
            return _claimed(state, record)
        case CheckpointVersionCreated():
            return _created(state, record)
        case StartOffsetsKnown() | HandedOff():
            known = state.versions.get(record.query, ())
            return _put(state, "versions", record.query, tuple(completed(version, record) for version in known))
        case ReleasePromoted(release=name, instance=instance):
            return _promoted(state, name, instance)
        case DesiredChanged(serve=serve):
            return msgspec.structs.replace(state, stopped=None if serve else record)
        case JobForgotten():
            return msgspec.structs.replace(state, forgotten=record)
        case JobRebuilt():
            return _rebuilt(state, record)
        case StepBegun() | StepDone() | Assessed() | ApprovalAnswered() | FallBackDecided() | AbortRequested():
            return _progressed(state, record)
        case OperationFinished(operation=operation):
            return _without_shadow(_progressed(state, record), operation)
        case _:
            assert_never(record)


def _rebuilt(state: JobState, record: JobRebuilt) -> JobState:
    """Apply the record of a rebuild if it is the journal's first entry: any other record is more reliable."""
    if state.number != 1:
        return state
    versions = {query: tuple(seen(query, version) for version in of.versions) for query, of in record.queries.items()}
    current = {query: of.version for query, of in record.queries.items() if of.version}
    return msgspec.structs.replace(state, rebuilt=record, versions=versions, current=current)


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
    if not record.request.dry_run:
        state = msgspec.structs.replace(state, forgotten=None)
    return _put(state, "operations", record.operation, operation)


def _planned(state: JobState, record: InstancePlanned) -> JobState:
    if record.instance in state.instances:
        return state
    instance = InstanceState(
        instance=record.instance, operation=record.operation, release=record.release, role=record.role
    )
    return _put(state, "instances", record.instance, instance)


def _appointed(state: JobState, record: InstanceAppointed) -> JobState:
    before = state.instances.get(record.instance)
    if before is None or before.ended:
        return state
    current = {**state.current, **record.versions}
    state = msgspec.structs.replace(state, appointed=record.instance, current=current)
    return _put(state, "instances", record.instance, msgspec.structs.replace(before, appointed=True))


def _promoted(state: JobState, release: str, instance: str) -> JobState:
    # An appointment that names no versions uses the newest ones, like all appointments of early versions.
    on = {query: version for query, version in state.current.items() if query in state.described.get(release, {})}
    # The promoted release moves to the end, even if it was current before: a rollback goes to the release before it.
    before = {name: versions for name, versions in state.served.items() if name != release}
    served = {**before, release: on} if on else state.served
    # Only an operation promotes a release. After a deploy the job should run, even if it was stopped before.
    return msgspec.structs.replace(
        state, serving_release=release, serving_instance=instance, served=served, stopped=None
    )


def _without_shadow(state: JobState, operation: str) -> JobState:
    shadow = state.instances.get(state.shadow)
    over = shadow is not None and shadow.operation == operation
    return msgspec.structs.replace(state, shadow="") if over else state


def _ended(state: JobState, record: InstanceEnded) -> JobState:
    before = state.instances.get(record.instance)
    if before is None or before.ended:
        return state
    ended = {"proof": record.proof, "exit": record.exit, "stated_by": record.stated_by, "fault": record.fault}
    return _put(state, "instances", record.instance, msgspec.structs.replace(before, **ended))


def _claimed(state: JobState, record: EpochClaimed) -> JobState:
    before = state.epochs.get(record.query)
    if before is not None and before.epoch >= record.epoch:
        return state
    known = state.versions.get(record.query, ())
    opens = any(version.version == record.version and not version.claimed_by for version in known)
    claim = claimed(before, record, opens=opens)
    if known:
        state = _put(state, "versions", record.query, tuple(opened(version, record, claim) for version in known))
    return _put(state, "epochs", record.query, claim)


def _created(state: JobState, record: CheckpointVersionCreated) -> JobState:
    known = state.versions.get(record.query, ())
    reserved = next((version for version in known if version.version == record.version), None)
    if reserved is not None:
        return _begins_to_serve(state, reserved) if record.serves and not reserved.serves else state
    state = _put(state, "versions", record.query, (*known, created(record)))
    supersedes = record.serves and record.query in state.current
    return _put(state, "current", record.query, record.version) if supersedes else state


def _begins_to_serve(state: JobState, reserved: CheckpointVersion) -> JobState:
    """Make a version current that was recorded before it was filled, at the second record of its creation."""
    known = state.versions[reserved.query]
    serving = msgspec.structs.replace(reserved, serves=True)
    state = _put(
        state, "versions", reserved.query, tuple(serving if version is reserved else version for version in known)
    )
    return _put(state, "current", reserved.query, reserved.version)


def _progressed(
    state: JobState,
    record: StepBegun | StepDone | Assessed | ApprovalAnswered | FallBackDecided | AbortRequested | OperationFinished,
) -> JobState:
    before = state.operations.get(record.operation)
    if before is None or before.outcome is not None:
        return state
    match record:
        case StepBegun(step=step):
            if step in before.begun:
                return state
            changes: dict[str, object] = {"begun": (*before.begun, step)}
        case StepDone(step=step, result=result, compared=compared):
            if step in before.done:
                return state
            changes = {"done": {**before.done, step: result}, "compared": {**before.compared, **compared}}
        case Assessed():
            changes = {
                "verdict": record.verdict,
                "reverse": record.reverse,
                "verdict_sentence": record.sentence,
                "report": record.report,
                "transitions": record.transitions,
                "refusal": record.refusal,
                "evidence": record.evidence,
            }
        case ApprovalAnswered(about=About.STATE):
            changes = {"approval": before.approval or record}
        case ApprovalAnswered():
            changes = {"review": before.review or record}
        case FallBackDecided(reason=reason, outcome_if_untouched=outcome_if_untouched):
            if before.fall_back:
                return state
            changes = {"fall_back": reason, "outcome_if_untouched": outcome_if_untouched}
        case AbortRequested(reason=reason):
            changes = {"abort": before.abort or reason or "no reason given"}
        case OperationFinished(outcome=outcome, sentence=sentence, fault=fault):
            changes = {"outcome": outcome, "sentence": sentence, "fault": fault}
    return _change_operation(state, record.operation, **changes)
