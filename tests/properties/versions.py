"""The record that journal tests append: one whose loss or doubling shows."""

from __future__ import annotations

from streamkeeper.model.names import version_name
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import CheckpointVersionCreated, Record


def next_version(state: JobState, who: str = "r0001") -> Record:
    """A read-modify-write that adds up: deciding on an old state takes a version twice, missing an entry loses one."""
    known = state.versions.get("totals", ())
    return CheckpointVersionCreated(
        query="totals", version=version_name(len(known) + 1), release=who, origin="new", state_format=""
    )
