"""What a simulation computes once for all its processes: they read the same bytes, and their values never change."""

from __future__ import annotations

from typing import Any

import msgspec

from streamkeeper.model import coding
from streamkeeper.model.coding import MOST_BYTES
from streamkeeper.model.records import job_state
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Entry, PassedEntry


class Remembered:
    """Decoded values by their bytes, and the states of a journal by the state before and the entry."""

    def __init__(self) -> None:
        self._decoded: dict[tuple[type, int | None, bytes], Any] = {}
        self._folded: dict[tuple[int, int], tuple[JobState, Entry | PassedEntry, JobState]] = {}

    def clear(self) -> None:
        """Forget everything, after a world has ended."""
        self._decoded.clear()
        self._folded.clear()

    def from_json(
        self, data: bytes, kind: Any, *, where: str, newest_format: int | None = None, most: int = MOST_BYTES
    ) -> Any:
        """As in ``model.coding``. A frozen value is decoded once; an error names its place, and is raised anew."""
        key = (kind, newest_format, data)
        found = self._decoded.get(key)
        if found is None:
            found = coding.from_json(data, kind, where=where, newest_format=newest_format, most=most)
            if isinstance(found, msgspec.Struct) and found.__struct_config__.frozen:
                self._decoded[key] = found
        return found

    def fold(self, state: JobState, entry: Entry | PassedEntry) -> JobState:
        """As in ``model.records.job_state``. The state before the first entry is the same
        in every journal of the job.
        """
        key = (id(state) if state.number else 0, id(entry))
        found = self._folded.get(key)
        if found is None:
            # The values are kept too, so that no other one gets their ids.
            found = self._folded[key] = (state, entry, job_state.fold(state, entry))
        return found[2]
