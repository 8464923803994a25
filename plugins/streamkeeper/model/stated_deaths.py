"""Driver terminations that a person has stated without proof: which driver may still run, and where it may write."""

from __future__ import annotations

from streamkeeper.model.job_state import InstanceState, JobState

STATED = "stated by "
"""Prefix of the proof of such an end: for people, and for records of versions that stored no other mark."""


def unproven_owner(state: JobState, query: str, version: str = "") -> str:
    """The driver that may still write in a checkpoint version, by default the current one; empty if there is none.

    It claimed the version last, and its termination was stated.
    """
    found = state.version(query, version) if version else state.current_version(query)
    owner = state.instances.get(found.claimed_by) if found is not None else None
    return owner.instance if owner is not None and is_stated(owner) else ""


def is_stated(owner: InstanceState) -> bool:
    """Whether its end was stated by a person."""
    return owner.proof.startswith(STATED) if owner.stated_by is None else bool(owner.stated_by)
