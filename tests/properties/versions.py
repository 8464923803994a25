"""Provides the record that journal tests append, which reveals a lost or duplicated append."""

from __future__ import annotations

from streamkeeper.model.names import version_name
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import CheckpointVersionCreated, Record


def next_version(state: JobState, who: str = "r0001") -> Record:
    """Return a record that depends on the state: deciding on an old state repeats a version, and missing an entry skips
    one.
    """
    known = state.versions.get("totals", ())
    return CheckpointVersionCreated(
        query="totals", version=version_name(len(known) + 1), release=who, origin="new", state_format=""
    )
