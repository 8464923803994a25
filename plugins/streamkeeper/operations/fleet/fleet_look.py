"""Observe every job for the health rules, with few store requests and a single observation of the machine.

A part that cannot be read is reported in ``unlooked``; the rest of its job and the other jobs are still observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from streamkeeper.checkpoints.identity import find_loss
from streamkeeper.checkpoints.lasting import lasting_damages
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.open_input import OpenInput, find_open_input
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import StoreUnavailable, StreamkeeperError
from streamkeeper.lifecycle.recovery import MENDED
from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.signals import HistoryPoint
from streamkeeper.model.records.checkpoint_version import checkpoint_location
from streamkeeper.model.records.known_checkpoint import commits_of, known_checkpoint
from streamkeeper.model.watch.fleet_index import FleetIndex, JobMemory
from streamkeeper.model.watch.health import AskedPerson, CheckpointLook
from streamkeeper.model.watch.job_status import JobStatus, find_standing
from streamkeeper.model.watch.watched_facts import JobFacts
from streamkeeper.operations.backups.snapshot_ages import look_at_snapshots, newest_snapshots
from streamkeeper.operations.jobs.carriers import RunIsOver, is_abandoned, nobody_knows
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_facts import read_facts
from streamkeeper.operations.jobs.lost_jobs import find_lost, find_lost_jobs
from streamkeeper.operations.jobs.observation import JobObservation, observe_livenesses, recorded_jobs
from streamkeeper.operations.jobs.outdated import find_outdated_epochs
from streamkeeper.operations.jobs.placement import find_disk
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import has_journal
from streamkeeper.registry.pending_questions import asked_person, jobs_asked
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.contract import Store

WORKERS = 8
"""Parallel requests, because a remote store has a high latency."""
LAG_WORTH_A_HISTORY_S = 60.0
STATE_WORTH_A_HISTORY_BYTES = 256 * 2**20
RECORDS, JOB = "records", "job"
OWN = "again-"
"""Prefix of operations that the watch started: each pass continues them."""


@dataclass
class WatchedJob:
    """All observations of one job. The fields are filled in one after another."""

    observation: JobObservation
    """The observation of the job, from which the other fields are read."""
    memory: JobMemory
    """The facts that the last pass of the watch remembered about the job."""
    facts: JobFacts | None = None
    """Facts from the job's journal; those of the last pass if the journal is lost or unreadable."""
    driver: ObservedDriver = field(default_factory=ObservedDriver)
    """The job's current driver, without an exit record while it is alive."""
    elsewhere: str = ""
    """The only host that can observe the driver; empty if this host can observe it."""
    abandoned: bool = False
    """Whether the carrier of its open operation has provably ended."""
    asked: AskedPerson | None = None
    """The open question to a person, before the operation is recorded."""
    checkpoints: dict[str, CheckpointLook] = field(default_factory=dict)
    """Query -> the observation of its current checkpoint version."""
    history: dict[str, tuple[HistoryPoint, ...]] = field(default_factory=dict)
    """Query -> its signals over time."""
    unlooked: dict[str, str] = field(default_factory=dict)
    """Part -> why it could not be read."""
    outdated: str = ""
    """The evidence that the job's journal is older than the written data, or older than the journal that the last pass
    read; empty if there is no evidence.
    """
    lost: str = ""
    """The records that name the job if it has lost its journal; else empty."""

    @property
    def job(self) -> str:
        """The job's name."""
        return self.observation.job

    @property
    def unreadable(self) -> str:
        """Why the journal could not be read although the store answered; empty if the journal was read. If it is set,
        ``facts`` are those of the last pass.
        """
        return self.unlooked.get(RECORDS, "")

    @property
    def instance(self) -> str:
        """The name of the instance that the journal records as the current one."""
        return self.facts.serving_instance if self.facts is not None else ""

    @contextmanager
    def reading(self, part: str) -> Iterator[None]:
        """Within this context, record an error of this part instead of raising it, so that the next part is observed
        too.
        """
        try:
            yield
        except StoreUnavailable as error:
            self.unlooked["store"] = str(error)
        except (StreamkeeperError, OSError, ValueError) as error:
            self.unlooked[part] = str(error)

    @property
    def standing(self) -> JobStatus:
        """The job's status."""
        if self.facts is None or self.lost or ("store" in self.unlooked and self.driver.life is None):
            return JobStatus.UNKNOWN
        return find_standing(self.driver, stopped=bool(self.facts.stopped))


