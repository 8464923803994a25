"""The fleet index: the last pass's observations of every job, and its memory for the next pass.

``fleet/index.json`` is replaced as a whole at the end of a pass. It is a copy: a reader without an index observes by
itself, and the index decides nothing that the records do not say.
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.checkpoint_version import CheckpointVersion
from streamkeeper.model.epoch_claim import KnownEpoch
from streamkeeper.model.health import Severity, Symptom
from streamkeeper.model.incident import JobIncidents
from streamkeeper.model.liveness import Life
from streamkeeper.model.standing import Standing

FORMAT = 1
PASS_OVERDUE_S = 180.0
"""Seconds. A watch that runs each minute has then missed two passes: its earlier observations are out of date."""
AIRFLOW_WATCH_REMOVED_S = 30 * 86_400.0
"""Seconds. An Airflow without a pass for this long no longer belongs to the installation."""
INDEX_KEY = "fleet/index.json"
PRUNE_KEY = "fleet/prune.json"


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An operation without an outcome."""

    operation: str
    """The operation's id."""
    kind: str
    """Its kind."""
    step: str
    """Tag of its current step."""
    began_at: float
    """Its start, seconds since 1970, by the clock of the process that started it."""
    waits_for_person: bool = False
    """Whether it waits for a person."""
    mends: bool = False
    """Whether it is a start or a recovery, which is for a driver that is down."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a job's journal up to entry ``number``: valid until there is a later entry.

    None in a field below means that an earlier version wrote the facts.
    """

    number: int
    """The last entry that was read."""
    wanted: bool
    """Whether the job should run."""
    stopped: str
    """Who stopped it, and why; empty if it should run."""
    serving_release: str
    """The current release."""
    serving_instance: str
    """The current instance."""
    desired_release: str
    """The release that should be current."""
    last_failure: str
    """Sentence of the newest finished operation, if it failed."""
    versions: dict[str, CheckpointVersion] = {}
    """Query -> its current checkpoint version, of this installation."""
    thresholds: dict[str, float | None] = {}
    """Rule -> the job's own threshold."""
    operation: OperationFacts | None = None
    """The open operation; None without one."""
    operations: int = 0
    """The number of operations so far."""
    secrets: tuple[str, ...] = ()
    """Schemes of the references whose values a start needs."""
    forgotten: bool = False
    """Whether the job is retired."""
    rebuilt: str = ""
    """The sources from which a lost journal was rebuilt, as long as no release is current since."""
    owner: str | None = None
    """The person who deployed the current release."""
    ended: str = ""
    """The proof of the current instance's end; empty as long as none is recorded."""
    unproven: dict[str, str] | None = None
    """Query -> driver that may still write its current checkpoint version, after a stated termination."""
    last_fault: str = ""
    """The stored kind of fault of ``last_failure``."""
    ended_fault: str = ""
    """The stored kind of fault of that end."""
    ended_stated: bool = False
    """Whether that end was stated by a person."""
    went_back: str = ""
    """How the journal ends before an entry that an earlier pass has read.

    As a sentence; until a new entry is added.
    """
    epochs: dict[str, KnownEpoch] | None = None
    """Query -> the journal's content about its epochs."""


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots at the last examination. Moments are seconds since 1970."""

    looked_at: float
    """The moment of the examination."""
    due_at: float = 0.0
    """The moment of the next one."""
    lacks_s: float | None = None
    """Seconds by which the newest snapshot is behind the newest commit."""
    number: int = 0
    """Number of the newest snapshot; 0 for none."""
    version: str = ""
    """Its checkpoint version."""
    batch: int = -1
    """Its batch."""
    query_id: str = ""
    """Spark's id of the query."""
    checkpoint: str = ""
    """URL of the checkpoint that it was taken from."""
    taken_at: float | None = None
    """The moment it was taken."""
    oldest_at: float | None = None
    """The moment the first snapshot was taken."""
    verified: int = 0
    """Number of the newest verified snapshot; 0 for none."""
    verified_at: float | None = None
    """The moment that one was taken."""

    @property
    def name(self) -> str:
        """``s0007``."""
        return f"s{self.number:04d}"


class ToldError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a job's driver, or otherwise of its last deploy.

    ``since``: the moment it was first observed; ``lasts``: whether it is still reported.
    """

    text: str
    since: float
    lasts: bool = True


class JobMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a pass for the next one. Moments are seconds since 1970 by the watch's clock."""

    facts: JobFacts | None = None
    """The content of the journal."""
    beat: tuple[str, int, int] = ("", 0, 0)
    """Instance, generation and beat of the driver's last report."""
    beat_at: float = 0.0
    """The moment since when ``beat`` is unchanged."""
    frozen_at: float = 0.0
    """The moment since when processes of its driver are stopped; 0 if none is."""
    elsewhere_at: float = 0.0
    """The moment since when passes ran only on machines that cannot observe it; 0 after one that could."""
    restarts: tuple[float, ...] = ()
    """The moments of its driver's restarts."""
    acts: dict[str, tuple[float, ...]] = {}
    """Action -> the moments at which the watch took it."""
    wait: tuple[str, str, float] = ("", "", 0.0)
    """Operation that the watch continues, the name of its wait, and the start of that wait."""
    snapshots: dict[str, SnapshotFacts] = {}
    """Query -> its snapshots."""
    incidents: JobIncidents | None = None
    """The job's incidents."""
    committed_at: dict[str, float] = {}
    """Query -> its last commit with data, which a restarted driver does not know."""
    error: ToldError | None = None
    """The last reported error."""
    lost: bool = False
    """Whether its journal was missing in the last pass."""


class QueryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One query of the current release. Moments are seconds since 1970; None: unknown or not available."""

    lag_s: float | None = None
    """Lag of its sources in seconds, for a driver that is not proven terminated."""
    lag_records: int | None = None
    """Unread records, for such a driver."""
    lag_files: int | None = None
    """Unread files, for such a driver."""
    committed_at: float | None = None
    """Its last batch with data, by the driver's clock."""
    batch_s: float | None = None
    """Median duration of a batch in its history."""
    trigger_s: float | None = None
    """Its trigger interval in seconds."""
    rows_per_s: float | None = None
    """Input rows per second of the last batch."""
    snapshots_known: bool = False
    """Whether its snapshots were examined."""
    snapshot_at: float | None = None
    """The moment of its newest snapshot."""
    verified_at: float | None = None
    """The moment of the newest snapshot that a drill has resumed."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job as shown to a person."""

    job: str
    """The job's name."""
    standing: Standing
    """Its status."""
    release: str
    """The current release."""
    instance: str = ""
    """The current instance."""
    life: Life | None = None
    """The runner's observation of the instance; None if it was not observed."""
    why: str = ""
    """The evidence for ``life``."""
    wanted: bool = True
    """Whether the job should run."""
    stopped: str = ""
    """Who stopped it, and why."""
    operation: str = ""
    """The open operation."""
    versions: dict[str, str] = {}
    """Query -> its current checkpoint version."""
    committed: dict[str, int] = {}
    """Query -> its newest committed batch."""
    silent_s: float = 0.0
    """Seconds for which its driver's beat had not grown."""
    worst: Severity | None = None
    """The severity of its worst symptom; None without one."""
    symptoms: tuple[Symptom, ...] = ()
    """Its symptoms."""
    unlooked: dict[str, str] = {}
    """Part -> why it could not be observed."""
    seen_at: float = 0.0
    """The moment of the observation, seconds since 1970."""
    queries: dict[str, QueryRow] = {}
    """Query -> its figures."""
    restarts: int = 0
    """Restarts of the current instance since its start."""
    restarts_lately: int = 0
    """Restarts that the watch has observed in the last hour."""
    error: ToldError | None = None
    """The last reported error."""
    under_way: OperationFacts | None = None
    """The open operation; None without one."""
    memory: JobMemory = JobMemory()
    """The memory for the next pass."""

    @property
    def rebuilt(self) -> str:
        """The sources of its rebuilt journal, as long as no release is current since; empty otherwise."""
        return self.memory.facts.rebuilt if self.memory.facts is not None else ""

    @property
    def owner(self) -> str:
        """The person who deployed the current release; empty without one, or if unknown."""
        return (self.memory.facts.owner or "") if self.memory.facts is not None else ""

    @property
    def desired(self) -> str:
        """The release that should be current: not ``release`` after a failed deploy."""
        return self.memory.facts.desired_release if self.memory.facts is not None else self.release

    @property
    def forgotten(self) -> bool:
        """Whether the job is retired."""
        return self.memory.facts is not None and self.memory.facts.forgotten


class FleetIndex(msgspec.Struct, frozen=True, kw_only=True):
    """One pass of the watch."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """The pass's number."""
    started: float
    """Its start, seconds since 1970."""
    seconds: float = 0.0
    """Its duration."""
    requests: int = 0
    """Its requests to the store."""
    by: str = ""
    """The watch that made it."""
    installation: str = ""
    """Its installation: in a copied store the index belongs to the original."""
    airflow_pass_at: float = 0.0
    """Start of Airflow's last pass, seconds since 1970; 0 if it never made one.

    Only Airflow sends notices and runs backups, so a pass by another watch does not replace one by Airflow.
    """
    rows: tuple[JobRow, ...] = ()
    """One row per job."""
    failed: tuple[str, ...] = ()
    """Failures of the pass, one sentence each: a notifier, an action."""

    def row(self, job: str) -> JobRow | None:
        """The row of one job."""
        return next((row for row in self.rows if row.job == job), None)

    def pass_age_s(self, now: float) -> float:
        """Seconds since the last pass that could send notices: Airflow's, if it makes any, otherwise any watch's."""
        return max(0.0, now - self.last_pass_at(now))

    def last_pass_at(self, now: float) -> float:
        """When that pass started, seconds since 1970."""
        return self.airflow_pass_at if self.is_behind_airflow(now) else self.started

    def is_behind_airflow(self, now: float) -> bool:
        """Whether another watch made this pass, while Airflow's own last one is decisive."""
        kept = now - self.airflow_pass_at <= AIRFLOW_WATCH_REMOVED_S
        return kept and self.airflow_pass_at != self.started


class PruneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last complete prune: its moment (seconds since 1970), and the parts that it could not plan or remove."""

    format: int = FORMAT
    at: float
    failed: tuple[str, ...] = ()
