"""A job's journal in a store: numbered, create-only entries, which are folded to the job's state.

The number is the lock: exactly one writer can create the entry with a given number. The other writers read that entry
and repeat their decision. Entries are never changed or removed. A listing is used only to find the journal's end.
Entries are read by number, because a listing taken during other writes may miss an entry and show its successor.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, get_args

import msgspec

from streamkeeper.errors import FormatTooNew, KeyExists, KeyMissing, RegistryDamaged, StoreUnavailable
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.names import check_name, key_number
from streamkeeper.model.records import job_state, journal_records
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_keys import entry_key, fold_key, fold_prefix, journal_prefix
from streamkeeper.model.records.journal_records import (
    NEEDED_BY_DRIVERS,
    Entry,
    PassedEntry,
    Record,
)
from streamkeeper.stores.contract import Store
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

if TYPE_CHECKING:
    import pendulum

FOLD_EVERY = 100
KEPT_FOLDS = 2
"""The number of folded copies to keep: the newest, and an earlier copy in case the newest is unreadable."""


_UNREADABLE = 'follow docs/operations/runbook.md, "A journal entry cannot be read"'
_NEWER = "run this with the newer Streamkeeper that wrote the record"


def _utc_now() -> pendulum.DateTime:
    import pendulum  # slow to load, and commands that only read do not need it

    return pendulum.instance(clock.now())


def has_journal(store: Store, job: str) -> bool:
    """Whether a job's journal has any entry; costs one read, however long the journal is.

    The result is also True for a journal that has lost its first entry, because the job of a damaged journal must not
    be skipped.
    """
    return grew_beyond(store, job, 0) or any(True for _ in store.list(journal_prefix(job)))


def grew_beyond(store: Store, job: str, number: int) -> bool:
    """Whether a job's journal has an entry after ``number``; costs one read. Raises StoreUnavailable."""
    try:
        store.read(entry_key(job, number + 1))
    except KeyMissing:
        return False
    return True


def newest_number(store: Store, job: str, known: int) -> int:
    """Return the number of the newest entry of a journal; costs one listing.

    ``known`` is the number of entries that an earlier read found. The result is lower than ``known`` if the journal was
    replaced by an older copy. Raises StoreUnavailable.
    """
    keys = store.list(journal_prefix(job), after=entry_key(job, max(known - 1, 0)))
    return max((key_number(key, partial(entry_key, job)) or 0 for key in keys), default=0)


def _frame(data: bytes) -> _Frame | None:
    """Return the fields of an entry that all versions understand; None if the data is not an entry of any version."""
    try:
        return from_json(data, _Frame, where="entry")
    except RegistryDamaged:
        return None


class _Kind(msgspec.Struct):
    type: str


class _Frame(msgspec.Struct):
    """The fields of an entry that all versions understand."""

    number: int
    """The entry's number."""
    at: str
    """Time of the write, for people."""
    by: str
    """The writer."""
    record: _Kind
    """The record's kind."""
    drivers_may_pass: bool = False
    """Whether the writer allows drivers to skip the record, as in Entry."""

    @property
    def may_pass(self) -> bool:
        """Whether a driver that does not understand the record may continue, according to its writer."""
        return self.drivers_may_pass and self.record.type not in _NEEDED


def _tags(kinds: Iterable[type[Record]]) -> frozenset[str]:
    return frozenset(str(kind.__struct_config__.tag) for kind in kinds)


_KNOWN, _NEEDED = _tags(get_args(Record)), _tags(NEEDED_BY_DRIVERS)


