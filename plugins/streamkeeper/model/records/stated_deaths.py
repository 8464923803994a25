"""The ends of drivers that a person has stated without proof: which driver may still run, and where it may write."""

from __future__ import annotations

from streamkeeper.model.records.job_state import InstanceState, JobState

STATED = "stated by "
"""The first words of ``proof`` for a stated end. They are for people; code reads them only in records of older
versions.
"""


def unproven_owner(state: JobState, query: str, version: str = "") -> str:
    """Return the driver that may still write in the query's checkpoint version; empty if there is none.

    This driver claimed the version last, and its end was stated without proof. ``version``: by default the current one.
    """
    found = state.version(query, version) if version else state.current_version(query)
    owner = state.instances.get(found.claimed_by) if found is not None else None
    return owner.instance if owner is not None and is_stated(owner) else ""


def is_stated(owner: InstanceState) -> bool:
    """Whether a person stated the end of this instance without proof."""
    return owner.proof.startswith(STATED) if owner.stated_by is None else bool(owner.stated_by)
