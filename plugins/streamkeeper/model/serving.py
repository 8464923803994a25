"""The batches of each checkpoint version that make up an output."""

from __future__ import annotations

import msgspec


class Span(msgspec.Struct, frozen=True):
    """The current batches of a checkpoint version: up to and including ``last``; None: all of them."""

    version: str
    last: int | None = None
