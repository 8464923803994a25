"""The committed batch that a snapshot stands on, and what the checkpoint's logs say of it."""

from __future__ import annotations

import json

import msgspec

from streamkeeper.checkpoints.entries import Trouble, offsets_from
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound

_NAMED_SOURCES = 2
_LOOKS = 5


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """``batch`` is committed; ``pending``: the batch after it is planned, and a start can run that plan."""

    query_id: str
    batch: int
    pending: bool
    offsets: dict[str, str]
    watermark_ms: int | None


def find_anchor(tree: Tree, batch: int | None = None) -> Anchor:
    """The last committed batch, or ``batch`` if it is committed.

    Raises NotFound (no checkpoint, no committed batch, not this one), CheckpointDamaged, CheckpointChanged.
    """
    for _ in range(_LOOKS):
        try:
            return _find(tree.fresh(), batch)
        except FileNotFoundError:
            continue
    raise CheckpointChanged(f"{tree.url} is cleaned up faster than its logs can be read")


def query_id_of(tree: Tree) -> str:
    """The id that Spark gave the query; raises NotFound where there is no checkpoint, CheckpointDamaged."""
    try:
        found = json.loads(tree.read("metadata"))["id"]
    except FileNotFoundError:
        raise _no_checkpoint(tree) from None
    except (ValueError, KeyError, TypeError):
        raise CheckpointDamaged(f"{tree.url}/metadata holds no query id") from None
    return str(found)


def _find(tree: Tree, batch: int | None) -> Anchor:
    query_id = query_id_of(tree)
    committed = numbered(tree, "commits")
    if not committed:
        raise NotFound(f"{tree.url} has no committed batch yet", hint="there is nothing to go back to before the first")
    if batch is not None and batch not in committed:
        known = f"committed there: {min(committed)} to {max(committed)}"
        raise NotFound(f"{tree.url} has no committed batch {batch}", hint=known)
    number = max(committed) if batch is None else batch
    plan = offsets_from(tree.read(f"offsets/{number}"))
    if isinstance(plan, Trouble):
        raise CheckpointDamaged(f"{tree.url}/offsets/{number} {plan.value}")
    return Anchor(
        query_id=query_id,
        batch=number,
        # Spark 4.2.0 cannot start from an open batch whose sources are named: see checkpoints.facts.
        pending=plan.version != _NAMED_SOURCES and number + 1 in numbered(tree, "offsets"),
        offsets=plan.ends,
        watermark_ms=plan.watermark_ms or None,
    )


def numbered(tree: Tree, log: str) -> set[int]:
    """Batches with an entry in one of the checkpoint's logs."""
    return {int(name) for name in tree.names(log) if name.isdecimal()}


def _no_checkpoint(tree: Tree) -> NotFound:
    hint = "name the query's checkpoint directory: it holds metadata, offsets and commits"
    return NotFound(f"{tree.url} is not a checkpoint", hint=hint)
