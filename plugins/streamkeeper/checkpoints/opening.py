"""Opens a checkpoint's tree of files from its location, in the form that Spark accepts."""

from __future__ import annotations

from streamkeeper.checkpoints.layout import must_be_directory
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.locations import local_path, scheme_of

_WAYS = "use a directory, file:///path, s3a://bucket/prefix or hdfs://namenode:port/path"


def open_tree(location: str) -> Tree:
    """Return the tree at a plain path, ``file:///path``, ``s3a://bucket/prefix``, ``s3://bucket/prefix`` or
    ``hdfs://namenode:port/path``.

    Raises NotFound if the tree does not exist, Unsupported for another scheme, InvalidInput for an empty or incomplete
    location, and StoreUnavailable if the storage does not answer.
    """
    tree = tree_at(location)
    must_be_directory(tree, location)
    return tree


def tree_at(location: str, *, lasting: bool = True, private: bool = True) -> Tree:
    """Return the tree at a location. The location has the same forms as for ``open_tree``, but the tree need not exist.

    ``lasting`` and ``private``: as in ``LocalTree``.
    """
    if not location:
        raise InvalidInput("the checkpoint's location is empty", hint=_WAYS)
    match scheme_of(location):
        case "" | "file":
            return LocalTree(local_path("checkpoint", location), lasting=lasting, private=private)
        case "s3a" | "s3":
            from streamkeeper.checkpoints.s3_tree import S3Tree  # boto3 is slow to load and often not needed

            return S3Tree(location)
        case "hdfs":
            from streamkeeper.checkpoints.hdfs_tree import HdfsTree  # as rarely needed

            return HdfsTree(location)
        case other:
            raise Unsupported(f"checkpoint {location}: scheme {other}:// is not supported", hint=_WAYS)
