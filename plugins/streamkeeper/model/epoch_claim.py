"""What outputs and checkpoints say about who wrote last, and whether a journal is older than that.

A store that was put back to an older copy names an old writer and an old checkpoint version. Outputs and checkpoints
lie elsewhere and do not go back with it: a newer epoch or an unknown version there overrides the journal.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.model.job_state import JobState

FORMAT = 1


class EpochClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a query's epoch, kept beside its checkpoint versions; ``installation``: the one that claimed it."""

    format: int = FORMAT
    epoch: int
    version: str
    instance: str
    generation: int
    installation: str = ""


class SeenClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as it was seen outside the store. ``where``: the output or the checkpoint that holds it.

    ``version``: empty where it names none; ``instance`` and ``generation``: empty and 0 where it does not say who.
    """

    where: str
    epoch: int
    version: str = ""
    instance: str = ""
    generation: int = 0


class KnownEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal says of a query: the newest epoch, whose it is, and every checkpoint version."""

    epoch: int = 0
    instance: str = ""
    generation: int = 0
    versions: tuple[str, ...] = ()


def known_epoch(state: JobState, query: str) -> KnownEpoch:
    """The same of a journal that was read; a rebuilt one knows the epochs of before without their owners."""
    newest, epoch = state.epochs.get(query), state.next_epoch(query) - 1
    owned = newest is not None and newest.epoch == epoch
    return KnownEpoch(
        epoch=epoch,
        instance=newest.instance if newest is not None and owned else "",
        generation=newest.generation if newest is not None and owned else 0,
        versions=tuple(version.version for version in state.versions.get(query, ())),
    )


def find_newer(known: KnownEpoch, claims: Iterable[SeenClaim]) -> str:
    """How a journal is older than these claims of one of its queries, as a clause; empty when it is not."""
    for claim in claims:
        if claim.epoch > known.epoch:
            held = f"for {claim.version} " if claim.version else ""
            knows = f"ends at epoch {known.epoch}" if known.epoch else "knows no epoch"
            return f"{claim.where} was claimed {held}under epoch {claim.epoch}, and the journal {knows}"
        # Journals of before versions were recorded name none.
        if claim.version and known.versions and claim.version not in known.versions:
            return f"{claim.where} belongs to checkpoint {claim.version}, which the journal does not know"
        other = (known.instance, known.generation) != (claim.instance, claim.generation)
        if claim.instance and known.instance and other and known.epoch == claim.epoch:
            return (
                f"{claim.where} was claimed under epoch {claim.epoch} by {claim.instance}, which the journal gave to"
                f" {known.instance}"
            )
    return ""


def told_outdated(job: str, query: str, newer: str) -> str:
    """The same as a sentence for a person."""
    return f"the journal of job {job} is older than what was written, query {query}: {newer}"


def way_out(store: str, job: str) -> str:
    """What to do about a journal that is older than what was written."""
    return (
        f"an older copy of the store was put in its place: put the newer one back, or move {store}/registry/{job} away"
        ' and run streamkeeper registry rebuild; docs/operations/runbook.md, "An older copy of the store was put back"'
    )
