"""A job's incident records in a store. Like the entries of its journal, they are numbered and create-only: the number
is the lock.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from streamkeeper.errors import FormatTooNew, KeyExists, KeyMissing, RegistryDamaged
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.names import check_name, key_number
from streamkeeper.model.watch.incident import (
    FORMAT,
    IncidentEntry,
    IncidentRecord,
    JobIncidents,
    fold_incident,
    incident_key,
    incident_prefix,
)
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point


class IncidentLog:
    """Reads and writes a job's incidents; not thread-safe.

    A record is skipped if it is unreadable, or if it is missing although later records exist. The watch then raises the
    incident of that record once more, and repeats its notices. A skipped record does not delay the notices of later
    records.

    ``passed``: one sentence for each skipped record.
    ``known``: the state from an earlier reader, so that only newer records are read; None to read all records.
    """

    def __init__(self, store: Store, job: str, *, writer: str = "reader", known: JobIncidents | None = None) -> None:
        self._store = store
        self._job = check_name("job", job)
        self.writer = f"{writer}#{uuid.uuid4().hex[:12]}"
        self._state = known if known is not None else JobIncidents(job=job)
        self._read_all = known is None
        self.passed: list[str] = []

    def state(self) -> JobIncidents:
        """Return the incidents after all records so far. Costs one read, and one more read for each new record; the
        first call without ``known`` also lists the records.
        """
        if self._read_all:
            for number in range(1, self._newest() + 1):
                self._fold(number, self._read(number))
            self._read_all = False
        while (data := self._read(self._state.number + 1)) is not None:
            self._fold(self._state.number + 1, data)
        return self._state

    def append(self, decide: Callable[[JobIncidents], IncidentRecord | None], *, now: float) -> int:
        """Add the record that ``decide`` makes from the newest state. Return its number, or 0 if ``decide`` returns
        None.

        ``decide`` is repeated with the new state each time another writer was faster. Raises StoreUnavailable.
        """
        if self._read_all:
            self.state()
        while (record := decide(self._state)) is not None:
            entry = IncidentEntry(number=self._state.number + 1, at=now, by=self.writer, record=record)
            tag = str(type(record).__struct_config__.tag)
            crash_point(f"incident.{tag}.before")
            try:
                self._store.create(incident_key(self._job, entry.number), to_json(entry))
            except KeyExists:
                # A store may have retried a write whose first answer was lost. Then the existing entry is this one.
                if self._fold(entry.number, self._read(entry.number)) != entry:
                    continue
            else:
                self._state = fold_incident(self._state, entry)
            crash_point(f"incident.{tag}.after")
            return entry.number
        return 0

    def entries(self) -> Iterator[IncidentEntry]:
        """Yield every readable record, starting with the first."""
        for number in range(1, self._newest() + 1):
            entry = self._understand(number, self._read(number))
            if entry is not None:
                yield entry

    def _newest(self) -> int:
        """Return the number of the newest record; files that are not records, such as an editor's copy, are skipped."""
        keys = self._store.list(incident_prefix(self._job))
        return max((key_number(key, partial(incident_key, self._job)) or 0 for key in keys), default=0)

    def _read(self, number: int) -> bytes | None:
        try:
            return self._store.read(incident_key(self._job, number))
        except KeyMissing:
            return None

    def _fold(self, number: int, data: bytes | None) -> IncidentEntry | None:
        """Add one record to the state; of an unreadable record, add only the number."""
        entry = self._understand(number, data)
        self._state = replace(self._state, number=number) if entry is None else fold_incident(self._state, entry)
        return entry

    def _understand(self, number: int, data: bytes | None) -> IncidentEntry | None:
        key = incident_key(self._job, number)
        if data is None:
            self.passed.append(f"{key} is missing, although later records exist")
            return None
        try:
            entry = from_json(data, IncidentEntry, where=key, newest_format=FORMAT)
        except (FormatTooNew, RegistryDamaged) as error:
            self.passed.append(str(error))
            return None
        if entry.number != number:
            self.passed.append(f"{key} contains record {entry.number}")
            return None
        return entry
