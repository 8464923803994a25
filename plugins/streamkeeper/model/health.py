"""The observations of a job's health, the symptoms that the rules find, and the results of a pass of the watch."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from streamkeeper.model.control import DriverExit, DriverStatus
from streamkeeper.model.faults import Fault
from streamkeeper.model.liveness import Life
from streamkeeper.model.signals import HistoryPoint


class Severity(Enum):
    """Who must be informed, and when."""

    PAGE = "page"
    """A person, now: output has stopped, or data will be lost."""
    TICKET = "ticket"
    """A person, on a working day."""
    INFO = "info"
    """Shown to viewers only."""


class CheckpointLook(msgspec.Struct, frozen=True, kw_only=True):
    """A query's current checkpoint version. The fields from ``damaged`` on apply to a driver that has ended."""

    version: str
    """The version."""
    directory: str
    """Its directory."""
    lost: str = ""
    """One sentence if it is not the recorded checkpoint; empty otherwise."""
    damaged: str = ""
    """Damage that makes a start harmful."""
    input_gone: str = ""
    """Files of the open batch that no longer exist."""
    unproven: str = ""
    """The driver that may still write there, because its termination was stated, not proven."""
    input_unchecked: str = ""
    """Files of the open batch that could not be checked."""
    bytes: int | None = None
    """Size of the checkpoint; None if unknown."""


class BackupLook(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots. None: there is no such snapshot."""

    age_s: float | None = None
    """Seconds since the newest one."""
    verified_age_s: float | None = None
    """Seconds since the newest verified one."""
    lacks_s: float | None = None
    """Seconds by which the newest one is behind the query's newest commit."""
    oldest_age_s: float | None = None
    """Seconds since the first one, reported if none was ever verified."""


class OpenOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation without an outcome."""

    operation: str
    """The operation's id."""
    kind: str
    """Its kind."""
    step: str
    """Tag of its current step."""
    open_s: float
    """Seconds since it was first observed."""
    waits_for_person: bool = False
    """Whether it waits for a person."""
    owned: bool = True
    """Whether a known task or process carries it out."""
    replaces: bool = True


class AskedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person before an operation is recorded."""

    operation: str
    """The future operation's id."""
    action: str
    """The requested action."""
    sentence: str
    """The question."""
    waited_s: float
    """Seconds since it was asked."""
    left_s: float
    """Seconds until its deadline."""
    may: str = ""
    """Who may answer."""


class JobLook(msgspec.Struct, frozen=True, kw_only=True):
    """All observations of one job, collected in one pass, so that the rules do no I/O."""

    job: str
    """The job's name."""
    now: float
    """Seconds since 1970 by the watch's clock."""
    wanted: bool = True
    """Whether the job should run."""
    stopped: str = ""
    """Why it should not run; empty otherwise."""
    desired_release: str = ""
    """The release that should be current."""
    serving_release: str = ""
    """The current release."""
    instance: str = ""
    """The current instance."""
    life: Life | None = None
    """The runner's observation; None if it was not observed."""
    why: str = ""
    """The evidence for ``life``."""
    stated: bool = False
    """Whether its driver's end was stated by a person and not proven."""
    ended_by: Fault | None = None
    """The fault that ended its driver, if its runner knows it."""
    frozen: bool = False
    """Whether a process of its driver is stopped."""
    frozen_s: float = 0.0
    """Seconds for which a process of its tree has been stopped."""
    rebooted: bool = False
    """Whether the machine was booted after its driver's start."""
    status: DriverStatus | None = None
    """The driver's status; None without one."""
    exit: DriverExit | None = None
    """The driver's exit; None without one."""
    silent_s: float = 0.0
    """Seconds for which its driver's beat has not grown, as observed by the watch."""
    restarts_s: tuple[float, ...] = ()
    """Seconds since each observed restart of the driver."""
    operation: OpenOperation | None = None
    """The open operation; None without one."""
    asked: AskedPerson | None = None
    """The open question; None without one."""
    last_failure: str = ""
    """Sentence of the last operation if it failed and none has succeeded since."""
    last_fault: str = ""
    """The stored kind of fault of that failure; empty from older versions."""
    checkpoints: dict[str, CheckpointLook] = {}
    """Query -> its current checkpoint version."""
    backups: dict[str, BackupLook] = {}
    """Query -> its snapshots."""
    objective_s: float = 86_400.0
    """Seconds that the newest snapshot may be behind the newest commit."""
    prune_age_s: float | None = None
    """Seconds since the last complete prune; None before the first."""
    prune_failed: str = ""
    """The parts of this job that the prune could not plan or remove."""
    history: dict[str, tuple[HistoryPoint, ...]] = {}
    """Query -> its measurements, oldest first, if they were read."""
    lost: str = ""
    """The records that name it although its journal is missing; then no other fact is known."""
    outdated: str = ""
    """How its journal is older than the data, or than an earlier observation of it."""
    unreadable: str = ""
    """Why its journal cannot be read; all other facts are from the last pass that could read it."""
    thresholds: dict[str, float | None] = {}
    """Rule -> the threshold in the job's file; None: the job has switched the rule off."""
    unlooked: dict[str, str] = {}
    """Part -> why it could not be observed; ``store``: its records."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """A rule's result."""

    rule: str
    """The rule's id."""
    severity: Severity
    """Its severity."""
    job: str
    """The job."""
    query: str = ""
    """The query; empty if the symptom concerns the whole job."""
    cause: str
    """One sentence with the evidence."""
    action: str
    """The advised action."""
    heading: str
    """Heading of docs/operations/runbook.md."""

    @property
    def key(self) -> str:
        """Key of its incident: one at a time per key."""
        return f"{self.rule}/{self.query or '-'}"


def worst(symptoms: Iterable[Symptom]) -> Severity | None:
    """The severity that determines how a job is shown."""
    order = list(Severity)
    return min((symptom.severity for symptom in symptoms), key=order.index, default=None)
