"""Entries of a job's journal, read in parallel because a remote store has a high latency."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from streamkeeper.model.records.journal_records import Entry
from streamkeeper.registry.journal import Journal

_READERS = 8


def read_entries(journal: Journal, first: int, last: int) -> Iterator[Entry]:
    """Yield the entries ``first`` to ``last``, in order; raises RegistryDamaged, FormatTooNew or StoreUnavailable."""
    # entry() keeps no state, so that several threads can read one journal.
    with ThreadPoolExecutor(_READERS) as pool:
        for entry in pool.map(journal.entry, range(max(1, first), last + 1)):
            if isinstance(entry, Entry):
                yield entry
