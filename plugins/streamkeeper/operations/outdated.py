"""Whether a job's journal is older than what its checkpoints hold: whoever acts on such a journal repeats batches.

Operations and the watch look at the claims beside the checkpoints. A driver also asks the outputs, before each claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from streamkeeper.checkpoints.claims import FOLDER, read_all_newest
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import InvalidInput, JournalOutdated, StoreUnavailable
from streamkeeper.model.checkpoint_version import checkpoint_location
from streamkeeper.model.epoch_claim import KnownEpoch, SeenClaim, find_newer, known_epoch, told_outdated, way_out
from streamkeeper.model.job_state import JobState
from streamkeeper.operations.installation import Installation


def must_not_be_outdated(site: Installation, state: JobState) -> None:
    """Raise JournalOutdated for a journal that is older than a claim of one of its queries."""
    if told := find_outdated(site, state):
        raise JournalOutdated(told, hint=way_out(site.store.url, state.job))


def must_not_be_outdated_as_far_as_seen(site: Installation, state: JobState) -> None:
    """The same where checkpoints that do not answer are left to the operation that needs them, and to its driver."""
    with suppress(StoreUnavailable, InvalidInput, OSError):
        must_not_be_outdated(site, state)


def find_outdated(site: Installation, state: JobState) -> str:
    """How the journal is older than what was written, as a sentence; empty when it is not."""
    return find_outdated_epochs(site, state.job, known_epochs(state), serving_roots(site, state))


def known_epochs(state: JobState) -> dict[str, KnownEpoch]:
    """Query -> what the journal says of its epochs."""
    return {query: known_epoch(state, query) for query in {*state.versions, *state.epochs}}


def serving_roots(site: Installation, state: JobState) -> dict[str, str]:
    """Query -> the root below which the version that serves lies."""
    current = {query: state.current_version(query) for query in state.versions}
    return {query: (version and version.root) or site.settings.checkpoints for query, version in current.items()}


def find_outdated_epochs(
    site: Installation, job: str, epochs: Mapping[str, KnownEpoch], roots: Mapping[str, str]
) -> str:
    """The same from what a reader of the journal has kept of it.

    Claims may lie below the installation's root, and below the one of the version that serves. A query that the journal
    does not know counts too: an older copy may be from before it was deployed.
    """
    root = site.settings.checkpoints
    for query in sorted({*tree_at(checkpoint_location(root, job)).folders(""), *epochs, *roots}):
        known = epochs.get(query, KnownEpoch())
        for each in sorted({root, roots.get(query, root)}):
            claims = list(_claims(site, f"{checkpoint_location(each, job, query)}/{FOLDER}"))
            if not find_newer(known, claims):
                continue
            # A driver may have claimed since the journal was read. Its claim is in the journal before it is here.
            now = known_epoch(site.journal(job, "reader").state(), query)
            if newer := find_newer(now, claims):
                return told_outdated(job, query, newer)
    return ""


def _claims(site: Installation, place: str) -> Iterator[SeenClaim]:
    folder = tree_at(place)
    for claim in read_all_newest(folder):
        if not claim.installation or site.is_mine(claim.installation):
            yield SeenClaim(
                where=f"checkpoint {folder.where('').rpartition('/')[0]}",
                epoch=claim.epoch,
                version=claim.version,
                instance=claim.instance,
                generation=claim.generation,
            )
