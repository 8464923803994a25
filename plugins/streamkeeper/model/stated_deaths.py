"""Ends of drivers that a person has stated and nothing proves: who may live all the same, and where it may write."""

from __future__ import annotations

from streamkeeper.model.job_state import InstanceState, JobState

STATED = "stated by "
"""What the proof of such an end begins with: for people, and for records of versions that stored nothing else."""


def unproven_owner(state: JobState, query: str, version: str = "") -> str:
    """Who may still write in a checkpoint version, the serving one where none is named: it claimed it last, and its end
    was stated. Empty where there is none.
    """
    found = state.version(query, version) if version else state.current_version(query)
    owner = state.instances.get(found.claimed_by) if found is not None else None
    return owner.instance if owner is not None and is_stated(owner) else ""


def is_stated(owner: InstanceState) -> bool:
    """Whether its end is a person's word."""
    return owner.proof.startswith(STATED) if owner.stated_by is None else bool(owner.stated_by)
