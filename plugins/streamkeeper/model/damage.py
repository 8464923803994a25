"""What is wrong, or worth knowing, about a checkpoint's files."""

from __future__ import annotations

import msgspec


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a checkpoint: ``shape`` is its name as a fact, ``where`` a path inside the checkpoint.

    ``on_start``: what a start would do, in one sentence. ``safe``: such a start was measured and does no harm.
    ``hint``: the way out.
    """

    shape: str
    where: str
    evidence: str
    on_start: str
    safe: bool
    hint: str = ""
