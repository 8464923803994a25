"""The fleet index: what the last pass of the watch observed of every job, and what the next pass needs from it.

``fleet/index.json`` is replaced as a whole at the end of a pass. The index only copies observations and records: a
reader without an index observes the jobs itself.
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.incident import JobIncidents
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.watched_facts import JobFacts, OperationFacts

FORMAT = 1
PASS_OVERDUE_S = 180.0
"""Seconds after which the index is out of date: a watch that runs each minute has then missed two passes."""
AIRFLOW_WATCH_REMOVED_S = 30 * 86_400.0
"""Seconds after its last pass when Airflow counts as removed from the installation."""
INDEX_KEY = "fleet/index.json"
PRUNE_KEY = "fleet/prune.json"


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots when the watch last examined them. Moments are seconds since 1970."""

    looked_at: float
    """The moment of that examination."""
    due_at: float = 0.0
    """The moment when the next examination is due."""
    lacks_s: float | None = None
    """Seconds by which the newest snapshot is behind the newest commit."""
    number: int = 0
    """Number of the newest snapshot; 0 for none."""
    version: str = ""
    """The checkpoint version of the newest snapshot."""
    batch: int = -1
    """The batch of the newest snapshot."""
    query_id: str = ""
    """Spark's id of the query."""
    checkpoint: str = ""
    """URL of the checkpoint from which the newest snapshot was taken."""
    taken_at: float | None = None
    """The moment the newest snapshot was taken."""
    oldest_at: float | None = None
    """The moment the first snapshot was taken."""
    verified: int = 0
    """Number of the newest verified snapshot; 0 for none."""
    verified_at: float | None = None
    """The moment the newest verified snapshot was taken."""

    @property
    def name(self) -> str:
        """The name of the newest snapshot, such as ``s0007``."""
        return f"s{self.number:04d}"


class ToldError(msgspec.Struct, frozen=True, kw_only=True):
    """The error that a job's driver reported; if it reported none, the failure of the job's last deploy.

    ``since``: when the error was first observed, seconds since 1970; ``lasts``: whether the error is still reported.
    """

    text: str
    since: float
    lasts: bool = True


class JobMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass keeps about a job for the next pass. Moments are seconds since 1970 by the watch's clock."""

    facts: JobFacts | None = None
    """The facts in the job's journal."""
    beat: tuple[str, int, int] = ("", 0, 0)
    """Instance, generation and beat of the driver's last report."""
    beat_at: float = 0.0
    """The moment since which ``beat`` is unchanged."""
    frozen_at: float = 0.0
    """The moment since which processes of the driver are stopped; 0 if none is stopped."""
    elsewhere_at: float = 0.0
    """The moment since which every pass ran on a machine that cannot observe the driver; 0 if the last pass could."""
    restarts: tuple[float, ...] = ()
    """The moments at which the driver was restarted."""
    acts: dict[str, tuple[float, ...]] = {}
    """Action -> the moments at which the watch took that action."""
    wait: tuple[str, str, float] = ("", "", 0.0)
    """The operation that the watch continues, the name of what the operation waits for, and the start of the wait."""
    snapshots: dict[str, SnapshotFacts] = {}
    """Query -> its snapshots."""
    incidents: JobIncidents | None = None
    """The job's incidents."""
    committed_at: dict[str, float] = {}
    """Query -> the moment of its last commit with data, which a restarted driver does not report."""
    error: ToldError | None = None
    """The last reported error."""
    lost: bool = False
    """Whether the job's journal was missing in the last pass."""


class QueryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One query of the current release. Moments are seconds since 1970; None: unknown or not available."""

    lag_s: float | None = None
    """Lag of the sources in seconds; None if the driver has terminated."""
    lag_records: int | None = None
    """Unread records; None if the driver has terminated."""
    lag_files: int | None = None
    """Unread files; None if the driver has terminated."""
    committed_at: float | None = None
    """The commit of the last batch with data, by the driver's clock."""
    batch_s: float | None = None
    """Median duration of a batch in the query's history."""
    trigger_s: float | None = None
    """Its trigger interval in seconds."""
    rows_per_s: float | None = None
    """Input rows per second of the last batch."""
    snapshots_known: bool = False
    """Whether the query's snapshots were examined."""
    snapshot_at: float | None = None
    """The moment the newest snapshot was taken."""
    verified_at: float | None = None
    """The moment the newest verified snapshot was taken."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one job in the tables of the fleet."""

    job: str
    """The job's name."""
    standing: JobStatus
    """The job's status."""
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
    """Who stopped the job, and why; empty if the job should run."""
    operation: str = ""
    """The open operation."""
    versions: dict[str, str] = {}
    """Query -> its current checkpoint version."""
    committed: dict[str, int] = {}
    """Query -> its newest committed batch."""
    silent_s: float = 0.0
    """Seconds for which the driver's beat has not grown."""
    worst: Urgency | None = None
    """The severity of its worst symptom; None without one."""
    symptoms: tuple[Symptom, ...] = ()
    """Its symptoms."""
    unlooked: dict[str, str] = {}
    """Part of the job -> why it could not be observed."""
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
    """What the pass keeps about the job for the next pass."""

    @property
    def rebuilt(self) -> str:
        """Who rebuilt the job's journal, when and why; empty if the journal was not rebuilt or a release is current."""
        return self.memory.facts.rebuilt if self.memory.facts is not None else ""

    @property
    def owner(self) -> str:
        """The person who deployed the current release; empty if the person is unknown or no release is current."""
        return (self.memory.facts.owner or "") if self.memory.facts is not None else ""

    @property
    def desired(self) -> str:
        """The release that should be current: the release of the last deploy if it failed, otherwise ``release``."""
        return self.memory.facts.desired_release if self.memory.facts is not None else self.release

    @property
    def forgotten(self) -> bool:
        """Whether the job is retired."""
        return self.memory.facts is not None and self.memory.facts.forgotten


class FleetIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one pass of the watch."""

    format: int = FORMAT
    """Format version of the record."""
    number: int
    """Number of the pass."""
    started: float
    """Start of the pass, seconds since 1970."""
    seconds: float = 0.0
    """Duration of the pass."""
    requests: int = 0
    """Number of requests that the pass made to the store."""
    by: str = ""
    """The watch that made the pass."""
    installation: str = ""
    """The installation of the watch. In a copied store the index names the installation of the original."""
    airflow_pass_at: float = 0.0
    """Start of the last pass of Airflow's watch, seconds since 1970; 0 if Airflow never made a pass.

    Only Airflow sends notices and runs backups, so another watch's pass does not replace a pass of Airflow's watch.
    """
    rows: tuple[JobRow, ...] = ()
    """One row per job."""
    failed: tuple[str, ...] = ()
    """Failures during the pass, such as of a notifier or an action, one sentence each."""

    def row(self, job: str) -> JobRow | None:
        """Return the row of one job; None if the job has none."""
        return next((row for row in self.rows if row.job == job), None)

    def pass_age_s(self, now: float) -> float:
        """Return the seconds from ``last_pass_at`` to ``now``; 0 if ``now`` is earlier."""
        return max(0.0, now - self.last_pass_at(now))

    def last_pass_at(self, now: float) -> float:
        """Return the start of the last pass of Airflow's watch if that watch is active, otherwise of this pass.

        Result and ``now`` are in seconds since 1970. For "active", see ``is_behind_airflow``.
        """
        return self.airflow_pass_at if self.is_behind_airflow(now) else self.started

    def is_behind_airflow(self, now: float) -> bool:
        """Whether Airflow's watch is active, but a different watch made this pass.

        Airflow's watch counts as active for AIRFLOW_WATCH_REMOVED_S seconds after its last pass.
        """
        kept = now - self.airflow_pass_at <= AIRFLOW_WATCH_REMOVED_S
        return kept and self.airflow_pass_at != self.started


class PruneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last prune that covered all jobs: its time (seconds since 1970), and its failures in planning and removal."""

    format: int = FORMAT
    at: float
    failed: tuple[str, ...] = ()
