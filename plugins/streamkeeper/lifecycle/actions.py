"""What an operation can be told to do next: one small value per act, with its reason."""

from __future__ import annotations

import msgspec

from streamkeeper.model.control import CommandKind, LaunchMode
from streamkeeper.model.journal import Outcome, Role
from streamkeeper.model.step import Step
from streamkeeper.model.step_results import StepResult


class Register(msgspec.Struct, frozen=True):
    """Bundle the code and register the release, or look up the pushed one."""


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
    """Record that an instance could not be started, once nothing can start it any more."""

    instance: str


class RecordDescription(msgspec.Struct, frozen=True):
    """Store the manifests that an instance wrote."""

    instance: str


class Assess(msgspec.Struct, frozen=True):
    """Compare the candidate's manifests with the serving release's, both ways."""


class Send(msgspec.Struct, frozen=True):
    """Send an instance a command, and nudge it."""

    instance: str
    kind: CommandKind


class Kill(msgspec.Struct, frozen=True):
    """End the whole process tree of an instance."""

    instance: str


class RecordEnd(msgspec.Struct, frozen=True):
    """Record that an instance's tree is proven gone; ``fault``: the value of what its runner knows to have ended it."""

    instance: str
    proof: str
    exit: str
    fault: str = ""


class BackUp(msgspec.Struct, frozen=True):
    """Take a snapshot of every query with an opaque change, under a hold, export its state, and mark the step done."""


class CheckDrift(msgspec.Struct, frozen=True):
    """See that what was approved is what is there; mark the step done, or raise that the approval is void."""


class Shadow(msgspec.Struct, frozen=True):
    """Create the versions that a dual run fills, and let the instance fill them."""

    instance: str


class RestoreVersions(msgspec.Struct, frozen=True):
    """Make the new checkpoint versions of the ways that restore a snapshot; mark the step done where it is one."""


class Appoint(msgspec.Struct, frozen=True):
    """Create missing checkpoint versions and make the instance the only one that may claim epochs, in ``versions``."""

    instance: str
    versions: dict[str, str] = {}


class RecordLastBatches(msgspec.Struct, frozen=True):
    """Record where the release that ended has left each query; mark the step done."""


class TakeCutoverSnapshots(msgspec.Struct, frozen=True):
    """Take a snapshot, under a hold, of the batch at which each query changed hands; mark the step done."""


class Promote(msgspec.Struct, frozen=True):
    """Record the release as the serving one."""

    instance: str


class MarkBegun(msgspec.Struct, frozen=True):
    """Record that the decision's step is about to touch what serves."""


class MarkDone(msgspec.Struct, frozen=True):
    """Record the decision's step as done, with what it leaves for later ones."""

    result: StepResult | None = None


class FallBack(msgspec.Struct, frozen=True):
    """Record that the candidate will not serve; ``untouched`` as in FallBackDecided."""

    untouched: Outcome


class Finish(msgspec.Struct, frozen=True):
    """Record the operation's outcome."""

    outcome: Outcome


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do until something outside happens; ``deadline_s`` counts from the wait's beginning."""

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
    """The next act of an operation, the step it belongs to, and why."""

    step: Step
    action: Action
    reason: str
