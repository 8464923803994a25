"""A job's journal: the kinds of record, and the entry that gives one its number.

Order in the journal is the only order there is: it decides who owns what. ``at`` is for people to read.
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
    """How an operation ended."""

    SUCCEEDED = "succeeded"
    DRY_RUN = "dry-run"
    REFUSED = "refused"
    ABORTED = "aborted"
    FELL_BACK = "fell-back"
    FAILED = "failed"


class About(Enum):
    """What a person is asked."""

    STATE = "state"
    """Whether an opaque change may take over the state."""
    OUTPUT = "output"
    """Whether a rebuilt output may serve that differs, or that nothing compared or proved."""


class Role(Enum):
    """Why an operation planned an instance."""

    DESCRIBER = "describer"
    CANDIDATE = "candidate"
    FALLBACK = "fallback"


class ReleaseRegistered(msgspec.Struct, frozen=True, kw_only=True, tag="release-registered"):
    """A release got its number; its bundle is already stored."""

    release: Release


class ReleaseDescribed(msgspec.Struct, frozen=True, kw_only=True, tag="release-described"):
    """A driver described the release: query -> sha256 of its stored manifest."""

    release: str
    manifests: dict[str, str]


class OperationStarted(msgspec.Struct, frozen=True, kw_only=True, tag="operation-started"):
    """An operation is open from here to its OperationFinished; ``steps`` are those it announced."""

    operation: str
    request: DeployRequest
    steps: tuple[str, ...]


class StepBegun(msgspec.Struct, frozen=True, kw_only=True, tag="step-begun"):
    """A step is about to touch what serves; recorded before its first act."""

    operation: str
    step: str


class StepDone(msgspec.Struct, frozen=True, kw_only=True, tag="step-done"):
    """A step of an operation is done and need not be done again. ``compared``: what a comparison found, by query."""

    operation: str
    step: str
    result: dict[str, str] = {}
    compared: dict[str, OutputComparison] = {}


class InstancePlanned(msgspec.Struct, frozen=True, kw_only=True, tag="instance-planned"):
    """A driver instance is about to be started."""

    operation: str
    instance: str
    release: str
    role: Role


class InstanceAppointed(msgspec.Struct, frozen=True, kw_only=True, tag="instance-appointed"):
    """Only the last appointed instance may claim epochs; its predecessor was proven dead before.

    ``versions``: query -> the checkpoint version that serves from here on: this record is the cutover.
    """

    operation: str
    instance: str
    versions: dict[str, str] = {}


class ShadowAppointed(msgspec.Struct, frozen=True, kw_only=True, tag="shadow-appointed"):
    """An instance may fill new checkpoint versions, unseen, beside the one that serves, while the operation is open."""

    operation: str
    instance: str


class CheckpointVersionCreated(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint-version-created"):
    """A query has a new checkpoint version; ``origin`` says what it was made from.

    ``parent``: the version whose output it carries on; ``parent_batch``: the last batch of that output, None until it
    is known. ``serves``: at once; else from the appointment that names it, or from a second record of it that says so.
    ``operation``: the deploy that made it. ``installation``: the one whose version it is. ``root``: the directory below
    which ``<job>/<query>/<version>`` lies. Both are empty in records of before they were known. ``query_id`` and
    ``committed``: Spark's id of the query and the newest committed batch, where it is made with them (of a snapshot).
    """

    query: str
    version: str
    release: str
    origin: str
    state_format: str
    parent: str = ""
    parent_batch: int | None = None
    serves: bool = True
    operation: str = ""
    root: str = ""
    query_id: str = ""
    committed: int | None = None
    installation: str = ""


class HandedOff(msgspec.Struct, frozen=True, kw_only=True, tag="handed-off"):
    """Where a handoff happened: the last batch of its parent, and the number that this batch has in the new version.

    ``batch`` is -1 where state was given up: the new version begins without a batch. ``query_id``: Spark's id of the
    query in the new version, which is written with it.
    """

    query: str
    version: str
    parent_batch: int
    batch: int
    query_id: str = ""


class EpochClaimed(msgspec.Struct, frozen=True, kw_only=True, tag="epoch-claimed"):
    """A driver may write this query's output under this epoch, until a newer one is claimed.

    ``query_id`` and ``committed``: what the checkpoint version held then, empty and None where it had not begun.
    """

    query: str
    output: str
    epoch: int
    instance: str
    generation: int
    version: str
    query_id: str = ""
    committed: int | None = None


class StartOffsetsKnown(msgspec.Struct, frozen=True, kw_only=True, tag="start-offsets-known"):
    """Where a checkpoint version began, one JSON text per source: what a rebuild would have to read again.

    Recorded once its first batch was committed; ``query_id``: Spark's id of the query.
    """

    query: str
    version: str
    offsets: tuple[str, ...]
    query_id: str = ""


class InstanceEnded(msgspec.Struct, frozen=True, kw_only=True, tag="instance-ended"):
    """The whole process tree of an instance is gone; ``proof`` says how that is known.

    ``stated_by``: who has stated it without a proof, empty where it is proven; None from older versions, of which the
    proof's first words tell. ``fault``: a ``Fault`` by its value, where its runner knows what has ended it.
    """

    operation: str
    instance: str
    proof: str
    exit: str
    stated_by: str | None = None
    fault: str = ""


class Assessed(msgspec.Struct, frozen=True, kw_only=True, tag="assessed"):
    """The verdict of a deploy, and of the way back; ``report`` is the key of the whole assessment, ``evidence`` of what
    it rests on.

    ``ways``: of each query of the candidate; ``refusal``: why there is none for one of them.
    """

    operation: str
    verdict: Verdict
    reverse: Verdict
    sentence: str
    report: str
    ways: dict[str, QueryWay] = {}
    refusal: str = ""
    evidence: str = ""


class ApprovalAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="approval-answered"):
    """A person has decided: for this bundle, from these batches on, and for nothing else."""

    operation: str
    approved: bool
    by: str
    reason: str
    bundle: str
    batches: dict[str, str]
    about: About = About.STATE


class FallBackDecided(msgspec.Struct, frozen=True, kw_only=True, tag="fall-back-decided"):
    """The candidate will not serve: what served before goes on, or goes again.

    ``untouched``: the operation's outcome if nothing that served had been touched when this was decided.
    """

    operation: str
    reason: str
    untouched: Outcome = Outcome.FAILED


class AbortRequested(msgspec.Struct, frozen=True, kw_only=True, tag="abort-requested"):
    """Somebody asked to end an open operation."""

    operation: str
    requested_by: str
    reason: str


class ReleasePromoted(msgspec.Struct, frozen=True, kw_only=True, tag="release-promoted"):
    """From here on this release serves, by this instance."""

    operation: str
    release: str
    instance: str


class OperationFinished(msgspec.Struct, frozen=True, kw_only=True, tag="operation-finished"):
    """An operation is over; ``sentence`` tells a person how.

    ``fault``: a ``Fault`` by its value, of one that has failed; empty for another one, and from older versions.
    """

    operation: str
    outcome: Outcome
    sentence: str
    fault: str = ""


class DesiredChanged(msgspec.Struct, frozen=True, kw_only=True, tag="desired-changed"):
    """From here on the job should serve, or stay stopped: nothing starts a stopped one but a person."""

    serve: bool
    requested_by: str
    reason: str
    operation: str = ""


class JobForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="job-forgotten"):
    """Nobody wants a stopped job any more: it is listed, watched and backed up no longer; all that it has stays."""

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
"""Who owns what: a driver that does not understand one of these cannot know whether it may still write."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered record of a job's journal.

    ``drivers_may_pass``: whether a driver that does not understand the record may go on: its writer knows.
    """

    format: int = FORMAT
    number: int
    at: str
    by: str
    record: Record
    drivers_may_pass: bool = False

    @property
    def moment(self) -> float | None:
        """``at`` in seconds since 1970, by its writer's clock; None where that cannot be read."""
        try:
            return datetime.fromisoformat(self.at).timestamp()
        except ValueError:
            return None


class PassedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a newer version whose record a reader went on without; ``kind``: the record's tag."""

    number: int
    at: str
    by: str
    kind: str
