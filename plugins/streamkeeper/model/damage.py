"""Damage to a checkpoint's files, and other facts worth knowing about them."""

from __future__ import annotations

import msgspec


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a checkpoint."""

    shape: str
    """Its name as a fact."""
    where: str
    """A path inside the checkpoint."""
    evidence: str
    """The evidence, for a person."""
    on_start: str
    """The effect of a start, in one sentence."""
    safe: bool
    """Whether such a start was measured and does no harm."""
    hint: str = ""
    """The remedy."""
