"""Detect a journal that is older than the job's checkpoints. Acting on such a journal writes batches a second time.

Operations and the watch read the epoch claims next to the checkpoints. A driver also queries the outputs before each
claim that it makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from streamkeeper.checkpoints.claims import FOLDER, read_all_newest
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import InvalidInput, JournalOutdated, StoreUnavailable
from streamkeeper.model.records.checkpoint_version import checkpoint_location
from streamkeeper.model.records.epoch_claim import (
    KnownEpoch,
    SeenClaim,
    find_newer,
    known_epoch,
    told_outdated,
    way_out,
)
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.jobs.installation import Installation


def must_not_be_outdated(installation: Installation, state: JobState) -> None:
    """Raise JournalOutdated if an epoch claim next to a checkpoint of the job is newer than the job's journal."""
    if reason := find_outdated(installation, state):
        raise JournalOutdated(reason, hint=way_out(installation.store.url, state.job))


def must_not_be_outdated_as_far_as_seen(installation: Installation, state: JobState) -> None:
    """Do the check of ``must_not_be_outdated``, but stop it without an error if a checkpoint does not answer.

    The job's remaining checkpoints are then not checked. An operation or a driver that needs such a checkpoint checks
    that checkpoint itself.
    """
    with suppress(StoreUnavailable, InvalidInput, OSError):
        must_not_be_outdated(installation, state)


def find_outdated(installation: Installation, state: JobState) -> str:
    """Return a sentence about an epoch claim that is newer than the journal; empty without such a claim."""
    return find_outdated_epochs(installation, state.job, known_epochs(state), serving_roots(installation, state))


def known_epochs(state: JobState) -> dict[str, KnownEpoch]:
    """Return, by query, the newest epoch and the checkpoint versions that the journal records."""
    return {query: known_epoch(state, query) for query in {*state.versions, *state.epochs}}


def serving_roots(installation: Installation, state: JobState) -> dict[str, str]:
    """Return, by query, the root of the query's current checkpoint version. If a query has no current version, return
    the installation's root.
    """
    current = {query: state.current_version(query) for query in state.versions}
    return {
        query: (version and version.root) or installation.settings.checkpoints for query, version in current.items()
    }


def find_outdated_epochs(
    installation: Installation, job: str, epochs: Mapping[str, KnownEpoch], roots: Mapping[str, str]
) -> str:
    """Return the sentence that ``find_outdated`` returns, from cached facts of the journal.

    ``epochs``: the result of ``known_epochs``; ``roots``: the result of ``serving_roots``.

    Claims are read below the installation's root and below the root of the current version. Queries that the journal
    lacks are checked too, because an older copy of the journal may predate the deploy of a query.
    """
    root = installation.settings.checkpoints
    for query in sorted({*tree_at(checkpoint_location(root, job)).folders(""), *epochs, *roots}):
        known = epochs.get(query, KnownEpoch())
        for each in sorted({root, roots.get(query, root)}):
            claims = list(_claims(installation, f"{checkpoint_location(each, job, query)}/{FOLDER}"))
            if not find_newer(known, claims):
                continue
            # A driver may have claimed since the journal was read. It writes its claim into the journal first.
            now = known_epoch(installation.journal(job, "reader").state(), query)
            if newer := find_newer(now, claims):
                return told_outdated(job, query, newer)
    return ""


def _claims(installation: Installation, place: str) -> Iterator[SeenClaim]:
    folder = tree_at(place)
    for claim in read_all_newest(folder):
        if not claim.installation or installation.is_mine(claim.installation):
            yield SeenClaim(
                where=f"checkpoint {folder.where('').rpartition('/')[0]}",
                epoch=claim.epoch,
                version=claim.version,
                instance=claim.instance,
                generation=claim.generation,
            )
