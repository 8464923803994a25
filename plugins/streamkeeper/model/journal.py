"""A job's journal: the kinds of record, and the entry that numbers each.

The order of the journal is the only order: it decides ownership. ``at`` is for people.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from streamkeeper.model.comparison import OutputComparison
from streamkeeper.model.finding import Verdict
from streamkeeper.model.rebuilt import JobRebuilt
from streamkeeper.model.release import Release
from streamkeeper.model.request import DeployRequest
from streamkeeper.model.ways import QueryWay

FORMAT = 1


class Outcome(Enum):
    """The outcome of an operation."""

    SUCCEEDED = "succeeded"
    DRY_RUN = "dry-run"
    REFUSED = "refused"
    ABORTED = "aborted"
    FELL_BACK = "fell-back"
    FAILED = "failed"


class About(Enum):
    """The subject of a question to a person."""

    STATE = "state"
    """Whether an opaque change may take over the state."""
    OUTPUT = "output"
    """Whether a rebuilt output may become current that differs, was not compared, or was made by unproven code."""


class Role(Enum):
    """Why an operation planned an instance."""

    DESCRIBER = "describer"
    CANDIDATE = "candidate"
    FALLBACK = "fallback"


class ReleaseRegistered(msgspec.Struct, frozen=True, kw_only=True, tag="release-registered"):
    """A release was numbered; its bundle is already stored."""

    release: Release


class ReleaseDescribed(msgspec.Struct, frozen=True, kw_only=True, tag="release-described"):
    """A driver described the release: query -> sha256 of its stored manifest."""

    release: str
    manifests: dict[str, str]


class OperationStarted(msgspec.Struct, frozen=True, kw_only=True, tag="operation-started"):
    """An operation is open from here to its OperationFinished; ``steps`` are the announced ones."""

    operation: str
    request: DeployRequest
    steps: tuple[str, ...]


class StepBegun(msgspec.Struct, frozen=True, kw_only=True, tag="step-begun"):
    """A step is about to change the current driver or its checkpoint; recorded before its first action."""

    operation: str
    step: str


class StepDone(msgspec.Struct, frozen=True, kw_only=True, tag="step-done"):
    """A step of an operation is done and need not be repeated."""

    operation: str
    """The operation."""
    step: str
    """Tag of the step."""
    result: dict[str, str] = {}
    """Its result for later steps."""
    compared: dict[str, OutputComparison] = {}
    """Query -> result of a comparison."""


class InstancePlanned(msgspec.Struct, frozen=True, kw_only=True, tag="instance-planned"):
    """A driver instance is about to be started."""

    operation: str
    """The operation."""
    instance: str
    """The instance."""
    release: str
    """The release that it will run."""
    role: Role
    """Its role."""


class InstanceAppointed(msgspec.Struct, frozen=True, kw_only=True, tag="instance-appointed"):
    """Only the last appointed instance may claim epochs; its predecessor was proven terminated before.

    ``versions``: query -> the checkpoint version that is current from here on: this record is the cutover.
    """

    operation: str
    instance: str
    versions: dict[str, str] = {}


class ShadowAppointed(msgspec.Struct, frozen=True, kw_only=True, tag="shadow-appointed"):
    """An instance may fill new checkpoint versions as a shadow, next to the current ones, during the operation."""

    operation: str
    instance: str


class CheckpointVersionCreated(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint-version-created"):
    """A query has a new checkpoint version."""

    query: str
    """The query."""
    version: str
    """The version's name."""
    release: str
    """The release that created it."""
    origin: str
    """Its source, for a person."""
    state_format: str
    """The format of its state."""
    parent: str = ""
    """The version whose output it continues."""
    parent_batch: int | None = None
    """The last batch of that output; None until it is known."""
    serves: bool = True
    """True: usable at once; False: from its appointment, or from a second record with True."""
    operation: str = ""
    """The deploy that created it."""
    root: str = ""
    """The directory above ``<job>/<query>/<version>``; empty in older records."""
    query_id: str = ""
    """Spark's id of the query, if the version is made with it (from a snapshot)."""
    committed: int | None = None
    """The newest committed batch, if the version is made with it (from a snapshot)."""
    installation: str = ""
    """The installation that owns it; empty in older records."""


class HandedOff(msgspec.Struct, frozen=True, kw_only=True, tag="handed-off"):
    """The position of a handoff."""

    query: str
    """The query."""
    version: str
    """The new checkpoint version."""
    parent_batch: int
    """The last batch of its parent."""
    batch: int
    """That batch's number in the new version; -1 if state was given up: it starts without a batch."""
    query_id: str = ""
    """Spark's id of the query in the new version, which is created with it."""


class EpochClaimed(msgspec.Struct, frozen=True, kw_only=True, tag="epoch-claimed"):
    """A driver may write this query's output under this epoch, until a newer one is claimed."""

    query: str
    """The query."""
    output: str
    """The output's identity."""
    epoch: int
    """The epoch."""
    instance: str
    """The claiming instance."""
    generation: int
    """The generation of that instance."""
    version: str
    """The checkpoint version."""
    query_id: str = ""
    """Spark's id of the query in it; empty if the version had not started."""
    committed: int | None = None
    """Its newest committed batch; None if the version had not started."""


