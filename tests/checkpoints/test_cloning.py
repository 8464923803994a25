"""Cloning a checkpoint that its owner is still using."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.checkpoints.cloning import clone, clone_last_batch
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, InvalidInput
from tests.checkpoints.trees import Tree


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let the owner act once, while the first file is being copied."""

    def arrange(act: Callable[[], None]) -> None:
        pending = [act]
        copy = shutil.copyfile

        def copyfile(source: Any, destination: Any) -> Any:
            if pending:
                pending.pop()()
            return copy(source, destination)

        monkeypatch.setattr(shutil, "copyfile", copyfile)

    return arrange


def test_a_clone_holds_the_closed_set_and_nothing_else(tmp_path: Path) -> None:
    """Neither checksums nor files of other batches; what is copied is the same bytes in files of its own."""
    Tree(tmp_path / "live", "format-2", batches=6, snapshots=(2,))
    before = contents(tmp_path / "live")
    clone(tmp_path / "live", tmp_path / "copy", 4, pending=True)
    files = closed_set(LocalTree(tmp_path / "live"), 4, pending=True)
    assert contents(tmp_path / "copy") == {each: before[each] for each in files}
    assert contents(tmp_path / "live") == before
    assert not any((tmp_path / "copy" / each).samefile(tmp_path / "live" / each) for each in files)


def test_the_last_committed_batch_becomes_the_next_to_run(tmp_path: Path) -> None:
    """Also when another batch is open in the live checkpoint: that one is left alone."""
    tree = Tree(tmp_path / "live", "hdfs", batches=4)
    tree.plan(4)
    assert clone_last_batch(tmp_path / "live", tmp_path / "copy") == 3
    assert (last_committed(tmp_path / "copy"), open_batch(tmp_path / "copy")) == (2, 3)


def test_without_a_committed_batch_there_is_nothing_to_clone(tmp_path: Path) -> None:
    """A checkpoint that was only planned has nothing to run again."""
    Tree(tmp_path / "live", "hdfs", batches=0).plan(0)
    assert clone_last_batch(tmp_path / "live", tmp_path / "copy") is None
    assert not (tmp_path / "copy").exists()


def test_files_cleaned_up_meanwhile_make_it_take_a_newer_batch(tmp_path: Path, meanwhile: Any) -> None:
    """The owner commits three batches with a snapshot and removes what is old: the second attempt is whole."""
    tree = Tree(tmp_path / "live", "changelog", batches=4)

    def go_on() -> None:
        for batch in (4, 5, 6):
            tree.plan(batch)
            tree.commit(batch, snapshot=batch == 5)
        for old in tmp_path.glob("live/state/0/*/[1-5].changelog"):
            old.unlink()

    meanwhile(go_on)
    assert clone_last_batch(tmp_path / "live", tmp_path / "copy") == 6
    assert "state/0/0/6.zip" in contents(tmp_path / "copy")
    assert "state/0/0/1.changelog" not in contents(tmp_path / "copy")


def test_a_file_replaced_meanwhile_is_noticed(tmp_path: Path, meanwhile: Any) -> None:
    """An archive's name is no identity: Spark may upload another one under it."""
    tree = Tree(tmp_path / "live", "rocksdb", batches=3)

    def upload_again() -> None:
        (tmp_path / "live/state/0/1/3.zip").unlink()
        tree.archive("state/0/1/3.zip", 3)

    meanwhile(upload_again)
    with pytest.raises(CheckpointChanged, match=r"3\.zip"):
        clone(tmp_path / "live", tmp_path / "copy", 2)


def test_damage_is_told_at_once_and_leaves_no_half_clone(tmp_path: Path) -> None:
    """What no newer batch can mend is not tried again."""
    Tree(tmp_path / "live", "hdfs", batches=3)
    (tmp_path / "live/state/0/0/1.delta").unlink()
    with pytest.raises(CheckpointDamaged, match="lacks version 1"):
        clone_last_batch(tmp_path / "live", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_clone_never_writes_over_what_is_there(tmp_path: Path) -> None:
    """The target must be new: two clones, or a clone and a live checkpoint, never mix."""
    Tree(tmp_path / "live", "hdfs", batches=3)
    with pytest.raises(InvalidInput):
        clone(tmp_path / "live", tmp_path / "live", 1)


def test_a_clone_names_its_own_schemas(tmp_path: Path) -> None:
    """Spark writes full paths: a clone that kept them would end with the checkpoint that it was made of."""
    live, copy = tmp_path / "live", tmp_path / "a copy"
    Tree(live, "changelog", batches=3)
    schema = live / "state/0/_stateSchema/default/0_a"
    metadata = live / "state/0/_metadata/v2/0"
    for path in (schema, metadata):
        path.parent.mkdir(parents=True)
    schema.write_text("schema")
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [f"file:{schema}"]}]
    metadata.write_text("v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": stores}))
    clone(live, copy, 2)
    version, body = (copy / "state/0/_metadata/v2/0").read_text().split("\n")
    moved = [{**stores[0], "stateSchemaFilePaths": [f"file:{copy}/state/0/_stateSchema/default/0_a"]}]
    assert (version, json.loads(body)) == ("v2", {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": moved})
