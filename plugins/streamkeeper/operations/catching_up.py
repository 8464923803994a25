"""How far a dual run is: what the new checkpoint version holds of what the serving one does, from their files alone."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.checkpoints.reach import compare, position
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged
from streamkeeper.model.ways import Reached


def how_far(old: Path, new: Path) -> Reached:
    """Whether ``new`` holds everything that ``old`` has committed."""
    try:
        reach = compare(position(old), position(new))
    except (CheckpointDamaged, CheckpointChanged) as error:
        return Reached(holds=False, told=f"not seen: {error}")
    return Reached(holds=reach.comparable and reach.holds, told=reach.sentence)
