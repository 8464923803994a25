"""The observations for a diagnosis, the cause of a job's outage, and the possible actions with their costs."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.control import DriverState
from streamkeeper.model.damage import Damage
from streamkeeper.model.liveness import Life


class RecoveryAction(Enum):
    """An action that a person, or the watch, can request."""

    DIAGNOSE = "diagnose"
    """Observe, name the cause, rank the actions; change nothing."""
    RESTART = "restart"
    """Run the current release again, in the current checkpoint versions."""
    RESTORE = "restore"
    """Restore each damaged query from a snapshot, as its next checkpoint version; run the current release again."""
    REPLAN = "replan"
    """Each query whose open batch has an unreadable plan continues after its last commit; it plans that batch again."""
    REBUILD = "rebuild"
    """Each damaged query reads its sources again into a shadow until it has caught up; then it becomes current."""


class Cause(Enum):
    """Why a job does not run, or that it does; the first that applies is named."""

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
    """The data that resuming one query from a snapshot reads and writes again."""

    snapshot: str
    """The snapshot."""
    batch: int
    """Its batch."""
    taken_at: str = ""
    """UTC, ISO 8601."""
    verified: bool = False
    """Whether a drill has resumed it."""
    takes: str = ""
    """How the output handles replayed rows, as a clause; empty if it then has them twice."""
    batches: int | None = None
    """Number of batches committed, or written, after it; None if unknown."""
    reads: str = ""
    """Files and records to read again, as a clause; empty for none."""
    gone: str = ""
    """The part of them that the source no longer has."""
    unknown: str = ""
    """The part that cannot be checked, as a clause."""


class Replan(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of planning an open batch again."""

    batch: int
    """The batch."""
    reads: str = ""
    """The data to read, as a clause."""
    gone: str = ""
    """Files that the source had listed for it and that no longer exist, as a clause; empty for none."""
    unknown: str = ""
    """Files that could not be checked, as a clause; empty for none."""


class QueryLook(msgspec.Struct, frozen=True, kw_only=True):
    """One query: its current checkpoint version, its output and its snapshots."""

    query: str
    """The query."""
    version: str
    """Its current checkpoint version."""
    directory: str
    """The directory of that version."""
    lost: str = ""
    """How the directory is less than recorded, as a clause; empty if it is not."""
    damages: tuple[Damage, ...] = ()
    """Damage that every read of its files shows."""
    planned: int | None = None
    """The newest planned batch in it."""
    committed: int | None = None
    """The newest committed batch in it."""
    sink: str = ""
    """The kind of its output."""
    output: str = ""
    """The identity of its output."""
    holds: int | None = None
    """The newest batch of this version in the output."""
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
    """The driver that may still write there, because its termination was stated and not proven."""
    replan: Replan | None = None
    """The replan, if the open batch can be planned again; None otherwise."""
    output_lost: str = ""
    """The committed batches that the output lacks, as a clause."""

    @property
    def harmed(self) -> tuple[Damage, ...]:
        """Damage that makes a start harmful."""
        return tuple(damage for damage in self.damages if not damage.safe)

    @property
    def ahead(self) -> bool:
        """Whether the output contains a batch that the checkpoint does not."""
        known = -1 if self.planned is None else self.planned
        return not self.lost and self.holds is not None and self.holds > known

    @property
    def damaged(self) -> bool:
        """Whether it cannot resume in this checkpoint version."""
        return bool(self.lost or self.harmed or self.ahead or self.unproven or self.output_lost)

    @property
    def only_output_lost(self) -> bool:
        """Whether only its output prevents a resume: a person may accept that."""
        return bool(self.output_lost) and not (self.lost or self.harmed or self.ahead or self.unproven)

    @property
    def open_batch(self) -> int | None:
        """The batch that a start replays."""
        last = -1 if self.committed is None else self.committed
        return self.planned if self.planned is not None and self.planned > last else None


