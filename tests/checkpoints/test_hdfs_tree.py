"""Checkpoints in a real HDFS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.checkpoint_files import QUERY_ID, Tree
from harness.fault_proxy import fault_proxy
from harness.hdfs_server import HdfsServer
from harness.waiting import wait_for
from streamkeeper.checkpoints.cloning import clone_last_batch
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.hdfs_tree import HdfsTree
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.checkpoints.publishing import is_published, publish
from streamkeeper.checkpoints.removal import carry_out
from streamkeeper.checkpoints.seeding import seed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.unneeded_files import plan_retired
from streamkeeper.checkpoints.webhdfs import WebHdfs
from streamkeeper.errors import CheckpointChanged, InvalidInput, NotFound, StoreUnavailable
from streamkeeper.system.hadoop_conf import hadoop_user
from tests.checkpoints.kept_claims import check_claims
from tests.checkpoints.tree_kinds import uploaded, write
from tests.contracts.tree_contract import TreeContract

pytestmark = pytest.mark.hdfs
KINDS = ("stateless", "hdfs", "rocksdb", "changelog", "format-2")


@pytest.fixture
def tree(hdfs_url: str) -> HdfsTree:
    return HdfsTree(f"{hdfs_url}/v0001")


class TestHdfsTree(TreeContract):
    """A folder in HDFS satisfies the contract of every tree."""

    @pytest.fixture
    def other(self, hdfs_url: str) -> HdfsTree:
        return HdfsTree(f"{hdfs_url}/v0002")


def test_the_contract_sees_a_rename_that_overwrites(tree: HdfsTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with a rename that overwrites, both of two writers win, and the contract of trees fails."""

    def overwriting(self: WebHdfs, path: str, new: str) -> None:
        self._ask("create", "PUT", path, "RENAME", destination=new, renameoptions="OVERWRITE")

    monkeypatch.setattr(WebHdfs, "rename", overwriting)
    with pytest.raises(pytest.fail.Exception):
        TreeContract().test_a_second_create_changes_nothing(tree)
    with pytest.raises(AssertionError):
        TreeContract().test_one_of_many_writers_wins(tree.fresh())


@pytest.mark.parametrize("kind", KINDS)
def test_the_closed_set_is_that_of_the_same_local_checkpoint(tmp_path: Path, tree: HdfsTree, kind: str) -> None:
    """The closed set of a checkpoint in HDFS has the same names and contents as that of its local copy, for every kind
    of state.
    """
    Tree(tmp_path, kind, batches=12, snapshots=(4, 9)).plan(12)
    uploaded(tmp_path, tree)
    local, found = LocalTree(tmp_path), open_tree(f"{tree.url}/")
    for batch, pending in ((-1, True), (3, False), (9, True), (11, True)):
        files = closed_set(found, batch, pending=pending)
        assert files == closed_set(local, batch, pending=pending)
    assert {path: found.read(path) for path in files} == {path: local.read(path) for path in files}
    for folder in ("", "state", "state/0", "state/0/1/SSTs", "sources/0", "none", "metadata"):
        assert found.names(folder) == local.names(folder)


def test_seeding_and_cloning_in_hdfs_produce_the_local_files(tmp_path: Path, tree: HdfsTree, hdfs_url: str) -> None:
    """Seeding and cloning in HDFS produce exactly the files that they produce on a local disk, and removing a version
    leaves no folder.
    """
    Tree(tmp_path / "v0001", "stateless", batches=12).plan(12)
    uploaded(tmp_path / "v0001", tree)
    made: dict[str, dict[str, bytes]] = {}
    for old, new, copy in (
        (tree, HdfsTree(f"{hdfs_url}/v0002"), HdfsTree(f"{hdfs_url}/copy")),
        *((LocalTree(tmp_path / "v0001"), LocalTree(tmp_path / "v0002"), LocalTree(tmp_path / "copy")),),
    ):
        for _ in range(2):
            seed(old, new, 12, number=12, query_id=QUERY_ID)
        assert clone_last_batch(old, copy) == 11
        assert (last_committed(copy), open_batch(copy)) == (10, 11)
        for made_there in (new.fresh(), copy.fresh()):
            found = {path: made_there.read(path) for path in Listed(made_there).below("")}
            assert made.setdefault(made_there.name, found) == found
    plan = plan_retired(tree.fresh(), 0)
    done = carry_out(tree, plan)
    assert (done.files, done.failed, done.left) == (len(plan.files), (), ())
    assert HdfsTree(hdfs_url).names("") == ["copy/", "v0002/"]


@pytest.mark.parametrize("content", [b"", b"x" * 250])
def test_a_file_overwritten_after_its_stamp_is_noticed(tree: HdfsTree, content: bytes) -> None:
    """A file that is overwritten after its stamp was taken is noticed when it is read and by the next stamp, even with
    identical content.
    """
    tree.create("state/0/0/3.zip", [content])
    assert tree.names("state/0/0") == ["3.zip"]
    planned = tree.stamp("state/0/0/3.zip")
    assert tree.stamp("state/0/0/3.zip") == planned
    write(tree, "state/0/0/3.zip", content)
    with pytest.raises(CheckpointChanged):
        list(tree.parts("state/0/0/3.zip", 100, planned))
    assert not tree.stamp("state/0/0/3.zip").is_same_file(planned)


