"""Finds lasting damage: checks a checkpoint several times, because its query may be writing to it during a check."""

from __future__ import annotations

from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.shapes import CHECK_AGAIN
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, NotFound
from streamkeeper.model.protocol.damage import Damage
from streamkeeper.system import clock

_LOOKS, _BETWEEN_S = 5, 0.2


def examine_twice(tree: Tree, *, stateful: bool = False) -> tuple[Damage, ...]:
    """Check a checkpoint twice, and return the damage that both checks find at the same path; empty if the first check
    finds no damage.

    A running batch can look like damage, but in only one of two checks. A check during which the checkpoint changes
    does not count, and is repeated; there are at most five checks.

    Raises NotFound if the directory does not exist. Raises CheckpointChanged if the checkpoint changed during every
    check, or during every check but one that found damage.
    """
    before: tuple[Damage, ...] | None = None
    for number in range(_LOOKS):
        if number:
            clock.sleep(_BETWEEN_S)
        try:
            found = examine(tree.fresh(), stateful=stateful)
        except CheckpointChanged:
            continue
        if not found or before is not None:
            seen = {(damage.shape, damage.where) for damage in before or ()}
            return tuple(damage for damage in found if (damage.shape, damage.where) in seen)
        before = found
    raise CheckpointChanged(f"{tree.where('')} changed during each of {_LOOKS} checks", hint=CHECK_AGAIN)


def lasting_damages(tree: Tree, *, stateful: bool = False) -> tuple[Damage, ...]:
    """Return the damage that ``examine_twice`` finds; no damage if the directory is missing or keeps changing."""
    try:
        return examine_twice(tree, stateful=stateful)
    except (NotFound, CheckpointChanged):
        return ()
