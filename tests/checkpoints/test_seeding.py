"""Seeding a checkpoint version: complete or absent, only with the files that the plan needs, and refused if it cannot
be exact.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from harness.checkpoint_files import CONF, Tree
from streamkeeper.checkpoints import seeding, trees
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE, LoggedFile, source_entry_content
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.seeding import REBASED, seed, seed_beginning, seed_start
from streamkeeper.checkpoints.source_starts import read_start
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, InvalidInput, NotFound, Unsupported
from tests.checkpoints.tree_kinds import at, contents

pytestmark = pytest.mark.usefixtures("kind_of_tree")

NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f11"


def plan(checkpoint: Path, batch: int, *ends: str) -> None:
    """Write a planned batch of numbered sources."""
    path = checkpoint / "offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", json.dumps({"batchWatermarkMs": 0, "conf": CONF}), *ends]))


def kafka(checkpoint: Path, number: int, offsets: dict[str, dict[str, int]]) -> None:
    """Write the start offsets of a Kafka source in Spark's format."""
    log = checkpoint / "sources" / str(number)
    log.mkdir(parents=True)
    (log / "0").write_bytes(b"\0v1\n" + json.dumps(offsets).encode())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A checkpoint with batches 0 to 11 committed and 12 planned; entry 9 is compacted, and entry 13 is listed but in
    no plan.
    """
    tree = Tree(tmp_path / "v0001", "stateless", batches=12)
    tree.plan(12)
    Tree.list_files(tree.root, 13)
    return tree.root


def test_seeding_with_kept_numbers_copies_two_batches_and_the_source_log(old: Path, tmp_path: Path) -> None:
    """Seeding with kept numbers copies the batch, the one before it and the source log up to its offset, nothing else,
    and marks the batch as committed.
    """
    seed(at(old), at(tmp_path / "v0002"), 12, number=12, query_id=NEW_ID)
    found, before = contents(tmp_path / "v0002"), contents(old)
    same = {"offsets/11", "offsets/12", "commits/11", "sources/0/9.compact"} | {f"sources/0/{n}" for n in (10, 11, 12)}
    assert found.keys() == same | {"commits/12", "metadata"}
    assert {each: found[each] for each in same} == {each: before[each] for each in same}
    assert (found["commits/12"], json.loads(found["metadata"])) == (before["commits/11"], {"id": NEW_ID})
    assert [each.shape for each in examine(at(tmp_path / "v0002"))] == ["checksums-missing"]


def test_seeding_with_new_numbers_makes_the_batch_number_1(old: Path, tmp_path: Path) -> None:
    """Seeding with new numbers makes the batch number 1 after an empty batch 0, while the source's log keeps its own
    entry numbers.
    """
    seed(at(old), at(tmp_path / "v0002"), 12, number=REBASED, query_id=NEW_ID)
    found, before = contents(tmp_path / "v0002"), contents(old)
    for number in ("0", "1"):
        assert found[f"offsets/{number}"] == before["offsets/12"]
        assert found[f"commits/{number}"] == before["commits/11"]
    numbered = ["commits/0", "commits/1", "metadata", "offsets/0", "offsets/1"]
    assert sorted(each for each in found if "sources" not in each) == numbered
    assert [each.shape for each in examine(at(tmp_path / "v0002"))] == ["checksums-missing"]


def test_seeding_an_existing_version_of_the_same_query_changes_nothing(old: Path, tmp_path: Path) -> None:
    """Seeding an existing version of the same query changes nothing, even if that query has continued and the old
    version was deleted; a version of a different query is refused.
    """
    target = tmp_path / "v0002"
    seed(at(old), at(target), 12, number=12, query_id=NEW_ID)
    at(target).create("offsets/13", [b"v1\n{}\n{}"])
    before = contents(target)
    shutil.rmtree(old)
    seed(at(old), at(target), 12, number=12, query_id=NEW_ID)
    seed_start(at(old), at(target), 12, query_id=NEW_ID)
    assert contents(target) == before
    for make in (lambda: seed(at(old), at(target), 12, number=12, query_id="other"),
                 lambda: seed_start(at(old), at(target), 12, query_id="other")):  # fmt: skip
        with pytest.raises(InvalidInput, match="is already the checkpoint of another query, "):
            make()


def test_a_directory_that_is_no_checkpoint_is_never_written_over(old: Path, tmp_path: Path) -> None:
    """A target directory with unrelated files is refused and left unchanged."""
    (tmp_path / "v0002").mkdir()
    (tmp_path / "v0002" / "notes").write_text("mine")
    with pytest.raises(InvalidInput, match="is not a checkpoint"):
        seed(at(old), at(tmp_path / "v0002"), 12, number=12, query_id=NEW_ID)
    assert contents(tmp_path / "v0002") == {"notes": b"mine"}


class Dies(Exception):
    """Stands for the death of a writer."""


class Mortal:
    """Makes a tree's writer die at a given write: before it, or after it but before the writer learns of it."""

    def __init__(self, tree: trees.Tree, nth: int, *, after: bool) -> None:
        self._create, self._left, self._after = tree.create, nth, after

    def create(self, path: str, content: Iterable[bytes]) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Dies
        self._create(path, content)
        if self._left == 0:
            raise Dies


