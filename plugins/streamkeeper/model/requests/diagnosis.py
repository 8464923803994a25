"""The observations for a diagnosis, the causes of an outage, and the recovery actions with their costs."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.protocol.damage import Damage
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.restart_budgets import Cause as RestartCause


class RecoveryAction(Enum):
    """An action that a person, or the watch, can request."""

    DIAGNOSE = "diagnose"
    """Observe, name the cause, rank the actions; change nothing."""
    RESTART = "restart"
    """Restart the current release in the current checkpoint versions."""
    RESTORE = "restore"
    """Restore each damaged query from a snapshot, as its next checkpoint version; then restart the current release."""
    REPLAN = "replan"
    """Continue each query whose open batch has an unreadable plan after its last commit, and replan that batch."""
    REBUILD = "rebuild"
    """Let each damaged query reread its sources into a shadow, which becomes current once it has caught up."""


class Problem(Enum):
    """Why a job does not run or makes no progress; NOTHING_WRONG if it has no problem.

    ``diagnose`` checks the causes in a fixed order and names only the first cause that applies.
    """

    STORE_OUT_OF_REACH = "store-out-of-reach"
    NOT_DEPLOYED = "not-deployed"
    OPERATION_OPEN = "operation-open"
    DRIVER_UNREACHABLE = "driver-unreachable"
    JOURNAL_LOST = "journal-lost"
    JOURNAL_OUTDATED = "journal-outdated"
    DISK_FULL = "disk-full"
    CHECKPOINT_LOST = "checkpoint-lost"
    CHECKPOINT_DAMAGED = "checkpoint-damaged"
    SINK_AHEAD = "sink-ahead"
    OUTPUT_LOST = "output-lost"
    OWNER_UNPROVEN = "owner-unproven"
    INPUT_GONE = "input-gone"
    SOURCE_OFFSET_LOST = "source-offset-lost"
    SINK_DOWN = "sink-down"
    STOPPED = "stopped"
    MACHINE_REBOOTED = "machine-rebooted"
    DRIVER_FROZEN = "driver-frozen"
    OUT_OF_MEMORY = "out-of-memory"
    BATCH_FAILS = "batch-fails"
    DRIVER_FAILED = "driver-failed"
    DRIVER_KILLED = "driver-killed"
    DRIVER_STARTING = "driver-starting"
    NOTHING_WRONG = "nothing-wrong"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The data that one query reads and writes a second time if it resumes from a snapshot."""

    snapshot: str
    """The snapshot."""
    batch: int
    """The batch of the snapshot."""
    taken_at: str = ""
    """When the snapshot was taken, UTC, ISO 8601."""
    verified: bool = False
    """Whether a drill has resumed the snapshot."""
    takes: str = ""
    """How the output avoids duplicates of replayed rows, as a phrase; empty if it would have these rows twice."""
    linked: bool = True
    """Whether the restored version continues the version of the snapshot. Otherwise no reader can tell replayed rows
    from new ones.
    """
    batches: int | None = None
    """Number of batches that were committed, or written, after the snapshot; None if unknown."""
    reads: str = ""
    """Files and records to reread, as a phrase; empty for none."""
    gone: str = ""
    """The part of ``reads`` that the source no longer has, as a phrase; empty for none."""
    unknown: str = ""
    """The part of ``reads`` that cannot be checked, as a phrase; empty for none."""


