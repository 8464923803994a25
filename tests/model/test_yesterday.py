"""Tests that files of every stored type, as format 1 first wrote them, are always read without loss.

A file here is never edited. A new record kind adds a line; a new format adds a folder beside this one.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import pytest

from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.driver_messages import Command, DriverExit, DriverStatus, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.signals import History, QuerySignals
from streamkeeper.model.records.job_state import FORMAT, JobState, fold
from streamkeeper.model.records.journal_records import Entry, Record

YESTERDAY = Path(__file__).parent / "yesterday"
ENTRIES = (YESTERDAY / "entries.jsonl").read_bytes().splitlines()

STRICTER = ("most_differing",)
"""Fields whose default has become stricter since requests without them were recorded."""
FOLDS = ("fold.json", *(f"format-{number}/fold.json" for number in (2, 3, 4, 6, 7, 8)))
KINDS: dict[str, Any] = {
    **dict.fromkeys(FOLDS, JobState),
    "manifest.json": Manifest,
    "assessment.json": Assessment,
    "control/launch.json": LaunchSpec,
    "control/process-0001.json": ProcessRecord,
    "control/manifests.json": dict[str, Manifest],
    "control/evidence.json": Evidence,
    "control/status.json": DriverStatus,
    "control/history.json": History,
    "control/commands/000001.json": Command,
    "control/exit.json": DriverExit,
}


def assert_keeps(old: object, new: object, where: str) -> None:
    """Check that ``new`` contains everything in ``old``; it may have more fields."""
    match old, new:
        case dict(), dict():
            for key, value in old.items():
                assert key in new, f"{where}.{key} is lost"
                assert_keeps(value, new[key], f"{where}.{key}")
        case list(), list():
            assert len(old) == len(new), where
            for number, (before, after) in enumerate(zip(old, new, strict=True)):
                assert_keeps(before, after, f"{where}[{number}]")
        case _:
            assert old == new, where


@pytest.mark.parametrize("name", KINDS)
def test_file_is_read_without_loss(name: str) -> None:
    """A stored file is read and encoded without losing any of its content."""
    data = (YESTERDAY / name).read_bytes()
    assert_keeps(json.loads(data), json.loads(to_json(from_json(data, KINDS[name], where=name))), name)


@pytest.mark.parametrize("line", ENTRIES, ids=lambda line: json.loads(line)["record"]["type"])
def test_entry_is_read_without_loss(line: bytes) -> None:
    """A stored journal entry of every kind is read and encoded without losing any of its content."""
    assert_keeps(json.loads(line), json.loads(to_json(from_json(line, Entry, where="entry"))), "entry")


@pytest.mark.parametrize("name", FOLDS)
def test_old_entries_fold_to_the_stored_state(name: str) -> None:
    """Old entries fold to the stored state; a different meaning would need a new format, or old folded copies would
    disagree.

    A copy of an older format may lack what the newer one has, and nothing else.
    """
    data = (YESTERDAY / name).read_bytes()
    stored = from_json(data, JobState, where="fold")
    entries = [from_json(line, Entry, where="entry") for line in ENTRIES]
    state = reduce(fold, entries[: stored.number], JobState(job="sales_totals"))
    folded = {**json.loads(to_json(state)), "format": stored.format}
    assert_keeps(without(json.loads(data), *STRICTER), without(folded, *STRICTER), "fold")
    assert (stored == state) is (stored.format == FORMAT)


def without(value: Any, *keys: str) -> Any:
    """Return the value without these keys at any depth."""
    match value:
        case dict():
            return {key: without(each, *keys) for key, each in value.items() if key not in keys}
        case list():
            return [without(each, *keys) for each in value]
        case _:
            return value


def test_every_record_kind_has_a_line() -> None:
    """Every record kind has an example in ``entries.jsonl``; append a line for a new one."""
    there = {type(from_json(line, Entry, where="entry").record) for line in ENTRIES}
    missing = set(get_args(Record)) - there
    assert not missing, f"no line in {YESTERDAY / 'entries.jsonl'} for {[each.__name__ for each in missing]}"


def test_a_field_lost_in_reading_is_reported() -> None:
    """Negative control: a field that is lost in reading is reported by name."""
    with pytest.raises(AssertionError, match=r"entry\.record\.step is lost"):
        assert_keeps({"record": {"step": "go"}}, {"record": {}}, "entry")


def test_a_status_of_an_older_release_has_empty_signals() -> None:
    """The signals of a status from an older release, whose drivers may still run, are empty rather than a zero lag or a
    recent commit.
    """
    status = from_json((YESTERDAY / "control/status.json").read_bytes(), DriverStatus, where="status")
    signals = status.queries["totals"].signals
    assert signals == QuerySignals()
    assert (signals.lag_s, signals.runway_s, signals.last_commit, signals.batch) == (None, None, None, -1)
