"""One pass of the watch: observe every job, find causes, record incidents, act if safe, send notices, write the index.

The next pass completes an interrupted pass, because incidents and operations are records and the index only a copy.
"""

from __future__ import annotations

import dataclasses
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from streamkeeper.errors import StreamkeeperError
from streamkeeper.health.acts import Act, PlannedAct, decide_acts
from streamkeeper.health.rules import find_symptoms
from streamkeeper.model.watch.fleet_index import FleetIndex, JobMemory, JobRow, PruneRecord
from streamkeeper.model.watch.health import JobLook, Symptom
from streamkeeper.model.watch.incident import WatchActed
from streamkeeper.operations.fleet.fleet_look import JOB, OWN, WatchedJob, look_at_fleet
from streamkeeper.operations.fleet.incident_updates import reconcile
from streamkeeper.operations.fleet.job_look import compose_look, find_prune
from streamkeeper.operations.fleet.job_rows import make_row, remember_told
from streamkeeper.operations.fleet.watch_acts import AT_ONCE, Carried, begin, carry_on
from streamkeeper.operations.jobs.carriers import RunIsOver, nobody_knows
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.notices import Sender, bound_senders, send_notices
from streamkeeper.registry.fleet import read_index, write_index
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.registry.jobs import stray_folders
from streamkeeper.stores.counting import CountingStore
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

ACT_S = 30.0
"""How long a pass continues operations, in seconds; the next pass continues the rest."""
ELSEWHERE_S = 600.0
"""How long a job is left to the watch of the only machine that can observe it, in seconds. After that this watch judges
the job: passes may run on any machine by chance, and a job that no watch observes is worth a ticket."""


@dataclass(frozen=True, slots=True)
class WatchPass:
    """The settings of a pass."""

    installation: Installation
    """The installation to watch."""
    senders: Mapping[str, Sender] = field(default_factory=dict)
    """Name -> notifier."""
    run_is_over: RunIsOver = nobody_knows
    """Whether a run of a DAG has ended."""
    dry_run: bool = False
    """Report the actions, and write nothing."""
    acts: bool = True
    """Whether the pass takes safe actions."""
    but: frozenset[str] = frozenset()
    """Rules to leave out."""
    act_s: float = ACT_S
    """How long the pass continues operations, seconds."""
    now: Callable[[], float] = clock.unix
    """The clock, seconds since 1970."""
    by: str = ""
    """The name of the watch in records; empty for host and process id."""
    by_airflow: bool = False
    """Whether Airflow runs the pass."""


@dataclass
class _Job:
    """One job in a pass: the observation, the rules' input and findings, the incidents, and the job's row of the last
    pass.
    """

    seen: WatchedJob
    """The observation of the job."""
    look: JobLook
    """The input of the rules."""
    memory: JobMemory
    """The facts that the next pass remembers."""
    symptoms: tuple[Symptom, ...]
    """The findings of the rules."""
    log: IncidentLog
    """The job's incidents."""
    before: JobRow | None = None
    """The job's row of the last pass; None without one."""

    @property
    def left(self) -> bool:
        """Whether the job is left to the watch of the machine that can observe it."""
        return bool(self.memory.elsewhere_at) and self.look.now - self.memory.elsewhere_at < ELSEWHERE_S

    def row(self) -> JobRow:
        """Return the job's row in the index, which is unchanged if the job is left to another watch."""
        if not self.left:
            return make_row(self.seen, self.look, self.memory, self.symptoms)
        row = self.before or make_row(self.seen, self.look, self.memory, ())
        return replace(row, memory=replace(row.memory, elsewhere_at=self.memory.elsewhere_at))


@dataclass(frozen=True, slots=True)
class PassReport:
    """The result of a pass: the index, and one line for each action or, in a dry run, for each planned action."""

    index: FleetIndex
    lines: tuple[str, ...]


def run_pass(watch: WatchPass) -> PassReport:
    """Make one pass; raises StoreUnavailable if the jobs cannot be listed or the index cannot be written."""
    store = CountingStore(watch.installation.store)
    watch = dataclasses.replace(watch, installation=dataclasses.replace(watch.installation, store=store))
    began, clock_s = watch.now(), clock.monotonic()
    before = read_index(store, watch.installation.id)
    failed = [
        f"folder {folder} is skipped, because its name is not the name of a job" for folder in stray_folders(store)
    ]
    every = _look(watch, before, began, failed)
    jobs = [job for job in every if not job.left]
    crash_point("watch.looked")
    lines = _tell_left(every)
    for job in jobs:
        _keep_incidents(watch, job, began, lines, failed)
    crash_point("watch.raised")
    if watch.acts:
        _act(watch, jobs, lines, failed)
    crash_point("watch.acted")

    def index_now() -> FleetIndex:
        index = _make_index(watch, before, every, failed, began)
        return replace(index, seconds=round(clock.monotonic() - clock_s, 3), requests=store.requests + 1)

    # Before the notices: Airflow may end this process while a notifier hangs, and the actions must be remembered.
    index = _leave(watch, store, index_now())
    crash_point("watch.indexed")
    senders = bound_senders(watch.senders)
    for job in jobs:
        _tell(watch, job, senders, failed)
    crash_point("watch.told")
    after = index_now()
    if (after.rows, after.failed) != (index.rows, index.failed):
        index = _leave(watch, store, after)
    return PassReport(index=index, lines=(*lines, *failed))


