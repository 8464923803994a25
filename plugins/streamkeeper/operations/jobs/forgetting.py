"""Forget a job: the job is retired, and all its data stays.

One record names the person and the reason. The job's name stays reserved, because its checkpoints and its output still
exist, and a deploy under that name would continue in them by accident.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.errors import NotFound, OperationOpen, OperationRefused, StreamkeeperError
from streamkeeper.model.names import check_name
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import JobForgotten, Record
from streamkeeper.model.records.snapshot import series_of_query
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.journal import has_journal
from streamkeeper.snapshots.catalogue import Catalogue

_REVIVE = (
    "--revive` to continue from the old checkpoint. Add `--strategy rebuild` to read everything again into a new one."
    " Give a different job another name"
)


def is_forgotten(state: JobState) -> bool:
    """Whether the job is retired and has no open operation."""
    return state.forgotten is not None and state.open_operation is None


def must_not_be_forgotten(state: JobState, request: DeployRequest | None = None) -> None:
    """Raise OperationRefused for a forgotten job with a checkpoint, unless the request revives the job."""
    if state.forgotten is None or not state.versions or (request is not None and request.revive):
        return
    raise OperationRefused(told_forgotten(state), hint=f"run `streamkeeper deploy {state.job} {_REVIVE}")


def told_forgotten(state: JobState) -> str:
    """Return who forgot the job, why, and its checkpoint versions, as a sentence; empty if it is not forgotten."""
    if state.forgotten is None:
        return ""
    why = f" ({state.forgotten.reason})" if state.forgotten.reason else ""
    text = f"job {state.job} was forgotten by {state.forgotten.requested_by or 'an unknown user'}{why}"
    left = []
    for query in sorted(state.versions):
        version = state.current_version(query)
        if version is not None:
            after = f" (batch {version.committed} or later)" if version.committed is not None else ""
            left.append(f"{query} {version.version}{after}")
    return f"{text}; its old checkpoint still exists: {', '.join(left)}" if left else text


def forget_job(installation: Installation, job: str, *, requested_by: str, reason: str) -> list[str]:
    """Record that the job is retired. Return one line for each item that is kept. Idempotent.

    Raises NotFound for an unknown job, OperationOpen if an operation is open, and OperationRefused if the job is not
    stopped or one of its drivers is not proven terminated.
    """
    if not has_journal(installation.store, check_name("job", job)):
        raise NotFound(f"job {job} is not known to {installation.settings.store}", hint="run `streamkeeper jobs`")

    def wanted(state: JobState) -> Record | None:
        if state.open_operation is not None:
            raise OperationOpen(job, state.open_operation.operation)
        if state.wanted:
            raise OperationRefused(
                f"job {job} is not stopped; its current release is {state.serving_release}",
                hint=f"first run `streamkeeper stop {job} --reason …`",
            )
        if state.owners:
            raise OperationRefused(
                f"driver {state.owners[0].instance} of job {job} is not proven terminated",
                hint=f"run `streamkeeper stop {job} --reason …`, which proves the termination",
            )
        if state.forgotten is not None:
            return None
        return JobForgotten(requested_by=requested_by, reason=reason)

    state = installation.journal(job, "forget").append(wanted)
    assert state.forgotten is not None
    return [told_forgotten(state), *_what_stays(installation, state)]


def _what_stays(installation: Installation, state: JobState) -> Iterator[str]:
    for query, versions in sorted(state.versions.items()):
        for version in versions:
            yield f"kept: checkpoint {installation.checkpoint(state, query, version.version)}"
        yield f"kept: {_snapshots(installation, series_of_query(state.job, query))}"
    if state.serving_release in state.described:
        try:
            outputs = {
                manifest.sink.output
                for manifest in stored_manifests(installation, state, state.serving_release).values()
            }
        except StreamkeeperError as error:
            yield f"kept: the job's outputs, which cannot be listed ({error})"
        else:
            yield from (f"kept: output {output}" for output in sorted(outputs))
    yield f"kept: the job's records and releases in {installation.store.url} (run `streamkeeper history {state.job}`)"


def _snapshots(installation: Installation, series: str) -> str:
    try:
        found = len(Catalogue(installation.snapshots, series).numbers())
    except StreamkeeperError as error:
        return f"snapshots of {series}, which cannot be counted ({error})"
    return f"{found} snapshots of {series}; prunes still apply to them"
