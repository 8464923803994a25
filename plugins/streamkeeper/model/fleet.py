"""The fleet index: what the last pass of the watch saw of every job, and what it remembers for the next.

``fleet/index.json`` is replaced as a whole at the end of a pass. It is a copy: whoever finds none looks for himself,
and nothing is decided by it that the records do not say.
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
"""A watch that passes each minute has missed two passes by then: what it found before is out of date."""
AIRFLOW_WATCH_REMOVED_S = 30 * 86_400.0
"""An Airflow that has made no pass for this long no longer belongs to the installation."""
INDEX_KEY = "fleet/index.json"
PRUNE_KEY = "fleet/prune.json"


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An operation without an outcome.

    ``step``: the tag of the one it is at; ``began_at``: seconds since 1970, by the clock of whoever began it;
    ``mends``: a start or a recovery, which is for a driver that is down.
    """

    operation: str
    kind: str
    step: str
    began_at: float
    waits_for_person: bool = False
    mends: bool = False


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's journal says up to entry ``number``: it stays true until there is a later entry.

    ``versions``: query -> its serving checkpoint version, of this installation; ``stopped``: by whom and why;
    ``operations``: how many there were; ``last_failure``: the sentence of the newest that is over, where it failed;
    ``secrets``: schemes of the references for which a start needs values; ``rebuilt``: what a lost journal was made
    again from, while nothing serves since. ``owner``: who brought the serving release, None where an earlier version
    has left the facts. ``ended``: how the end of the serving instance is known, empty while it is not on record.
    ``unproven``: query -> the driver that may still write its serving checkpoint version, because its end was stated
    and not proven; None where an earlier version has left the facts.
    ``last_fault``, ``ended_fault``: the stored kinds of fault of ``last_failure`` and of that end;
    ``ended_stated``: whether that end is a person's word.
    ``went_back``: how the journal ends before an entry that an earlier pass has seen, as a sentence, until somebody
    adds to it. ``epochs``: query -> what it says of its epochs, None where an earlier version has left the facts.
    """

    number: int
    wanted: bool
    stopped: str
    serving_release: str
    serving_instance: str
    desired_release: str
    last_failure: str
    versions: dict[str, CheckpointVersion] = {}
    thresholds: dict[str, float | None] = {}
    operation: OperationFacts | None = None
    operations: int = 0
    secrets: tuple[str, ...] = ()
    forgotten: bool = False
    rebuilt: str = ""
    owner: str | None = None
    ended: str = ""
    unproven: dict[str, str] | None = None
    last_fault: str = ""
    ended_fault: str = ""
    ended_stated: bool = False
    went_back: str = ""
    epochs: dict[str, KnownEpoch] | None = None


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots when they were looked at last; ``due_at``: when they are again.

    Moments are seconds since 1970.
    """

    looked_at: float
    due_at: float = 0.0
    lacks_s: float | None = None
    number: int = 0
    version: str = ""
    batch: int = -1
    query_id: str = ""
    checkpoint: str = ""
    taken_at: float | None = None
    oldest_at: float | None = None
    verified: int = 0
    verified_at: float | None = None

    @property
    def name(self) -> str:
        """``s0007``."""
        return f"s{self.number:04d}"