def test_a_file_deleted_after_listing_is_missing_for_later_requests(tree: HdfsTree) -> None:
    """A file that is deleted after it was listed is missing for every later request, as on a local disk."""
    tree.create("metadata", [b"{}"])
    tree.create("offsets/0", [b"v1"])
    assert tree.names("offsets") == ["0"]
    planned = tree.stamp("offsets/0")
    tree.fresh().delete(["offsets/0"])
    assert (tree.has("offsets/0"), tree.names("offsets")) == (False, [])
    for ask in (tree.read, tree.stamp, lambda path: list(tree.parts(path, 10, planned))):
        with pytest.raises(FileNotFoundError):
            ask("offsets/0")


def test_paths_that_are_no_directory_are_refused_with_distinct_messages(tree: HdfsTree) -> None:
    """A missing path, a file, and a path below a file are refused as checkpoints with different messages, and a folder
    does not count as a file.
    """
    tree.create("metadata", [b"{}"])
    for location, told in (("none", "does not exist"), ("metadata", "is not a directory"), ("metadata/x", "does not")):
        with pytest.raises(NotFound, match=told):
            open_tree(f"{tree.url}/{location}")
    assert not HdfsTree(tree.url.rpartition("/")[0]).has("v0001")
    HdfsTree(f"{tree.url}/metadata").drop_empty_folders()
    assert tree.fresh().has("metadata")


WRITER = """
import sys, time
from streamkeeper.checkpoints.hdfs_tree import HdfsTree

def content():
    yield b"x" * 17_000_000
    yield b"y"
    print("sent", flush=True)
    time.sleep(600)

tree = HdfsTree(sys.argv[1])
if sys.argv[2] == "draft":
    tree.create("metadata", content())
else:
    tree._hdfs.create(tree._path("metadata"), content())
"""


@pytest.mark.parametrize("way", ["draft", "at once"])
def test_a_killed_writer_leaves_only_a_draft(tree: HdfsTree, way: str) -> None:
    """A writer that is killed leaves only a draft, and a second writer makes the file; negative control: without a
    draft, its partial file counts as complete.
    """
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tree.url, way], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"sent\n"
    finally:
        writer.kill()
        writer.communicate(timeout=30)
    wait_for("what was sent", lambda: any(stamp.size > 0 for stamp in tree.fresh().look().files.values()))
    if way == "at once":
        assert tree.fresh().look().files.keys() == {"metadata"}
        return
    assert [name[-4:] for name in tree.fresh().files("")] == [".tmp"]
    publish(tree, {"offsets/0": b"v1"}, b"{}")
    assert (tree.fresh().read("metadata"), is_published(tree)) == (b"{}", True)


def test_a_version_is_completed_by_a_retry_after_a_lost_rename_response(
    tree: HdfsTree, hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost response to a rename is reported as an unavailable store, and a second attempt completes the same version
    from the files that exist.
    """
    rename = WebHdfs.rename
    with fault_proxy(hdfs_server.http) as proxy:

        def lost(self: WebHdfs, path: str, new: str) -> None:
            proxy.lose = int(new.endswith("offsets/0"))
            rename(self, path, new)

        monkeypatch.setattr(WebHdfs, "rename", lost)
        through = HdfsTree(tree.url, WebHdfs(hdfs_server.url, proxy.endpoint, hadoop_user(os.environ)))
        with pytest.raises(StoreUnavailable, match="does not answer"):
            publish(through, {"offsets/0": b"v1"}, b"{}")
        assert proxy.made["lost"] == 1
        assert (tree.fresh().look().files.keys(), is_published(tree)) == ({"offsets/0"}, False)
        publish(through, {"offsets/0": b"v1"}, b"{}")
    assert tree.fresh().look().files.keys() == {"metadata", "offsets/0"}


def test_missing_write_permission_is_reported_for_each_file(tree: HdfsTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without write permission gets an error with the user and the missing right, for creating as well as for
    each file to delete; nothing changes.
    """
    tree.create("metadata", [b"{}"])
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    other = HdfsTree(tree.url)
    assert other.read("metadata") == b"{}"
    with pytest.raises(StoreUnavailable, match=r"Permission denied: user=bob, access=WRITE.*HADOOP_USER_NAME"):
        other.create("offsets/0", [b"v1"])
    assert "user=bob" in other.delete(["metadata"])["metadata"]
    assert tree.fresh().look().files.keys() == {"metadata"}


def test_an_unusable_place_for_checkpoints_is_refused(
    tree: HdfsTree, hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong port, a server that does not answer and a path below a file are refused as places for checkpoints;
    checking a valid place leaves no file.
    """
    tree.create("metadata", [b"{}"])
    tree.must_take_files()
    assert tree.fresh().look().files.keys() == {"metadata"}
    web = hdfs_server.http.removeprefix("http://")
    monkeypatch.setenv("HADOOP_CONF_DIR", "")
    for url, told in (
        (f"hdfs://{web}/cp", f"{web} is not an RPC port .name the NameNode's"),
        (
            "hdfs://127.0.0.1:9/cp",
            "http://127.0.0.1:9 does not answer .Connection refused. .name the NameNode.s RPC address",
        ),
        (tree.url, "http://127.0.0.1:9870 does not answer .Connection refused.*dfs.namenode.http-address"),
    ):
        with pytest.raises(StoreUnavailable, match=told):
            HdfsTree(url).must_take_files()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs_server.conf))
    with pytest.raises(InvalidInput, match="cannot be created"):
        HdfsTree(f"{tree.url}/metadata/cp").must_take_files()


def test_claims_beside_a_checkpoint_are_kept_as_in_a_directory(hdfs_url: str) -> None:
    """Claims in HDFS satisfy the same contract as in a directory: each epoch has one winner, and the newest claim of
    each installation is found.
    """
    check_claims(f"{hdfs_url}/sales/totals")