def look_at_fleet(
    installation: Installation,
    before: FleetIndex | None,
    *,
    now: float,
    run_is_over: RunIsOver = nobody_knows,
    whole: bool = True,
    job: str = "",
) -> list[WatchedJob]:
    """Observe every job, or only ``job``.

    ``installation``: the installation; ``before``: the last index; ``now``: seconds since 1970; ``run_is_over``:
    whether a DAG run has ended; ``whole``: False for statuses and snapshots only; ``job``: empty for all.

    Raises StoreUnavailable if not even the jobs can be listed.
    """
    remembered = {row.job: row.memory for row in before.rows} if before is not None else {}
    jobs = [job] if job else _known_jobs(installation, remembered)
    lost = {} if job else find_lost_jobs(installation, jobs, remembered)
    fleet = [
        WatchedJob(
            observation=JobObservation(installation, name),
            memory=remembered.get(name, JobMemory()),
            lost=lost.get(name, ""),
        )
        for name in sorted({*jobs, *lost})
    ]
    with ThreadPoolExecutor(WORKERS) as pool:
        _all(pool, fleet, lambda seen: _read_records(installation, seen))
        asked = jobs_asked(installation.store)
        _all(pool, [seen for seen in fleet if seen.job in asked], lambda seen: _read_asked(installation, seen, now))
        _observe(installation, fleet)
        _all(pool, fleet, lambda seen: _read_end(installation, seen))
        if whole:
            _all(pool, fleet, lambda seen: _look_deeper(installation, seen, now, run_is_over))
        else:
            _look_for_snapshots(pool, installation, fleet, now)
    return fleet


def _known_jobs(installation: Installation, remembered: dict[str, JobMemory]) -> list[str]:
    """Return the names of all jobs. Whether a job has a journal is checked only for jobs that no earlier pass has
    observed.
    """
    if not remembered:
        return recorded_jobs(installation)
    return [job for job in list_jobs(installation.store) if job in remembered or has_journal(installation.store, job)]


def _all(pool: ThreadPoolExecutor, fleet: list[WatchedJob], act: Callable[[WatchedJob], None]) -> None:
    def guarded(seen: WatchedJob) -> None:
        try:
            act(seen)
        except Exception as error:  # An error in one job's records must not hide the other jobs.
            seen.unlooked[JOB] = f"{type(error).__name__}: {error}"

    for _ in pool.map(guarded, fleet):
        pass


def _read_records(installation: Installation, seen: WatchedJob) -> None:
    with seen.reading(RECORDS):
        facts = None if seen.lost else read_facts(installation, seen.job, seen.memory.facts)
        if facts is None or facts.number == 0:
            # Its folder may exist without a journal.
            seen.lost = seen.lost or find_lost(installation, seen.job)
        seen.facts = seen.memory.facts if seen.lost else facts
    if seen.unreadable:
        # The driver's state counts even if newer entries of the journal are unknown.
        seen.facts = seen.memory.facts
    if seen.instance:
        with seen.reading("status"):
            seen.driver = replace(seen.driver, status=seen.observation.driver(seen.instance).status)


def _read_asked(installation: Installation, seen: WatchedJob, now: float) -> None:
    with seen.reading("questions"):
        seen.asked = asked_person(installation.store, seen.job, now=now)


def _observe(installation: Installation, fleet: list[WatchedJob]) -> None:
    """Observe the drivers of all jobs with one observation of the machine."""
    known = {(seen.job, seen.instance): seen for seen in fleet if seen.instance}
    ends = {driver: seen.facts.end if seen.facts is not None else None for driver, seen in known.items()}
    for driver, liveness in observe_livenesses(installation, ends).items():
        known[driver].driver = replace(known[driver].driver, liveness=liveness)
        known[driver].elsewhere = liveness.elsewhere


def _read_end(installation: Installation, seen: WatchedJob) -> None:
    """Read the exit record of a driver that is not alive."""
    if seen.driver.life not in (None, Life.ALIVE):
        with seen.reading("exit"):
            seen.driver = replace(seen.driver, exit=seen.observation.driver(seen.instance).exit)


