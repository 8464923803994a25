"""Reading a checkpoint directory as Spark lays it out, without Spark; what is no entry of a log (``.crc``, temporary
files) is passed over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from streamkeeper.checkpoints.parsing import parse_json
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, NotFound

_NUMBER = re.compile(r"0|[1-9][0-9]*")
_VERSION = re.compile(r"v\d{4,}")
_VOID = "{}"
ANOTHER_DIRECTORY = "name the query's checkpoint directory: it holds metadata, offsets and commits"


def must_be_directory(checkpoint: Path, given: str = "") -> None:
    """Raise NotFound where there is no directory; ``given``: how whoever asks has written it."""
    if not checkpoint.is_dir():
        what = "is no directory" if checkpoint.exists() else "does not exist"
        raise NotFound(f"checkpoint {given or checkpoint} {what}", hint=ANOTHER_DIRECTORY)


def is_version_name(name: str) -> bool:
    """Whether a directory is called as checkpoint versions are: ``v0001``."""
    return _VERSION.fullmatch(name) is not None


def find_checkpoints(directory: Path) -> dict[str, Path]:
    """Query -> its checkpoint, of those that lie in ``directory``; the empty name stands for itself being one.

    A checkpoint of versions (``v0001``, ``v0002``, ...) is the newest of them. Empty where nothing looks like one.
    """
    own = _checkpoint_or_newest(directory)
    if own is not None:
        return {"": own}
    folders = [each for each in sorted(directory.iterdir()) if each.is_dir()] if directory.is_dir() else []
    found = {each.name: _checkpoint_or_newest(each) for each in folders}
    return {name: each for name, each in found.items() if each is not None}


def _checkpoint_or_newest(directory: Path) -> Path | None:
    if (directory / "metadata").is_file() or any((directory / log).is_dir() for log in ("offsets", "commits")):
        return directory
    versions = [each for each in directory.glob("v*") if each.is_dir() and is_version_name(each.name)]
    return max(versions, key=lambda each: int(each.name[1:]), default=None)


def last_committed(checkpoint: Path) -> int | None:
    """The newest batch that Spark has committed; None when there is none."""
    return max(numbered(checkpoint / "commits"), default=None)


def last_planned(checkpoint: Path) -> int | None:
    """The newest batch whose offsets are written; None when there is none."""
    return max(numbered(checkpoint / "offsets"), default=None)


def open_batch(checkpoint: Path) -> int | None:
    """The batch that is planned and not committed, if any."""
    planned, committed = last_planned(checkpoint), last_committed(checkpoint)
    if planned is None or (committed is not None and planned <= committed):
        return None
    return planned


def query_id(checkpoint: Path) -> str:
    """The id that Spark gave the query; raises CheckpointDamaged."""
    path = checkpoint / "metadata"
    found = _json(path, _text(path, _read(path)))
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise CheckpointDamaged(f"{path} holds no query id", hint="restore the checkpoint, or start a new version")
    return str(found["id"])


def id_there(checkpoint: Path) -> str:
    """Its id as ``query_id`` tells it; empty where there is none, or none that can be read."""
    try:
        return query_id(checkpoint)
    except CheckpointDamaged:
        return ""


def state_ids(tree: Tree, batch: int) -> dict[str, list[frozenset[str]]]:
    """Operator -> partition -> ids of its state files (checkpoint format v2); empty where file names carry no id.

    Raises CheckpointDamaged, FileNotFoundError when there is no such commit.
    """
    path = f"commits/{batch}"
    where = tree.where(path)
    lines = _split(where, tree.read(path))
    found = _json(where, lines[1]) if len(lines) > 1 and lines[1] != _VOID else {}
    try:
        return {
            operator: [frozenset(str(each) for each in partition) for partition in partitions]
            for operator, partitions in (found.get("stateUniqueIds") or {}).items()
        }
    except (AttributeError, TypeError) as error:
        raise CheckpointDamaged(f"{where} does not tell the state's files: {error}") from error


def numbered(log: Path) -> list[int]:
    """The numbers of a log directory's entries; none when it is not there."""
    try:
        names = [path.name for path in log.iterdir()]
    except FileNotFoundError:
        return []
    return [int(name) for name in names if _NUMBER.fullmatch(name)]


def _split(where: Path | str, content: bytes) -> list[str]:
    lines = _text(where, content).splitlines()
    if not lines or not re.fullmatch(r"v\d+", lines[0]):
        raise CheckpointDamaged(f"{where} is not an entry of a Spark log", hint="it is empty, cut short or overwritten")
    return lines


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointDamaged(f"{path} is missing") from error


def _text(where: Path | str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CheckpointDamaged(f"{where} is not text") from error


def _json(where: Path | str, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise CheckpointDamaged(f"{where} holds no JSON") from error