class RecoveryLook(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input of a diagnosis, collected by ``operations.diagnosing``, so that the decision does no I/O."""

    job: str
    """The job."""
    store: str = ""
    """Why the store does not answer; then no other fact is known."""
    lost: str = ""
    """The records that name the job although its journal is missing; then no other fact is known."""
    outdated: str = ""
    """How its journal is older than the data; then no other fact of it is reliable."""
    release: str = ""
    """The current release."""
    instance: str = ""
    """The current instance."""
    stopped: str = ""
    """Who stopped it, and why; empty if it should run."""
    life: Life | None = None
    """The runner's observation of the driver."""
    why: str = ""
    """The runner's proof."""
    rebooted: bool = False
    """Whether the driver ended with its machine's boot."""
    frozen: bool = False
    """Whether processes of the driver are stopped."""
    state: DriverState | None = None
    """The driver's last state; None without one."""
    error: str = ""
    """The driver's last error."""
    open_operation: str = ""
    """Name and step of the open operation."""
    waits: bool = False
    """Whether that operation waits for a person."""
    full: str = ""
    """A full disk, as a clause."""
    away: str = ""
    """The unavailable dependency of a live driver, as it reports it."""
    before: str = ""
    """How the previous run ended, until the present one has completed a trigger."""
    dropped: str = ""
    """Evidence that a source no longer has the next input."""
    exhausted: str = ""
    """Evidence that its memory was insufficient."""
    by_signal: bool = False
    """Whether a signal stopped its supervisor."""
    broke: frozenset[str] = frozenset()
    """Queries whose error ended the previous run."""
    queries: tuple[QueryLook, ...] = ()
    """The queries."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of an action on one output, each as a clause; empty for none."""

    query: str
    """The query."""
    output: str
    """The output."""
    read: str = ""
    """Data read again from the sources."""
    written: str = ""
    """Data written again to the output."""
    lost: str = ""
    """Data lost permanently."""
    doubles: bool = False
    """Whether the output then contains rows twice."""

    @property
    def asks(self) -> bool:
        """Whether a person must accept it."""
        return bool(self.lost) or self.doubles

    @property
    def sentence(self) -> str:
        """The effects for a person."""
        parts = [
            f"reads {self.read} again" if self.read else "reads nothing again",
            f"writes again: {self.written}" if self.written else "writes nothing again",
            f"LOSES {self.lost}" if self.lost else "loses nothing",
        ]
        return f"query {self.query} into {self.output}: {'; '.join(parts)}"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One action, or the reason why it is impossible."""

    action: RecoveryAction
    """The action."""
    does: str = ""
    """Its effect, one sentence."""
    why_not: str = ""
    """Why it is impossible; empty if it is possible."""
    prices: tuple[Price, ...] = ()
    """Its effects per output."""
    snapshots: dict[str, str] = {}
    """Query -> the snapshot that it is restored from."""
    replans: dict[str, int] = {}
    """Query -> the batch that is planned again."""
    stands_on: tuple[str, ...] = ()
    """The release, checkpoint versions and snapshots that it refers to."""

    @property
    def possible(self) -> bool:
        return not self.why_not

    @property
    def asks(self) -> bool:
        """Whether a person must accept it."""
        return any(price.asks for price in self.prices)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, its evidence, and the actions, the advised one first."""

    job: str
    """The job."""
    cause: Cause
    """The cause."""
    sentence: str
    """The cause for a person."""
    evidence: tuple[str, ...] = ()
    """The evidence, one sentence each."""
    heading: str = ""
    """Heading of docs/operations/runbook.md."""
    advice: str = ""
    """One sentence, also if no action helps."""
    options: tuple[Option, ...] = ()
    """The actions."""

    def option(self, action: RecoveryAction) -> Option:
        """The diagnosis's option for an action."""
        return next(option for option in self.options if option.action is action)


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """A recovery as it was announced: stored with the operation's request."""

    action: RecoveryAction
    """The action; RESTORE for a replan, which is carried out like one."""
    cause: str = ""
    """The diagnosed cause."""
    snapshots: dict[str, str] = {}
    """Query -> the snapshot that it is restored from."""
    rebuilt: tuple[str, ...] = ()
    """Queries that read their sources again."""
    announced: tuple[str, ...] = ()
    """One sentence per output."""
    accepted_by: str = ""
    """The person who accepted losses or duplicates; empty if there were none."""
    replans: dict[str, int] = {}
    """Query -> the batch that it plans again after its last commit."""

    @property
    def asked_for(self) -> RecoveryAction:
        """The action that a person requested."""
        return RecoveryAction.REPLAN if self.replans else self.action
