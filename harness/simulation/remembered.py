"""Caches what all processes of a simulation would compute in the same way: they read the same bytes, and the values
never change.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkeeper.model import coding
from streamkeeper.model.coding import MOST_BYTES
from streamkeeper.model.records import job_state
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Entry, PassedEntry


class Remembered:
    """Decoded values by their bytes, and states of a journal by the state before and the entry."""

    def __init__(self) -> None:
        self._decoded: dict[tuple[type, int | None, bytes], Any] = {}
        self._folded: dict[tuple[int, int], tuple[JobState, Entry | PassedEntry, JobState]] = {}

    def clear(self) -> None:
        """Clear the caches after a world has ended."""
        self._decoded.clear()
        self._folded.clear()

    def from_json(
        self, data: bytes, kind: Any, *, where: str, newest_format: int | None = None, most: int = MOST_BYTES
    ) -> Any:
        """Decode a value as ``model.coding`` does. A frozen value is decoded only once; an error names the location of
        its own data, so it is raised anew each time.
        """
        key = (kind, newest_format, data)
        found = self._decoded.get(key)
        if found is None:
            found = coding.from_json(data, kind, where=where, newest_format=newest_format, most=most)
            if isinstance(found, msgspec.Struct) and found.__struct_config__.frozen:
                self._decoded[key] = found
        return found

    def fold(self, state: JobState, entry: Entry | PassedEntry) -> JobState:
        """Apply an entry as ``model.records.job_state`` does. The state before the first entry is the same in every
        journal of the job.
        """
        key = (id(state) if state.number else 0, id(entry))
        found = self._folded.get(key)
        if found is None:
            # The values are kept too, so that no other one gets their ids.
            found = self._folded[key] = (state, entry, job_state.fold(state, entry))
        return found[2]
