"""Damage that stays: what several looks at a checkpoint show whose owner may be writing it."""

from __future__ import annotations

import time

from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, NotFound
from streamkeeper.model.damage import Damage

_LOOKS, _BETWEEN_S = 5, 0.2


def examine_twice(tree: Tree, *, stateful: bool = False) -> tuple[Damage, ...]:
    """What two looks in a row show in the same place, so that a batch under way is not taken for damage.

    Raises NotFound, and CheckpointChanged when it changed during every look.
    """
    before: tuple[Damage, ...] | None = None
    for number in range(_LOOKS):
        if number:
            time.sleep(_BETWEEN_S)
        try:
            found = examine(tree.fresh(), stateful=stateful)
        except CheckpointChanged:
            continue
        if not found or before is not None:
            seen = {(damage.shape, damage.where) for damage in before or ()}
            return tuple(damage for damage in found if (damage.shape, damage.where) in seen)
        before = found
    raise CheckpointChanged(f"{tree.where('')} changed during each of {_LOOKS} checks")


def lasting_damages(tree: Tree, *, stateful: bool = False) -> tuple[Damage, ...]:
    """Those that stay; none of a directory that was not begun, or that never holds still."""
    try:
        return examine_twice(tree, stateful=stateful)
    except (NotFound, CheckpointChanged):
        return ()
