"""Cloning a checkpoint while its owner is still using it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checkpoint_files import Tree
from streamkeeper.checkpoints import trees
from streamkeeper.checkpoints.cloning import clone, clone_last_batch
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, InvalidInput
from streamkeeper.model.records.snapshot import Stamp
from tests.checkpoints.tree_kinds import at, contents


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """A function that makes the owner act once, while the first file is being copied."""

    def arrange(act: Callable[[], None]) -> None:
        pending = [act]
        copy = LocalTree.copy_within

        def copy_within(self: LocalTree, source: trees.Tree, path: str, expected: Stamp) -> None:
            if pending:
                pending.pop()()
            copy(self, source, path, expected)

        monkeypatch.setattr(LocalTree, "copy_within", copy_within)

    return arrange


@pytest.mark.usefixtures("kind_of_tree")
def test_a_clone_holds_the_closed_set_and_nothing_else(tmp_path: Path) -> None:
    """A clone contains exactly the closed set of its batch with identical bytes, without checksums or files of other
    batches, and the original is unchanged.
    """
    Tree(tmp_path / "live", "format-2", batches=6, snapshots=(2,))
    before = contents(tmp_path / "live")
    clone(at(tmp_path / "live"), at(tmp_path / "copy"), 4, pending=True)
    files = closed_set(at(tmp_path / "live"), 4, pending=True)
    assert contents(tmp_path / "copy") == {each: before[each] for each in files}
    assert contents(tmp_path / "live") == before


def test_a_clone_shares_no_file_with_the_live_checkpoint(tmp_path: Path) -> None:
    """A clone shares no file with the live checkpoint, so that a write to one cannot affect the other."""
    Tree(tmp_path / "live", "rocksdb", batches=3)
    clone(at(tmp_path / "live"), at(tmp_path / "copy"), 2)
    assert not any(
        (tmp_path / "copy" / path).samefile(tmp_path / "live" / path) for path in contents(tmp_path / "copy")
    )


@pytest.mark.usefixtures("kind_of_tree")
def test_metadata_is_copied_last_into_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata is copied last, so an interrupted clone does not count as a checkpoint."""
    Tree(tmp_path / "live", "hdfs", batches=3)
    target, made = at(tmp_path / "copy"), []
    copy = target.copy_within

    def note(source: trees.Tree, path: str, expected: Stamp) -> None:
        made.append(path)
        copy(source, path, expected)

    monkeypatch.setattr(target, "copy_within", note)
    clone(at(tmp_path / "live"), target, 2)
    assert made[-1] == "metadata"
    assert len(made) == len(contents(tmp_path / "copy"))


@pytest.mark.usefixtures("kind_of_tree")
def test_the_last_committed_batch_becomes_the_next_to_run(tmp_path: Path) -> None:
    """In the clone the last committed batch becomes the next one to run; a batch that is open in the live checkpoint is
    left out.
    """
    tree = Tree(tmp_path / "live", "hdfs", batches=4)
    tree.plan(4)
    assert clone_last_batch(at(tmp_path / "live"), at(tmp_path / "copy")) == 3
    assert (last_committed(at(tmp_path / "copy")), open_batch(at(tmp_path / "copy"))) == (2, 3)


@pytest.mark.usefixtures("kind_of_tree")
def test_without_a_committed_batch_there_is_nothing_to_clone(tmp_path: Path) -> None:
    """A checkpoint without a committed batch is not cloned, and nothing is written."""
    Tree(tmp_path / "live", "hdfs", batches=0).plan(0)
    assert clone_last_batch(at(tmp_path / "live"), at(tmp_path / "copy")) is None
    assert at(tmp_path / "copy").names("") == []


def test_a_clone_retries_with_a_newer_batch_after_a_concurrent_cleanup(tmp_path: Path, meanwhile: Any) -> None:
    """If the owner commits newer batches and removes old files during a clone, a second attempt clones the newest batch
    completely.
    """
    tree = Tree(tmp_path / "live", "changelog", batches=4)

    def go_on() -> None:
        for batch in (4, 5, 6):
            tree.plan(batch)
            tree.commit(batch, snapshot=batch == 5)
        for old in tmp_path.glob("live/state/0/*/[1-5].changelog"):
            old.unlink()

    meanwhile(go_on)
    assert clone_last_batch(at(tmp_path / "live"), at(tmp_path / "copy")) == 6
    assert "state/0/0/6.zip" in contents(tmp_path / "copy")
    assert "state/0/0/1.changelog" not in contents(tmp_path / "copy")


def test_an_archive_replaced_during_the_copy_prevents_publishing_the_clone(tmp_path: Path, meanwhile: Any) -> None:
    """An archive that Spark replaces under the same name during the copy is noticed, and the clone is not published."""
    tree = Tree(tmp_path / "live", "rocksdb", batches=3)

    def upload_again() -> None:
        (tmp_path / "live/state/0/1/3.zip").unlink()
        tree.archive("state/0/1/3.zip", 3)

    meanwhile(upload_again)
    with pytest.raises(CheckpointChanged, match=r"3\.zip"):
        clone(at(tmp_path / "live"), at(tmp_path / "copy"), 2)
    assert not is_published(at(tmp_path / "copy")), "what the last look refuses was never a checkpoint"


@pytest.mark.usefixtures("kind_of_tree")
def test_damage_is_reported_without_a_retry_and_leaves_no_partial_clone(tmp_path: Path) -> None:
    """Damage that no newer batch can repair is reported without a retry, and no partial clone remains."""
    Tree(tmp_path / "live", "hdfs", batches=3)
    (tmp_path / "live/state/0/0/1.delta").unlink()
    with pytest.raises(CheckpointDamaged, match="lacks version 1"):
        clone_last_batch(at(tmp_path / "live"), at(tmp_path / "copy"))
    assert at(tmp_path / "copy").names("") == []


def test_a_clone_never_writes_over_what_is_there(tmp_path: Path) -> None:
    """Cloning into an existing checkpoint is refused, so that two checkpoints never mix."""
    Tree(tmp_path / "live", "hdfs", batches=3)
    with pytest.raises(InvalidInput):
        clone(at(tmp_path / "live"), at(tmp_path / "live"), 1)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_clone_names_its_own_schemas(tmp_path: Path) -> None:
    """The metadata of a clone refers to the schemas in the clone: Spark writes full paths, which would fail when the
    original checkpoint is deleted.
    """
    live, copy = tmp_path / "live", tmp_path / "a copy"
    Tree(live, "changelog", batches=3)
    schema = live / "state/0/_stateSchema/default/0_a"
    metadata = live / "state/0/_metadata/v2/0"
    for path in (schema, metadata):
        path.parent.mkdir(parents=True)
    schema.write_text("schema")
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [f"file:{schema}"]}]
    metadata.write_text("v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": stores}))
    clone(at(live), at(copy), 2)
    version, body = at(copy).read("state/0/_metadata/v2/0").decode().split("\n")
    moved = [{**stores[0], "stateSchemaFilePaths": [f"{at(copy).location}/state/0/_stateSchema/default/0_a"]}]
    assert (version, json.loads(body)) == ("v2", {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": moved})
