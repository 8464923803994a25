"""Spark's logs as values: every format that Spark 4.2 writes is read, and whatever is written can be read back."""

from __future__ import annotations

import json

import pytest

from streamkeeper.checkpoints.log_codec import (
    SEEN_BEFORE,
    LoggedFile,
    Offsets,
    SinkFile,
    Trouble,
    commit_from,
    log_names,
    metadata_content,
    offsets_from,
    query_id_from,
    sink_entry_content,
    sink_entry_from,
    source_entry_content,
    source_entry_from,
)
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.sources.kafka import KAFKA


@pytest.mark.parametrize(("version", "line", "source"), [("v1", '{"a":1}', "0"), ("v2", 'orders:{"a":1}', "orders")])
def test_offset_logs_of_versions_1_and_2_are_read(version: str, line: str, source: str) -> None:
    """Offset logs of version 1, which numbers the sources, and of version 2, which names them, are read."""
    found = offsets_from(f'{version}\n{{"batchWatermarkMs":5,"conf":{{"a":1}}}}\n{line}'.encode())
    assert found == Offsets(version=int(version[1:]), watermark_ms=5, conf={"a": "1"}, ends={source: '{"a":1}'})
    assert isinstance(found, Offsets)
    assert found.named == (version == "v2")


@pytest.mark.parametrize(
    ("content", "version", "partitions"),
    [
        ('v1\n{"nextBatchWatermarkMs":0}', 1, {}),
        ('v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"],["b"]]}}', 2, {"0": 2}),
        ('v3\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"]]},"sinkMetadataMap":{}}', 3, {"0": 1}),
        ('v3\n{"nextBatchWatermarkMs":0,"sinkMetadataMap":{}}', 3, {}),
        ("v1", 1, {}),
    ],
)
def test_commits_of_versions_1_to_3_are_read(content: str, version: int, partitions: dict[str, int]) -> None:
    """Commits of versions 1 to 3 are read; versions 2 and 3 name state files if there is state of format 2."""
    found = commit_from(content.encode())
    assert not isinstance(found, Trouble)
    assert (found.version, found.partitions) == (version, partitions)


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (b"", Trouble.EMPTY),
        (b"\xff", Trouble.UNKNOWN_VERSION),
        (b"1\n{}", Trouble.UNKNOWN_VERSION),
        (b"v4\n{}", Trouble.NEWER),
        (b"v1\n{", Trouble.CUT_SHORT),
        (b"v1\n[]", Trouble.CUT_SHORT),
        (b'v2\n{"stateUniqueIds":{"0":7}}', Trouble.CUT_SHORT),
        (b'v2\n{"stateUniqueIds":{"0":[7]}}', Trouble.CUT_SHORT),
    ],
)
def test_an_unreadable_commit_is_reported_with_the_reason(content: bytes, trouble: Trouble) -> None:
    """A commit that is empty, truncated, or of a newer or unknown version is reported as such."""
    assert commit_from(content) is trouble


def test_a_source_log_entry_is_unchanged_after_writing_and_reading() -> None:
    """A source log entry is unchanged after writing and reading, also with names that JSON escapes; a line without an
    entry number has the number of its file.
    """
    files = [LoggedFile("file:///in/ä%20b", 7, 3), LoggedFile("s3a://b/x", 8, SEEN_BEFORE)]
    assert source_entry_from(source_entry_content(files), "9.compact") == files
    assert source_entry_from(b'v1\n{"path":"file:///a"}', "19.compact") == [LoggedFile("file:///a", 0, 19)]
    assert source_entry_from(b"v1", "3") == source_entry_from(b"v1\n", "3") == []
    assert source_entry_from(b'v1\n{"path":', "3") is Trouble.CUT_SHORT


def test_an_entry_of_a_sink_lists_what_is_added_and_deleted() -> None:
    """A sink log entry lists added and deleted files; an empty entry, with which a version starts that continues an
    earlier output, has none.
    """
    lines = [
        json.dumps({"path": f"file:///out/{n}", "size": 1, "action": act}) for n, act in ((1, "add"), (2, "delete"))
    ]
    found = sink_entry_from("\n".join(["v1", *lines]).encode())
    assert found == [SinkFile("file:///out/1", "add"), SinkFile("file:///out/2", "delete")]
    assert sink_entry_from(sink_entry_content()) == []
    assert sink_entry_from(b"v2\n") is Trouble.NEWER


def test_query_id_and_start_offsets_are_unchanged_after_writing_and_reading() -> None:
    """The query id and a Kafka source's start offsets are unchanged after writing and reading; a file source's entry is
    not taken for start offsets, because it lacks their zero byte.
    """
    assert query_id_from(metadata_content("an-id")) == "an-id"
    assert (query_id_from(b""), query_id_from(b"[]"), query_id_from(b'{"id":7}')) == (None, None, None)
    assert KAFKA.start_in(KAFKA.start_content('{"events":{"0":5}}')) == '{"events":{"0":5}}'
    assert KAFKA.start_in(b'v1\n{"path":"file:///in/a"}') is None


@pytest.mark.parametrize(
    ("names", "end", "first", "held"),
    [
        (["0", "1", "2"], 1, 0, ["0", "1"]),
        (["9.compact", "10", "11", "12"], 11, 0, ["9.compact", "10", "11"]),
        (["9.compact", "19.compact", "20"], 12, 0, ["19.compact"]),
        (["0", "1", "9.compact", "10", "11"], 11, 10, ["10", "11"]),
        ([".3.crc", ".4.tmp", "3", "4.compact", "x"], 4, 4, ["4.compact"]),
        ([], -1, 0, []),
    ],
)
def test_the_fewest_files_hold_the_entries(names: list[str], end: int, first: int, held: list[str]) -> None:
    """The entries of a log up to an end are found in the fewest files: the last compacted entry and those after it, or
    a later compacted one.
    """
    assert list(log_names(names).holding(end, first=first, where="sources/0")) == held


@pytest.mark.parametrize(("names", "lost"), [(["0", "2"], 1), (["9.compact", "11"], 10), ([], 0)])
def test_a_gap_in_a_log_is_reported_with_the_missing_entry(names: list[str], lost: int) -> None:
    """A log with a gap is reported as damage with the missing entry."""
    with pytest.raises(CheckpointDamaged, match=f"sources/0 lacks entry {lost}"):
        log_names(names).holding(11, where="sources/0")
