"""The first rungs of a diagnosis: a store or journal that is not reliable, so that no other fact is known."""

from __future__ import annotations

from streamkeeper.model.requests.diagnosis import Problem, RecoveryLook

Rung = tuple[Problem, str, str]
"""A cause, its sentence, and the advice; an empty advice stands for the best action."""


def no_store(look: RecoveryLook) -> Rung | None:
    """Diagnose a store from which no record can be read; None if the store answers."""
    if not look.store:
        return None
    evidence = f"the store does not answer, so the state of job {look.job} is unknown: {look.store}"
    return (
        Problem.STORE_OUT_OF_REACH,
        evidence,
        "make the store available; drivers wait for it and continue automatically",
    )


def journal_lost(look: RecoveryLook) -> Rung | None:
    """Diagnose a missing journal of a job that other records name; None if the journal exists."""
    if not look.lost:
        return None
    back = f"put registry/{look.job} back in the store, or run `streamkeeper registry rebuild {look.job} --dry-run`"
    return Problem.JOURNAL_LOST, look.lost, back


def outdated(look: RecoveryLook) -> Rung | None:
    """Diagnose a journal that belongs to an older copy of the store; None if it does not."""
    if not look.outdated:
        return None
    newer = "put the newer store back, or move the job's registry folder away and run `streamkeeper registry rebuild`"
    return Problem.JOURNAL_OUTDATED, look.outdated, newer
