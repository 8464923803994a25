"""Tests that the simulated checkpoint trees keep the contract of the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.simulation.bucket import SimulatedBucket
from harness.simulation.trees import Files, SharedTree, SimulatedTree
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.checkpoints.trees import NOT_THERE, Tree
from streamkeeper.errors import InvalidInput
from tests.contracts.tree_contract import TreeContract

PLACE = Path("/simulated/checkpoints/sales/totals")


class TestSimulatedTree(TreeContract):
    """The simulated local tree is neither weaker nor stronger than the real one."""

    @pytest.fixture
    def files(self) -> Files:
        """One disk that both trees share."""
        return Files()

    @pytest.fixture
    def tree(self, files: Files) -> Tree:
        return SimulatedTree(files, PLACE / "v0001")

    @pytest.fixture
    def other(self, files: Files) -> Tree:
        return SimulatedTree(files, PLACE / "v0002")


class TestSharedTree(TreeContract):
    """The simulated shared tree keeps the tree contract, as one in HDFS does."""

    @pytest.fixture
    def files(self) -> Files:
        """One file system that both trees share."""
        return Files()

    @pytest.fixture
    def tree(self, files: Files) -> Tree:
        return SharedTree(files, "hdfs://namenode:8020/checkpoints/sales/totals/v0001")

    @pytest.fixture
    def other(self, files: Files) -> Tree:
        return SharedTree(files, "hdfs://namenode:8020/checkpoints/sales/totals/v0002")


class TestS3TreeOnASimulatedBucket(TreeContract):
    """The real S3 tree keeps the tree contract on a simulated client."""

    @pytest.fixture
    def bucket(self) -> SimulatedBucket:
        """One bucket that both trees share."""
        return SimulatedBucket(Files())

    @pytest.fixture
    def tree(self, bucket: SimulatedBucket) -> Tree:
        return S3Tree("s3a://bucket/checkpoints/sales/totals/v0001", bucket)

    @pytest.fixture
    def other(self, bucket: SimulatedBucket) -> Tree:
        return S3Tree("s3a://bucket/checkpoints/sales/totals/v0002", bucket)


def test_a_write_probe_whose_answer_is_lost_still_succeeds() -> None:
    """A write probe whose answer is lost still succeeds: boto3 repeats the request and the answer is that the object
    exists. The probe leaves no file behind.
    """
    files, calls = Files(), iter([False, False, True, False, False])
    tree = S3Tree("s3a://bucket/checkpoints", SimulatedBucket(files, strikes=lambda: next(calls, False)))
    tree.must_take_files()
    assert next(calls, None) is None
    assert not files.below("s3a://bucket")


def test_a_file_at_the_path_of_a_tree_makes_it_unwritable() -> None:
    """A file at a tree's place makes the tree absent and unwritable, and a folder cannot be deleted as a file."""
    files = Files()
    above = SimulatedTree(files, PLACE)
    above.create("v0001", [b"x"])
    tree = SimulatedTree(files, PLACE / "v0001")
    assert (tree.absence(), tree.names(""), tree.has("metadata")) == ("is not a directory", [], False)
    with pytest.raises(NotADirectoryError):
        tree.create("metadata", [b"{}"])
    with pytest.raises(InvalidInput, match="cannot be written"):
        tree.must_take_files()
    assert SimulatedTree(files, PLACE.parent).delete(["totals"]) == {"totals": "Is a directory"}


def test_two_trees_on_one_disk_see_the_same_files() -> None:
    """Two trees on one disk see the same files, even if one lies above the other; a file that is created anew has a
    different stamp.
    """
    now = iter((7, 8))
    files = Files(lambda: next(now))
    calls: list[str] = []
    tree = SimulatedTree(files, PLACE / "v0001", seam=lambda: calls.append("seam"))
    assert tree.absence() == NOT_THERE
    tree.create("metadata", [b"{}"])
    before = tree.stamp("metadata")
    tree.delete(["metadata"])
    tree.create("metadata", [b"{}"])
    assert (tree.stamp("metadata").modified, before.modified) == (8, 7)
    assert not tree.stamp("metadata").is_same_file(before)
    assert SimulatedTree(files, PLACE).read("v0001/metadata") == tree.read("metadata")
    assert tree.names("") == ["metadata"]
    assert len(calls) == 5
