"""Copies a closed file set while the query keeps writing and Spark keeps cleaning up.

Files are copied, never linked. A link would share its bytes with the live checkpoint, and Spark and RocksDB do not
guarantee that no version of them writes into an existing file. The set has megabytes, even if its checkpoint has
gigabytes.
"""

from __future__ import annotations

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, last_planned, numbered
from streamkeeper.checkpoints.publishing import METADATA
from streamkeeper.checkpoints.relocating import names_its_place, relocated
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, InvalidInput
from streamkeeper.model.records.snapshot import Stamp

ATTEMPTS = 5


def clone(checkpoint: Tree, target: Tree, batch: int, *, pending: bool = False) -> None:
    """Copy to ``target`` the files from which a query resumes after committed ``batch``. ``target`` must be empty.

    The metadata is written last, after a check that no copied file has changed in ``checkpoint`` during the copy.

    ``pending``: also copy the plan of the next batch, but not its commit. A query that starts on the copy runs that
    batch first.

    Raises CheckpointChanged if the query replaced or removed a file during the copy, and CheckpointDamaged if a
    required file is missing.
    """
    if target.names(""):
        raise InvalidInput(f"{target.where('')} already exists", hint="clone into a directory that does not exist")
    before = checkpoint.fresh()
    stamps = {path: _stamp(before, path) for path in closed_set(before, batch, pending=pending)}
    for path in sorted(stamps.keys() - {METADATA}):
        _copy(before, target, path, stamps[path])
    after = checkpoint.fresh()
    for path, stamp in stamps.items():
        if not _stamp(after, path).is_same_file(stamp):
            raise CheckpointChanged(f"{checkpoint.where(path)} changed while it was being copied")
    _copy(before, target, METADATA, stamps[METADATA])


def clone_last_batch(checkpoint: Tree, target: Tree, *, again: bool = True) -> int | None:
    """Clone the checkpoint so that a query on the clone replays the last committed batch. Return that batch, or None if
    no batch is committed.

    ``again``: if False, a query on the clone does not replay that batch, but resumes after it.

    The query of ``checkpoint`` may keep running. If a copy fails because this query changed files, the function repeats
    the copy with the batch that is then the last committed one. Raises CheckpointChanged or CheckpointDamaged after
    ``ATTEMPTS`` failed copies. Raises CheckpointDamaged at once if a copy fails with this error although no batch was
    committed during the copy.
    """
    failure: CheckpointChanged | CheckpointDamaged | None = None
    for _ in range(ATTEMPTS):
        last = last_committed(checkpoint.fresh())
        if last is None:
            return None
        try:
            clone(checkpoint, target, last - 1 if again else last, pending=again)
            return last
        except (CheckpointChanged, CheckpointDamaged) as error:
            target.empty()
            failure = error
            if last_committed(checkpoint.fresh()) == last and isinstance(error, CheckpointDamaged):
                break
    assert failure is not None
    raise failure


def begins_at_its_last_commit(checkpoint: Tree) -> bool:
    """Whether the checkpoint contains only one commit, and that commit is of a batch after batch 0.

    This is the case directly after a restore from a snapshot. The committed batch cannot be replayed, because the
    snapshot lacks the files of the batch before it.
    """
    committed = numbered(checkpoint, "commits")
    return len(committed) == 1 and committed[0] > 0


def clone_to_go_on(checkpoint: Tree, target: Tree) -> tuple[int, bool]:
    """Clone the checkpoint as of its last commit. If the next batch is planned, also clone that plan.

    Returns the last committed batch, and whether the next batch is planned. Raises CheckpointDamaged if no batch is
    committed, and the errors of ``clone``.
    """
    last = last_committed(checkpoint)
    if last is None:
        raise CheckpointDamaged(f"{checkpoint.where('')} has no committed batch")
    planned = last_planned(checkpoint) == last + 1
    clone(checkpoint, target, last, pending=planned)
    return last, planned


def _copy(source: Tree, target: Tree, path: str, expected: Stamp) -> None:
    try:
        if names_its_place(path):
            target.create(path, [relocated(path, source.read(path), target.location)])
        else:
            target.copy_within(source, path, expected)
    except FileNotFoundError as error:
        raise CheckpointChanged(f"{source.where(path)} was removed while it was being copied") from error


def _stamp(tree: Tree, path: str) -> Stamp:
    try:
        return tree.stamp(path)
    except FileNotFoundError as error:
        raise CheckpointChanged(f"{tree.where(path)} was removed while it was being copied") from error
