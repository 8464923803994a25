"""The segments of an output: which batches of which checkpoint version it consists of."""

from __future__ import annotations

import msgspec


class OutputSegment(msgspec.Struct, frozen=True):
    """One segment of an output: the batches of a checkpoint version up to ``last``, included; None means all."""

    version: str
    last: int | None = None
