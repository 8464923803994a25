"""Copying a closed file set while its owner goes on writing and cleaning up.

Files are copied, never linked: a link would share its bytes with the live checkpoint, and nothing promises that no
version of Spark or RocksDB ever writes into a file again. A set is megabytes where its directory may be gigabytes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, last_planned, numbered
from streamkeeper.checkpoints.relocating import hadoop_location, names_its_place, relocated
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, InvalidInput
from streamkeeper.private_files import FILE, make_folders, write_file

ATTEMPTS = 5


def clone(checkpoint: Path, target: Path, batch: int, *, pending: bool = False) -> None:
    """Copy the closed file set of committed ``batch`` to ``target``, which must not be there yet.

    ``pending``: with the plan of the next batch but not its commit, so that it is the next to run. Raises
    CheckpointChanged when the owner replaced or removed a file meanwhile, CheckpointDamaged when one is missing.
    """
    if target.exists():
        raise InvalidInput(f"{target} is there already", hint="clone into a directory that does not exist")
    files = closed_set(LocalTree(checkpoint), batch, pending=pending)
    seen = {each: _identity(checkpoint / each) for each in files}
    for each in files:
        make_folders((target / each).parent)
        try:
            _copy(checkpoint, each, target)
        except FileNotFoundError as error:
            raise CheckpointChanged(f"{checkpoint / each} was removed while it was being copied") from error
    for each, before in seen.items():
        if _identity(checkpoint / each) != before:
            raise CheckpointChanged(f"{checkpoint / each} changed while it was being copied")


def clone_last_batch(checkpoint: Path, target: Path, *, again: bool = True) -> int | None:
    """Clone the checkpoint so that its last committed batch is the next to run again; that batch, None without one.

    ``again=False``: as it is after that batch, which is then the last to be known.

    The owner may go on meanwhile: then a newer batch is taken. Raises CheckpointDamaged or CheckpointChanged when no
    attempt succeeds.
    """
    failure: CheckpointChanged | CheckpointDamaged | None = None
    for _ in range(ATTEMPTS):
        last = last_committed(checkpoint)
        if last is None:
            return None
        try:
            clone(checkpoint, target, last - 1 if again else last, pending=again)
            return last
        except (CheckpointChanged, CheckpointDamaged) as error:
            shutil.rmtree(target, ignore_errors=True)
            failure = error
            if last_committed(checkpoint) == last and isinstance(error, CheckpointDamaged):
                break
    assert failure is not None
    raise failure


def begins_at_its_last_commit(checkpoint: Path) -> bool:
    """Whether no batch before the last committed one is there, as in a checkpoint that was just restored.

    A snapshot holds what one batch left: what the batch before left, from which that one could run again, it lacks.
    """
    return min(numbered(checkpoint / "commits"), default=0) > 0 and len(numbered(checkpoint / "commits")) == 1


def clone_to_go_on(checkpoint: Path, target: Path) -> tuple[int, bool]:
    """Clone the checkpoint as its last commit left it, with the plan of the next batch if there is one.

    Returns the committed batch, and whether the next one is planned. Raises as ``clone``.
    """
    last = last_committed(checkpoint)
    if last is None:
        raise CheckpointDamaged(f"{checkpoint} has no committed batch")
    planned = last_planned(checkpoint) == last + 1
    clone(checkpoint, target, last, pending=planned)
    return last, planned


def _copy(checkpoint: Path, file: str, target: Path) -> None:
    if names_its_place(file):
        content = (checkpoint / file).read_bytes()
        write_file(target / file, relocated(file, content, hadoop_location(target)))
    else:
        (target / file).touch(FILE)
        shutil.copyfile(checkpoint / file, target / file)


def _identity(path: Path) -> tuple[int, int, int]:
    """What tells a file from one that took its name."""
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        raise CheckpointChanged(f"{path} was removed while it was being copied") from error
    return found.st_size, found.st_mtime_ns, found.st_ino