class ToldError(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's driver, or else its last deploy, has failed with. ``since``: when that was seen first; ``lasts``:
    whether it still says so.
    """

    text: str
    since: float
    lasts: bool = True


class JobMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What the next pass needs to know of this one. Moments are seconds since 1970 by the watch's clock.

    ``beat``: instance, generation and beat of the driver's last word, and ``beat_at`` since when it has been that;
    ``frozen_at``: since when processes of its driver are stopped, 0 while none is; ``elsewhere_at``: since when passes
    were made only on machines that cannot look at it, 0 after one that could;
    ``restarts``: moments at which its driver began again; ``acts``: act -> moments at which the watch did it; ``wait``:
    operation, what it waits for, and since when, of one that the watch carries on. ``committed_at``: query -> its last
    commit with data, which a driver that has begun again does not know; ``error``: the last one that was told.
    ``lost``: whether its journal was gone in the last pass.
    """

    facts: JobFacts | None = None
    beat: tuple[str, int, int] = ("", 0, 0)
    beat_at: float = 0.0
    frozen_at: float = 0.0
    elsewhere_at: float = 0.0
    restarts: tuple[float, ...] = ()
    acts: dict[str, tuple[float, ...]] = {}
    wait: tuple[str, str, float] = ("", "", 0.0)
    snapshots: dict[str, SnapshotFacts] = {}
    incidents: JobIncidents | None = None
    committed_at: dict[str, float] = {}
    error: ToldError | None = None
    lost: bool = False


class QueryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One query of the serving release. Moments are seconds since 1970; None: not known, or not there.

    ``lag_s``, ``lag_records``, ``lag_files``: what waits at its sources, of a driver that is not proven dead;
    ``batch_s``: what a batch takes there, the median of its history; ``trigger_s``: its interval; ``rows_per_s``: what
    came in last. ``committed_at``: its last batch with data, by the driver's clock. ``snapshots_known``: whether its
    snapshots were looked at; ``verified_at``: when the newest one was taken that a drill has resumed.
    """

    lag_s: float | None = None
    lag_records: int | None = None
    lag_files: int | None = None
    committed_at: float | None = None
    batch_s: float | None = None
    trigger_s: float | None = None
    rows_per_s: float | None = None
    snapshots_known: bool = False
    snapshot_at: float | None = None
    verified_at: float | None = None


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job as a person sees it. ``silent_s``: how long its driver's beat had not grown.

    ``seen_at``: when it was looked at, seconds since 1970; ``restarts``: of the instance that serves, since it was
    started, and ``restarts_lately``: those that the watch has seen in the last hour; ``error``: the last one told.
    """

    job: str
    standing: Standing
    release: str
    instance: str = ""
    life: Life | None = None
    why: str = ""
    wanted: bool = True
    stopped: str = ""
    operation: str = ""
    versions: dict[str, str] = {}
    committed: dict[str, int] = {}
    silent_s: float = 0.0
    worst: Severity | None = None
    symptoms: tuple[Symptom, ...] = ()
    unlooked: dict[str, str] = {}
    seen_at: float = 0.0
    queries: dict[str, QueryRow] = {}
    restarts: int = 0
    restarts_lately: int = 0
    error: ToldError | None = None
    under_way: OperationFacts | None = None
    memory: JobMemory = JobMemory()

    @property
    def rebuilt(self) -> str:
        """What its lost journal was made again from, while nothing serves since; empty otherwise."""
        return self.memory.facts.rebuilt if self.memory.facts is not None else ""

    @property
    def owner(self) -> str:
        """Who brought the serving release; empty where nobody did, or that is not known."""
        return (self.memory.facts.owner or "") if self.memory.facts is not None else ""

    @property
    def desired(self) -> str:
        """The release that is to serve: another than ``release`` after a deploy that failed."""
        return self.memory.facts.desired_release if self.memory.facts is not None else self.release

    @property
    def forgotten(self) -> bool:
        """Whether nobody wants to see it any more."""
        return self.memory.facts is not None and self.memory.facts.forgotten


class FleetIndex(msgspec.Struct, frozen=True, kw_only=True):
    """One pass. ``started``: seconds since 1970; ``seconds``: how long it took; ``requests``: asked of the store.

    ``installation``: whose pass it was: in a copied store the index is that of what it was copied from.
    ``airflow_pass_at``: when Airflow last began a pass, seconds since 1970; 0 if it never made one. Only Airflow sends
    notices and runs backups, so a pass by another watch does not replace one by Airflow.
    """

    format: int = FORMAT
    number: int
    started: float
    seconds: float = 0.0
    requests: int = 0
    by: str = ""
    installation: str = ""
    airflow_pass_at: float = 0.0
    rows: tuple[JobRow, ...] = ()
    failed: tuple[str, ...] = ()
    """What the pass could not do, one sentence each: a notifier that fails, an act."""

    def row(self, job: str) -> JobRow | None:
        """The row of one job."""
        return next((row for row in self.rows if row.job == job), None)

    def pass_age_s(self, now: float) -> float:
        """Seconds since the last pass that could send notices: Airflow's, if it makes any, else the last of all."""
        return max(0.0, now - self.last_pass_at(now))

    def last_pass_at(self, now: float) -> float:
        """When that pass began, seconds since 1970."""
        return self.airflow_pass_at if self.is_behind_airflow(now) else self.started

    def is_behind_airflow(self, now: float) -> bool:
        """Whether another watch made this pass, while Airflow's own last one is what counts."""
        kept = now - self.airflow_pass_at <= AIRFLOW_WATCH_REMOVED_S
        return kept and self.airflow_pass_at != self.started


class PruneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last prune of everything: when (seconds since 1970), and what it could not plan or remove."""

    format: int = FORMAT
    at: float
    failed: tuple[str, ...] = ()
