"""What is looked at to say why a job does not serve, what that is, and what can be done about it at which price."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.control import DriverState
from streamkeeper.model.damage import Damage
from streamkeeper.model.liveness import Life


class RecoveryAction(Enum):
    """What a person, or the watch, can ask for."""

    DIAGNOSE = "diagnose"
    """Look, name the cause, rank the actions; change nothing."""
    RESTART = "restart"
    """The serving release again, in the checkpoint versions that serve."""
    RESTORE = "restore"
    """Each damaged query from a snapshot, as its next checkpoint version; the serving release again."""
    REPLAN = "replan"
    """Each query whose open batch has an unreadable plan continues after its last commit; it plans that batch again."""
    REBUILD = "rebuild"
    """Each damaged query reads its sources again, unseen, until it holds what was read; then it serves."""


class Cause(Enum):
    """Why a job does not serve, or that it does; the first that applies is named."""

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
    """What going on from a snapshot reads and writes again, of one query.

    ``batches``: how many were committed, or written, after it, None where nobody can tell; ``reads``: files and
    records, as a clause, empty where nothing; ``gone``: what of that the source no longer holds; ``unknown``: what
    cannot be looked at, as a clause. ``takes``: how the output takes what comes again, empty where it has it twice.
    """

    snapshot: str
    batch: int
    taken_at: str = ""
    verified: bool = False
    takes: str = ""
    batches: int | None = None
    reads: str = ""
    gone: str = ""
    unknown: str = ""


class Replan(msgspec.Struct, frozen=True, kw_only=True):
    """What planning an open batch again does. ``reads``: a clause; ``gone``: files that the source had listed for it
    and that are gone; ``unknown``: what could not be looked at, as a clause; both empty where nothing.
    """

    batch: int
    reads: str = ""
    gone: str = ""
    unknown: str = ""


class QueryLook(msgspec.Struct, frozen=True, kw_only=True):
    """One query: its serving checkpoint version, its output and its snapshots.

    ``lost``: how it is less than what is on record, as a clause; ``damages``: what its files show at every look.
    ``planned``, ``committed``: newest batches there. ``holds``: newest batch of this version in the output;
    ``sink_unknown``: why nobody can tell; ``sink_down``: it should answer and does not. ``input_gone``: files of the
    open batch that are gone; ``input_unchecked``: those that could not be looked for. ``replay``: from the snapshot
    that a restore would take, None with ``no_restore``;
    ``passed_over``: newer or damaged snapshots that are not taken, and why. ``rebuild``: what one would read;
    ``no_rebuild``: why there is none. ``failing``: the error of a query that fails again and again. ``unproven``: who
    may still write there, for its end was stated and not proven. ``replan``: of a query whose open batch can be planned
    again, None otherwise. ``output_lost``: which committed batches the output lacks, as a clause.
    """

    query: str
    version: str
    directory: str
    lost: str = ""
    damages: tuple[Damage, ...] = ()
    planned: int | None = None
    committed: int | None = None
    sink: str = ""
    output: str = ""
    holds: int | None = None
    sink_unknown: str = ""
    sink_down: bool = False
    input_gone: str = ""
    input_unchecked: str = ""
    replay: Replay | None = None
    no_restore: str = ""
    passed_over: tuple[str, ...] = ()
    rebuild: str = ""
    no_rebuild: str = ""
    failing: str = ""
    unproven: str = ""
    replan: Replan | None = None
    output_lost: str = ""

    @property
    def harmed(self) -> tuple[Damage, ...]:
        """Damages with which a start would do harm."""
        return tuple(damage for damage in self.damages if not damage.safe)

    @property
    def ahead(self) -> bool:
        """Whether the output holds a batch that the checkpoint does not know."""
        known = -1 if self.planned is None else self.planned
        return not self.lost and self.holds is not None and self.holds > known

    @property
    def damaged(self) -> bool:
        """Whether it cannot go on in this checkpoint version."""
        return bool(self.lost or self.harmed or self.ahead or self.unproven or self.output_lost)

    @property
    def only_output_lost(self) -> bool:
        """Whether nothing but the output keeps it from going on: a person may accept that."""
        return bool(self.output_lost) and not (self.lost or self.harmed or self.ahead or self.unproven)

    @property
    def open_batch(self) -> int | None:
        """The batch that a start runs again."""
        last = -1 if self.committed is None else self.committed
        return self.planned if self.planned is not None and self.planned > last else None


class RecoveryLook(msgspec.Struct, frozen=True, kw_only=True):
    """All that a diagnosis rests on; gathered by ``operations.diagnosing``, so that the decision looks at nothing.

    ``store``: why it does not answer, then nothing else is known. ``lost``: what names the job although it has no
    journal, then neither. ``outdated``: how its journal is older than what was
    written, then nothing else of it can be relied on. ``stopped``: by whom and why, empty where it should
    serve. ``why``: the runner's proof. ``error``: the driver's last one. ``open_operation``: name and step;
    ``waits``: whether it waits for a person. ``full``: a disk without room, as a clause. ``away``: what a driver that
    lives waits for, as it says itself; ``before``: how the run before ended, until this one serves. ``dropped``: what
    says that a source no longer holds what comes next; ``exhausted``: what says that its memory did not suffice.
    ``by_signal``: whether its supervisor was ended by a signal; ``broke``: queries whose error ended the run before.
    """

    job: str
    store: str = ""
    lost: str = ""
    outdated: str = ""
    release: str = ""
    instance: str = ""
    stopped: str = ""
    life: Life | None = None
    why: str = ""
    rebooted: bool = False
    frozen: bool = False
    state: DriverState | None = None
    error: str = ""
    open_operation: str = ""
    waits: bool = False
    full: str = ""
    away: str = ""
    before: str = ""
    dropped: str = ""
    exhausted: str = ""
    by_signal: bool = False
    broke: frozenset[str] = frozenset()
    queries: tuple[QueryLook, ...] = ()


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What an action does to one output, each as a clause; empty where nothing.

    ``read``: again from the sources; ``written``: again into the output; ``lost``: for good. ``doubles``: whether the
    output has rows twice then.
    """

    query: str
    output: str
    read: str = ""
    written: str = ""
    lost: str = ""
    doubles: bool = False

    @property
    def asks(self) -> bool:
        """Whether a person has to say yes."""
        return bool(self.lost) or self.doubles

    @property
    def sentence(self) -> str:
        """For a person."""
        parts = [
            f"reads {self.read} again" if self.read else "reads nothing again",
            f"writes again: {self.written}" if self.written else "writes nothing again",
            f"LOSES {self.lost}" if self.lost else "loses nothing",
        ]
        return f"query {self.query} into {self.output}: {'; '.join(parts)}"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One action that there is, or why not. ``why_not``: empty where it is possible.

    ``does``: one sentence; ``snapshots``: query -> the one it is restored from; ``replans``: query -> the batch that is
    planned again; ``stands_on``: the release, checkpoint
    versions and snapshots that it is about.
    """

    action: RecoveryAction
    does: str = ""
    why_not: str = ""
    prices: tuple[Price, ...] = ()
    snapshots: dict[str, str] = {}
    replans: dict[str, int] = {}
    stands_on: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        return not self.why_not

    @property
    def asks(self) -> bool:
        """Whether a person has to say yes."""
        return any(price.asks for price in self.prices)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, its evidence, and the actions, the advised one first.

    ``heading``: of docs/operations/runbook.md; ``advice``: one sentence, also where no action helps.
    """

    job: str
    cause: Cause
    sentence: str
    evidence: tuple[str, ...] = ()
    heading: str = ""
    advice: str = ""
    options: tuple[Option, ...] = ()

    def option(self, action: RecoveryAction) -> Option:
        """What is said of an action."""
        return next(option for option in self.options if option.action is action)


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery carries out, as it was announced: kept with the operation's request.

    ``snapshots``: query -> the snapshot it is restored from; ``rebuilt``: queries that read their sources again.
    ``replans``: query -> the batch that it plans again after its last commit; ``action`` is RESTORE then, which is how
    it is carried out. ``announced``: one sentence for each output; ``accepted_by``: who said yes to loss or doubling,
    empty where nothing asked for it.
    """

    action: RecoveryAction
    cause: str = ""
    snapshots: dict[str, str] = {}
    rebuilt: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    accepted_by: str = ""
    replans: dict[str, int] = {}

    @property
    def asked_for(self) -> RecoveryAction:
        """The action that a person has asked for."""
        return RecoveryAction.REPLAN if self.replans else self.action