class Journal:
    """Reads and writes a job's journal; not thread-safe, so use one object per thread.

    ``writer``: the name that people see as the author of new entries. A random token is added to it, by which the
    object recognises its own entries.
    ``passing``: whether to skip an entry that a newer Streamkeeper wrote and marked as one that drivers may skip; if
    False, such an entry raises FormatTooNew.
    """

    def __init__(
        self,
        store: Store,
        job: str,
        *,
        writer: str,
        passing: bool = False,
        now: Callable[[], pendulum.DateTime] | None = None,
    ) -> None:
        self._store = store
        self._job = check_name("job", job)
        self._by = f"{writer}#{uuid.uuid4().hex[:12]}"
        self._passing = passing
        self._passed = False
        self._now = now or _utc_now
        self._state = JobState(job=job)
        self._last = b""
        """The newest entry in ``_state`` as it was stored; empty if it was not read."""
        self._opened = False
        self._fold_due = False

    def state(self) -> JobState:
        """Return the job's present state. Costs one list request; if there are new entries, also one read for each of
        them and one more.

        The first call also reads the newest stored copy of the state. Raises RegistryDamaged, FormatTooNew,
        StoreUnavailable.
        """
        if self._opened:
            return self._catch_up()
        self._state = self._newest_fold()
        folded = self._state.number
        self._catch_up()
        self._fold_due = self._state.number - folded >= FOLD_EVERY
        self._opened = True
        return self._state

    def append(self, decide: Callable[[JobState], Record | None]) -> JobState:
        """Add the record that ``decide`` makes from the newest state, and return the state after it.

        No entry is added if ``decide`` returns None. ``decide`` is repeated with the new state each time another writer
        was faster, and it may raise. After StoreUnavailable it is unknown whether the entry was written: read the state
        and repeat the decision.
        """
        state = self.state()
        while (record := decide(state)) is not None:
            if self._write(record, state.number + 1):
                return self._state
            state = self._state
        return state

    def entries(self) -> Iterator[Entry]:
        """Yield every entry, oldest first. Entries that this object skips because of ``passing`` are left out."""
        for number in range(1, self._newest_number() + 1):
            entry = self._read(number)
            if isinstance(entry, Entry):
                yield entry

    def entry(self, number: int) -> Entry | PassedEntry:
        """Return one entry by its number; raises RegistryDamaged if it is missing."""
        return self._read(number)

    def _write(self, record: Record, number: int) -> bool:
        """Create entry ``number``. Return False if another writer has created it first; that entry is then part of the
        state.
        """
        key = entry_key(self._job, number)
        moment, may_pass = self._now().to_iso8601_string(), not isinstance(record, NEEDED_BY_DRIVERS)
        data = to_json(Entry(number=number, at=moment, by=self._by, record=record, drivers_may_pass=may_pass))
        # Decoded as readers do it, so that no unreadable entry is written and writer and readers fold the same.
        entry = from_json(data, Entry, where=key)
        tag = str(type(record).__struct_config__.tag)
        crash_point(f"record.{tag}.before")
        self._must_follow()
        try:
            self._store.create(key, data)
        except KeyExists:
            # A store may have retried a write whose first answer was lost. Then the existing entry is this one.
            if self._fold_next(number) != entry:
                self._catch_up()
                return False
        else:
            self._state, self._last = fold(self._state, entry), data
        crash_point(f"record.{tag}.after")
        self._write_fold()
        return True

    def _catch_up(self) -> JobState:
        after = self._state.number
        newest = self._newest_number(after)
        if newest > after:
            self._must_follow()
        for number in range(after + 1, newest + 1):
            self._fold_next(number)
        return self._state

    def _must_follow(self) -> None:
        """Raise RegistryDamaged if the newest entry that this object has read now has other content.

        That happens if an older copy of the store was put in place and then replaced by a newer one, and this object
        read entries that were written in between.
        """
        key = entry_key(self._job, self._state.number)
        if self._last and self._stored(key) != self._last:
            raise RegistryDamaged(
                f"{key} was read and is another entry now in {self._store.url}: another copy of the store was put in"
                " its place",
                hint="repeat the command, which then reads the journal from the beginning",
            )

    def _stored(self, key: str) -> bytes:
        try:
            return self._store.read(key)
        except KeyMissing:
            raise RegistryDamaged(f"{key} is missing, although later entries exist", hint=_UNREADABLE) from None

    def _fold_next(self, number: int) -> Entry | PassedEntry:
        key = entry_key(self._job, number)
        data = self._stored(key)
        entry = self._numbered(data, key, number)
        self._state, self._last = fold(self._state, entry), data
        return entry

    def _newest_number(self, after: int = 0) -> int:
        """Return the newest number; raises RegistryDamaged if entry ``after``, which existed, is missing."""
        keys = list(self._store.list(journal_prefix(self._job), after=entry_key(self._job, max(after - 1, 0))))
        if after and entry_key(self._job, after) not in keys:
            raise RegistryDamaged(
                f"{entry_key(self._job, after)} existed and is missing in {self._store.url}: the store was lost, or"
                " an older copy was put in its place",
                hint='follow docs/operations/runbook.md, "The store is lost"',
            )
        # The keys sort like the numbers, so the last one that is an entry is the newest.
        name = partial(entry_key, self._job)
        return next((number for key in reversed(keys) if (number := key_number(key, name)) is not None), after)

    def strays(self) -> list[str]:
        """Return the keys in the journal's folder that are not entries and are skipped."""
        keys = self._store.list(journal_prefix(self._job))
        return [key for key in keys if key_number(key, partial(entry_key, self._job)) is None]

    def _read(self, number: int) -> Entry | PassedEntry:
        key = entry_key(self._job, number)
        return self._numbered(self._stored(key), key, number)

    def _numbered(self, data: bytes, key: str, number: int) -> Entry | PassedEntry:
        entry = self._understood(data, key)
        if entry.number != number:
            raise RegistryDamaged(f"{key} contains entry {entry.number}", hint=_UNREADABLE)
        return entry

    def _understood(self, data: bytes, key: str) -> Entry | PassedEntry:
        try:
            return from_json(data, Entry, where=key, newest_format=journal_records.FORMAT)
        except RegistryDamaged as error:
            frame = _frame(data)
            if frame is None or (frame.record.type in _KNOWN and not frame.may_pass):
                raise
            if not (self._passing and frame.may_pass):
                reason = f"{key} contains a {frame.record.type} record that this version does not understand"
                hint = f"{_NEWER}; running drivers continue" if frame.may_pass else _NEWER
                raise FormatTooNew(reason, hint=hint) from error
            self._passed = True
            return PassedEntry(number=frame.number, at=frame.at, by=frame.by, kind=frame.record.type)

    def _newest_fold(self) -> JobState:
        """Return the state of the newest usable folded copy, or an empty state without one. A copy only saves reading,
        so unusable copies are skipped.
        """
        for key in reversed(self._fold_keys()):
            try:
                found = from_json(self._store.read(key), JobState, where=key, newest_format=job_state.FORMAT)
            except (KeyMissing, RegistryDamaged, FormatTooNew):
                continue
            # A copy in an older format was folded by older rules. Entries are authoritative, so they are folded again.
            is_mine = found.job == self._job and fold_key(found.job, found.number) == key
            if is_mine and found.format == job_state.FORMAT:
                return found
        return JobState(job=self._job)

    def _write_fold(self) -> None:
        """Store a folded copy at every 100th entry, or if the last due copy was not stored.

        An object that has skipped a record stores no copy, because its state lacks that record.
        """
        if self._passed or (self._state.number % FOLD_EVERY and not self._fold_due):
            return
        # In order, because the order shows which instances and operations are older.
        copy = to_json(self._state, in_order=True)
        try:
            self._store.create(fold_key(self._job, self._state.number), copy)
        except KeyExists:
            pass
        except StoreUnavailable:
            self._fold_due = True
            return
        self._fold_due = False
        self._forget_folds()

    def _forget_folds(self) -> None:
        """Delete older copies, which are never read. The size of all copies together would grow with the square of the
        journal's length.
        """
        with suppress(StoreUnavailable):
            for key in self._fold_keys()[:-KEPT_FOLDS]:
                self._store.delete(key)

    def _fold_keys(self) -> list[str]:
        keys = self._store.list(fold_prefix(self._job))
        return [key for key in keys if key_number(key, partial(fold_key, self._job)) is not None]