def _look_deeper(installation: Installation, seen: WatchedJob, now: float, run_is_over: RunIsOver) -> None:
    facts = seen.facts
    if facts is None or facts.forgotten or seen.elsewhere or seen.lost or seen.unreadable:
        return
    seen.outdated = facts.went_back
    if seen.driver.life is not Life.ALIVE:
        # A running driver checks the store itself, before each batch.
        with seen.reading("claims of its epochs"):
            seen.outdated = _find_outdated(installation, seen.job, facts) or facts.went_back
    if facts.operation is not None and not facts.operation.operation.startswith(OWN):
        with seen.reading("operation"):
            seen.abandoned = is_abandoned(installation.store, seen.job, facts.operation.operation, run_is_over)
    for query, version in sorted(facts.versions.items()):
        location = checkpoint_location(version.root, seen.job, query, version.version)
        with seen.reading(f"checkpoint of {query}"):
            known = known_checkpoint(seen.job, version, commits_of(_status_of(seen, version.claimed_by)))
            directory = tree_at(location)
            if host := find_disk(installation, seen.job, version, directory):
                seen.elsewhere = host
                return
            lost = find_loss(directory, known)
            terminated = not lost and facts.wanted and seen.driver.life is Life.DEAD
            opened = _find_open_input(installation, seen, query, directory) if terminated else OpenInput()
            seen.checkpoints[query] = CheckpointLook(
                version=version.version,
                directory=directory.where(""),
                lost=lost,
                damaged=_damage(directory) if terminated else "",
                input_gone=opened.missing,
                input_unchecked=opened.unchecked,
                unproven=_unproven(facts, query, directory) if terminated else "",
            )
            if not lost:
                with seen.reading(f"snapshots of {query}"):
                    ages = look_at_snapshots(
                        installation, known, location, facts, query, seen.memory.snapshots.get(query), now
                    )
                    seen.memory = replace(seen.memory, snapshots={**seen.memory.snapshots, query: ages})
    with seen.reading("history"):
        _read_history(seen)


def _find_open_input(installation: Installation, seen: WatchedJob, query: str, directory: Tree) -> OpenInput:
    return find_open_input(directory, lambda: unseen_input(installation, seen.observation.state, query))


def _status_of(seen: WatchedJob, instance: str) -> DriverStatus | None:
    """Return an instance's last status. The error of an unreadable current status has been reported."""
    if instance == seen.instance:
        return seen.driver.status
    return seen.observation.driver(instance).status if instance else None


def _look_for_snapshots(
    pool: ThreadPoolExecutor, installation: Installation, fleet: list[WatchedJob], now: float
) -> None:
    """Read the current ages of all snapshots, whether due or not; remembered facts save requests."""
    try:
        store = installation.snapshots
    except StreamkeeperError as error:
        for seen in fleet:
            seen.unlooked["snapshots"] = str(error)
        return
    _all(pool, fleet, lambda seen: _read_snapshots(store, seen, now))


def _read_snapshots(store: Store, seen: WatchedJob, now: float) -> None:
    if seen.facts is None or seen.facts.forgotten:
        return
    for query in seen.facts.versions:
        with seen.reading(f"snapshots of {query}"):
            before = seen.memory.snapshots.get(query)
            found = replace(newest_snapshots(Catalogue(store, f"{seen.job}/{query}"), before), looked_at=now)
            seen.memory = replace(seen.memory, snapshots={**seen.memory.snapshots, query: found})


def _find_outdated(installation: Installation, job: str, facts: JobFacts) -> str:
    roots = {query: version.root or installation.settings.checkpoints for query, version in facts.versions.items()}
    return find_outdated_epochs(installation, job, facts.epochs or {}, roots)


def _damage(directory: Tree) -> str:
    """Return the damage of a checkpoint that makes a start harmful; empty without such damage.

    A missing commit of a planned batch does not count, because a crash leaves a checkpoint in that state.
    """
    harmed = [damage for damage in lasting_damages(directory) if not damage.safe and damage.shape not in MENDED]
    return f"{harmed[0].shape} at {harmed[0].where} ({harmed[0].evidence}); {harmed[0].on_start}" if harmed else ""


def _unproven(facts: JobFacts, query: str, directory: Tree) -> str:
    """Return the driver that may still write the directory; empty if there is no such driver.

    The result is also empty without a committed batch, because no data is at risk then.
    """
    owner = (facts.unproven or {}).get(query, "")
    return owner if owner and last_committed(directory) is not None else ""


def _read_history(seen: WatchedJob) -> None:
    """Read the history of a job with a lag or a large state. No rule uses the history of other jobs."""
    status = seen.driver.status
    queries = status.queries.values() if status is not None else ()
    worth = any(
        (query.signals.lag_s or 0.0) >= LAG_WORTH_A_HISTORY_S
        or any(source.lag_records or source.lag_files for source in query.signals.sources)
        or query.signals.state_memory_bytes >= STATE_WORTH_A_HISTORY_BYTES
        or (query.signals.checkpoint_bytes or 0) >= STATE_WORTH_A_HISTORY_BYTES
        for query in queries
    )
    if worth and seen.driver.life is Life.ALIVE:
        history = seen.observation.driver(seen.instance).control.read_history()
        seen.history = dict(history.queries) if history is not None else {}
