"""What a person wants to know of a job at a glance: read from its journal, its driver's last word and the runner."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.errors import NotFound
from streamkeeper.model.control import DriverExit, DriverState, DriverStatus
from streamkeeper.model.job_state import JobState, OperationState
from streamkeeper.model.journal import DesiredChanged, journal_prefix
from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.model.names import check_name
from streamkeeper.model.restarts import Cause
from streamkeeper.operations.sites import Site
from streamkeeper.registry.control import Control
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import Journal


class Standing(Enum):
    """How a job stands, in one word."""

    NOT_DEPLOYED = "not deployed"
    """No release of it ever served."""
    STARTING = "starting"
    """Its driver runs and does not serve yet."""
    SERVING = "serving"
    """Its driver runs, owns its checkpoints and writes."""
    RESTARTING = "restarting"
    """Its driver failed, and has not completed a trigger since."""
    WAITING = "waiting"
    """A store, sink or source does not answer, or the machine has no room: it goes on by itself once that passes."""
    DRAINING = "draining"
    """Its driver finishes the open batch."""
    FINISHED = "finished"
    """Its driver read all there was and ended (availableNow)."""
    FAILED = "failed"
    """Its driver ended with an error, or without a word."""
    ENDED = "ended"
    """Its driver ended as it was asked to, or was superseded."""
    STOPPED = "stopped"
    """A person has stopped it; nothing starts it again but a person."""
    UNKNOWN = "unknown"
    """Its driver runs where it cannot be looked at from here."""


class JobOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One job now. ``entry``: the journal's newest number; ``versions``: query -> its newest checkpoint version.

    ``stopped``: by whom and why, None where it is to serve.
    """

    job: str
    entry: int
    standing: Standing
    release: str
    instance: str
    life: Life | None
    why: str
    status: DriverStatus | None
    exit: DriverExit | None
    operation: OperationState | None
    last_operation: OperationState | None
    versions: dict[str, str]
    stopped: DesiredChanged | None = None


def job_overview(site: Site, job: str) -> JobOverview:
    """Look at one job; raises NotFound for a job that the store does not know."""
    state = read_job(site, job)
    instance = state.serving_instance
    status, exit, liveness = _look(site, job, instance) if instance else (None, None, None)
    return JobOverview(
        job=job,
        entry=state.number,
        standing=find_standing(status, exit, liveness, stopped=state.stopped is not None),
        release=state.serving_release,
        instance=instance,
        life=liveness.life if liveness else None,
        why=liveness.why if liveness else "",
        status=status,
        exit=exit,
        operation=state.open_operation,
        last_operation=_last_operation(state),
        versions={query: versions[-1].version for query, versions in state.versions.items() if versions},
        stopped=state.stopped,
    )


def job_overviews(site: Site) -> list[JobOverview]:
    """Every job that was recorded, by name."""
    return [job_overview(site, job) for job in recorded_jobs(site)]


def recorded_jobs(site: Site) -> list[str]:
    """Names of all jobs with a journal, in order: a push that died leaves a bundle and none."""
    return [job for job in list_jobs(site.store) if next(site.store.list(journal_prefix(job)), None)]


def read_job(site: Site, job: str) -> JobState:
    """A job's state; raises NotFound for a job without a journal."""
    state = Journal(site.store, check_name("job", job), writer="reader").state()
    if state.number == 0:
        known = ", ".join(list_jobs(site.store)) or "none yet"
        raise NotFound(f"job {job} is not known to {site.settings.store}", hint=f"known jobs: {known}")
    return state


def find_standing(
    status: DriverStatus | None, exit: DriverExit | None, liveness: Liveness | None, *, stopped: bool = False
) -> Standing:
    """One word from the driver's last word and what the runner sees of its processes; ``stopped``: by a person."""
    if liveness is None:
        return Standing.NOT_DEPLOYED
    if stopped and (exit is not None or liveness.life in (Life.DEAD, Life.ABSENT)):
        return Standing.STOPPED
    if exit is not None:
        return _ENDS.get(exit.state, Standing.ENDED)
    match liveness.life:
        case Life.UNKNOWN:
            return Standing.UNKNOWN
        case Life.DEAD | Life.ABSENT:
            return Standing.FAILED
        case Life.ALIVE if stopped:
            return Standing.DRAINING
        case Life.ALIVE:
            return _living(status) if status else Standing.STARTING


def _living(status: DriverStatus) -> Standing:
    """Of a driver with processes: what it said last, unless that is a promise that it has not kept since it failed."""
    said = _LIVES.get(status.state, Standing.ENDED)
    if said not in (Standing.SERVING, Standing.STARTING):
        return said
    if status.cause in (Cause.DEPENDENCY.value, Cause.CAPACITY.value):
        return Standing.WAITING
    failed = status.generation > 1 or bool(status.cause) or any(each.failures for each in status.queries.values())
    unproven = said is Standing.STARTING or any(
        each.failures or not each.triggers for each in status.queries.values() if not each.finished
    )
    return Standing.RESTARTING if failed and unproven else said


_ENDS = {DriverState.FINISHED: Standing.FINISHED, DriverState.FAILED: Standing.FAILED}

_LIVES = {
    DriverState.STARTING: Standing.STARTING,
    DriverState.STANDBY: Standing.STARTING,
    DriverState.SERVING: Standing.SERVING,
    DriverState.DRAINING: Standing.DRAINING,
    # The word is said shortly before the last process is gone; a failed driver may be started again.
    DriverState.FINISHED: Standing.FINISHED,
    DriverState.FAILED: Standing.STARTING,
}


def _look(site: Site, job: str, instance: str) -> tuple[DriverStatus | None, DriverExit | None, Liveness]:
    control = Control(site.store, job, instance)
    return control.read_status(), control.read_exit(), site.runner.observe(job, instance)


def _last_operation(state: JobState) -> OperationState | None:
    finished = [each for each in state.operations.values() if each.outcome is not None]
    return max(finished, key=lambda each: each.started, default=None)
