"""Checkpoints in a bucket of a real S3 server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.checkpoint_files import QUERY_ID, Tree
from streamkeeper.checkpoints.cloning import clone_last_batch
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.checkpoints.seeding import seed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointChanged, InvalidInput, NotFound, StoreUnavailable
from streamkeeper.stores.s3 import connect
from tests.checkpoints.kept_claims import check_claims
from tests.contracts.tree_contract import TreeContract

pytestmark = pytest.mark.s3


class Bucket:
    """Writes objects below a prefix, as a checkpoint's owner does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bucket, _, self.prefix = url.partition("://")[2].partition("/")
        self.client: Any = connect("the test")

    def put(self, path: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"{self.prefix}/{path}", Body=content)

    def delete(self, path: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{path}")

    def keys(self) -> list[str]:
        """Return the names of all objects, including markers of folders."""
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/")
        return [entry["Key"] for entry in found.get("Contents", ())]

    def upload(self, root: Path) -> None:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self.put(path.relative_to(root).as_posix(), path.read_bytes())


@pytest.fixture
def bucket(s3_url: str) -> Bucket:
    return Bucket(s3_url)


class TestS3Tree(TreeContract):
    """A bucket satisfies the contract of every tree."""

    @pytest.fixture
    def tree(self, s3_url: str) -> S3Tree:
        return S3Tree(f"{s3_url}/v0001")

    @pytest.fixture
    def other(self, s3_url: str) -> S3Tree:
        return S3Tree(f"{s3_url}/v0002")


@pytest.mark.parametrize("kind", ["stateless", "hdfs", "rocksdb", "changelog", "format-2"])
def test_the_closed_set_is_that_of_the_same_local_checkpoint(tmp_path: Path, bucket: Bucket, kind: str) -> None:
    """The closed set of a checkpoint in a bucket has the same names and contents as that of its local copy, for every
    kind of state and both URL schemes.
    """
    Tree(tmp_path, kind, batches=12, snapshots=(4, 9)).plan(12)
    bucket.upload(tmp_path)
    local = LocalTree(tmp_path)
    for url in (bucket.url, bucket.url.replace("s3://", "s3a://") + "/"):
        tree = open_tree(url)
        for batch, pending in ((-1, True), (3, False), (9, True), (11, True)):
            files = closed_set(tree, batch, pending=pending)
            assert files == closed_set(local, batch, pending=pending)
        assert {each: tree.read(each) for each in files} == {each: local.read(each) for each in files}
        for folder in ("", "state", "state/0", "state/0/1/SSTs", "sources/0", "none"):
            assert tree.names(folder) == local.names(folder)


def test_seeding_and_cloning_in_a_bucket_produce_the_local_files(tmp_path: Path, bucket: Bucket) -> None:
    """Seeding and cloning within a bucket produce exactly the files that they produce on a local disk."""
    Tree(tmp_path / "v0001", "stateless", batches=12).plan(12)
    Bucket(f"{bucket.url}/v0001").upload(tmp_path / "v0001")
    source = S3Tree(f"{bucket.url}/v0001")
    made: dict[str, dict[str, bytes]] = {}
    for kind, old, root in (
        ("s3", source, bucket.url),
        ("local", LocalTree(tmp_path / "v0001"), str(tmp_path)),
    ):
        new, copy = (
            S3Tree(f"{root}/{name}") if kind == "s3" else LocalTree(Path(root) / name) for name in ("v0002", "copy")
        )
        for _ in range(2):
            seed(old, new, 12, number=12, query_id=QUERY_ID)
        assert clone_last_batch(old, copy) == 11
        assert (last_committed(copy), open_batch(copy)) == (10, 11)
        for name, tree in (("v0002", new), ("copy", copy)):
            made[f"{kind} {name}"] = {path: tree.read(path) for path in Listed(tree.fresh()).below("")}
    assert made["s3 v0002"] == made["local v0002"]
    assert made["s3 copy"] == made["local copy"]


def test_a_file_is_read_in_parts_of_the_requested_size(bucket: Bucket) -> None:
    """A file is read in parts of the requested size with a shorter last one; an empty file has no parts."""
    bucket.put("state/0/0/1.delta", bytes(range(250)))
    bucket.put("state/0/0/2.delta", b"")
    tree = S3Tree(bucket.url)
    parts = list(tree.parts("state/0/0/1.delta", 100, tree.stamp("state/0/0/1.delta")))
    assert ([len(each) for each in parts], b"".join(parts)) == ([100, 100, 50], bytes(range(250)))
    assert list(tree.parts("state/0/0/2.delta", 100, tree.stamp("state/0/0/2.delta"))) == []


@pytest.mark.parametrize("content", [b"", b"x" * 250])
def test_a_file_overwritten_after_its_stamp_is_noticed(bucket: Bucket, content: bytes) -> None:
    """A file that is overwritten after its stamp was taken is noticed by the next part that is read and by the next
    stamp, even if its size is the same.
    """
    bucket.put("state/0/0/3.zip", content)
    tree = S3Tree(bucket.url)
    planned = tree.stamp("state/0/0/3.zip")
    assert tree.stamp("state/0/0/3.zip") == planned
    reading = tree.parts("state/0/0/3.zip", 100, planned)
    if content:
        assert next(reading) == content[:100]
    bucket.put("state/0/0/3.zip", b"y" * 250)
    with pytest.raises(CheckpointChanged, match=r"state/0/0/3\.zip changed"):
        list(reading)
    assert tree.stamp("state/0/0/3.zip").tag != planned.tag
    assert tree.fresh().stamp("state/0/0/3.zip") == tree.stamp("state/0/0/3.zip")


def test_a_removed_file_is_missing(bucket: Bucket) -> None:
    """A deleted file remains in an earlier listing, but every request for it fails, and a fresh listing does not have
    it.
    """
    bucket.put("metadata", b"{}")
    bucket.put("offsets/0", b"v1")
    tree = S3Tree(bucket.url)
    assert tree.names("offsets") == ["0"]
    planned = tree.stamp("offsets/0")
    bucket.delete("offsets/0")
    assert tree.has("offsets/0")
    for ask in (tree.read, tree.stamp, lambda path: list(tree.parts(path, 10, planned))):
        with pytest.raises(FileNotFoundError):
            ask("offsets/0")
    assert not tree.fresh().has("offsets/0")
    assert tree.fresh().names("") == ["metadata"]


def test_a_marker_of_an_empty_folder_is_no_file(bucket: Bucket) -> None:
    """The object ``folder/`` that s3a leaves for an empty folder does not count as a file."""
    bucket.put("metadata", b"{}")
    bucket.put("commits/", b"")
    tree = S3Tree(bucket.url)
    assert (tree.names(""), tree.names("commits")) == (["commits/", "metadata"], [])


def test_an_empty_prefix_and_a_missing_bucket_are_reported_differently(bucket: Bucket) -> None:
    """A prefix without objects is reported as not found, but a missing bucket as an unavailable store; a prefix is
    matched up to a slash.
    """
    bucket.put("c1/metadata", b"{}")
    with pytest.raises(NotFound):
        open_tree(f"{bucket.url}/c")
    with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
        open_tree("s3a://no-such-bucket/c")


@pytest.mark.parametrize("path", ["", "/metadata", "../other/metadata", "state/"])
def test_a_path_never_leads_out_of_the_checkpoint(bucket: Bucket, path: str) -> None:
    """Paths that are empty, absolute, lead outside the checkpoint or end with a slash are refused."""
    with pytest.raises(InvalidInput):
        S3Tree(bucket.url).read(path)


def test_trees_of_one_process_share_a_client(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees with equal settings in one process share a client; different settings and a forked child use a different
    one.
    """
    bucket.put("offsets/0", b"v1")
    tree = S3Tree(bucket.url)
    assert S3Tree(f"{bucket.url}/v0001")._client is tree._client
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = S3Tree(bucket.url)
            code = int(own._client is tree._client or own.read("offsets/0") != b"v1")
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreUnavailable):
        S3Tree(bucket.url).read("offsets/0")
    assert tree.read("offsets/0") == b"v1"


def test_claims_beside_a_checkpoint_are_kept_as_in_a_directory(s3_url: str) -> None:
    """Claims in a bucket satisfy the same contract as in a directory: each epoch has one winner, and the newest claim
    of each installation is found.
    """
    check_claims(f"{s3_url}/sales/totals")
