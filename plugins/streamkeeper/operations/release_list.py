"""What became of each release of a job: when it was registered, who wanted it and why, and what was said of it."""

from __future__ import annotations

import msgspec

from streamkeeper.model.finding import Verdict
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import Entry, Outcome, ReleaseRegistered
from streamkeeper.model.operation import OperationState
from streamkeeper.model.release import Release
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.job_facts import find_bringing, release_of
from streamkeeper.operations.journal_entries import read_entries

SERVES, BEFORE, PUSHED, OPEN = "serves", "before", "pushed", "under way"


class ListedRelease(msgspec.Struct, frozen=True, kw_only=True):
    """One release. ``registered_at``: by the clock of whoever registered it, ISO 8601.

    ``author`` and ``reason``: of the operation that first made it serve, else of the last about it, else who has pushed
    it; ``verdict``: what it was assessed as then. ``stands``: serves, before (what a rollback goes back to), replaced,
    under way, pushed, or how the last operation about it ended.
    """

    release: Release
    registered_at: str = ""
    author: str = ""
    reason: str = ""
    operation: str = ""
    verdict: Verdict | None = None
    sentence: str = ""
    stands: str = PUSHED


def list_releases(site: Installation, state: JobState) -> list[ListedRelease]:
    """All of a job's, oldest brought. Raises StoreUnavailable, RegistryDamaged, FormatTooNew."""
    entries = _registrations(site, state)
    operations = [operation for operation in state.operations.values() if not operation.request.dry_run]
    releases = sorted(state.releases.values(), key=lambda release: release.number)
    return [
        _listed(release, entries.get(release.name), [op for op in operations if release_of(op) == release.name], state)
        for release in releases
    ]


def _registrations(site: Installation, state: JobState) -> dict[str, Entry]:
    """Release -> the entry that registered it: the state does not tell when that was."""
    found: dict[str, Entry] = {}
    for entry in read_entries(site.journal(state.job, "reader"), 1, state.number):
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
