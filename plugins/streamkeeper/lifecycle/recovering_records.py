"""The first rungs of a diagnosis. They detect a store or journal that is not reliable, so that no other fact is
certain.
"""

from __future__ import annotations

from streamkeeper.model.requests.diagnosis import Problem, RecoveryLook

Rung = tuple[Problem, str, str]
"""The result of a rung: a cause, its sentence, and the advice. An empty advice stands for the best action."""


def no_store(look: RecoveryLook) -> Rung | None:
    """Diagnose a store from which no record can be read; return None if the store answers."""
    if not look.store:
        return None
    evidence = f"the store does not answer, so the state of job {look.job} is unknown: {look.store}"
    return (
        Problem.STORE_OUT_OF_REACH,
        evidence,
        "make the store available; drivers wait for it and continue automatically",
    )


def journal_lost(look: RecoveryLook) -> Rung | None:
    """Diagnose a missing journal of a job that other records name; return None if the journal exists."""
    if not look.lost:
        return None
    back = f"put registry/{look.job} back in the store, or run `streamkeeper registry rebuild {look.job} --dry-run`"
    return Problem.JOURNAL_LOST, look.lost, back


def outdated(look: RecoveryLook) -> Rung | None:
    """Diagnose a journal that belongs to an older copy of the store; return None for any other journal."""
    if not look.outdated:
        return None
    newer = "put the newer store back, or move the job's registry folder away and run `streamkeeper registry rebuild`"
    return Problem.JOURNAL_OUTDATED, look.outdated, newer
