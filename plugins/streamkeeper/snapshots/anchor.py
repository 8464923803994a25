"""The committed batch of a snapshot, and the facts that the checkpoint's logs record about it."""

from __future__ import annotations

import msgspec

from streamkeeper.checkpoints.layout import ANOTHER_DIRECTORY, numbered, query_id
from streamkeeper.checkpoints.log_codec import offsets_from, whole
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, NotFound

_LOOKS = 5


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A committed batch from which a snapshot is taken."""

    query_id: str
    """Spark's id of the query."""
    batch: int
    """The committed batch."""
    pending: bool
    """Whether the next batch is planned and a start can run that plan."""
    offsets: dict[str, str]
    """Source -> its offset after the batch, as in Spark's log."""
    watermark_ms: int | None
    """The watermark in UTC epoch milliseconds, None without one."""


def find_anchor(tree: Tree, batch: int | None = None) -> Anchor:
    """Return the facts about the last committed batch, or about ``batch`` if it is committed.

    Raises NotFound (no checkpoint, no committed batch, or ``batch`` is not committed), CheckpointDamaged,
    CheckpointChanged.
    """
    for _ in range(_LOOKS):
        try:
            return _find(tree.fresh(), batch)
        except FileNotFoundError:
            continue
    raise CheckpointChanged(f"Spark deletes the logs of {tree.url} faster than they can be read")


def query_id_of(tree: Tree) -> str:
    """Return Spark's id of the query; raises NotFound without a checkpoint, CheckpointDamaged."""
    if not tree.has("metadata"):
        raise NotFound(f"{tree.url} is not a checkpoint", hint=ANOTHER_DIRECTORY)
    return query_id(tree)


def _find(tree: Tree, batch: int | None) -> Anchor:
    identity = query_id_of(tree)
    committed = numbered(tree, "commits")
    if not committed:
        raise NotFound(f"{tree.url} has no committed batch yet", hint="wait for the first committed batch")
    if batch is not None and batch not in committed:
        known = f"name a committed batch from {min(committed)} to {max(committed)}"
        raise NotFound(f"{tree.url} has no committed batch {batch}", hint=known)
    number = max(committed) if batch is None else batch
    plan = whole(offsets_from(tree.read(f"offsets/{number}")), tree.where(f"offsets/{number}"))
    return Anchor(
        query_id=identity,
        batch=number,
        pending=not plan.named and number + 1 in numbered(tree, "offsets"),
        offsets=plan.ends,
        watermark_ms=plan.watermark_ms or None,
    )