def _make_index(
    watch: WatchPass, before: FleetIndex | None, jobs: list[_Job], failed: list[str], began: float
) -> FleetIndex:
    return FleetIndex(
        number=(before.number if before is not None else 0) + 1,
        started=began,
        by=watch.by or _this_watch(),
        installation=watch.installation.id,
        airflow_pass_at=began if watch.by_airflow else before.airflow_pass_at if before is not None else 0.0,
        rows=tuple(job.row() for job in jobs),
        failed=tuple(failed),
    )


def _leave(watch: WatchPass, store: CountingStore, index: FleetIndex) -> FleetIndex:
    if not watch.dry_run:
        write_index(store, index)
    return index


def look_now(installation: Installation, *, now: float, job: str = "") -> FleetIndex:
    """Return the status of every job, or only of ``job``, as of now. Writes nothing.

    Reads the drivers' statuses and the snapshots, but no checkpoint. Whole journals need not be read, because the last
    pass of the watch has stored their facts. Raises StoreUnavailable.
    """
    before = read_index(installation.store, installation.id)
    rows = []
    for seen in look_at_fleet(installation, before, now=now, whole=False, job=job):
        look, memory = compose_look(installation, seen, now, None)
        symptoms = find_symptoms(replace(look, prune_age_s=None, backups={}))
        rows.append(make_row(seen, look, remember_told(seen, memory, now), symptoms))
    return FleetIndex(number=0, started=now, rows=tuple(rows))


def _look(watch: WatchPass, before: FleetIndex | None, now: float, failed: list[str]) -> list[_Job]:
    prune = find_prune(watch.installation)
    found: list[_Job] = []
    writer = f"watch:{watch.by or _this_watch()}"
    for seen in look_at_fleet(watch.installation, before, now=now, run_is_over=watch.run_is_over):
        look, memory, symptoms = _judge(watch, seen, now, prune, failed)
        log = IncidentLog(watch.installation.store, seen.job, writer=writer, known=memory.incidents)
        row = before.row(seen.job) if before is not None else None
        found.append(_Job(seen=seen, look=look, memory=memory, symptoms=symptoms, log=log, before=row))
    return found


def _judge(
    watch: WatchPass, seen: WatchedJob, now: float, prune: PruneRecord | None, failed: list[str]
) -> tuple[JobLook, JobMemory, tuple[Symptom, ...]]:
    """Return the findings about one job; an error is added to ``failed`` and does not affect other jobs.

    ``watch``: the settings; ``seen``: the observation; ``now``: seconds since 1970; ``prune``: the last full prune.
    """
    try:
        look, memory = compose_look(watch.installation, seen, now, prune)
        return look, remember_told(seen, memory, now), find_symptoms(look, but=watch.but)
    except Exception as error:  # Records may contain data that no rule expects.
        why = f"{type(error).__name__}: {error}"
        failed.append(f"{seen.job}: its health cannot be evaluated: {why}")
        seen.unlooked[JOB] = why
        look = JobLook(job=seen.job, now=now, unlooked=dict(seen.unlooked))
        return look, seen.memory, find_symptoms(look, but=watch.but)


def _tell_left(jobs: list[_Job]) -> list[str]:
    hosts = Counter(job.seen.elsewhere for job in jobs if job.left)
    left = {host: "1 job is" if count == 1 else f"{count} jobs are" for host, count in hosts.items()}
    return [f"{jobs_are} left to the watch on {host}" for host, jobs_are in sorted(left.items())]


def _keep_incidents(watch: WatchPass, job: _Job, now: float, lines: list[str], failed: list[str]) -> None:
    """Raise, repeat and clear incidents; a job without findings and incidents needs no request.

    ``watch``: the settings; ``job``: the job; ``now``: seconds since 1970; ``lines``: takes the changes; ``failed``:
    takes the errors.
    """
    known = job.memory.incidents
    if known is not None and not (known.open or known.unsent or job.symptoms):
        return
    try:
        lines += reconcile(job.log, job.look, job.symptoms, now=now, dry_run=watch.dry_run)
    except StreamkeeperError as error:
        failed.append(f"{job.look.job}: its incidents cannot be recorded: {error}")
    failed += [f"{job.look.job}: an incident record is skipped: {why}" for why in job.log.passed]


