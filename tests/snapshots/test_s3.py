"""Tests snapshots in a bucket of checkpoints in a bucket, through their whole life, on a real S3 server."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.checkpoint_files import QUERY_ID, Tree
from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.removal import carry_out, is_being_removed
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.unneeded_files import MARGIN_S, plan_live, plan_retired, plan_unpublished
from streamkeeper.cli.main import app
from streamkeeper.errors import InvalidInput, SnapshotDamaged, StoreUnavailable
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.retention import Policy
from streamkeeper.snapshots.sweep import plan_sweep, sweep
from streamkeeper.snapshots.verify import verify
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.store_urls import open_store
from tests.checkpoints.test_s3_tree import Bucket
from tests.snapshots.series import a_checkpoint, catalogue, files_below, salt_state, wanted

pytestmark = pytest.mark.s3


def test_a_checkpoint_in_a_bucket_is_captured_verified_restored_and_pruned(tmp_path: Path, s3_url: str) -> None:
    """A checkpoint on s3a is captured twice with few requests, verified, restored to a directory and pruned, and only
    the packs of the last snapshot remain.
    """
    live = a_checkpoint(tmp_path / "live")
    bucket = Bucket(f"{s3_url}/checkpoint")
    bucket.upload(tmp_path / "live")
    store = CountingStore(open_store(f"{s3_url}/store"))
    series = catalogue(store)
    tree = open_tree(bucket.url.replace("s3://", "s3a://"))
    first = capture(tree, series)
    assert first.taken
    assert store.requests <= 4
    assert not capture(tree, series).taken
    live.plan(8)
    live.commit(8, snapshot=True)
    salt_state(tmp_path / "live")
    bucket.upload(tmp_path / "live")
    second = capture(tree, series).snapshot
    assert second.batch == 8
    assert verify(series).damaged == ()
    restore(series, second, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 8)
    now = datetime.now(UTC)
    policy = Policy(keep_last=1, hourly=0, daily=0, weekly=0, monthly=0)
    for _ in range(2):
        sweep(series, plan_sweep(series, policy, now=now, grace_s=0), now=now)
    assert series.numbers() == [2]
    assert series.pack_names() == {pack.name for pack in second.packs}


def test_a_version_is_restored_into_a_bucket_cut_back_and_removed(tmp_path: Path, s3_url: str) -> None:
    """A version is restored into a bucket with the files of a crashed restore, pruned to one batch and removed, and no
    object or folder marker remains.
    """
    a_checkpoint(tmp_path / "live", "format-2", batches=9)
    series = catalogue(open_store(f"{s3_url}/store"))
    snapshot = capture(LocalTree(tmp_path / "live"), series).snapshot
    tree, bucket = S3Tree(f"{s3_url}/v0002"), Bucket(f"{s3_url}/v0002")
    tree.create("offsets/8", [(tmp_path / "live/offsets/8").read_bytes()])
    restore(series, snapshot, tree)
    assert {path: tree.read(path) for path in tree.look().files} == wanted(tmp_path / "live", 8)
    with pytest.raises(InvalidInput, match="already exists"):
        restore(series, snapshot, S3Tree(tree.url))
    bucket.upload(tmp_path / "live")
    for marker in ("", "state/0/9/", "offsets/", "offsets/old/"):
        bucket.put(marker, b"")
    plan = plan_retired(tree.fresh(), 1)
    assert carry_out(tree, plan).files == len(plan.files) > 50
    assert tree.fresh().look().files.keys() == wanted(tmp_path / "live", 8).keys()
    assert tree.fresh().folders("offsets") == []
    done = carry_out(tree, plan_retired(tree.fresh(), 0))
    assert (done.files, done.failed, done.left) == (len(plan.kept), (), ())
    assert bucket.keys() == []


def test_a_snapshot_is_restored_into_a_bucket_by_its_command(tmp_path: Path, s3_url: str) -> None:
    """The command restores every file of a snapshot into a bucket, refuses an existing target, and creates no local
    folder with the bucket's name.
    """
    a_checkpoint(tmp_path / "live", "format-2", batches=9)
    at = ["--checkpoint", str(tmp_path / "live"), "--store", f"{s3_url}/store"]
    assert CliRunner().invoke(app, ["snapshot", "take", *at]).exit_code == 0
    there = f"{s3_url.replace('s3://', 's3a://')}/back"
    dry = CliRunner().invoke(app, ["snapshot", "restore", *at, "--to", there, "--dry-run"])
    assert (dry.exit_code, there in dry.output, Bucket(f"{s3_url}/back").keys()) == (0, True, [])
    done = CliRunner().invoke(app, ["snapshot", "restore", *at, "--to", there])
    assert (done.exit_code, f"is restored to {there}" in done.output) == (0, True), done.output
    tree = S3Tree(there)
    assert {path: tree.read(path) for path in tree.look().files} == wanted(tmp_path / "live", 8)
    again = CliRunner().invoke(app, ["snapshot", "restore", *at, "--to", there])
    assert (again.exit_code, "already exists" in again.output) == (2, True)
    assert not [name for name in os.listdir() if name.startswith("s3a")]


def test_an_interrupted_removal_in_a_bucket_is_continued_by_the_next_run(tmp_path: Path, s3_url: str) -> None:
    """An interrupted removal in a bucket has deleted the metadata first and left its mark, so that the next run
    continues until no object is left.
    """
    a_checkpoint(tmp_path / "live", "hdfs", batches=3)
    bucket = Bucket(f"{s3_url}/v0002")
    bucket.upload(tmp_path / "live")
    tree = S3Tree(bucket.url)
    delete, dead = tree.delete, tree.fresh()

    class Died(BaseException):
        pass

    def one_request(paths: Iterable[str]) -> dict[str, str]:
        if [*paths] != ["metadata"]:
            raise Died
        return delete(["metadata"])

    plan = plan_retired(dead, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Tree, "fresh", lambda self: dead)
        patch.setattr(dead, "delete", one_request)
        with pytest.raises(Died):
            carry_out(tree, plan)
    tree = tree.fresh()
    assert (is_published(tree), is_being_removed(tree, QUERY_ID)) == (False, True)
    assert carry_out(tree, plan_unpublished(tree)).failed == ()
    assert bucket.keys() == []


def test_a_prune_of_a_live_version_in_a_bucket_deletes_orphaned_files(tmp_path: Path, s3_url: str) -> None:
    """A prune of a live version in a bucket deletes temporary files and orphaned checksum files that its owner no
    longer uses.
    """
    Tree(tmp_path / "live", "hdfs", batches=3)
    bucket = Bucket(f"{s3_url}/v0001")
    bucket.upload(tmp_path / "live")
    bucket.put("state/0/1/.gone.delta.crc", b"sum")
    tree = S3Tree(bucket.url)
    later = datetime.now(UTC).timestamp() + 2 * MARGIN_S
    plan = plan_live(tree, now=later)
    planned = {file.path for file in plan.files}
    assert "state/0/1/.gone.delta.crc" in planned
    assert {path for path in tree.look().files if path.endswith(".tmp")} <= planned
    done = carry_out(tree, plan)
    assert (done.files, done.failed, done.left) == (len(planned), (), ())
    assert not planned & tree.fresh().look().files.keys()


def test_a_capture_lists_a_bucket_again_if_listed_files_were_deleted(tmp_path: Path, s3_url: str) -> None:
    """If files of a listed batch are deleted from the bucket before they are read, a capture lists the checkpoint anew
    and captures a newer batch.
    """
    live = a_checkpoint(tmp_path / "live", "hdfs", batches=7)
    bucket = Bucket(f"{s3_url}/checkpoint")
    bucket.upload(tmp_path / "live")
    tree = open_tree(bucket.url)
    # Listed now, and out of date from here on.
    assert "7.delta" in tree.names("state/0/0")
    live.plan(7)
    live.commit(7, snapshot=True)
    salt_state(tmp_path / "live")
    bucket.upload(tmp_path / "live")
    for partition in (0, 1):
        for version in range(1, 8):
            bucket.delete(f"state/0/{partition}/{version}.delta")
    taken = capture(tree, catalogue(open_store(f"{s3_url}/store"))).snapshot
    assert taken.batch == 7
    assert [each.path for each in taken.files if each.path.endswith(".delta")] == []


def test_a_flipped_byte_in_a_bucket_is_found_and_nothing_is_restored(tmp_path: Path, s3_url: str) -> None:
    """A flipped byte in a pack in a bucket is found when verifying, and a restore from it fails without a published
    checkpoint.
    """
    a_checkpoint(tmp_path / "live")
    store = open_store(f"{s3_url}/store")
    series = catalogue(store)
    snapshot = capture(LocalTree(tmp_path / "live"), series).snapshot
    key = series.pack_key(snapshot.packs[0].name)
    content = bytearray(store.read(key))
    content[10] ^= 4
    store.replace(key, bytes(content))
    assert [each.key for each in verify(series).damaged] == [key]
    with pytest.raises(SnapshotDamaged):
        restore(series, snapshot, LocalTree(tmp_path / "back"))
    assert not (tmp_path / "back" / "metadata").exists()


def test_a_capture_to_a_server_that_does_not_answer_raises_store_unavailable(
    tmp_path: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture to an S3 server that does not answer raises ``StoreUnavailable`` with a hint at
    ``AWS_ENDPOINT_URL``.
    """
    a_checkpoint(tmp_path / "live")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="AWS_ENDPOINT_URL"):
        capture(LocalTree(tmp_path / "live"), catalogue(open_store(f"{s3_url}/store")))
