"""The observations of a job from which the health rules find symptoms, and the symptoms."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.signals import HistoryPoint
from streamkeeper.model.watch.watched_facts import NO_FACTS, JobFacts


class Urgency(Enum):
    """How urgently a person must be informed."""

    PAGE = "page"
    """Inform a person now: output has stopped, or data will be lost."""
    TICKET = "ticket"
    """Inform a person on a working day."""
    INFO = "info"
    """Only show the symptom to viewers."""


class CheckpointLook(msgspec.Struct, frozen=True, kw_only=True):
    """A query's current checkpoint version.

    ``damaged``, ``unproven``, ``input_gone`` and ``input_unchecked`` are only filled if ``lost`` is empty, the job
    should run, and its driver has terminated.
    """

    version: str
    """The version."""
    directory: str
    """Its directory."""
    lost: str = ""
    """Why the directory is not the recorded checkpoint, in one sentence; empty if it is."""
    damaged: str = ""
    """Damage that makes a start harmful."""
    input_gone: str = ""
    """Files of the open batch that no longer exist."""
    unproven: str = ""
    """The driver that may still write in the directory, because its end was stated and not proven."""
    input_unchecked: str = ""
    """Files of the open batch that could not be checked."""
    bytes: int | None = None
    """Size of the checkpoint; None if unknown."""


class BackupLook(msgspec.Struct, frozen=True, kw_only=True):
    """The ages of a query's snapshots. None means that there is no such snapshot."""

    age_s: float | None = None
    """Seconds since the newest snapshot."""
    verified_age_s: float | None = None
    """Seconds since the newest verified snapshot."""
    lacks_s: float | None = None
    """Seconds by which the newest snapshot is behind the query's newest commit."""
    oldest_age_s: float | None = None
    """Seconds since the first snapshot, reported if no snapshot was ever verified."""


class AskedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """An open question to a person about a future operation, which the journal records only after the answer."""

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
    facts: JobFacts = NO_FACTS
    """The facts from its journal; NO_FACTS if no rule may use them."""
    driver: ObservedDriver = ObservedDriver()
    """Its current driver, without an exit record while it is alive."""
    frozen_s: float = 0.0
    """Seconds for which a process of the driver's tree has been stopped."""
    silent_s: float = 0.0
    """Seconds for which the driver's beat has not grown, by the watch's observations."""
    restarts_s: tuple[float, ...] = ()
    """Seconds since each observed restart of the driver."""
    owned: bool = True
    """False if the task or process that carries out the open operation has provably ended; otherwise True."""
    asked: AskedPerson | None = None
    """The open question; None without one."""
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
    """The records that name the job although its journal is missing, in which case no other fact is available."""
    outdated: str = ""
    """How the job's journal is older than the data, or older than when an earlier pass read it; empty if it is not
    older.
    """
    unreadable: str = ""
    """Why the job's journal cannot be read. All other facts are then from the last pass that could read the journal."""
    unlooked: dict[str, str] = {}
    """Part of the job -> why it could not be observed; the part ``store`` means the job's records."""

    @property
    def instance(self) -> str:
        """The current instance; empty without one."""
        return self.facts.serving_instance

    @property
    def open_s(self) -> float:
        """Seconds since the open operation began; 0 without one."""
        return max(0.0, self.now - self.facts.operation.began_at) if self.facts.operation is not None else 0.0


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that a health rule has found."""

    rule: str
    """The rule's id."""
    severity: Urgency
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
    """Heading of the section about the symptom in docs/operations/runbook.md."""

    @property
    def key(self) -> str:
        """The key of the symptom's incident; a job has at most one open incident per key."""
        return f"{self.rule}/{self.query or '-'}"


def worst(symptoms: Iterable[Symptom]) -> Urgency | None:
    """Return the most urgent severity of the symptoms; None if there are none."""
    order = list(Urgency)
    return min((symptom.severity for symptom in symptoms), key=order.index, default=None)
