"""The first rungs of a diagnosis: a store or journal that is not reliable, so that no other fact is known."""

from __future__ import annotations

from streamkeeper.model.recovery import Cause, RecoveryLook

Rung = tuple[Cause, str, str]
"""A cause, its sentence, and the advice; an empty advice stands for the best action."""


def no_store(at: RecoveryLook) -> Rung | None:
    """Diagnose a store from which no record can be read; None if the store answers."""
    if not at.store:
        return None
    told = f"the store does not answer, so the state of job {at.job} is unknown: {at.store}"
    return Cause.STORE_OUT_OF_REACH, told, "make the store available; drivers wait for it and continue automatically"


def journal_lost(at: RecoveryLook) -> Rung | None:
    """Diagnose a missing journal of a job that other records name; None if the journal exists."""
    if not at.lost:
        return None
    back = f"put registry/{at.job} back in the store, or run `streamkeeper registry rebuild {at.job} --dry-run`"
    return Cause.JOURNAL_LOST, at.lost, back


def outdated(at: RecoveryLook) -> Rung | None:
    """Diagnose a journal that belongs to an older copy of the store; None if it does not."""
    if not at.outdated:
        return None
    newer = "put the newer store back, or move the job's registry folder away and run `streamkeeper registry rebuild`"
    return Cause.JOURNAL_OUTDATED, at.outdated, newer
