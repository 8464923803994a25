"""Tests the log of a file sink that Streamkeeper starts or continues for Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamkeeper.checkpoints.log_codec import sink_entry_content
from streamkeeper.errors import InvalidInput
from streamkeeper.sinks.sink_log import SINK_LOG, begin_log, continue_log, listed_files, newest_batch


def entry(directory: Path, name: str) -> Path:
    """Create a log entry of a batch that has written one file, and return its path."""
    file = directory / SINK_LOG / name
    file.parent.mkdir(parents=True, exist_ok=True)
    told = {"path": f"file://{directory}/a.json", "size": 1, "isDir": False, "modificationTime": 1}
    rest = {"blockReplication": 1, "blockSize": 1, "action": "add"}
    file.write_text("v1\n" + json.dumps({**told, **rest}))
    return file


def test_starting_a_log_at_a_batch_creates_empty_entries_up_to_it(tmp_path: Path) -> None:
    """Starting a log at a batch creates an empty entry for every batch up to it; a repeated start changes nothing."""
    for _ in range(2):
        begin_log(str(tmp_path), 3)
        assert sorted(file.name for file in (tmp_path / SINK_LOG).iterdir()) == ["0", "1", "2", "3"]
        assert {file.read_bytes() for file in (tmp_path / SINK_LOG).iterdir()} == {sink_entry_content()}
    assert listed_files(str(tmp_path), last=None) == []


def test_a_log_is_not_started_over_a_batch_that_has_written_files(tmp_path: Path) -> None:
    """Starting a log is refused if an entry with files exists: the entry belongs to a different output, is named in the
    error and stays unchanged.
    """
    other = entry(tmp_path, "2")
    before = other.read_bytes()
    with pytest.raises(InvalidInput, match="2 already contains a batch"):
        begin_log(str(tmp_path), 3)
    assert other.read_bytes() == before


def test_a_log_is_continued_over_a_compaction_and_keeps_its_files(tmp_path: Path) -> None:
    """Continuing a log over compactions keeps its files, because each compacted entry, the first and every later one,
    contains the lines of all earlier batches.
    """
    entry(tmp_path, "0")
    for last, compacted in ((8, set()), (12, {"9.compact"}), (23, {"9.compact", "19.compact"})):
        for _ in range(2):
            continue_log(str(tmp_path), last)
        names = {file.name for file in (tmp_path / SINK_LOG).iterdir()}
        assert names == {str(number) for number in range(last + 1)} - {"9", "19"} | compacted
        assert listed_files(str(tmp_path)) == [f"{tmp_path}/a.json"]


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ([], None),
        (["0", "1", "2"], 2),
        (["0", "1", "5"], 1),
        (["5"], None),
        (["9.compact", "10", "12"], 10),
        (["3", "9.compact", "10", "11"], 11),
        (["9.compact", "19.compact"], 19),
    ],
)
def test_a_batch_after_a_gap_does_not_count(tmp_path: Path, names: list[str], newest: int | None) -> None:
    """The newest batch of a log with a gap is the one before the gap, because Spark refuses to read such a log."""
    for name in names:
        entry(tmp_path, name)
    assert newest_batch(str(tmp_path)) == newest


def test_a_compacted_entry_in_a_filled_gap_excludes_later_batches(tmp_path: Path) -> None:
    """When a gap after an accepted loss is filled with empty batches, the batch after the gap stays in its own entry
    and out of the compacted ones.
    """
    for name in ("0", "25"):
        entry(tmp_path, name)
    (tmp_path / SINK_LOG / "25").write_bytes((tmp_path / SINK_LOG / "25").read_bytes().replace(b"a.json", b"b.json"))
    continue_log(str(tmp_path), 24)
    assert newest_batch(str(tmp_path)) == 25
    assert listed_files(str(tmp_path), last=24) == [f"{tmp_path}/a.json"]
    assert listed_files(str(tmp_path)) == [f"{tmp_path}/a.json", f"{tmp_path}/b.json"]