class Replan(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of replanning an open batch."""

    batch: int
    """The open batch."""
    reads: str = ""
    """The data to read, as a phrase."""
    gone: str = ""
    """Files that the source had listed for the batch and that no longer exist, as a phrase; empty for none."""
    unknown: str = ""
    """Files that could not be checked, as a phrase; empty for none."""


class QueryLook(msgspec.Struct, frozen=True, kw_only=True):
    """One query: its current checkpoint version, its output and its snapshots."""

    query: str
    """The query."""
    version: str
    """Its current checkpoint version."""
    directory: str
    """The directory of that version."""
    lost: str = ""
    """What the directory lacks of the recorded checkpoint, as a phrase; empty if it lacks nothing."""
    damages: tuple[Damage, ...] = ()
    """Damage that every read of the checkpoint's files shows."""
    planned: int | None = None
    """The newest planned batch in the directory; None without one."""
    committed: int | None = None
    """The newest committed batch in the directory; None without one."""
    sink: str = ""
    """The kind of the query's output."""
    output: str = ""
    """The identity of the query's output."""
    holds: int | None = None
    """The newest batch of this version in the output; None without one, or if unknown."""
    sink_unknown: str = ""
    """Why the output's content is unknown; empty otherwise."""
    sink_down: bool = False
    """Whether the output should answer and does not."""
    input_gone: str = ""
    """Files of the open batch that no longer exist."""
    input_unchecked: str = ""
    """Files of the open batch that could not be checked."""
    replay: Replay | None = None
    """The replay from the snapshot that a restore would use; None with ``no_restore``."""
    no_restore: str = ""
    """Why no restore is possible; empty otherwise."""
    passed_over: tuple[str, ...] = ()
    """Newer or damaged snapshots that are not used, with the reason."""
    rebuild: str = ""
    """The data that a rebuild would read."""
    no_rebuild: str = ""
    """Why no rebuild is possible; empty otherwise."""
    failing: str = ""
    """The error of a query that fails repeatedly."""
    unproven: str = ""
    """The driver that may still write in the directory, because its end was stated and not proven."""
    replan: Replan | None = None
    """The replan, if the open batch can be replanned; None otherwise."""
    output_lost: str = ""
    """The committed batches that the output lacks, as a phrase."""

    @property
    def harmed(self) -> tuple[Damage, ...]:
        """The damage that is not marked as safe, so that a start with it may do harm."""
        return tuple(damage for damage in self.damages if not damage.safe)

    @property
    def ahead(self) -> bool:
        """Whether the output contains a batch that the checkpoint lacks."""
        known = -1 if self.planned is None else self.planned
        return not self.lost and self.holds is not None and self.holds > known

    @property
    def damaged(self) -> bool:
        """Whether the query cannot resume in this checkpoint version."""
        return bool(self.lost or self.harmed or self.ahead or self.unproven or self.output_lost)

    @property
    def only_output_lost(self) -> bool:
        """Whether nothing but lost output prevents a resume; a person may accept that loss."""
        return bool(self.output_lost) and not (self.lost or self.harmed or self.ahead or self.unproven)

    @property
    def open_batch(self) -> int | None:
        """The batch that is planned but not committed, which a start replays; None if there is none."""
        last = -1 if self.committed is None else self.committed
        return self.planned if self.planned is not None and self.planned > last else None


class RecoveryLook(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input of a diagnosis. ``operations.recovery.diagnosing`` collects it, so that the decision
    does no I/O.
    """

    job: str
    """The job."""
    store: str = ""
    """Why the store does not answer, in which case no other fact is available. Empty if the store answers."""
    lost: str = ""
    """The records that name the job although its journal is missing, in which case no other fact is available."""
    outdated: str = ""
    """How the job's journal is older than the data; the other facts of the journal are then unreliable."""
    release: str = ""
    """The current release."""
    instance: str = ""
    """The current instance."""
    stopped: str = ""
    """Who stopped the job, and why; empty if the job should run."""
    driver: ObservedDriver = ObservedDriver()
    """The observed driver of the current instance; not observed without a current instance."""
    open_operation: str = ""
    """Name and step of the open operation."""
    waits: bool = False
    """Whether that operation waits for a person."""
    full: str = ""
    """A full disk, as a phrase."""
    dropped: str = ""
    """Evidence that a source no longer has the next input."""
    exhausted: str = ""
    """Evidence that the driver ran out of memory."""
    broke: frozenset[str] = frozenset()
    """Queries whose error ended the previous run."""
    queries: tuple[QueryLook, ...] = ()
    """The queries."""

    @property
    def away(self) -> str:
        """The unavailable dependency that a live driver reports, as a phrase; empty if it reports none."""
        return self.driver.waits_because(RestartCause.DEPENDENCY) if self.driver.life is Life.ALIVE else ""

    @property
    def before(self) -> str:
        """How the driver's previous run ended; empty without one, and once the present run has completed a trigger."""
        return self.driver.waits_because(RestartCause.FAILURE)


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of an action for one output. Each effect is a phrase, empty if the action has no such effect."""

    query: str
    """The query."""
    output: str
    """The output."""
    read: str = ""
    """Data that is reread from the sources."""
    written: str = ""
    """Data that is written a second time to the output."""
    lost: str = ""
    """Data lost permanently."""
    doubles: bool = False
    """Whether the output contains rows twice after the action."""

    @property
    def asks(self) -> bool:
        """Whether a person must accept the cost, because data is lost or rows are duplicated."""
        return bool(self.lost) or self.doubles

    @property
    def sentence(self) -> str:
        """The cost as a sentence for a person."""
        parts = [
            f"reads {self.read} again" if self.read else "reads nothing again",
            f"writes again: {self.written}" if self.written else "writes nothing again",
            f"LOSES {self.lost}" if self.lost else "loses nothing",
        ]
        return f"query {self.query} into {self.output}: {'; '.join(parts)}"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One recovery action with its costs, or the reason why the action is impossible."""

    action: RecoveryAction
    """The action."""
    does: str = ""
    """The effect of the action, in one sentence."""
    why_not: str = ""
    """Why the action is impossible; empty if it is possible."""
    prices: tuple[Price, ...] = ()
    """The cost of the action, per output."""
    snapshots: dict[str, str] = {}
    """Query -> the snapshot from which the query is restored."""
    replans: dict[str, int] = {}
    """Query -> the batch that is replanned."""
    stands_on: tuple[str, ...] = ()
    """The release, checkpoint versions and snapshots on which the costs are based."""

    @property
    def possible(self) -> bool:
        return not self.why_not

    @property
    def asks(self) -> bool:
        """Whether a person must accept the action's cost for any output."""
        return any(price.asks for price in self.prices)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of an outage, its evidence, and the possible actions, with the advised action first."""

    job: str
    """The job."""
    cause: Problem
    """The cause."""
    sentence: str
    """The cause as a sentence for a person."""
    evidence: tuple[str, ...] = ()
    """The evidence, one sentence each."""
    heading: str = ""
    """Heading of the section about the cause in docs/operations/runbook.md."""
    advice: str = ""
    """The advice in one sentence, even if no action helps."""
    options: tuple[Option, ...] = ()
    """The actions."""

    def option(self, action: RecoveryAction) -> Option:
        """Return this diagnosis's option for an action."""
        return next(option for option in self.options if option.action is action)


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """A recovery as it was announced to a person, stored with the operation's request."""

    action: RecoveryAction
    """The action; RESTORE for a replan, which is carried out like a restore."""
    cause: str = ""
    """The diagnosed cause."""
    snapshots: dict[str, str] = {}
    """Query -> the snapshot from which the query is restored."""
    rebuilt: tuple[str, ...] = ()
    """Queries that reread their sources."""
    announced: tuple[str, ...] = ()
    """The announced costs, one sentence per output."""
    accepted_by: str = ""
    """The person who accepted losses or duplicates; empty if there were none."""
    losses: tuple[str, ...] = ()
    """Queries of which that person accepted the loss of rows."""
    replans: dict[str, int] = {}
    """Query -> the open batch that the query replans."""

    @property
    def asked_for(self) -> RecoveryAction:
        """The action that a person requested: REPLAN if queries replan a batch, otherwise ``action``."""
        return RecoveryAction.REPLAN if self.replans else self.action
