"""Damage to a checkpoint's files, and harmless facts about them."""

from __future__ import annotations

import msgspec


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about the files of a checkpoint, harmful or not."""

    shape: str
    """The name of the kind of damage, phrased as a fact."""
    where: str
    """The path of the damaged file inside the checkpoint."""
    evidence: str
    """The evidence, for a person."""
    on_start: str
    """The effect of starting the query on such a checkpoint, in one sentence."""
    safe: bool
    """Whether a measurement has shown that such a start does no harm."""
    hint: str = ""
    """The remedy."""
