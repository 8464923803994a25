"""Snapshots in a bucket, of a checkpoint that lies in a bucket: the whole life, against a real S3 server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import SnapshotDamaged, StoreUnavailable
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.retention import Policy
from streamkeeper.snapshots.sweep import plan_sweep, sweep
from streamkeeper.snapshots.verify import verify
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.opening import open_store
from tests.checkpoints.test_s3_tree import Bucket
from tests.snapshots.series import a_checkpoint, catalogue, files_below, salt_state, wanted

pytestmark = pytest.mark.s3


def test_a_life_of_snapshots_in_a_bucket(tmp_path: Path, s3_url: str) -> None:
    """Captured from s3a, captured again, verified, restored to a directory, pruned: few requests, nothing left over."""
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


def test_a_checkpoint_in_a_bucket_that_goes_on_meanwhile_is_looked_at_anew(tmp_path: Path, s3_url: str) -> None:
    """A file that was cleaned up after it was listed leads to a newer batch, by a new listing."""
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
    """What a store gives back is never trusted."""
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


def test_a_server_that_is_gone_is_told_in_one_line(
    tmp_path: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded in time, with the way out."""
    a_checkpoint(tmp_path / "live")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="AWS_ENDPOINT_URL"):
        capture(LocalTree(tmp_path / "live"), catalogue(open_store(f"{s3_url}/store")))