@pytest.mark.parametrize("after", [False, True])
def test_a_retry_completes_a_version_whose_writer_died_at_any_write(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """If the writer dies at any write, no version is published before the metadata, which is written last, and the next
    attempt completes the version.
    """
    seed(at(old), at(tmp_path / "whole"), 12, number=12, query_id=NEW_ID)
    whole = contents(tmp_path / "whole")
    for nth in range(1, len(whole) + 1):
        target = at(tmp_path / f"v{nth}")
        with monkeypatch.context() as patch:
            patch.setattr(target, "create", Mortal(target, nth, after=after).create)
            with pytest.raises(Dies):
                seed(at(old), target, 12, number=12, query_id=NEW_ID)
        published = after and nth == len(whole)
        assert len(contents(tmp_path / f"v{nth}")) == nth - (not after)
        assert is_published(target) == published
        seed(at(old), target, 12, number=12, query_id=NEW_ID)
        assert contents(tmp_path / f"v{nth}") == whole


def test_different_leftover_files_of_another_attempt_make_seeding_refuse(old: Path, tmp_path: Path) -> None:
    """Leftover files of a different batch, or with different content under the same name, make seeding refuse the
    target.
    """
    for path, content in (("offsets/99", b"left over"), ("offsets/12", b"left over")):
        target = at(tmp_path / content.decode() / path)
        target.create(path, [content])
        with pytest.raises(InvalidInput):
            seed(at(old), target, 12, number=12, query_id=NEW_ID)
        assert not is_published(target)


def test_a_log_entry_deleted_during_seeding_is_reported_as_a_change(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the owner deletes a source log entry during seeding, a change is reported, which can be retried, and nothing
    is published.
    """
    read = seeding._read

    def remove_and_read(source: trees.Tree, path: str) -> bytes:
        if path.startswith("offsets/"):
            (old / "sources" / "0" / "10").unlink(missing_ok=True)
        return read(source, path)

    monkeypatch.setattr(seeding, "_read", remove_and_read)
    with pytest.raises(CheckpointChanged, match="sources/0/10"):
        seed(trees.LocalTree(old), at(tmp_path / "v0002"), 12, number=12, query_id=NEW_ID)
    assert at(tmp_path / "v0002").names("") == []


@pytest.mark.parametrize("kind", ["hdfs", "rocksdb", "changelog", "format-2"])
def test_a_query_with_state_is_not_seeded(tmp_path: Path, kind: str) -> None:
    """A query with state is not seeded with offsets alone, which would silently drop the state; if the state is given
    up on purpose, its sources start at the batch's offsets.
    """
    Tree(tmp_path / "old", kind, batches=3)
    with pytest.raises(InvalidInput, match="keeps state, but the new checkpoint would contain no state"):
        seed(at(tmp_path / "old"), at(tmp_path / "new"), 2, number=REBASED, query_id=NEW_ID)
    assert at(tmp_path / "new").names("") == []
    seed_start(at(tmp_path / "old"), at(tmp_path / "new"), 2, query_id=NEW_ID)
    assert contents(tmp_path / "new").keys() == {"metadata", "sources/0/0"}
    assert examine(at(tmp_path / "new")) == ()


def test_missing_batches_plans_and_log_entries_are_reported(old: Path, tmp_path: Path) -> None:
    """An unknown batch, a missing plan that kept numbers require, and a missing source log entry are reported, and
    nothing is written.
    """
    with pytest.raises(NotFound, match="no batch 40"):
        seed(at(old), at(tmp_path / "new"), 40, number=40, query_id=NEW_ID)
    (old / "offsets" / "4").unlink()
    with pytest.raises(CheckpointDamaged, match="offsets/4 is missing"):
        seed(at(old), at(tmp_path / "new"), 5, number=5, query_id=NEW_ID)
    seed(at(old), at(tmp_path / "rebased"), 5, number=REBASED, query_id=NEW_ID)
    (old / "sources" / "0" / "11").unlink()
    for make in (lambda: seed(at(old), at(tmp_path / "new"), 12, number=12, query_id=NEW_ID),
                 lambda: seed_start(at(old), at(tmp_path / "new"), 12, query_id=NEW_ID)):  # fmt: skip
        with pytest.raises(CheckpointDamaged, match="lacks entry 11"):
            make()
    assert at(tmp_path / "new").names("") == []


def logged(checkpoint: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in at(checkpoint).read("sources/0/0").splitlines()[1:]]


@pytest.mark.parametrize("batch", [12, 10, 9, 5])
def test_a_start_counts_exactly_the_files_up_to_the_batch_as_seen(old: Path, tmp_path: Path, batch: int) -> None:
    """A start after a batch counts exactly the files up to that batch as seen, even if they are only in a compacted
    entry.
    """
    for entry in range(9):
        (old / "sources" / "0" / str(entry)).unlink()
    seed_start(at(old), at(tmp_path / "new"), batch, query_id=NEW_ID)
    expected = [{"path": f"file:///in/f{n}.json", "timestamp": 1, "batchId": SEEN_BEFORE} for n in range(batch + 1)]
    assert logged(tmp_path / "new") == expected
    assert contents(tmp_path / "new").keys() == {"metadata", "sources/0/0"}


def test_a_start_made_from_a_start_keeps_its_seen_files(old: Path, tmp_path: Path) -> None:
    """Files that a first start counted as seen are also seen in a start that is made from it."""
    seed_start(at(old), at(tmp_path / "second"), 10, query_id=NEW_ID)
    second = at(tmp_path / "second")
    second.create("offsets/0", [b'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"logOffset":1}'])
    second.create("sources/0/1", [source_entry_content([LoggedFile("file:///in/f1.json", 1, 1)])])
    seed_start(at(tmp_path / "second"), at(tmp_path / "third"), 0, query_id=NEW_ID)
    assert sorted(each["path"] for each in logged(tmp_path / "third")) == sorted(
        [*(f"file:///in/f{n}.json" for n in range(11)), "file:///in/f1.json"]
    )


def test_a_seeded_kafka_source_continues_at_its_planned_offsets(tmp_path: Path) -> None:
    """A seeded Kafka source has its offsets in the plan and keeps its start offsets; in a start without state, the
    start offsets are where it stopped.
    """
    old = tmp_path / "old"
    Tree(old, "stateless", batches=0)
    kafka(old, 0, {"events": {"0": 3, "1": 0}})
    kafka(old, 1, {"more": {"0": 5}})
    plan(old, 0, '{"events":{"0":10,"1":20}}', "-")
    seed(at(old), at(tmp_path / "seeded"), 0, number=0, query_id=NEW_ID)
    assert contents(tmp_path / "seeded").keys() == {
        "metadata", "offsets/0", "commits/0", "sources/0/0", "sources/1/0",
    }  # fmt: skip
    assert contents(tmp_path / "seeded")["commits/0"] == b'v1\n{"nextBatchWatermarkMs":0}'
    assert read_start(at(tmp_path / "seeded"), "0") == '{"events":{"0":3,"1":0}}'
    seed_start(at(old), at(tmp_path / "started"), 0, query_id=NEW_ID)
    assert at(tmp_path / "started").read("sources/0/0") == b'\0v1\n{"events":{"0":10,"1":20}}'
    assert read_start(at(tmp_path / "started"), "1") == '{"more":{"0":5}}'


def test_a_start_with_unsupported_or_unassignable_sources_is_refused(tmp_path: Path) -> None:
    """A start is refused for an unsupported kind of source, and if logs cannot be assigned to sources."""
    old = tmp_path / "old"
    Tree(old, "stateless", batches=0)
    (old / "sources" / "0").mkdir(parents=True)
    plan(old, 0, "17")
    with pytest.raises(Unsupported, match="only sources that are read from files or Kafka can start"):
        seed_start(at(old), at(tmp_path / "new"), 0, query_id=NEW_ID)
    plan(old, 1, '{"a":{"0":1}}', '{"a":{"0":1}}')
    with pytest.raises(Unsupported, match="its logs are 0, its sources 0, 1"):
        seed_start(at(old), at(tmp_path / "new"), 1, query_id=NEW_ID)
    assert at(tmp_path / "new").names("") == []


def test_a_rebuild_begins_where_kafka_was_first_read(tmp_path: Path) -> None:
    """A rebuild of a Kafka source starts at the offsets of the first version, whatever was read since, and seeding it
    twice changes nothing.
    """
    old = Tree(tmp_path / "v0001", "stateless", batches=2).root
    shutil.rmtree(old / "sources")
    kafka(old, 0, {"events": {"0": 7, "1": 0}})
    for _ in range(2):
        assert seed_beginning(at(old), at(tmp_path / "v0002"), query_id=NEW_ID)
    assert contents(tmp_path / "v0002").keys() == {"metadata", "sources/0/0"}
    assert read_start(at(tmp_path / "v0002"), "0") == '{"events":{"0":7,"1":0}}'


def test_files_are_read_from_the_first_one_without_a_seed(old: Path, tmp_path: Path) -> None:
    """A rebuild of a file source needs no seed, so nothing is written."""
    assert not seed_beginning(at(old), at(tmp_path / "v0002"), query_id=NEW_ID)
    assert at(tmp_path / "v0002").names("") == []


def test_concurrent_seeds_all_succeed_and_produce_one_version(old: Path, tmp_path: Path) -> None:
    """Four concurrent seeds of one version all succeed and produce one complete version."""
    seed(at(old), at(tmp_path / "whole"), 12, number=12, query_id=NEW_ID)
    for attempt in range(5):
        target, start = at(tmp_path / f"v{attempt}"), Barrier(4)

        def make(_: int, target: trees.Tree = target, start: Barrier = start) -> None:
            start.wait()
            seed(at(old), target, 12, number=12, query_id=NEW_ID)

        with ThreadPoolExecutor(max_workers=4) as writers:
            list(writers.map(make, range(4)))
        assert contents(tmp_path / f"v{attempt}") == contents(tmp_path / "whole")
