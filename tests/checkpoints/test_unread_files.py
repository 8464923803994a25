"""Files that wait for a file source: the difference between its directory and its log."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from streamkeeper.checkpoints.file_sources import FileSource
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE, log_names
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.unread_files import Unread, UnreadFiles
from streamkeeper.errors import CheckpointDamaged
from tests.checkpoints.tree_kinds import MemoryTree, at

pytestmark = pytest.mark.usefixtures("kind_of_tree")

NOW = 1_795_000_000


class Source:
    """A directory, and a log of the files that were read from it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory, self.log = root / "in put", root / "sources" / "0"
        self.directory.mkdir(parents=True)
        self.log.mkdir(parents=True)
        self.unread = UnreadFiles(f"FileStreamSource[file:{self.directory}]", {})
        self.directory_url, self.at_ms = "", NOW * 1000

    def put(self, *names: str, age_s: float = 0.0) -> None:
        for name in names:
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
            os.utime(path, (NOW - age_s, NOW - age_s))

    def _url(self, name: str) -> str:
        return f"{quote(self.directory_url, ':/')}/{name}" if self.directory_url else (self.directory / name).as_uri()

    def read(self, name: str, entry: int, *files: tuple[int, str]) -> None:
        """Write one file of the source log in Spark's format; ``files`` are its lines with their entry numbers."""
        lines = [
            json.dumps({"path": self._url(each), "timestamp": self.at_ms, "batchId": number}) for number, each in files
        ]
        (self.log / name).write_text("\n".join(["v1", *lines]))
        assert int(name.removesuffix(".compact")) == entry

    def found(self, end: int) -> Unread:
        found = self._look(end)
        assert found is not None
        return found

    def look(self, end: int) -> tuple[int, float | None] | None:
        found = self._look(end)
        return None if found is None else (found.files, found.oldest)

    def _look(self, end: int) -> Unread | None:
        tree = at(self.root)
        entries = log_names(tree.files("sources/0"))
        return self.unread.look(
            tree, FileSource(name="0", start=None, end=end, log="0", folder="sources/0", entries=entries)
        )


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_files_not_in_the_log_are_waiting(source: Source) -> None:
    """Files that are not in the log up to the committed entry are waiting, including those that an open batch has
    listed; hidden files are ignored.
    """
    source.put("a.csv", "b.csv", age_s=50)
    source.put("day=1/c.csv", age_s=30)
    source.put("_draft", ".d.crc", "folder/e.csv")
    source.read("0", 0, (0, "a.csv"))
    source.read("1", 1, (1, "b.csv"))
    assert source.look(0) == (2, NOW - 50)
    assert source.look(1) == (1, NOW - 30)
    source.read("2", 2, (2, "day=1/c.csv"))
    assert source.look(2) == (0, None)


def test_each_log_entry_is_read_once_despite_compaction(source: Source) -> None:
    """Each log entry is read once, from its own file or from a compacted one, which is not read a second time."""
    names = [f"f{number}.csv" for number in range(12)]
    source.put(*names)
    source.read("9.compact", 9, *enumerate(names[:10]))
    source.read("10", 10, (10, names[10]))
    assert source.look(4) == (7, NOW)
    assert source.look(10) == (1, NOW)
    (source.log / "9.compact").write_text("nothing that could be read")
    source.read("11", 11, (11, names[11]))
    assert source.look(11) == (0, None)


def test_files_older_than_max_file_age_do_not_count_as_waiting(source: Source) -> None:
    """Files that are more than a week older than the newest file read (``maxFileAge``) are counted as too old and not
    as waiting, even if that file was deleted.
    """
    source.put("old.csv", "day=1/older.csv", age_s=8 * 24 * 3600)
    source.put("a.csv")
    source.read("0", 0)
    assert source.look(0) == (3, NOW - 8 * 24 * 3600)
    source.read("1", 1, (1, "a.csv"))
    example = f"{source.directory}/day=1/older.csv"
    assert source.found(1) == Unread(files=0, oldest=None, too_old=2, example=example)
    (source.directory / "a.csv").unlink()
    assert source.found(1).too_old == 2


def test_a_file_whose_name_is_not_utf_8_is_never_read(source: Source) -> None:
    """A file whose name is not valid UTF-8 counts as never read, because Java cannot name it; negative control: a file
    with a non-ASCII name in UTF-8 is waiting.
    """
    source.put("a.csv", "später.csv")
    (source.directory / os.fsdecode(b"caf\xe9.csv")).write_text("x")
    source.read("0", 0, (0, "a.csv"))
    found = source.found(0)
    assert (found.files, found.too_old, found.example) == (1, 1, f"{source.directory}/caf\ufffd.csv")


