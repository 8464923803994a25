"""What is looked at to say how a job is, what the rules find, and what a pass of the watch leaves behind."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from streamkeeper.model.control import DriverExit, DriverStatus
from streamkeeper.model.faults import Fault
from streamkeeper.model.liveness import Life
from streamkeeper.model.signals import HistoryPoint


class Severity(Enum):
    """Who should know, and when."""

    PAGE = "page"
    """Somebody, now: output stands still, or data will be lost."""
    TICKET = "ticket"
    """Somebody, on a working day."""
    INFO = "info"
    """Whoever looks."""


class CheckpointLook(msgspec.Struct, frozen=True, kw_only=True):
    """A query's serving checkpoint version: ``lost``: one sentence, where it is not what is on record.

    Of a driver that is gone: ``damaged``: with what a start would do harm; ``input_gone``: which files of the open
    batch are no longer there; ``input_unchecked``: which of them could not be looked for; ``unproven``: the driver that
    may still write there, for its end was stated, not proven.
    """

    version: str
    directory: str
    lost: str = ""
    damaged: str = ""
    input_gone: str = ""
    unproven: str = ""
    input_unchecked: str = ""
    bytes: int | None = None


class BackupLook(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots: seconds since the newest one, since the newest verified one; None: there is none.

    ``lacks_s``: how far the newest one is behind the query's newest commit; ``oldest_age_s``: of the first snapshot,
    told where none was ever verified.
    """

    age_s: float | None = None
    verified_age_s: float | None = None
    lacks_s: float | None = None
    oldest_age_s: float | None = None


class OpenOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation without an outcome: since when it was seen, and whether it waits for a person.

    ``replaces``: whether it has begun to replace the driver that serves, or was opened because that one is down; until
    then that driver has to run.
    """

    operation: str
    kind: str
    step: str
    open_s: float
    waits_for_person: bool = False
    owned: bool = True
    """Whether a task or a process is known to carry it on."""
    replaces: bool = True


class AskedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person is asked before an operation is on record: for how long, until when, and what."""

    operation: str
    action: str
    sentence: str
    waited_s: float
    left_s: float
    may: str = ""


class JobLook(msgspec.Struct, frozen=True, kw_only=True):
    """All that the rules know of one job; gathered in one pass, so that the rules look at nothing.

    ``now``: seconds since 1970 by the watch's clock. ``wanted``: whether it should serve; ``stopped``: why not.
    ``silent_s``: how long its driver's beat has not grown, as the watch has seen it; ``frozen_s``: how long a
    process of its tree has been stopped. ``rebooted``: the machine has been booted since its driver was started.
    ``history``: query -> its signals, oldest first, as far as they were read.
    ``prune_age_s``: seconds since the last prune of everything, None before the first; ``prune_failed``: what of this
    job it could not plan or remove. ``unlooked``: part -> why it could not be looked at; ``store``: its records.
    """

    job: str
    now: float
    wanted: bool = True
    stopped: str = ""
    desired_release: str = ""
    serving_release: str = ""
    instance: str = ""
    life: Life | None = None
    why: str = ""
    stated: bool = False
    """Whether its driver's end is a person's word, and not proven."""
    ended_by: Fault | None = None
    """What has ended its driver, as far as its runner knows."""
    frozen: bool = False
    frozen_s: float = 0.0
    rebooted: bool = False
    status: DriverStatus | None = None
    exit: DriverExit | None = None
    silent_s: float = 0.0
    restarts_s: tuple[float, ...] = ()
    """Seconds since each restart of the driver that the watch knows of."""
    operation: OpenOperation | None = None
    asked: AskedPerson | None = None
    last_failure: str = ""
    """The sentence of the last operation where that has failed and nothing has succeeded since."""
    last_fault: str = ""
    """The stored kind of fault that it failed by; empty from older versions."""
    checkpoints: dict[str, CheckpointLook] = {}
    backups: dict[str, BackupLook] = {}
    objective_s: float = 86_400.0
    prune_age_s: float | None = None
    prune_failed: str = ""
    history: dict[str, tuple[HistoryPoint, ...]] = {}
    lost: str = ""
    """What names it although it has no journal, then nothing else is known of it."""
    outdated: str = ""
    """How its journal is older than what was written, or than what the watch has seen of it."""
    unreadable: str = ""
    """Why its journal cannot be read; everything else is as the last pass that could read it knew it."""
    thresholds: dict[str, float | None] = {}
    """Rule -> its threshold for this job, where the job's file says one; None: the job has switched it off."""
    unlooked: dict[str, str] = {}


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule found: ``rule``: its id; ``query``: empty where it is of the whole job.

    ``cause``: one sentence with its evidence; ``action``: what is advised; ``heading``: of docs/operations/runbook.md.
    """

    rule: str
    severity: Severity
    job: str
    query: str = ""
    cause: str
    action: str
    heading: str

    @property
    def key(self) -> str:
        """One incident at a time for each."""
        return f"{self.rule}/{self.query or '-'}"


def worst(symptoms: Iterable[Symptom]) -> Severity | None:
    """The severity that decides how a job is shown."""
    order = list(Severity)
    return min((symptom.severity for symptom in symptoms), key=order.index, default=None)
