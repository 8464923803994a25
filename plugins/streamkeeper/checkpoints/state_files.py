"""The files of one state store: ``state/<operator>/<partition>``, or a folder below it if stores have names."""

from __future__ import annotations

import io
import re
import zipfile
from typing import IO

import msgspec

from streamkeeper.checkpoints.checksums import BROKEN_ARCHIVE, archived_metadata
from streamkeeper.checkpoints.layout import commit_in
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.log_codec import Trouble, whole
from streamkeeper.errors import CheckpointDamaged

NO_STORES = frozenset({"_metadata", "_stateSchema", "SSTs", "logs"})
"""Folders of a partition that are not stores."""

_STATE = re.compile(r"(\d+)(?:_([0-9a-f-]{36}))?\.(delta|snapshot|zip|changelog)")
_BASES = frozenset({"snapshot", "zip"})


class _StateFile(msgspec.Struct, frozen=True):
    """One file of a state store."""

    version: int
    """The version of the state."""
    id: str | None
    """The id in the file's name; present only in checkpoint format 2."""
    kind: str
    """The file's extension: ``delta``, ``snapshot``, ``zip`` or ``changelog``."""
    name: str
    """The file's name."""


class StateFiles:
    """The files of the state stores in one listing of a checkpoint. Each commit is read only once."""

    def __init__(self, seen: Listed) -> None:
        self._seen = seen
        self._ids: dict[int, dict[str, tuple[frozenset[str], ...]]] = {}

    def of(self, store: str, batch: int) -> list[str]:
        """Return the paths of the files from which Spark loads a store's state after ``batch``: the newest snapshot or
        archive up to the batch's version, and every change after it.

        The SSTs that an archive names are included, even if they are missing. The result is empty if the folder
        contains no state. Raises CheckpointDamaged if no file of a required version exists, or if an archive or a
        commit cannot be read.
        """
        files = _by_version(self._seen, store)
        found: list[str] = []
        whole = 0
        for version in range(batch + 1, 0, -1) if files else ():
            usable = self._committed(store, version, files.get(version, []))
            if not usable and not whole:
                raise CheckpointDamaged(f"{self._seen.tree.where(store)} lacks version {version} of its state")
            bases = [file for file in usable if file.kind in _BASES]
            based = {base.id for base in bases}
            changes = [file for file in usable if file.id not in based]
            found += [f"{store}/{file.name}" for file in (*bases, *changes)]
            if bases:
                whole = len(found)
            if not changes:
                # A change next to another attempt's base may be the committed one, and then its own base is further
                # down. Or the change is of a failed attempt, and then older versions may be missing.
                found = found[:whole]
                break
        archives = [path for path in found if path.endswith(".zip")]
        return [*found, *(f"{store}/{name}" for archive in archives for name in _named_in(self._seen, archive))]

    def _committed(self, store: str, version: int, files: list[_StateFile]) -> list[_StateFile]:
        """Return the files that belong to the commit of their batch; a failed attempt leaves files with other ids.

        If the commit has been removed, the files of the attempts cannot be distinguished, so every file counts. A
        running query may remove the commit between the listing and this call.
        """
        if all(file.id is None for file in files):
            return files
        batch = version - 1
        if not self._seen.has(f"commits/{batch}"):
            return files
        if batch not in self._ids:
            commit = commit_in(self._seen.tree, batch)
            if commit is Trouble.MISSING:
                return files
            self._ids[batch] = whole(commit, self._seen.tree.where(f"commits/{batch}")).state_ids
        _, operator, partition = store.split("/")[:3]
        partitions = self._ids[batch].get(operator, ())
        if int(partition) >= len(partitions):
            return files
        return [file for file in files if file.id is None or file.id in partitions[int(partition)]]


def _by_version(seen: Listed, store: str) -> dict[int, list[_StateFile]]:
    found: dict[int, list[_StateFile]] = {}
    for name in seen.files(store):
        if matched := _STATE.fullmatch(name):
            found.setdefault(int(matched[1]), []).append(_StateFile(int(matched[1]), matched[2], matched[3], name))
    return found


def files_named_in(archive: IO[bytes], where: str) -> list[str]:
    """Return the paths of the SST and log files that a RocksDB snapshot names, relative to the state store's directory.

    Raises CheckpointDamaged if the snapshot cannot be read.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            found = archived_metadata(opened)
        ssts = [f"SSTs/{file['dfsSstFileName']}" for file in found["sstFiles"] or ()]
        return [*ssts, *(f"logs/{file['dfsLogFileName']}" for file in found.get("logFiles") or ())]
    except (*BROKEN_ARCHIVE, LookupError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(f"{where} cannot be read: {error}") from error


def _named_in(seen: Listed, archive: str) -> list[str]:
    where = seen.tree.where(archive)
    try:
        return files_named_in(io.BytesIO(seen.tree.read(archive)), where)
    except FileNotFoundError as error:
        raise CheckpointDamaged(f"{where} is missing") from error
