"""A checkpoint in a real HDFS."""

from __future__ import annotations

import pytest

from streamkeeper.checkpoints.hdfs_tree import HdfsTree
from tests.contracts.tree_contract import TreeContract

pytestmark = pytest.mark.hdfs


class TestHdfsTree(TreeContract):
    """A folder in HDFS keeps the contract of every tree."""

    @pytest.fixture
    def tree(self, hdfs_url: str) -> HdfsTree:
        return HdfsTree(f"{hdfs_url}/v0001")

    @pytest.fixture
    def other(self, hdfs_url: str) -> HdfsTree:
        return HdfsTree(f"{hdfs_url}/v0002")
