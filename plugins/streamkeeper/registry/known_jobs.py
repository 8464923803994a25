"""Caches the states of jobs for repeated reads: each journal is read in full once, and afterwards only its
new entries.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from streamkeeper.errors import FormatTooNew, RegistryDamaged
from streamkeeper.model.records.job_state import JobState
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store

MOST = 64
"""The largest number of jobs whose state is kept; the most recently read jobs are kept."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A journal and its lock: a journal is not thread-safe, so only the holder of ``lock`` may use it."""

    journal: Journal
    lock: Lock = field(default_factory=Lock)


class KnownJobs:
    """The cached states of jobs. Reading a job whose journal has no new entry costs one request. Threads may share the
    object.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = Lock()

    def read(self, job: str) -> JobState:
        """Return the job's state now; raises the errors of ``Journal.state``.

        After RegistryDamaged or FormatTooNew the cached state is dropped, so the next call reads the journal from the
        store.
        """
        known = self._find(job)
        with known.lock:
            try:
                return known.journal.state()
            except (RegistryDamaged, FormatTooNew):
                self._forget(job)
                raise

    def _find(self, job: str) -> _Known:
        with self._lock:
            found = self._known.setdefault(job, _Known(Journal(self._store, job, writer="reader")))
            self._known.move_to_end(job)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
            return found

    def _forget(self, job: str) -> None:
        with self._lock:
            self._known.pop(job, None)