class StartOffsetsKnown(msgspec.Struct, frozen=True, kw_only=True, tag="start-offsets-known"):
    """The start of a checkpoint version: the input that a rebuild would have to read again.

    Recorded once its first batch was committed.
    """

    query: str
    """The query."""
    version: str
    """The checkpoint version."""
    offsets: tuple[str, ...]
    """One JSON text per source."""
    query_id: str = ""
    """Spark's id of the query."""


class InstanceEnded(msgspec.Struct, frozen=True, kw_only=True, tag="instance-ended"):
    """The whole process tree of an instance has ended."""

    operation: str
    """The operation."""
    instance: str
    """The instance."""
    proof: str
    """How that is known."""
    exit: str
    """The kind of its end."""
    stated_by: str | None = None
    """The person who stated it without proof; empty if it is proven.

    None from older versions: there the first words of ``proof`` show it.
    """
    fault: str = ""
    """Value of the ``Fault`` that ended it, if its runner knows it."""


class Assessed(msgspec.Struct, frozen=True, kw_only=True, tag="assessed"):
    """The verdict of a deploy, and of its rollback."""

    operation: str
    """The operation."""
    verdict: Verdict
    """The verdict on the candidate."""
    reverse: Verdict
    """The verdict on the old release after the candidate."""
    sentence: str
    """Summary for a person."""
    report: str
    """Key of the complete assessment."""
    ways: dict[str, QueryWay] = {}
    """Query of the candidate -> its transition."""
    refusal: str = ""
    """Why one of them has no transition; empty otherwise."""
    evidence: str = ""
    """Key of the evidence."""


class ApprovalAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="approval-answered"):
    """A person has decided: only for this bundle and from these batches on."""

    operation: str
    """The operation."""
    approved: bool
    """The decision."""
    by: str
    """The person."""
    reason: str
    """The person's reason."""
    bundle: str
    """sha256 of the approved bundle."""
    batches: dict[str, str]
    """Query -> the batch from which it applies."""
    about: About = About.STATE
    """The subject of the question."""


class FallBackDecided(msgspec.Struct, frozen=True, kw_only=True, tag="fall-back-decided"):
    """The candidate will not take over: the old release continues, or runs again.

    ``untouched``: the operation's outcome if no current driver or checkpoint had been changed at this decision.
    """

    operation: str
    reason: str
    untouched: Outcome = Outcome.FAILED


class AbortRequested(msgspec.Struct, frozen=True, kw_only=True, tag="abort-requested"):
    """A person asked to end an open operation."""

    operation: str
    requested_by: str
    reason: str


class ReleasePromoted(msgspec.Struct, frozen=True, kw_only=True, tag="release-promoted"):
    """From here on this release is current, in this instance."""

    operation: str
    release: str
    instance: str


class OperationFinished(msgspec.Struct, frozen=True, kw_only=True, tag="operation-finished"):
    """An operation is over."""

    operation: str
    """The operation."""
    outcome: Outcome
    """Its outcome."""
    sentence: str
    """The outcome for a person."""
    fault: str = ""
    """Value of the ``Fault`` of a failed operation; empty otherwise, and from older versions."""


class DesiredChanged(msgspec.Struct, frozen=True, kw_only=True, tag="desired-changed"):
    """From here on the job should run, or stay stopped: only a person starts a stopped one."""

    serve: bool
    requested_by: str
    reason: str
    operation: str = ""


class JobForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="job-forgotten"):
    """A stopped job is retired: it is no longer listed, watched or backed up. All its data stays."""

    requested_by: str
    reason: str


Record = (
    ReleaseRegistered
    | ReleaseDescribed
    | OperationStarted
    | StepBegun
    | StepDone
    | InstancePlanned
    | InstanceAppointed
    | ShadowAppointed
    | CheckpointVersionCreated
    | HandedOff
    | EpochClaimed
    | StartOffsetsKnown
    | InstanceEnded
    | Assessed
    | ApprovalAnswered
    | FallBackDecided
    | AbortRequested
    | ReleasePromoted
    | OperationFinished
    | DesiredChanged
    | JobForgotten
    | JobRebuilt
)

NEEDED_BY_DRIVERS: tuple[type[Record], ...] = (
    InstancePlanned,
    InstanceAppointed,
    ShadowAppointed,
    CheckpointVersionCreated,
    HandedOff,
    EpochClaimed,
    InstanceEnded,
    ReleasePromoted,
    OperationFinished,
    DesiredChanged,
    JobRebuilt,
)
"""Records about ownership: a driver that does not understand one cannot know whether it may still write."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered record of a job's journal."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """The entry's number."""
    at: str
    """Time of the write, for people."""
    by: str
    """The writer."""
    record: Record
    """The content."""
    drivers_may_pass: bool = False
    """Whether a driver that does not understand the record may continue; the writer decides."""

    @property
    def moment(self) -> float | None:
        """``at`` in seconds since 1970, by its writer's clock; None if unreadable."""
        try:
            return datetime.fromisoformat(self.at).timestamp()
        except ValueError:
            return None


class PassedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a newer version that a reader has skipped; ``kind``: the record's tag."""

    number: int
    at: str
    by: str
    kind: str
