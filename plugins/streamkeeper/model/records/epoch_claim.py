"""The evidence in outputs and checkpoints about their last writer, and whether a journal is older than that evidence.

If the store was replaced by an older copy, its journal names an earlier writer and an earlier checkpoint version.
Outputs and checkpoints are outside the store and do not change with it: a newer epoch or an unrecorded version in them
overrides the journal.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.model.records.job_state import JobState

FORMAT = 1


class EpochClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a query's epoch, stored next to its checkpoint versions."""

    format: int = FORMAT
    """Format version of the record."""
    epoch: int
    """The epoch."""
    version: str
    """The checkpoint version."""
    instance: str
    """The instance that claimed it."""
    generation: int
    """The generation of that instance."""
    installation: str = ""
    """The installation that claimed it."""


class SeenClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of an epoch, as recorded in an output or next to a checkpoint, outside the store."""

    where: str
    """The output or the checkpoint that records the claim."""
    epoch: int
    """The epoch."""
    version: str = ""
    """The checkpoint version; empty if the claim names none."""
    instance: str = ""
    """The instance; empty if the claim names none."""
    generation: int = 0
    """The generation of that instance; 0 if the claim names none."""


class KnownEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch and the checkpoint versions of a query according to a journal."""

    epoch: int = 0
    """The newest epoch."""
    instance: str = ""
    """The instance that claimed the newest epoch."""
    generation: int = 0
    """The generation of that instance."""
    versions: tuple[str, ...] = ()
    """Every recorded checkpoint version."""


def known_epoch(state: JobState, query: str) -> KnownEpoch:
    """Return a query's newest epoch and its versions from a journal.

    ``instance`` is empty for an epoch from a lost journal, because the rebuilt journal does not record which instance
    claimed that epoch.
    """
    newest, epoch = state.epochs.get(query), state.next_epoch(query) - 1
    owned = newest is not None and newest.epoch == epoch
    return KnownEpoch(
        epoch=epoch,
        instance=newest.instance if newest is not None and owned else "",
        generation=newest.generation if newest is not None and owned else 0,
        versions=tuple(version.version for version in state.versions.get(query, ())),
    )


def find_newer(known: KnownEpoch, claims: Iterable[SeenClaim]) -> str:
    """Return the proof that a query's claims are newer than the journal, as a phrase; empty if no claim is newer.

    ``known``: the query's newest epoch and versions according to the journal.
    ``claims``: the query's claims that were found outside of the store.
    """
    for claim in claims:
        if claim.epoch > known.epoch:
            held = f"for {claim.version} " if claim.version else ""
            knows = f"ends at epoch {known.epoch}" if known.epoch else "records no epoch"
            return f"{claim.where} was claimed {held}under epoch {claim.epoch}, and the journal {knows}"
        # The journals of early versions of Streamkeeper record no checkpoint versions.
        if claim.version and known.versions and claim.version not in known.versions:
            return f"{claim.where} belongs to checkpoint {claim.version}, which the journal does not record"
        other = (known.instance, known.generation) != (claim.instance, claim.generation)
        if claim.instance and known.instance and other and known.epoch == claim.epoch:
            return (
                f"{claim.where} was claimed under epoch {claim.epoch} by {claim.instance}, but the journal records this"
                f" epoch for {known.instance}"
            )
    return ""


def told_outdated(job: str, query: str, newer: str) -> str:
    """Return the result of ``find_newer`` as a sentence for a person."""
    return f"the journal of job {job} is older than what was written by query {query}: {newer}"


def way_out(store: str, job: str) -> str:
    """Return the hint for a journal that is older than the data."""
    return (
        "an older copy of the store is in its place. Put the newer store back. If it is lost, move"
        f" {store}/registry/{job} away and run `streamkeeper registry rebuild`. See docs/operations/runbook.md, "
        '"An older copy of the store was put back"'
    )
