"""The facts from a job's journal that the watch keeps until the journal grows."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.liveness import Liveness, recorded_end
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.epoch_claim import KnownEpoch
from streamkeeper.model.records.step import BEFORE_DRAIN


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An operation without an outcome."""

    operation: str
    """The operation's id."""
    kind: str
    """Its kind."""
    step: str
    """Tag of its current step."""
    began_at: float
    """When the operation started, seconds since 1970, by the clock of the process that started it."""
    waits_for_person: bool = False
    """Whether the operation waits for a person."""
    mends: bool = False
    """Whether the operation is a start or a recovery, which bring back a driver that is down."""

    @property
    def replaces(self) -> bool:
        """Whether the operation has reached a step in which it may be replacing the driver."""
        return not self.waits_for_person and (self.mends or self.step not in BEFORE_DRAIN)


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in a job's journal up to entry ``number``, valid until there is a later entry.

    A field with the default None stays None in facts that an earlier version of Streamkeeper wrote.
    """

    number: int
    """The last entry that was read."""
    wanted: bool
    """Whether the job should run."""
    stopped: str
    """Who stopped the job, and why; empty if the job should run."""
    serving_release: str
    """The current release."""
    serving_instance: str
    """The current instance."""
    desired_release: str
    """The release that should be current."""
    last_failure: str
    """The result of the newest finished operation, in one sentence, if it failed; empty otherwise."""
    versions: dict[str, CheckpointVersion] = {}
    """Query -> its current checkpoint version, of this installation."""
    thresholds: dict[str, float | None] = {}
    """Health rule -> the job's own threshold; None if the job has switched the rule off."""
    operation: OperationFacts | None = None
    """The open operation; None without one."""
    operations: int = 0
    """The number of operations so far."""
    secrets: tuple[str, ...] = ()
    """Schemes of the secret references whose values a start needs."""
    forgotten: bool = False
    """Whether the job is retired."""
    rebuilt: str = ""
    """How a lost journal was rebuilt, in one sentence, until a release becomes current; empty otherwise."""
    owner: str | None = None
    """The person who deployed the current release."""
    ended: str = ""
    """The recorded proof that the current instance has terminated; empty if its end is not recorded."""
    unproven: dict[str, str] | None = None
    """Query -> driver that may still write its current checkpoint version, because its end was only stated."""
    last_fault: str = ""
    """The stored kind of fault of ``last_failure``."""
    ended_fault: str = ""
    """The stored kind of fault that ended the current instance."""
    ended_stated: bool = False
    """Whether a person stated the current instance's end without proof."""
    went_back: str = ""
    """A sentence if the journal now ends before an entry that an earlier pass has read.

    Empty otherwise, and after the next entry.
    """
    epochs: dict[str, KnownEpoch] | None = None
    """Query -> its epochs and checkpoint versions according to the journal."""

    @property
    def end(self) -> Liveness | None:
        """The recorded end of the current instance; None if its end is not recorded."""
        return recorded_end(self.ended, self.ended_fault)


NO_FACTS = JobFacts(
    number=0,
    wanted=False,
    stopped="",
    serving_release="",
    serving_instance="",
    desired_release="",
    last_failure="",
)
"""The facts of a job whose journal is lost or was never read, or which is retired."""
