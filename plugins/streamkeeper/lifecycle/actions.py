"""The possible next actions of an operation. Each action is a small value with its parameters."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.driver_messages import CommandKind, LaunchMode
from streamkeeper.model.records.journal_records import Outcome, Role
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import StepResult


class Register(msgspec.Struct, frozen=True):
    """Bundle the code and register the release, or look up the release that was pushed."""


class Plan(msgspec.Struct, frozen=True):
    """Record that an instance is about to be started."""

    instance: str
    release: str
    role: Role


class Launch(msgspec.Struct, frozen=True):
    """Start a planned instance."""

    instance: str
    mode: LaunchMode


class GiveUpStarting(msgspec.Struct, frozen=True):
    """Ensure that an instance cannot start later, and record that it could not be started."""

    instance: str


class RecordDescription(msgspec.Struct, frozen=True):
    """Store the manifests that an instance wrote."""

    instance: str


class Assess(msgspec.Struct, frozen=True):
    """Compare the candidate's manifests with those of the current release, for the deploy and for a later rollback."""


class Send(msgspec.Struct, frozen=True):
    """Send a command to an instance, and notify the instance."""

    instance: str
    kind: CommandKind


class Kill(msgspec.Struct, frozen=True):
    """Kill the whole process tree of an instance."""

    instance: str


class RecordEnd(msgspec.Struct, frozen=True):
    """Record that an instance's whole process tree has provably terminated."""

    instance: str
    """The instance that terminated."""
    proof: str
    """The proof that it terminated, as one sentence."""
    exit: str
    """How the instance terminated: its last reported state, or a text if it reported none."""
    fault: str = ""
    """Value of the fault that, according to the runner, terminated the instance; empty if unknown."""
    unclaimed: bool = False
    """Whether no process of the instance was found. It must then be made impossible that a process claims the instance
    later.
    """


class BackUp(msgspec.Struct, frozen=True):
    """Take a snapshot of every query with an opaque change, protect each snapshot from pruning by a hold, export the
    queries' state, and mark the step done.
    """


class CheckDrift(msgspec.Struct, frozen=True):
    """Mark the step done if the evidence matches the approved evidence; otherwise raise OperationRefused."""


class Shadow(msgspec.Struct, frozen=True):
    """Create the checkpoint versions that a dual run fills, and let the instance fill these versions."""

    instance: str


class RestoreVersions(msgspec.Struct, frozen=True):
    """Restore a snapshot for each transition that needs one, and mark the step done.

    After the candidate has failed, restore a snapshot for each rollback path that needs one instead.
    """


class Appoint(msgspec.Struct, frozen=True):
    """Create missing checkpoint versions, and allow only this instance to claim epochs in ``versions``."""

    instance: str
    versions: dict[str, str] = {}


class RecordLastBatches(msgspec.Struct, frozen=True):
    """Record the last committed batch of each query of the release that has stopped; mark the step done."""


class TakeCutoverSnapshots(msgspec.Struct, frozen=True):
    """For each query, take a snapshot of the last batch before the cutover and protect the snapshot from pruning by a
    hold. Then mark the step done.
    """


class Promote(msgspec.Struct, frozen=True):
    """Record the release as the current one."""

    instance: str


class MarkBegun(msgspec.Struct, frozen=True):
    """Record that the decision's step is about to change the current driver or its checkpoint."""


class MarkDone(msgspec.Struct, frozen=True):
    """Record the decision's step as done, with its result for later steps."""

    result: StepResult | None = None


class FallBack(msgspec.Struct, frozen=True):
    """Record that the candidate will not take over.

    ``outcome_if_untouched``: the operation's outcome if neither the current driver nor its checkpoint was changed
    before this action.
    """

    outcome_if_untouched: Outcome


class Finish(msgspec.Struct, frozen=True):
    """Record the operation's outcome."""

    outcome: Outcome


class Wait(msgspec.Struct, frozen=True):
    """Wait for an outside event; ``deadline_s`` counts seconds from the start of the wait."""

    on: str
    deadline_s: float


Action = (
    Register
    | Plan
    | Launch
    | GiveUpStarting
    | RecordDescription
    | Assess
    | Send
    | Kill
    | RecordEnd
    | RecordLastBatches
    | BackUp
    | CheckDrift
    | Shadow
    | RestoreVersions
    | Appoint
    | TakeCutoverSnapshots
    | Promote
    | MarkBegun
    | MarkDone
    | FallBack
    | Finish
    | Wait
)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The next action of an operation, its step, and the reason."""

    step: Step
    action: Action
    reason: str
