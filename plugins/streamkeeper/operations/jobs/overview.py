"""The overview of a job, from its journal, its driver's last status and the runner."""

from __future__ import annotations

import msgspec

from streamkeeper.errors import FormatTooNew, NotFound, RegistryDamaged
from streamkeeper.model.names import check_name
from streamkeeper.model.protocol.control import DriverExit, DriverStatus
from streamkeeper.model.protocol.faults import read_fault
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal import DesiredChanged, JobForgotten
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.redaction import Structure, redact_value
from streamkeeper.model.secret_names import literals_of
from streamkeeper.model.watch.job_status import JobStatus, find_standing
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.lost_jobs import must_not_be_lost
from streamkeeper.registry.control import Control
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import Journal, has_journal
from streamkeeper.registry.pending_questions import PendingQuestion, questions_of
from streamkeeper.system import clock


class JobOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The observed status of one job: its release, driver, operations and checkpoint versions."""

    job: Structure
    """The job's name."""
    entry: int
    """The number of the journal's newest entry."""
    standing: JobStatus
    """The job's status."""
    release: Structure
    """The current release; empty without one."""
    instance: Structure
    """The current instance; empty without one."""
    life: Life | None
    """Whether that instance is alive; None without one."""
    why: str
    """The evidence for ``life``."""
    status: DriverStatus | None
    """The last status of its driver."""
    exit: DriverExit | None
    """The exit record of its driver."""
    operation: OperationState | None
    """The open operation."""
    last_operation: OperationState | None
    """The newest finished operation."""
    versions: dict[str, Structure]
    """Query -> its newest checkpoint version."""
    stopped: DesiredChanged | None = None
    """Who stopped it and why; None if it is not stopped."""
    forgotten: JobForgotten | None = None
    """Who forgot it and why; None if it is not forgotten."""
    rebuilt: str = ""
    """The sources, author and time of a rebuild of the job's journal; empty without a rebuild."""
    unread: str = ""
    """Why its driver's status cannot be read; else empty."""
    asked: tuple[PendingQuestion, ...] = ()
    """Open questions to a person that were asked before an operation was recorded."""


def job_overview(installation: Installation, job: str) -> JobOverview:
    """Return the overview of one job; raises NotFound for a job without a record in the store."""
    return overview_of(installation, read_job(installation, job))


def overview_of(installation: Installation, state: JobState) -> JobOverview:
    """Return the overview of a job's state; secrets that are written in a release as literals are redacted."""
    instance = state.serving_instance
    exit, liveness = _look(installation, state, instance) if instance else (None, None)
    status, unread = _read_status(installation, state, instance) if instance else (None, "")
    found = JobOverview(
        job=state.job,
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
        forgotten=state.forgotten,
        rebuilt=state.rebuilt.sentence if state.rebuilt is not None else "",
        unread=unread,
        asked=tuple(questions_of(installation.store, state.job, now=clock.unix())),
    )
    return redact_value(found, literals_of(state.releases.values()))


def recorded_jobs(installation: Installation) -> list[str]:
    """Return the names of all jobs with a journal, in order; a job with only a pushed bundle is left out."""
    return [job for job in list_jobs(installation.store) if has_journal(installation.store, job)]


def read_job(installation: Installation, job: str) -> JobState:
    """Return a job's state; raises NotFound for a job without a journal."""
    return on_record(installation, Journal(installation.store, check_name("job", job), writer="reader").state())


def read_job_again(installation: Installation, job: str) -> JobState:
    """Return what ``read_job`` returns; journal entries that this process has already read come from a cache."""
    return on_record(installation, installation.known_jobs.read(check_name("job", job)))


def on_record(installation: Installation, state: JobState) -> JobState:
    """Return the state of a job that has a journal; raises NotFound for one without."""
    if state.number == 0:
        must_not_be_lost(installation, state.job)
        known = ", ".join(list_jobs(installation.store))
        hint = f"name one of the known jobs: {known}" if known else "deploy a job first"
        raise NotFound(f"job {state.job} is not known to {installation.settings.store}", hint=hint)
    return state


def observe(installation: Installation, state: JobState, instance: str) -> Liveness:
    """Return whether an instance is alive.

    An instance is dead if the journal records its end, even an end that a person stated. Without such a record, the
    runner observes the processes of the instance.
    """
    known = state.instances.get(instance)
    if known is not None and known.ended:
        return Liveness(life=Life.DEAD, why=known.proof, fault=read_fault(known.fault))
    return installation.runner.observe(state.job, instance)


def _look(installation: Installation, state: JobState, instance: str) -> tuple[DriverExit | None, Liveness]:
    return Control(installation.store, state.job, instance).read_exit(), observe(installation, state, instance)


def _read_status(installation: Installation, state: JobState, instance: str) -> tuple[DriverStatus | None, str]:
    """Return the last status, and why it cannot be read; the overview is then shown without a status."""
    try:
        return Control(installation.store, state.job, instance).read_status(), ""
    except (FormatTooNew, RegistryDamaged) as error:
        return None, str(error)


def told_error_of(seen: JobOverview) -> str:
    """Return the last error that the driver reported about itself or about a query.

    Without an error, return the reason why no driver runs or why a query waits; empty if there is none.
    """
    if seen.exit is not None and seen.exit.error:
        return seen.exit.error
    if seen.status is None:
        return ""
    failing = (f"query {name}: {query.error}" for name, query in sorted(seen.status.queries.items()) if query.error)
    return seen.status.error or next(failing, "") or seen.status.waiting


def _last_operation(state: JobState) -> OperationState | None:
    finished = [operation for operation in state.operations.values() if operation.outcome is not None]
    return max(finished, key=lambda operation: operation.started, default=None)
