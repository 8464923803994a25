"""The releases of a job: registration time, author, reason, verdict and status of each."""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.manifests.release import Release
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Entry, Outcome, ReleaseRegistered
from streamkeeper.model.records.operation import OperationState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_facts import find_bringing, release_of
from streamkeeper.operations.jobs.journal_entries import read_entries

SERVES, BEFORE, PUSHED, OPEN = "serves", "before", "pushed", "under way"


class ListedRelease(msgspec.Struct, frozen=True, kw_only=True):
    """One release in the list.

    Author, reason, verdict and sentence are those of the operation that first made the release current. If the release
    was never current, they are those of the last operation about it.
    """

    release: Release
    """The release."""
    registered_at: str = ""
    """Registration time by the writer's clock, ISO 8601."""
    author: str = ""
    """Who requested the operation; without one, who pushed the release."""
    reason: str = ""
    """The reason of the operation."""
    operation: str = ""
    """The operation's id; empty without one."""
    verdict: Verdict | None = None
    """The operation's verdict; None without an assessment."""
    sentence: str = ""
    """The verdict in words."""
    stands: str = PUSHED
    """The status: ``serves``, ``before`` (the target of a rollback), ``under way``, ``pushed``, ``replaced``, or the
    last operation's outcome.
    """


def list_releases(installation: Installation, state: JobState) -> list[ListedRelease]:
    """Return all releases of a job, oldest first. Raises StoreUnavailable, RegistryDamaged, FormatTooNew."""
    entries = _registrations(installation, state)
    operations = [operation for operation in state.operations.values() if not operation.request.dry_run]
    releases = sorted(state.releases.values(), key=lambda release: release.number)
    return [
        _listed(release, entries.get(release.name), [op for op in operations if release_of(op) == release.name], state)
        for release in releases
    ]


def _registrations(installation: Installation, state: JobState) -> dict[str, Entry]:
    """Return release -> the entry that registered it. The entries are needed because the state does not contain the
    time.
    """
    found: dict[str, Entry] = {}
    for entry in read_entries(installation.journal(state.job, "reader"), 1, state.number):
        if isinstance(entry.record, ReleaseRegistered):
            found.setdefault(entry.record.release.name, entry)
    return found


def _listed(release: Release, entry: Entry | None, operations: list[OperationState], state: JobState) -> ListedRelease:
    brought = find_bringing(operations)
    by = entry.by.partition("#")[0] if entry is not None else ""
    return ListedRelease(
        release=release,
        registered_at=entry.at if entry is not None else "",
        author=(brought.request.requested_by if brought is not None else "") or by,
        reason=brought.request.reason if brought is not None else "",
        operation=brought.operation if brought is not None else "",
        verdict=brought.verdict if brought is not None else None,
        sentence=brought.verdict_sentence if brought is not None else "",
        stands=_stands(release.name, operations, state),
    )


def _stands(name: str, operations: list[OperationState], state: JobState) -> str:
    if name == state.serving_release:
        return SERVES
    last = max(operations, key=lambda operation: operation.started, default=None)
    if last is not None and last.outcome is None:
        return OPEN
    others = [release for release in state.served if release != state.serving_release]
    if others and name == others[-1]:
        return BEFORE
    if last is None or last.outcome is None:
        return PUSHED
    return "replaced" if last.outcome is Outcome.SUCCEEDED else last.outcome.value
