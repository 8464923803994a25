"""Property tests of concurrent journal writers: every interleaving gives one winner per entry number and one folded
state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial, reduce
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.processes import killed_after
from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.names import key_number, version_name
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_keys import entry_key, journal_prefix
from streamkeeper.model.records.journal_records import CheckpointVersionCreated
from streamkeeper.registry import journal
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore
from streamkeeper.stores.store_urls import open_store
from tests.contracts.memory_store import MemoryStore
from tests.properties.interleaving import Interleaving, SteppingStore
from tests.properties.versions import next_version

QUIET = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def _small_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FOLD_EVERY", 3)


def write_interleaved(store: Store, seed: int, writers: int, appends: int) -> list[JobState]:
    """Let ``writers`` append ``appends`` records each in the order of the seed, and return the last state that each of
    them saw.
    """
    interleaving = Interleaving(seed)
    stepping = SteppingStore(store, interleaving)
    last: dict[int, JobState] = {}

    def write(number: int) -> None:
        mine = Journal(stepping, "sales", writer=f"w{number}")
        for _ in range(appends):
            state = mine.append(lambda state: next_version(state, f"w{number}"))
            assert state.versions["totals"][-1].release == f"w{number}", "append returned without its own record"
        last[number] = mine.state()

    interleaving.run([lambda number=number: write(number) for number in range(writers)])  # type: ignore[misc]
    return list(last.values())


def check_one_winner_and_one_fold(store: Store, seen: Sequence[JobState], writers: int, appends: int) -> None:
    """Assert that every append has its own number and was decided on the state just before it, and that all readers see
    the same state.
    """
    reader = Journal(store, "sales", writer="reader")
    entries = list(reader.entries())
    assert [entry.number for entry in entries] == list(range(1, writers * appends + 1))
    for entry in entries:
        assert isinstance(entry.record, CheckpointVersionCreated)
        assert entry.record.version == version_name(entry.number)
    authors = [entry.by for entry in entries]
    assert sorted(authors.count(author) for author in set(authors)) == [appends] * writers
    whole = reduce(fold, entries, JobState(job="sales"))
    assert reader.state() == whole
    for state in seen:
        assert state == reduce(fold, entries[: state.number], JobState(job="sales"))


@QUIET
@given(seed=SEEDS, writers=st.integers(2, 4), appends=st.integers(1, 4))
def test_any_interleaving_has_one_winner_per_number_and_one_fold(seed: int, writers: int, appends: int) -> None:
    """No record is lost, however the writers' store calls interleave and whatever a concurrent listing misses."""
    store = MemoryStore()
    seen = write_interleaved(store, seed, writers, appends)
    check_one_winner_and_one_fold(store, seen, writers, appends)


class Overwriting(MemoryStore):
    """A store whose ``create`` overwrites an existing key, which breaks the promise that the journal depends on."""

    def create(self, key: str, value: bytes) -> None:
        self.replace(key, value)


class TrustingListings(Journal):
    """A journal that takes a listing to be complete."""

    def _newest_number(self, after: int = 0) -> int:
        for key in self._store.list(journal_prefix(self._job), after=entry_key(self._job, after)):
            self._fold_next(key_number(key, partial(entry_key, self._job)) or 0)
        return after


def is_found_out(seed: int, store: Store) -> bool:
    """Return whether this interleaving of three writers reveals the fault."""
    try:
        check_one_winner_and_one_fold(store, write_interleaved(store, seed, 3, 3), 3, 3)
    except (AssertionError, IndexError, RegistryDamaged):
        return True
    return False


def test_interleavings_find_a_store_that_overwrites() -> None:
    """Negative control: when ``create`` overwrites, some interleaving loses a record or makes a writer fail, and the
    check finds it.
    """
    assert any(is_found_out(seed, Overwriting()) for seed in range(100))


def test_interleavings_find_a_reader_that_trusts_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: when entries are taken from a listing alone, some interleaving skips an entry, and the check
    finds it; the real journal passes the same interleavings.
    """
    assert not any(is_found_out(seed, MemoryStore()) for seed in range(100))
    monkeypatch.setattr(f"{__name__}.Journal", TrustingListings)
    assert any(is_found_out(seed, MemoryStore()) for seed in range(100))


def write_from_threads(store: Store, writers: int, appends: int) -> None:
    """Let threads, each with its own journal, append as fast as they can, and check the result."""
    seen: list[JobState] = []

    def write(number: int) -> None:
        mine = Journal(store, "sales", writer=f"w{number}")
        for _ in range(appends):
            mine.append(lambda state: next_version(state, f"w{number}"))
        seen.append(mine.state())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == writers
    check_one_winner_and_one_fold(store, seen, writers, appends)


def test_threads_on_a_directory_have_one_winner_per_number(tmp_path: Path) -> None:
    """Four threads that append to one directory get one winner per number and one state."""
    write_from_threads(LocalStore(tmp_path), writers=4, appends=12)


@pytest.mark.s3
def test_threads_on_a_real_s3_server_have_one_winner_per_number(s3_url: str) -> None:
    """Three threads that append to one bucket get one winner per number and one state."""
    write_from_threads(open_store(s3_url), writers=3, appends=5)


PROCESS = """
import sys
from streamkeeper.model.coding import to_json
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore
from tests.properties.versions import next_version
journal = Journal(LocalStore(sys.argv[1]), "sales", writer=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(12):
    journal.append(lambda state: next_version(state, sys.argv[2]))
print(to_json(journal.state()).decode())
"""


def start_writer(folder: Path, number: int) -> subprocess.Popen[str]:
    """Start a process that waits for a line of input before it appends to the directory."""
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), f"w{number}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_processes_on_a_directory_have_one_winner_per_number(tmp_path: Path) -> None:
    """Three processes that append to one directory at the same time get one winner per number and one state."""
    with ExitStack() as stack:
        running = [stack.enter_context(killed_after(start_writer(tmp_path, number))) for number in range(3)]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    numbers = [json.loads(text)["number"] for text in told]
    assert max(numbers) == 36
    check_one_winner_and_one_fold(LocalStore(tmp_path), [], writers=3, appends=12)
