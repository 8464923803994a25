"""ForeachBatch: the author's own function writes each batch, at least once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.sinks.contract import Sink, SinkContext, SinkWriter, WriterRole, compute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


__all__ = ["BatchContext", "BatchFunction", "ForeachBatch", "ForeachWriter", "WriterRole"]


class BatchContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of the author's function. A batch may be replayed with the same ``version`` and ``batch_id``."""

    batch_id: int
    """The batch's number."""
    epoch: int
    """The writer's epoch."""
    role: WriterRole
    """SERVING, or SHADOW in a dual run before the cutover."""
    version: str
    """The checkpoint version."""
    query: str
    """The query."""
    job: str
    """The job."""


BatchFunction = Callable[["DataFrame", BatchContext], None]


@dataclass(frozen=True, slots=True)
class ForeachBatch(Sink):
    """Calls ``function(batch, context)`` at least once per batch.

    Streamkeeper has no record of the function's output and cannot fence it. Two other means exclude a superseded
    writer: the driver's check before each batch, and the proof that the earlier driver has terminated. A batch that was
    running when its driver terminated is replayed.
    """

    kind: ClassVar[str] = "foreach"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append", "update", "complete"})

    function: BatchFunction

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(f"ForeachBatch needs a function of (batch, context), not {self.function!r}")

    def describe(self) -> SinkDescription:
        """Return the sink's description. The sink is identified by the name of its function."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        module = getattr(self.function, "__module__", None) or type(self.function).__module__
        return SinkDescription(kind=self.kind, output=f"{module}:{name}", options={})

    def overlaps(self, other: Sink) -> bool:
        """Return False, because only its author knows where a function writes."""
        return False

    def open(self, context: SinkContext) -> ForeachWriter:
        """Return a writer for one epoch."""
        return ForeachWriter(self.function, context)

    def rehearse(self, batch: DataFrame) -> None:
        """Compute the batch without calling the author's function, whose effects cannot be undone."""
        compute(batch)


class ForeachWriter(SinkWriter):
    """Calls the function; keeps no record."""

    def __init__(self, function: BatchFunction, context: SinkContext) -> None:
        self._function = function
        self._context = context

    def raise_fence(self) -> None:
        """Do nothing, because an unknown output has no fence."""

    def last_batch(self) -> int | None:
        """Return None, because the newest batch of an unknown output cannot be determined."""
        return None

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Call the author's function once."""
        context = BatchContext(
            batch_id=batch_id,
            epoch=self._context.epoch,
            role=self._context.role,
            version=self._context.version,
            query=self._context.query,
            job=self._context.job,
        )
        self._function(batch, context)

    def close(self) -> None:
        """Do nothing: no connection is open."""