def _act(watch: WatchPass, jobs: list[_Job], lines: list[str], failed: list[str]) -> None:
    deadline = watch.now() + watch.act_s
    carried = [operation for job in jobs for operation in _own(job) if not _unknown_secrets(watch, job)]
    for job in jobs:
        try:
            for planned in decide_acts(job.look, job.symptoms, job.memory.acts, now=watch.now()):
                if watch.dry_run:
                    lines.append(f"would {planned.act.value} {job.look.job}: {planned.reason}")
                elif planned.act is not Act.BACK_UP and (unknown := _unknown_secrets(watch, job)):
                    lines.append(
                        f"{job.look.job}: {planned.act.value} is left to a watch that can resolve {unknown} secrets"
                    )
                elif planned.act is not Act.BACK_UP and len(carried) >= AT_ONCE:
                    lines.append(f"{job.look.job}: {planned.act.value} waits for a later pass: {planned.reason}")
                elif planned.act is not Act.BACK_UP or watch.now() < deadline:
                    carried += _begin(watch, job, planned, lines)
        except StreamkeeperError as error:
            failed.append(f"{job.look.job}: no action was possible: {error}")
    if watch.dry_run or not carried:
        return
    after, failures = carry_on(watch.installation, carried, now=watch.now, until=deadline)
    failed += failures
    by_job = {job.look.job: job for job in jobs}
    for operation in after:
        if operation.sentence:
            lines.append(f"{operation.job}: {operation.operation}: {operation.sentence}")
        by_job[operation.job].memory = replace(
            by_job[operation.job].memory, wait=(operation.operation, operation.on, operation.since)
        )


def _unknown_secrets(watch: WatchPass, job: _Job) -> str:
    """Return the secret schemes that this watch cannot resolve, such as Airflow's connections outside Airflow; empty if
    there are none.
    """
    needed = job.seen.facts.secrets if job.seen.facts is not None else ()
    return ", ".join(scheme for scheme in needed if scheme not in watch.installation.resolvers)


def _begin(watch: WatchPass, job: _Job, planned: PlannedAct, lines: list[str]) -> list[Carried]:
    """Start an action, record it in its incident and remember the time. Return the operation to continue, if any."""
    assert job.seen.facts is not None
    now, memory = watch.now(), job.memory
    operation = ""
    try:
        begun = begin(watch.installation, job.look.job, job.seen.facts, planned)
        sentence, operation = begun.sentence, begun.operation
    except (StreamkeeperError, OSError) as error:
        sentence = f"could not {planned.act.value}: {error}"
    lines.append(f"{job.look.job}: {sentence}")
    first = planned.act is not Act.CARRY_ON or planned.name not in memory.acts
    # After a backup the next pass reads the snapshots again, because the missing one now exists.
    left = {query: snapshot for query, snapshot in memory.snapshots.items() if query != planned.query}
    acts = {**memory.acts, planned.name: (*memory.acts.get(planned.name, ()), now)}
    job.memory = replace(memory, acts=acts, snapshots=left)
    if first:
        act = WatchActed(key=planned.key, act=planned.act.value, sentence=f"{sentence}, because {planned.reason}")
        job.log.append(lambda state: act if act.key in state.open else None, now=now)
    return [_wait_of(job, operation)] if operation else []


def _own(job: _Job) -> list[Carried]:
    """Return the job's open operation if an earlier pass started it, else nothing."""
    operation = "" if job.seen.unreadable else _operation_of(job)
    return [_wait_of(job, operation)] if operation.startswith(OWN) else []


def _operation_of(job: _Job) -> str:
    return job.look.facts.operation.operation if job.look.facts.operation is not None else ""


def _wait_of(job: _Job, operation: str) -> Carried:
    """Return the operation with the wait that the last pass remembered for it, if it remembered one."""
    known, on, since = job.memory.wait
    same = known == operation
    return Carried(job=job.look.job, operation=operation, on=on if same else "", since=since if same else 0.0)


def _tell(watch: WatchPass, job: _Job, senders: Mapping[str, Sender], failed: list[str]) -> None:
    known = job.memory.incidents
    if watch.dry_run or (known is not None and not (known.unsent or job.symptoms or known.open)):
        return
    try:
        failed += send_notices(job.log, senders, now=watch.now())
        job.memory = replace(job.memory, incidents=job.log.state())
    except StreamkeeperError as error:
        failed.append(f"{job.look.job}: its notices cannot be sent: {error}")


def _this_watch() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
