"""Whether input files exist, are missing, or were not checked and why."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness.checkpoint_files import Tree
from streamkeeper.checkpoints.hdfs_tree import HdfsTree
from streamkeeper.checkpoints.input_files import look_for_files, other_s3
from streamkeeper.checkpoints.open_input import OpenInput, find_open_input
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.settings.spark_confs import hash_setting

ENDPOINT = "spark.hadoop.fs.s3a.endpoint"


def test_a_file_counts_as_missing_only_if_it_was_checked(tmp_path: Path) -> None:
    """A file counts as missing only if it was checked: an unsupported scheme, a name that no disk accepts and a folder
    of a different machine are reported as not checked.
    """
    (tmp_path / "a b.json").write_text("x")
    there, gone = str(tmp_path / "a b.json"), str(tmp_path / "c.json")
    strange = "gs://bucket/in/d.json"
    found = look_for_files([there, gone, there, strange, "/" + "x" * 300])
    assert (found.total, found.missing, found.unchecked) == (4, (gone,), (strange, "/" + "x" * 300))
    assert found.gone_clause("files") == f"1 of 4 files are missing, such as {gone}"
    assert found.unchecked_clause("files") == (
        f"2 of 4 files are not checked, such as {strange}: this check does not read gs://"
    )
    elsewhere = look_for_files([there, gone], unseen={"file": "another machine"})
    assert (elsewhere.missing, elsewhere.unchecked, elsewhere.why) == ((), (there, gone), "another machine")
    assert look_for_files([]).gone_clause("files") == look_for_files([]).unchecked_clause("files") == ""


def test_an_unresponsive_server_is_not_queried_for_each_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a server does not answer, all its files are reported as not checked after few requests, instead of one timeout
    per folder.
    """
    asked: list[str] = []
    real = HdfsTree.has

    def has(self: HdfsTree, path: str) -> bool:
        asked.append(path)
        return real(self, path)

    monkeypatch.setattr(HdfsTree, "has", has)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        monkeypatch.setattr("streamkeeper.checkpoints.hdfs_tree.webhdfs_url", lambda *_: f"http://127.0.0.1:{port}")
        found = look_for_files(f"hdfs://127.0.0.1:{port}/in/day={day}/a.json" for day in range(40))
    assert (len(found.unchecked), found.missing) == (40, ())
    assert "does not answer" in found.why
    assert len(asked) <= 8


@pytest.mark.parametrize(
    ("confs", "asked", "same"),
    [
        ({}, "", True),
        ({ENDPOINT: "http://s3:9000/"}, "http://s3:9000", True),
        ({ENDPOINT: hash_setting("http://s3:9000")}, "http://s3:9000", True),
        ({ENDPOINT: hash_setting("http://s3:9000")}, "", False),
        ({ENDPOINT: "http://other:9000"}, "http://s3:9000", False),
        ({}, "http://s3:9000", False),
        ({"spark.hadoop.fs.s3a.bucket.in.endpoint": "sha256:1"}, "", False),
        ({"spark.hadoop.fs.s3a.bucket.in.requester.pays.enabled": "sha256:1"}, "", True),
    ],
)
def test_files_on_another_s3_server_are_not_checked(confs: dict[str, str], asked: str, same: bool) -> None:
    """Files that the query reads from a different S3 server are not checked, because a bucket of the same name might
    lack them and a wrong *missing* would stop the job.
    """
    unseen = other_s3(confs, {"AWS_ENDPOINT_URL": asked} if asked else {})
    assert (unseen == {}) is same
    assert look_for_files(["s3a://in/a.json"], unseen={"s3a": "x"}).why == "x"


def reading(root: Path, url: str) -> LocalTree:
    """Write a checkpoint whose open batch 2 reads two files below ``url``."""
    made = Tree(root, "stateless", batches=2)
    made.plan(2)
    entry = root / "sources" / "0" / "2"
    first = entry.read_text().replace("file:///in/", f"{url}/")
    entry.write_text(first + "\n" + first.splitlines()[1].replace("f2.json", "f%202b.json"))
    return LocalTree(root)


def remove_one(url: str) -> None:
    """Create both files, then delete one."""
    tree = tree_at(url)
    for name in ("f2.json", "f 2b.json"):
        tree.create(name, [b"{}"])
    assert not tree.delete(["f 2b.json"])


@pytest.mark.s3
def test_an_input_file_deleted_from_a_bucket_is_reported_as_missing(tmp_path: Path, s3_url: str) -> None:
    """A file of an open batch that was deleted from a bucket is reported as missing; if the bucket does not exist, both
    files are reported as not checked.
    """
    url = s3_url.replace("s3://", "s3a://") + "/in put"
    remove_one(url)
    escaped = url.replace(" ", "%20")
    found = find_open_input(reading(tmp_path / "cp", escaped))
    assert found == OpenInput(missing=f"1 of 2 files of open batch 2 are missing, such as {url}/f 2b.json")
    many = [f"{url}/f2.json", *(f"{url}/{number}" for number in range(40))]
    assert len(look_for_files(many).missing) == 40
    other = find_open_input(reading(tmp_path / "other", "s3a://no-such-bucket/in"))
    assert (other.missing, "NoSuchBucket" in other.unchecked) == ("", True)
    assert find_open_input(reading(tmp_path / "third", escaped), lambda: {"s3a": "another"}).missing == ""


@pytest.mark.hdfs
def test_an_input_file_deleted_from_hdfs_is_reported_as_missing(
    tmp_path: Path, hdfs_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of an open batch that was deleted from HDFS is reported as missing; if the NameNode requires Kerberos,
    both files are reported as not checked.
    """
    url = f"{hdfs_url}/in put"
    remove_one(url)
    checkpoint = reading(tmp_path / "cp", url.replace(" ", "%20"))
    assert find_open_input(checkpoint) == OpenInput(
        missing=f"1 of 2 files of open batch 2 are missing, such as {url}/f 2b.json"
    )
    many = [f"{url}/f2.json", *(f"{url}/{number}" for number in range(40))]
    assert len(look_for_files(many).missing) == 40
    assert len(look_for_files([f"{hdfs_url}/none/{number}" for number in range(40)]).missing) == 40
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
        "</configuration>"
    )
    found = find_open_input(checkpoint)
    assert (found.missing, "Kerberos" in found.unchecked) == ("", True)
