"""Whether a directory is the checkpoint that the records know: there, the same query's, and not behind them.

A checkpoint that is missing begins anew, and one that has gone back repeats: Spark starts from both without a word.
"""

from __future__ import annotations

from streamkeeper.checkpoints.layout import id_there, last_committed, last_planned, query_id
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, CheckpointLost
from streamkeeper.model.known_checkpoint import KnownCheckpoint


def must_be_there(tree: Tree, known: KnownCheckpoint) -> None:
    """Raise CheckpointLost unless the directory holds all that is known of this checkpoint."""
    loss = find_loss(tree, known)
    if loss:
        raise CheckpointLost(f"{known.name} is not what was recorded: {loss}", hint=way_out(known))


def find_loss(tree: Tree, known: KnownCheckpoint) -> str:
    """What of it is lost, as a clause; empty when nothing is, or when it has not begun yet.

    The commit of the newest batch may be missing while its plan is there: a crash of the machine can leave that, and
    the batch runs again under its own id.
    """
    if not known.begun and not id_there(tree):
        return ""
    where = tree.where("")
    try:
        found = query_id(tree)
    except CheckpointDamaged as error:
        if tree.absence():
            return f"{where} is missing"
        return f"{where} is empty" if not tree.names("") else error.message
    if known.query_id and found != known.query_id:
        return f"{where} is the checkpoint of query {found}, not of {known.query_id}"
    if known.committed is None:
        return ""
    planned, committed = _or_none_yet(last_planned(tree)), _or_none_yet(last_committed(tree))
    if planned < known.committed or committed < known.committed - 1:
        stands = f"is at batch {committed}" if committed >= 0 else "has no committed batch"
        return f"{where} {stands}, but batch {known.committed} was committed"
    return ""


def way_out(known: KnownCheckpoint) -> str:
    """What to do about a checkpoint that is lost."""
    return f"mount it or put it back unchanged, or run: streamkeeper snapshot restore {known.series}"


def _or_none_yet(batch: int | None) -> int:
    return -1 if batch is None else batch
