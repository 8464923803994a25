"""Checks that a directory is the recorded checkpoint: present, of the same query, and not older than its records.

Spark silently starts from the beginning if a checkpoint is missing, and reruns batches if it is older.
"""

from __future__ import annotations

from streamkeeper.checkpoints.layout import id_there, last_committed, last_planned, query_id
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, CheckpointLost
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint


def must_be_there(tree: Tree, known: KnownCheckpoint) -> None:
    """Raise CheckpointLost if ``find_loss`` finds that the checkpoint does not match its records."""
    loss = find_loss(tree, known)
    if loss:
        raise CheckpointLost(f"{known.name} is not what was recorded: {loss}", hint=way_out(known))


def find_loss(tree: Tree, known: KnownCheckpoint) -> str:
    """Return a text that describes the loss; empty if the checkpoint matches its records or has not started yet.

    A missing commit of the newest batch is not a loss if the batch's plan exists. A machine crash can lose that commit,
    and Spark then reruns the batch under the same id.
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
    if planned < known.committed <= committed:
        plan = f"batch {planned}" if planned >= 0 else "no batch"
        return f"{where} has the commit of batch {committed}, but its newest plan is of {plan}"
    if planned < known.committed or committed < known.committed - 1:
        stands = f"is at batch {committed}" if committed >= 0 else "has no committed batch"
        return f"{where} {stands}, but batch {known.committed} was committed"
    return ""


def way_out(known: KnownCheckpoint) -> str:
    """Return the remedy for a lost checkpoint as text."""
    return f"mount it or put it back unchanged. If it is lost, run `streamkeeper snapshot restore {known.series}`"


def _or_none_yet(batch: int | None) -> int:
    return -1 if batch is None else batch
