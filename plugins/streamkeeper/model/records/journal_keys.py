"""The keys of a job's journal and its folded copies in a store."""

from __future__ import annotations


def entry_key(job: str, number: int) -> str:
    """Return the key ``registry/<job>/journal/0000000042.json``; the keys sort like the numbers."""
    return f"{journal_prefix(job)}{number:010d}.json"


def journal_prefix(job: str) -> str:
    """Return the prefix of the keys of a job's journal entries."""
    return f"registry/{job}/journal/"


def fold_key(job: str, number: int) -> str:
    """Return the key ``registry/<job>/folds/0000000100.json`` of the job's state after entry ``number``."""
    return f"{fold_prefix(job)}{number:010d}.json"


def fold_prefix(job: str) -> str:
    """Return the prefix that all results of ``fold_key`` for this job share."""
    return f"registry/{job}/folds/"
