"""What a checkpoint says about its stateful operators: names, stores, partitions.

Formats of Spark 4.2.0 (``OperatorStateMetadata``): ``state/<id>/_metadata/metadata`` (v1), or one file per change of
it, ``state/<id>/_metadata/v2/<batch>`` (v2).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamkeeper.checkpoints.entries import Trouble
from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.parsing import parse_json

NEWEST_METADATA = 2
NEWEST_SCHEMA = 3


class OperatorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator: its name in Spark's plan, and its stores' names (``default`` where it has only one)."""

    name: str
    stores: tuple[str, ...]
    partitions: int
    format: int


def operator_folders(checkpoint: Path) -> dict[int, Path]:
    """Operator id -> folder, in order."""
    return {number: checkpoint / "state" / str(number) for number in sorted(numbered(checkpoint / "state"))}


def metadata_file(operator: Path) -> Path | None:
    """The newest file that describes an operator; None when there is none."""
    versions = numbered(operator / "_metadata" / "v2")
    if versions:
        return operator / "_metadata" / "v2" / str(max(versions))
    path = operator / "_metadata" / "metadata"
    return path if path.is_file() else None


def operator_in(path: Path) -> OperatorFacts | Trouble:
    """The operator that a metadata file describes."""
    try:
        version, _, body = path.read_text().partition("\n")
    except UnicodeDecodeError:
        return Trouble.UNKNOWN_VERSION
    if not version.startswith("v") or not version[1:].isdecimal():
        return Trouble.UNKNOWN_VERSION if version or body else Trouble.EMPTY
    if int(version[1:]) > NEWEST_METADATA:
        return Trouble.NEWER
    try:
        found = parse_json(body)
        stores = found["stateStoreInfo"]
        return OperatorFacts(
            name=str(found["operatorInfo"]["operatorName"]),
            stores=tuple(str(each["storeName"]) for each in stores),
            partitions=max((int(each["numPartitions"]) for each in stores), default=0),
            format=int(version[1:]),
        )
    except (ValueError, KeyError, TypeError):
        return Trouble.CUT_SHORT


def schema_format(path: Path) -> int | Trouble:
    """The format of a state schema file, which begins with Java's ``writeUTF`` of ``v<number>``."""
    with path.open("rb") as opened:
        head = opened.read(16)
    if not head:
        return Trouble.EMPTY
    text = head[2 : 2 + int.from_bytes(head[:2], "big")].decode("ascii", "replace")
    if not text.startswith("v") or not text[1:].isdecimal():
        return Trouble.UNKNOWN_VERSION
    return Trouble.NEWER if int(text[1:]) > NEWEST_SCHEMA else int(text[1:])
