"""Facts from a job's journal that every pass of the watch needs. They are kept until the journal grows."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from streamkeeper.errors import KeyMissing, StreamkeeperError
from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.release import Release
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.records.journal_records import Entry, Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.stated_deaths import is_stated, unproven_owner
from streamkeeper.model.records.step import Step
from streamkeeper.model.redaction import redact
from streamkeeper.model.requests.diagnosis import Recovery
from streamkeeper.model.requests.request import Rollback, StartCurrent
from streamkeeper.model.secret_names import literals_of
from streamkeeper.model.secret_references import find_references, split_reference
from streamkeeper.model.watch.watched_facts import JobFacts, OperationFacts
from streamkeeper.operations.jobs.forgetting import is_forgotten
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.outdated import known_epochs
from streamkeeper.registry.journal import newest_number
from streamkeeper.system import clock

_NOT_DESIRED = frozenset({Outcome.DRY_RUN, Outcome.ABORTED, Outcome.SUCCEEDED})


def read_facts(installation: Installation, job: str, known: JobFacts | None) -> JobFacts:
    """Return the facts of the current journal.

    ``known``: facts that were read earlier. If the journal has not grown since then, the cost is one listing.
    """
    if known is None:
        return make_facts(installation, installation.journal(job, "watch").state())
    whole = known.owner is not None and known.unproven is not None and known.epochs is not None
    if whole and newest_number(installation.store, job, known.number) == known.number:
        return known
    facts = make_facts(installation, installation.journal(job, "watch").state())
    # A rebuilt journal starts from the beginning, and an earlier pass may have remembered a higher number.
    if facts.number >= known.number or facts.rebuilt:
        return facts
    reason = f"the journal of job {job} ends at entry {facts.number}, but the watch has read its entry {known.number}"
    return replace(facts, went_back=f"{reason}: the store was replaced by an older copy")


def make_facts(installation: Installation, state: JobState) -> JobFacts:
    """Return the facts of a job's state."""
    release = state.releases.get(state.serving_release)
    operation = state.open_operation
    failed = failed_last(state)
    versions = _serving_versions(installation, state)
    hidden = literals_of(state.releases.values())
    stopped = "" if state.stopped is None else f"by {state.stopped.requested_by}: {state.stopped.reason}"
    serving = state.instances.get(state.serving_instance)
    return JobFacts(
        number=state.number,
        wanted=state.wanted,
        forgotten=is_forgotten(state),
        rebuilt=state.rebuilt.sentence if state.rebuilt is not None and not state.serving_release else "",
        stopped=redact(stopped, hidden),
        serving_release=state.serving_release,
        serving_instance=state.serving_instance,
        desired_release=release_of(failed) if failed is not None else state.serving_release,
        last_failure=redact(failed.sentence, hidden) if failed is not None else "",
        last_fault=failed.fault if failed is not None else "",
        versions=versions,
        thresholds=dict(release.content.health) if release is not None else {},
        operation=_facts_of(installation, state.job, operation) if operation is not None else None,
        operations=len(state.operations),
        secrets=_secrets(release),
        owner=_owner(state),
        ended=serving.proof if serving is not None else "",
        ended_stated=serving is not None and serving.ended and is_stated(serving),
        ended_fault=serving.fault if serving is not None else "",
        epochs=known_epochs(state),
        unproven={query: owner for query in versions if (owner := unproven_owner(state, query))},
    )


def _owner(state: JobState) -> str:
    about = [operation for operation in state.operations.values() if release_of(operation) == state.serving_release]
    brought = find_bringing(about) if state.serving_release else None
    return brought.request.requested_by if brought is not None else ""


def _secrets(release: Release | None) -> tuple[str, ...]:
    """Return the schemes of a release's secret references."""
    if release is None:
        return ()
    references = find_references(release.content.params, release.content.conf)
    return tuple(sorted({split_reference(reference)[0] for reference in references}))


def _serving_versions(installation: Installation, state: JobState) -> dict[str, CheckpointVersion]:
    """Return query -> its current version with its root, for the queries of the current release."""
    queries = state.described.get(state.serving_release, {})
    found: dict[str, CheckpointVersion] = {}
    for query in queries:
        version = state.current_version(query)
        if version is not None and installation.is_mine(version.installation):
            root = state.root_of(query, version.version, installation.settings.checkpoints)
            began = None if version.start_offsets is None else ()
            found[query] = replace(version, root=root, start_offsets=began)
    return found


def failed_last(state: JobState) -> OperationState | None:
    """Return the newest finished operation if it failed to make its release current; None otherwise.

    Dry runs are ignored. An operation that was aborted or that had no release does not count as failed.
    """
    over = [operation for operation in state.operations.values() if operation.outcome not in (None, Outcome.DRY_RUN)]
    newest = max(over, key=lambda operation: operation.started, default=None)
    if newest is None or newest.outcome in _NOT_DESIRED or not release_of(newest):
        return None
    return newest


def find_bringing(operations: Iterable[OperationState]) -> OperationState | None:
    """Return the first successful operation on a release, or the last operation if none succeeded.

    ``operations``: all operations on one release. Dry runs are ignored. Return None if all are dry runs.
    """
    real = [operation for operation in operations if not operation.request.dry_run]
    in_order = sorted(real, key=lambda operation: operation.started)
    brought = next((operation for operation in in_order if operation.outcome is Outcome.SUCCEEDED), None)
    return brought or next(reversed(in_order), None)


def release_of(operation: OperationState) -> str:
    """Return the release of an operation; empty if it never had one."""
    return operation.release or operation.request.release or ""


def _facts_of(installation: Installation, job: str, operation: OperationState) -> OperationFacts:
    step = current_step(operation)
    asked = (step is Step.APPROVE and operation.approval is None) or (step is Step.REVIEW and operation.review is None)
    return OperationFacts(
        operation=operation.operation,
        kind="rollback" if isinstance(operation.request.kind, Rollback) else "deploy",
        step=step.tag,
        began_at=_moment_of(installation, job, operation.started),
        waits_for_person=asked,
        mends=isinstance(operation.request.kind, StartCurrent | Recovery),
    )


def _moment_of(installation: Installation, job: str, number: int) -> float:
    """Return when an entry was written, by its writer's clock; the current time if the entry cannot be read."""
    key = entry_key(job, number)
    try:
        written = from_json(installation.store.read(key), Entry, where=key).moment
    except (KeyMissing, StreamkeeperError):
        written = None
    return clock.now().timestamp() if written is None else written
