"""The overview of a job, from its journal, its driver's last status and the runner."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.driver_messages import DriverExit, DriverStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import DesiredChanged, JobForgotten
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.redaction import Structure, redact_value
from streamkeeper.model.secret_names import literals_of
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import JobObservation
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
    """Whether that instance is alive; None if no instance is current."""
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
    """Who stopped the job and why; None if the job is not stopped."""
    forgotten: JobForgotten | None = None
    """Who forgot the job and why; None if the job is not forgotten."""
    rebuilt: str = ""
    """The sources, author and time of a rebuild of the job's journal; empty without a rebuild."""
    unread: str = ""
    """Why the status of the job's driver cannot be read; empty if it can be read."""
    asked: tuple[PendingQuestion, ...] = ()
    """Open questions to a person that were asked before an operation was recorded."""

    @property
    def reported(self) -> ObservedDriver:
        """What its driver has reported, with secrets redacted."""
        return ObservedDriver(status=self.status, exit=self.exit)


def job_overview(installation: Installation, job: str) -> JobOverview:
    """Return the overview of one job; raises NotFound for a job without a record in the store."""
    return make_overview(JobObservation(installation, job))


def make_overview(job: JobObservation) -> JobOverview:
    """Return the overview of an observed job; secrets that are written in a release as literals are redacted.

    Raises what reading the journal and the exit record raises; an unreadable status is reported in ``unread``.
    """
    state, seen = job.state, job.observed
    found = JobOverview(
        job=state.job,
        entry=state.number,
        standing=job.standing,
        release=state.serving_release,
        instance=state.serving_instance,
        life=seen.life,
        why=seen.why,
        status=seen.status,
        exit=seen.exit,
        operation=state.open_operation,
        last_operation=_last_operation(state),
        versions={query: versions[-1].version for query, versions in state.versions.items() if versions},
        stopped=state.stopped,
        forgotten=state.forgotten,
        rebuilt=state.rebuilt.sentence if state.rebuilt is not None else "",
        unread=job.current.unread if job.current is not None else "",
        asked=tuple(questions_of(job.installation.store, state.job, now=clock.unix())),
    )
    return redact_value(found, literals_of(state.releases.values()))


def told_error_of(seen: JobOverview) -> str:
    """Return the last error that the driver reported about itself or about a query.

    If there is no error, return why no driver runs or why a query waits; empty if neither applies.
    """
    driver = seen.reported
    return driver.error or next(iter(driver.query_errors), "") or driver.waiting


def _last_operation(state: JobState) -> OperationState | None:
    finished = [operation for operation in state.operations.values() if operation.outcome is not None]
    return max(finished, key=lambda operation: operation.started, default=None)
