"""The kinds of record in a job's journal, and the numbered entry that contains each.

Decisions, for example about ownership, depend only on the order of the entries. The times ``at`` are for people.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.manifests.release import Release
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.rebuilt import JobRebuilt
from streamkeeper.model.records.transitions import QueryTransition
from streamkeeper.model.requests.request import DeployRequest

FORMAT = 1


class Outcome(Enum):
    """How an operation ended."""

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
    """Whether a rebuilt output may become current that differs, was not compared, or comes from unproven code."""


class Role(Enum):
    """The purpose for which an operation planned an instance."""

    DESCRIBER = "describer"
    CANDIDATE = "candidate"
    FALLBACK = "fallback"


class ReleaseRegistered(msgspec.Struct, frozen=True, kw_only=True, tag="release-registered"):
    """A release got its number; its bundle was stored before."""

    release: Release


class ReleaseDescribed(msgspec.Struct, frozen=True, kw_only=True, tag="release-described"):
    """A driver described the release: query -> sha256 of its stored manifest."""

    release: str
    manifests: dict[str, str]


class OperationStarted(msgspec.Struct, frozen=True, kw_only=True, tag="operation-started"):
    """An operation is open from this record to its OperationFinished; ``steps`` are its announced steps."""

    operation: str
    request: DeployRequest
    steps: tuple[str, ...]


class StepBegun(msgspec.Struct, frozen=True, kw_only=True, tag="step-begun"):
    """A step will now change the current driver or its checkpoint; recorded before the step's first action."""

    operation: str
    step: str


class StepDone(msgspec.Struct, frozen=True, kw_only=True, tag="step-done"):
    """A step of an operation is done and need not be repeated."""

    operation: str
    """The operation."""
    step: str
    """Tag of the step."""
    result: dict[str, str] = {}
    """The result that later steps read."""
    compared: dict[str, OutputComparison] = {}
    """Query -> result of a comparison."""


class InstancePlanned(msgspec.Struct, frozen=True, kw_only=True, tag="instance-planned"):
    """A driver instance is about to be started."""

    operation: str
    """The operation."""
    instance: str
    """The instance."""
    release: str
    """The release that the instance will run."""
    role: Role
    """The purpose of the instance."""


class InstanceAppointed(msgspec.Struct, frozen=True, kw_only=True, tag="instance-appointed"):
    """From now on only this instance may claim epochs; the end of its predecessor was proven before this record.

    ``versions``: query -> the checkpoint version that becomes current. For a new version this record is the cutover.
    """

    operation: str
    instance: str
    versions: dict[str, str] = {}


class ShadowAppointed(msgspec.Struct, frozen=True, kw_only=True, tag="shadow-appointed"):
    """During the operation, an instance may fill new checkpoint versions for a rebuild, beside the current versions."""

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
    """How the version was created, for a person."""
    state_format: str
    """The format of its state."""
    parent: str = ""
    """The version whose output the new version continues; empty without a parent."""
    parent_batch: int | None = None
    """The last batch that the parent wrote to that output; None until that batch is recorded."""
    serves: bool = True
    """Whether the version can be current at once. False: only after an appointment or a second record with True."""
    operation: str = ""
    """The deploy that created the version; empty if no deploy did."""
    root: str = ""
    """The directory above ``<job>/<query>/<version>``; empty in older records."""
    query_id: str = ""
    """Spark's id of the query in a version that is made from a snapshot; otherwise empty."""
    committed: int | None = None
    """The newest committed batch in a version that is made from a snapshot; otherwise None."""
    installation: str = ""
    """The installation that owns the version; empty in older records."""
    topics: dict[str, str] = {}
    """Only for a version made from a snapshot: Kafka topic -> id of the topic to which its offsets belong."""


class HandedOff(msgspec.Struct, frozen=True, kw_only=True, tag="handed-off"):
    """The batch at which a handoff moved a query to a new checkpoint version."""

    query: str
    """The query."""
    version: str
    """The new checkpoint version."""
    parent_batch: int
    """The last batch of the parent version."""
    batch: int
    """The number of ``parent_batch`` in the new version; -1 if state was given up and the version has no batch yet."""
    query_id: str = ""
    """Spark's id of the query, with which the new version is created."""


