"""Which batches of which checkpoint versions an output is made of."""

from __future__ import annotations

import msgspec


class Span(msgspec.Struct, frozen=True):
    """The batches of a checkpoint version that serve: up to and with ``last``; None: all of them."""

    version: str
    last: int | None = None
