"""Any interleaving of writers gives one winner per number and one fold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from streamkeeper.model.job_state import JobState, fold
from streamkeeper.model.journal import EpochClaimed, Record
from streamkeeper.registry import journal
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore
from tests.contracts.memory_store import MemoryStore
from tests.properties.interleaving import Interleaving, SteppingStore

QUIET = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
CHOICES = st.lists(st.integers(0, 5), max_size=120)


@pytest.fixture(autouse=True)
def _small_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FOLD_EVERY", 3)


def next_epoch(state: JobState, who: str) -> Record:
    """A read-modify-write: whoever decides on an old state would claim an epoch that is taken."""
    known = state.epochs.get("totals")
    return EpochClaimed(
        query="totals", output="t", epoch=known.epoch + 1 if known else 1, instance=who, generation=1, version="v0001"
    )


def write_interleaved(store: Store, choices: Sequence[int], writers: int, appends: int) -> list[JobState]:
    """Let ``writers`` append ``appends`` records each in the chosen order; the state each of them saw last."""
    interleaving = Interleaving(choices)
    stepping = SteppingStore(store, interleaving)
    last: dict[int, JobState] = {}

    def write(number: int) -> None:
        mine = Journal(stepping, "sales", writer=f"w{number}")
        for _ in range(appends):
            state = mine.append(lambda state: next_epoch(state, f"w{number}"))
            assert state.epochs["totals"].instance == f"w{number}", "append returned before its own record was folded"
        last[number] = mine.state()

    interleaving.run([lambda number=number: write(number) for number in range(writers)])  # type: ignore[misc]
    return list(last.values())


def check_one_winner_and_one_fold(store: Store, seen: Sequence[JobState], writers: int, appends: int) -> None:
    """Every append has a number of its own, decided on the state just before it; all readers have one state."""
    reader = Journal(store, "sales", writer="reader")
    entries = list(reader.entries())
    assert [entry.number for entry in entries] == list(range(1, writers * appends + 1))
    assert [entry.record.epoch for entry in entries if isinstance(entry.record, EpochClaimed)] == list(
        range(1, writers * appends + 1)
    )
    authors = [entry.by for entry in entries]
    assert sorted(authors.count(author) for author in set(authors)) == [appends] * writers
    whole = reduce(fold, entries, JobState(job="sales"))
    assert reader.state() == whole
    for state in seen:
        assert state == reduce(fold, entries[: state.number], JobState(job="sales"))


@QUIET
@given(choices=CHOICES, writers=st.integers(2, 4), appends=st.integers(1, 4))
def test_any_interleaving_has_one_winner_per_number_and_one_fold(
    choices: list[int], writers: int, appends: int
) -> None:
    """However the writers' store calls interleave, and whatever a listing misses meanwhile, no record is lost."""
    store = MemoryStore()
    seen = write_interleaved(store, choices, writers, appends)
    check_one_winner_and_one_fold(store, seen, writers, appends)


def test_interleavings_see_a_store_that_overwrites() -> None:
    """Negative control: when create overwrites, an interleaving is found that loses a record."""

    class Overwriting(MemoryStore):
        def create(self, key: str, value: bytes) -> None:
            self.replace(key, value)

    def loses(choices: list[int]) -> bool:
        store = Overwriting()
        try:
            check_one_winner_and_one_fold(store, write_interleaved(store, choices, 2, 2), 2, 2)
        except AssertionError:
            return True
        return False

    assert find(CHOICES, loses, settings=QUIET) is not None


def test_threads_on_a_directory_have_one_winner_per_number(tmp_path: Path) -> None:
    """Four threads, each with its own journal, append to one directory as fast as they can."""
    store = LocalStore(tmp_path)
    seen: list[JobState] = []

    def write(number: int) -> None:
        mine = Journal(store, "sales", writer=f"w{number}")
        for _ in range(12):
            mine.append(lambda state: next_epoch(state, f"w{number}"))
        seen.append(mine.state())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_one_winner_and_one_fold(store, seen, writers=4, appends=12)


PROCESS = """
import sys
from streamkeeper.model.coding import to_json
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore
from tests.properties.test_journal_writers import next_epoch
journal = Journal(LocalStore(sys.argv[1]), "sales", writer=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(12):
    journal.append(lambda state: next_epoch(state, sys.argv[2]))
print(to_json(journal.state()).decode())
"""


def test_processes_on_a_directory_have_one_winner_per_number(tmp_path: Path) -> None:
    """Three processes that start together append to one directory; each saw a state that the entries fold to."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path), f"w{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for number in range(3)
    ]
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