class EpochClaimed(msgspec.Struct, frozen=True, kw_only=True, tag="epoch-claimed"):
    """A driver may write this query's output under this epoch until a newer epoch is claimed."""

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
    """Spark's id of the query in that version; empty if the version had not started."""
    committed: int | None = None
    """The newest committed batch of that version; None if the version had not started."""
    topics: dict[str, str] = {}
    """Kafka topic -> its id, of all topics that the query reads; empty in older records."""


class StartOffsetsKnown(msgspec.Struct, frozen=True, kw_only=True, tag="start-offsets-known"):
    """The offsets at which a version starts, where a rebuild would begin; recorded after its first batch committed."""

    query: str
    """The query."""
    version: str
    """The checkpoint version."""
    offsets: tuple[str, ...]
    """The start offsets, one JSON text per source."""
    query_id: str = ""
    """Spark's id of the query."""


class InstanceEnded(msgspec.Struct, frozen=True, kw_only=True, tag="instance-ended"):
    """The whole process tree of an instance has terminated."""

    operation: str
    """The operation."""
    instance: str
    """The instance."""
    proof: str
    """The proof that the instance has terminated, or a person's statement of it."""
    exit: str
    """The last state that the instance reported, such as ``drained``."""
    stated_by: str | None = None
    """The person who stated the end without proof; empty if the end is proven.

    None from older versions, where the first words of ``proof`` show a stated end.
    """
    fault: str = ""
    """Value of the ``Fault`` that ended the instance; empty if the runner cannot determine it."""


class Assessed(msgspec.Struct, frozen=True, kw_only=True, tag="assessed"):
    """The assessment of a deploy, and of the rollback from it."""

    operation: str
    """The operation."""
    verdict: Verdict
    """The verdict on the candidate."""
    reverse: Verdict
    """The verdict on a rollback from the candidate to the current release."""
    sentence: str
    """The summary of the assessment, for a person."""
    report: str
    """Key of the complete assessment."""
    transitions: dict[str, QueryTransition] = msgspec.field(default_factory=dict, name="ways")
    """Query of the candidate -> its transition."""
    refusal: str = ""
    """Why a query of the candidate has no transition; empty otherwise."""
    evidence: str = ""
    """Key of the evidence."""


class ApprovalAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="approval-answered"):
    """A person has answered a question.

    The answer applies only to ``bundle``, and for each query only to the batch in ``batches`` and later batches.
    """

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
    """Query -> the batch from which the answer applies."""
    about: About = About.STATE
    """The subject of the question."""


class FallBackDecided(msgspec.Struct, frozen=True, kw_only=True, tag="fall-back-decided"):
    """The candidate is given up: the previous release keeps running, or is restarted.

    ``outcome_if_untouched``: the operation's outcome if no current driver or checkpoint had been changed before this
    decision.
    """

    operation: str
    reason: str
    outcome_if_untouched: Outcome = msgspec.field(default=Outcome.FAILED, name="untouched")


class AbortRequested(msgspec.Struct, frozen=True, kw_only=True, tag="abort-requested"):
    """A person has requested to abort an open operation."""

    operation: str
    requested_by: str
    reason: str


class ReleasePromoted(msgspec.Struct, frozen=True, kw_only=True, tag="release-promoted"):
    """The release becomes current; ``instance`` is the driver that runs it."""

    operation: str
    release: str
    instance: str


class OperationFinished(msgspec.Struct, frozen=True, kw_only=True, tag="operation-finished"):
    """An operation has its outcome."""

    operation: str
    """The operation."""
    outcome: Outcome
    """The outcome."""
    sentence: str
    """The outcome as a sentence for a person."""
    fault: str = ""
    """Value of the ``Fault`` of a failed operation; empty otherwise, and from older versions."""


class DesiredChanged(msgspec.Struct, frozen=True, kw_only=True, tag="desired-changed"):
    """The job should run from now on (``serve``), or stay stopped until a person starts, deploys or rolls it back."""

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
"""The kinds of record about ownership. A driver that cannot read one cannot determine whether it may still write."""


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
        """``at`` in seconds since 1970, by the writer's clock; None if it cannot be read."""
        try:
            return datetime.fromisoformat(self.at).timestamp()
        except ValueError:
            return None


class PassedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a newer Streamkeeper wrote and this reader has skipped; ``kind`` is the record's tag."""

    number: int
    at: str
    by: str
    kind: str
