"""The states of jobs for somebody who looks again and again: each journal is read once, then caught up with."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from streamkeeper.errors import FormatTooNew, RegistryDamaged
from streamkeeper.model.job_state import JobState
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store

MOST = 64
"""Jobs whose state is kept: those that were looked at last."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A journal is not for sharing: who holds ``lock`` may ask it."""

    journal: Journal
    lock: Lock = field(default_factory=Lock)


class KnownJobs:
    """One request for a job whose journal has nothing new. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = Lock()

    def read(self, job: str) -> JobState:
        """The job's state now; raises as ``Journal.state``, and looks at all of a journal anew after it was damaged."""
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