@pytest.mark.parametrize(
    ("options", "age_s", "old"),
    [
        ({}, 8 * 86_400, True),
        ({"maxfileage": "1h"}, 3_700, True),
        ({"maxfileage": "1h"}, 3_500, False),
        ({"maxfileage": "90000"}, 91, True),
        ({"maxfileage": "3650d"}, 8 * 86_400, False),
        ({"latestfirst": "true"}, 8 * 86_400, True),
        ({"latestfirst": "true", "maxfilespertrigger": "1"}, 80 * 86_400, False),
        ({"maxfileage": "a while"}, 80 * 86_400, False),
    ],
)
def test_the_age_is_the_sources_own(source: Source, options: dict[str, str], age_s: float, old: bool) -> None:
    """The age limit is the one of the source's options; with ``latestFirst`` and a limit on files per batch, Spark
    ignores it.
    """
    source.unread = UnreadFiles(f"FileStreamSource[file:{source.directory}]", options)
    source.put("late.csv", age_s=age_s)
    source.put("a.csv")
    source.read("0", 0, (0, "a.csv"))
    assert source.found(0).too_old == old
    assert source.found(0).files == (not old)


def test_nested_files_are_waiting_only_with_recursive_file_lookup(source: Source) -> None:
    """Files in nested folders are waiting only with ``recursiveFileLookup``, and unfinished uploads are ignored."""
    source.put("deep/er/a.csv", "b.csv._COPYING_")
    source.read("0", 0)
    assert source.look(0) == (0, None)
    source.unread = UnreadFiles(str(source.directory), {"recursivefilelookup": "true"})
    assert source.look(0) == (1, NOW)


@pytest.mark.parametrize(
    "place", [pytest.param("s3_url", marks=pytest.mark.s3), pytest.param("hdfs_url", marks=pytest.mark.hdfs)]
)
def test_waiting_files_are_found_on_s3_and_hdfs_as_on_disk(
    source: Source, place: str, request: pytest.FixtureRequest
) -> None:
    """Waiting and too old files are found in a bucket and in HDFS as on a disk; for a different server nothing is
    reported.
    """
    url = request.getfixturevalue(place).replace("s3://", "s3a://") + "/in put"
    for name in ("a.csv", "b.csv", "day=1/c.csv", "_draft", "folder/e.csv"):
        tree_at(url).create(name, [b"x"])
    source.unread = UnreadFiles(f"FileStreamSource[{url}]", {})
    source.directory_url = url
    source.read("0", 0, (0, "a.csv"))
    found = source.found(0)
    assert (found.files, found.too_old) == (2, 0)
    assert found.oldest is not None
    assert abs(found.oldest - time.time()) < 60
    source.at_ms = (int(time.time()) + 8 * 86_400) * 1000
    source.read("1", 1, (1, "b.csv"))
    assert source.found(1) == Unread(files=0, oldest=None, too_old=1, example=f"{url}/day=1/c.csv")
    scheme = url.partition(":")[0]
    source.unread = UnreadFiles(f"FileStreamSource[{url}]", {}, unseen={scheme: "another server"})
    assert source.look(1) is None


def test_a_missing_source_log_entry_is_reported_as_damage(source: Source) -> None:
    """A missing log entry is reported as damage, because its files would seem to be waiting."""
    source.read("1", 1)
    with pytest.raises(CheckpointDamaged, match="lacks entry 0"):
        source.look(1)


def test_files_that_a_stateless_start_counts_as_seen_are_not_waiting(source: Source) -> None:
    """Files that a version without state counts as seen, because its predecessor read them, are not waiting."""
    source.put("a.csv", "b.csv", "c.csv", age_s=50)
    source.read("0", 0, (SEEN_BEFORE, "a.csv"), (SEEN_BEFORE, "b.csv"))
    assert source.look(0) == (1, NOW - 50)


@pytest.mark.parametrize(
    ("description", "options"),
    [
        ("FileStreamSource[gs://bucket/in]", {}),
        ("FileStreamSource[s3a://bucket/*/in]", {}),
        ("in", {}),
        ("FileStreamSource[file:/data/*/in]", {}),
        ("KafkaV2[Subscribe[t]]", {}),
        ("FileStreamSource[file:/data/in]", {"pathglobfilter": "*.csv"}),
    ],
)
def test_waiting_files_that_cannot_be_listed_cheaply_are_reported_as_none(
    description: str, options: dict[str, str]
) -> None:
    """For a source whose waiting files cannot be listed cheaply, the result is None and not 0."""
    source = FileSource(name="0", start=None, end=0, log="0", folder="sources/0", entries=log_names([]))
    assert UnreadFiles(description, options).look(MemoryTree(), source) is None
