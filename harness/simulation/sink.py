"""A table in memory with the fence of ``TableSink``, and an output without one, as of a user's function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from streamkeeper.crash_points import crash_point
from streamkeeper.errors import Fenced, OutputLost
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.output_history import OutputRecord
from streamkeeper.sinks.contract import OutputClaim, Sink, SinkContext, SinkWriter, refuse_older_copy

if TYPE_CHECKING:
    from harness.simulation.spark import Frame
    from harness.simulation.world import World

PLACE = "sqlite:////simulated/output.db#totals"
FUNCTION = "simulated:write"


@dataclass
class Row:
    """The output's own record."""

    owner: str
    epoch: int
    version: str = ""
    batch: int | None = None


@dataclass
class Output:
    """What readers see, and the output's own record."""

    row: Row | None = None
    batches: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    """Row -> the batches that wrote it, each as checkpoint version and number."""


class SimulatedSink(Sink):
    """The declaration; ``fenced``: whether the output has a fence."""

    kind: ClassVar[str] = "table"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append", "update"})

    def __init__(self, world: World, *, fenced: bool) -> None:
        self._world, self._fenced = world, fenced

    def describe(self) -> SinkDescription:
        if not self._fenced:
            return SinkDescription(kind="foreach", output=FUNCTION, options={})
        return SinkDescription(kind="table", output=PLACE, options={"key": "k"})

    def open(self, context: SinkContext) -> SinkWriter:
        return (FencedWriter if self._fenced else FunctionWriter)(self._world, context)

    def rehearse(self, batch: Any) -> None:
        """Keep nothing."""


class FencedWriter(SinkWriter):
    """Writes a batch and its number in one transaction, if the epoch is still its own."""

    def __init__(self, world: World, context: SinkContext) -> None:
        self._world, self._context = world, context
        self._output, self._scheduler = world.output, world.scheduler
        self._owner = f"{context.job}/{context.query}"
        self._held: int | None = None

    def raise_fence(self) -> None:
        self._scheduler.seam()
        row = self._output.row
        if row is None:
            self._output.row = Row(self._owner, self._context.epoch)
        elif row.epoch > self._context.epoch:
            raise Fenced(f"epoch {self._context.epoch} has been superseded by epoch {row.epoch}")
        else:
            row.epoch = self._context.epoch
        self._held = self.last_batch()

    def newest_claim(self) -> OutputClaim | None:
        self._scheduler.seam()
        row = self._output.row
        return OutputClaim(epoch=row.epoch, version=row.version) if row is not None else None

    def last_batch(self) -> int | None:
        row = self._output.row
        return row.batch if row is not None and row.version == self._context.version else None

    def read_record(self) -> OutputRecord:
        row = self._output.row
        if row is None:
            return OutputRecord(gone="the table is missing")
        last = {row.version: row.batch} if row.batch is not None else {}
        return OutputRecord(epoch=row.epoch, last=last)

    def write(self, batch: Frame, batch_id: int) -> None:
        self._scheduler.seam()
        held = self.last_batch()
        refuse_older_copy(PLACE, self._context.version, self._held, held)
        self._held = held
        if held is not None and held >= batch_id:
            return
        self._world.take_time()
        crash_point("sink.staged")
        row = self._output.row
        if row is None:
            raise OutputLost("the output holds no record")
        if row.epoch != self._context.epoch:
            raise Fenced(f"epoch {self._context.epoch} has been superseded by epoch {row.epoch}")
        if row.version != self._context.version or row.batch is None or row.batch < batch_id:
            row.version, row.batch = self._context.version, batch_id
            self._world.rules.written(self._context.version, batch_id, batch.rows)
        self._held = batch_id
        crash_point("sink.committed")

    def close(self) -> None:
        """No connection."""


class FunctionWriter(SinkWriter):
    """Writes each batch when it is called, at least once; row by row, so that a death leaves a part."""

    def __init__(self, world: World, context: SinkContext) -> None:
        self._world, self._context = world, context

    def raise_fence(self) -> None:
        """No fence."""

    def last_batch(self) -> int | None:
        return None

    def write(self, batch: Frame, batch_id: int) -> None:
        self._world.take_time()
        for row in batch.rows:
            self._world.scheduler.seam()
            self._world.rules.written(self._context.version, batch_id, range(row, row + 1))

    def close(self) -> None:
        """No connection."""
