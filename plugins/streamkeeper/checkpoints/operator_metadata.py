"""Reads facts about stateful operators from a checkpoint: names, stores, partitions.

Formats of Spark 4.2.0 (``OperatorStateMetadata``): ``state/<id>/_metadata/metadata`` (v1), or one file per change of
it, ``state/<id>/_metadata/v2/<batch>`` (v2).
"""

from __future__ import annotations

import msgspec

from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.log_codec import Trouble, split_version
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.coding import parse_json

NEWEST_METADATA = 2
NEWEST_SCHEMA = 3


class OperatorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator."""

    name: str
    """Its name in Spark's plan."""
    stores: tuple[str, ...]
    """Its stores' names; ``default`` if it has only one."""
    partitions: int
    """The number of partitions."""
    format: int
    """The format of its metadata."""


def operator_folders(tree: Tree) -> dict[int, str]:
    """Return operator id -> folder of the operator's state, sorted by id."""
    return {number: f"state/{number}" for number in sorted(numbered(tree, "state"))}


def metadata_file(tree: Tree, operator: str) -> str | None:
    """Return the newest metadata file in an operator's folder; None if there is none."""
    versions = numbered(tree, f"{operator}/_metadata/v2")
    if versions:
        return f"{operator}/_metadata/v2/{max(versions)}"
    return f"{operator}/_metadata/metadata" if "metadata" in tree.files(f"{operator}/_metadata") else None


def operator_in(tree: Tree, path: str) -> OperatorFacts | Trouble:
    """Decode the operator that a metadata file describes."""
    try:
        split = split_version(tree.read(path).decode())
    except UnicodeDecodeError:
        return Trouble.UNKNOWN_VERSION
    if isinstance(split, Trouble):
        return split
    version, body = split
    if version > NEWEST_METADATA:
        return Trouble.NEWER
    try:
        found = parse_json(body)
        stores = found["stateStoreInfo"]
        return OperatorFacts(
            name=str(found["operatorInfo"]["operatorName"]),
            stores=tuple(str(store["storeName"]) for store in stores),
            partitions=max((int(store["numPartitions"]) for store in stores), default=0),
            format=version,
        )
    except (ValueError, KeyError, TypeError):
        return Trouble.CUT_SHORT


def schema_format(tree: Tree, path: str) -> int | Trouble:
    """Return the format of a state schema file, which starts with Java's ``writeUTF`` of ``v<number>``."""
    head = tree.read(path)[:16]
    if not head:
        return Trouble.EMPTY
    text = head[2 : 2 + int.from_bytes(head[:2], "big")].decode("ascii", "replace")
    if not text.startswith("v") or not text[1:].isdecimal():
        return Trouble.UNKNOWN_VERSION
    return Trouble.NEWER if int(text[1:]) > NEWEST_SCHEMA else int(text[1:])
