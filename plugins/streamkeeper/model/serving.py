"""The segments of an output: which batches of which checkpoint version it consists of."""

from __future__ import annotations

import msgspec


class Span(msgspec.Struct, frozen=True):
    """One segment: the batches of a checkpoint version up to and including ``last``, or all if ``last`` is None."""

    version: str
    last: int | None = None
