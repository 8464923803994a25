"""A table in memory with the fence and the shadows of ``TableSink``, and an output without them, as of a function."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from streamkeeper.crash_points import crash_point
from streamkeeper.errors import Fenced, InvalidInput, OutputLost
from streamkeeper.model.comparison import OutputComparison
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.output_history import OutputRecord
from streamkeeper.sinks.contract import OutputClaim, Sink, SinkContext, SinkWriter, WriterRole, refuse_older_copy

if TYPE_CHECKING:
    from harness.simulation.spark import Frame
    from harness.simulation.world import World

PLACE = "sqlite:////simulated/output.db#totals"
FUNCTION = "simulated:write"
CURRENT = "totals"
"""The table that readers see. Another version's table has the version's name."""

Written = dict[int, list[tuple[str, int]]]
"""Row -> the batches that wrote it, each as checkpoint version and number."""


@dataclass
class Row:
    """The output's own record of one table."""

    owner: str
    epoch: int
    version: str = ""
    """Empty as long as no batch was written."""
    batch: int | None = None
    written: Written = field(default_factory=dict)
    """The rows of the table."""


@dataclass
class Output:
    """All tables of the output, by name; and what a function has written."""

    tables: dict[str, Row] = field(default_factory=dict)
    by_function: Written = field(default_factory=dict)

    @property
    def row(self) -> Row | None:
        """The table that readers see; None if no writer has raised its fence."""
        return self.tables.get(CURRENT)

    @property
    def batches(self) -> Written:
        """The rows that readers see."""
        return self.row.written if self.row is not None else self.by_function


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
        self._tables, self._scheduler = world.output.tables, world.scheduler
        self._in_shadow = context.role is WriterRole.SHADOW
        self._name = context.version if self._in_shadow else CURRENT
        self._owner = f"{context.job}/{context.query}"
        self._held: int | None = None

    @property
    def _row(self) -> Row | None:
        return self._tables.get(self._name)

    def raise_fence(self) -> None:
        self._scheduler.seam()
        row, serving = self._row, self._tables.get(CURRENT)
        if self._in_shadow and serving is not None and serving.version == self._context.version:
            raise Fenced(f"{self._context.version} is current and no longer a shadow")
        if row is None:
            self._tables[self._name] = Row(self._owner, self._context.epoch)
        elif row.epoch > self._context.epoch:
            raise Fenced(f"epoch {self._context.epoch} has been superseded by epoch {row.epoch}")
        else:
            row.epoch = self._context.epoch
        if not self._in_shadow:
            self._swap_in()
        self._held = self.last_batch()

    def _swap_in(self) -> None:
        """As ``versions_of_table.swap_in``: the first version of the lineage that has a table is what readers see."""
        serving, context = self._tables[CURRENT], self._context
        lineage = [span.version for span in reversed(context.serving)] or [context.version]
        coming = next((name for name in lineage if name == serving.version or name in self._tables), "")
        if coming in ("", serving.version):
            return
        if not self._tables[coming].version and serving.version:
            raise InvalidInput(f"table {coming} has no batch, so it cannot replace {CURRENT}")
        shown = self._tables.pop(coming)
        newest = shown.epoch
        for name in [name for name in self._tables if name != CURRENT]:
            del self._tables[name]
        if serving.version:
            # No writer has the epoch of the retained table.
            self._tables[serving.version] = Row(
                self._owner, newest + 1, serving.version, serving.batch, serving.written
            )
        self._tables[CURRENT] = Row(self._owner, context.epoch, shown.version, shown.batch, shown.written)
        self._scheduler.say(f"readers see {coming} from here on")

    def newest_claim(self) -> OutputClaim | None:
        self._scheduler.seam()
        row = self._tables.get(CURRENT)
        return OutputClaim(epoch=row.epoch, version=row.version) if row is not None else None

    def last_batch(self) -> int | None:
        row = self._row
        return row.batch if row is not None and row.version == self._context.version else None

    def read_record(self) -> OutputRecord:
        last = {row.version: row.batch for row in self._tables.values() if row.version and row.batch is not None}
        row = self._row
        if row is None:
            return OutputRecord(gone="the table is missing", last=last)
        return OutputRecord(epoch=row.epoch, last=last)

    def write(self, batch: Frame, batch_id: int) -> None:
        self._scheduler.seam()
        held = self.last_batch()
        self._refuse_older_copy(held)
        if held is not None and held >= batch_id:
            return
        self._world.take_time()
        crash_point("sink.staged")
        row = self._row
        if row is None:
            raise Fenced(f"table {self._name} was discarded") if self._in_shadow else OutputLost("there is no record")
        if row.epoch != self._context.epoch:
            raise Fenced(f"epoch {self._context.epoch} has been superseded by epoch {row.epoch}")
        if row.version != self._context.version or row.batch is None or row.batch < batch_id:
            row.version, row.batch = self._context.version, batch_id
            self._world.rules.written(row.written, self._context.version, batch_id, batch.rows)
        self._held = batch_id
        crash_point("sink.committed")

    def _refuse_older_copy(self, last: int | None) -> None:
        if self._held is not None and (last is None or last < self._held):
            newest = self._row.epoch if self._row is not None else None
            if (newest is None and self._in_shadow) or (newest or 0) > self._context.epoch:
                raise Fenced(f"epoch {self._context.epoch} has been superseded by epoch {newest}")
        refuse_older_copy(PLACE, self._context.version, self._held, last)
        self._held = last

    def begin_after(self, batch: Any, batch_id: int) -> None:
        row = self._row
        assert row is not None
        row.version, row.batch = self._context.version, batch_id
        self._held = batch_id

    def discard(self) -> None:
        self._scheduler.seam()
        if self._in_shadow:
            self._tables.pop(self._name, None)

    def compare(self, may_differ: Collection[str] = ()) -> OutputComparison:
        """Compare the current table with this shadow, row by row."""
        del may_differ
        self._scheduler.seam()
        old, new = self._tables.get(CURRENT), self._tables.get(self._name)
        if old is None or new is None:
            return OutputComparison(comparable=False, why="there is no table yet")
        return OutputComparison(
            old_rows=len(old.written),
            new_rows=len(new.written),
            only_old=len(old.written.keys() - new.written.keys()),
            only_new=len(new.written.keys() - old.written.keys()),
            old_batch=old.batch,
            new_batch=new.batch,
        )

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
        written = self._world.output.by_function
        for row in batch.rows:
            self._world.scheduler.seam()
            self._world.rules.written(written, self._context.version, batch_id, range(row, row + 1))

    def close(self) -> None:
        """No connection."""
