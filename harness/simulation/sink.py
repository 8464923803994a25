"""An in-memory table that behaves like ``TableSink``, and an output without a fence, like that of a user's function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from streamkeeper.errors import Fenced, InvalidInput, NotFound, OutputLost
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.contract import (
    ComparedVersions,
    OutputAnswer,
    OutputClaim,
    OutputQuestion,
    Sink,
    SinkContext,
    SinkWriter,
    WriterRole,
    check_installation,
    refuse_older_copy,
)

if TYPE_CHECKING:
    from harness.simulation.spark import Frame
    from harness.simulation.world import World

DATABASE = "postgresql://db.simulated/output"
PLACE = f"{DATABASE}#totals"
FUNCTION = "simulated:write"

Written = dict[int, list[tuple[str, int]]]
"""Row -> the batches that wrote it, each as a checkpoint version and a batch number."""


@dataclass
class Row:
    """The output's own record of who writes it and up to which batch."""

    owner: str
    epoch: int
    version: str = ""
    batch: int | None = None
    installation: str = ""


@dataclass
class Output:
    """The rows that readers see, and the output's own record."""

    row: Row | None = None
    batches: Written = field(default_factory=dict)
    beside: dict[str, Output] = field(default_factory=dict)
    """Checkpoint version -> what it writes in shadow, or wrote before it was replaced; readers do not see this."""

    def swap_in(self, lineage: Sequence[str]) -> None:
        """Show readers what the newest version of the lineage wrote in shadow, and keep what was shown before, as
        ``swap_in`` of a table does.

        Nothing changes if a version of the lineage is shown already, or if none has written in shadow.
        """
        row = self.row
        assert row is not None
        for version in lineage:
            if row.version == version:
                return
            if version in self.beside:
                break
        else:
            return
        coming = self.beside.pop(version)
        assert coming.row is not None
        if not coming.row.version and row.version:
            raise InvalidInput(f"version {version} has no batch, so it cannot replace {row.version}")
        kept = Row(row.owner, max(row.epoch, coming.row.epoch + 1), row.version, row.batch, row.installation)
        self.beside = {row.version: Output(kept, self.batches)} if row.version else {}
        self.batches, row.version, row.batch = coming.batches, coming.row.version, coming.row.batch

    def record(self) -> OutputRecord:
        """Return the record that the output keeps of its batches."""
        rows = [each.row for each in (*self.beside.values(), self) if each.row is not None]
        last = {row.version: row.batch for row in rows if row.version and row.batch is not None}
        if self.row is None:
            return OutputRecord(gone="the table has no record", last=last)
        return OutputRecord(epoch=self.row.epoch, last=last)


class _Simulated(Sink):
    """Base class of the sink declarations in a world."""

    output_modes: ClassVar[frozenset[str]] = frozenset({"append", "update"})

    def __init__(self, world: World) -> None:
        self._world = world

    def rehearse(self, batch: Any) -> None:
        """Do nothing, because a rehearsal keeps no rows."""


class SimulatedTable(_Simulated):
    """The sink declaration of the table."""

    kind: ClassVar[str] = "table"

    def describe(self) -> SinkDescription:
        return SinkDescription(kind=self.kind, output=PLACE, options={"key": "k"})

    @property
    def fence_place(self) -> str:
        return DATABASE

    def open(self, context: SinkContext) -> SinkWriter:
        return TableWriter(self._world, context)


class SimulatedFunction(_Simulated):
    """The sink declaration of the output without a fence."""

    kind: ClassVar[str] = "foreach"

    def describe(self) -> SinkDescription:
        return SinkDescription(kind=self.kind, output=FUNCTION, options={})

    def open(self, context: SinkContext) -> SinkWriter:
        return FunctionWriter(self._world, context)


def answer(world: World, question: OutputQuestion) -> OutputAnswer:
    """Report without a writer what the table contains, in place of ``table_answer.answer``."""
    world.scheduler.seam()
    output = world.output
    row, record = output.row, output.record()
    if row is None:
        return OutputAnswer(unknown=f"{DATABASE} does not exist", record=record)
    if not row.version:
        return OutputAnswer(record=record)
    if row.owner != question.owner:
        return OutputAnswer(unknown=f"the table is written by {row.owner}")
    if row.version != question.version:
        return OutputAnswer(unknown=f"checkpoint version {row.version} has written to the table since", record=record)
    return OutputAnswer(batch=row.batch, record=record)


def read_fences(world: World, place: str) -> list[Fence]:
    """Report who writes the table, in place of ``table_answer.read_fences``; raises NotFound before its first fence."""
    world.scheduler.seam()
    row = world.output.row
    if row is None:
        raise NotFound(f"{place} has no output")
    beside = {version: each.row for version, each in world.output.beside.items() if each.row is not None}
    return [
        Fence(
            output=PLACE,
            owner=row.owner,
            epoch=max([row.epoch, *(other.epoch for other in beside.values())]),
            claimed=row.epoch,
            version=row.version,
            batch=row.batch,
            versions=tuple(sorted({*beside, *([row.version] if row.version else [])})),
            installation=row.installation,
        )
    ]


def compute(batch: Frame) -> None:
    """Compute a batch and discard its rows, in place of ``contract.compute``."""
    assert batch.rows is not None


class TableWriter(SinkWriter):
    """Writes a batch and its number in one transaction, if the table's epoch is still the writer's own."""

    def __init__(self, world: World, context: SinkContext) -> None:
        self._world, self._context = world, context
        self._owner = f"{context.job}/{context.query}"
        self._in_shadow = context.role is WriterRole.SHADOW
        self._held: int | None = None

    @property
    def _row(self) -> Row | None:
        output = self._output
        return output.row if output is not None else None

    @property
    def _output(self) -> Output | None:
        """Return the output that this writer writes; None if its shadow does not exist."""
        return self._world.output.beside.get(self._context.version) if self._in_shadow else self._world.output

    def raise_fence(self) -> None:
        self._world.scheduler.seam()
        serving, context = self._world.output, self._context
        if self._in_shadow:
            if serving.row is not None:
                self._check_owner(serving.row)
                if serving.row.version == context.version:
                    raise Fenced(f"{context.version} is current and no longer a shadow")
            self._move_epoch(serving.beside.setdefault(context.version, Output()))
        else:
            self._move_epoch(serving)
            shown = serving.batches
            serving.swap_in([each.version for each in reversed(context.serving)] or [context.version])
            if serving.batches is not shown:
                self._world.rules.swapped(serving.batches)
        self._held = self.last_batch()

    def _move_epoch(self, output: Output) -> None:
        context, row = self._context, output.row
        if row is None:
            output.row = Row(self._owner, context.epoch, installation=context.installation)
            return
        self._check_owner(row)
        if row.epoch > context.epoch:
            raise self._superseded(row)
        row.epoch, row.installation = context.epoch, row.installation or context.installation

    def _check_owner(self, row: Row) -> None:
        if row.owner != self._owner:
            raise InvalidInput(f"the table is written by {row.owner}, not by {self._owner}")
        check_installation("the table", row.installation, self._context.installation)

    def newest_claim(self) -> OutputClaim | None:
        self._world.scheduler.seam()
        row, mine = self._world.output.row, self._context.installation
        if row is None or row.owner != self._owner or (mine and row.installation not in ("", mine)):
            return None
        return OutputClaim(epoch=row.epoch, version=row.version)

    def last_batch(self) -> int | None:
        row = self._row
        return row.batch if row is not None and row.version == self._context.version else None

    def read_record(self) -> OutputRecord:
        return (self._output or Output()).record()

    def begin_after(self, batch: Any, batch_id: int) -> None:
        del batch
        row = self._row
        if row is not None and row.epoch == self._context.epoch:
            row.version, row.batch = self._context.version, batch_id
        self._held = self.last_batch()

    def write(self, batch: Frame, batch_id: int) -> None:
        self._world.scheduler.seam()
        held, row = self.last_batch(), self._row
        lost = self._held is not None and (held is None or held < self._held)
        if lost and ((row is None and self._in_shadow) or (row is not None and row.epoch > self._context.epoch)):
            raise self._superseded(row)
        refuse_older_copy(PLACE, self._context.version, self._held, held)
        self._held = held
        if held is not None and held >= batch_id:
            compute(batch)
            return
        self._world.take_time()
        rows = batch.rows
        self._world.crash_point("sink.staged")
        self._commit(rows, batch_id)
        self._held = batch_id
        self._world.crash_point("sink.committed")

    def _commit(self, rows: Sequence[int], batch_id: int) -> None:
        output, context = self._output, self._context
        row = output.row if output is not None else None
        if row is None and not self._in_shadow:
            raise OutputLost("the output holds no record")
        if output is None or row is None or row.epoch != context.epoch:
            raise self._superseded(row)
        if (held := self.last_batch()) != self._held:
            refuse_older_copy(PLACE, context.version, self._held, held)
            if held is None or held < batch_id:
                raise OutputLost(f"the record of {context.version} changed while batch {batch_id} was staged")
            return
        row.version, row.batch = context.version, batch_id
        self._world.rules.written(output.batches, context.version, batch_id, rows, shown=not self._in_shadow)

    def _superseded(self, row: Row | None) -> Fenced:
        newest = f"epoch {row.epoch}" if row is not None else "the end of its shadow"
        return Fenced(f"epoch {self._context.epoch} has been superseded by {newest}")

    def discard(self) -> None:
        row = self._row
        if self._in_shadow and row is not None and row.owner == self._owner:
            del self._world.output.beside[self._context.version]

    def compare_with_current(self, versions: ComparedVersions) -> OutputComparison:
        return versions.judged(self._compare())

    def _compare(self) -> OutputComparison:
        """Compare the rows that readers see with those of this shadow."""
        self._world.scheduler.seam()
        old, new = self._world.output, self._output
        if old.row is None or new is None or new.row is None:
            return OutputComparison(comparable=False, why="there is no table yet")
        return OutputComparison(
            old_rows=len(old.batches),
            new_rows=len(new.batches),
            only_old=len(old.batches.keys() - new.batches.keys()),
            only_new=len(new.batches.keys() - old.batches.keys()),
            old_batch=old.row.batch,
            new_batch=new.row.batch,
        )

    def close(self) -> None:
        """Do nothing, because there is no connection to close."""


class FunctionWriter(SinkWriter):
    """Writes each batch at least once, when it is called; it writes row by row, so that a death leaves part of a
    batch.
    """

    def __init__(self, world: World, context: SinkContext) -> None:
        self._world, self._context = world, context

    def raise_fence(self) -> None:
        """Do nothing, because the output has no fence."""

    def last_batch(self) -> int | None:
        return None

    def write(self, batch: Frame, batch_id: int) -> None:
        self._world.take_time()
        for row in batch.rows:
            self._world.scheduler.seam()
            written = self._world.output.batches
            self._world.rules.written(written, self._context.version, batch_id, [row], shown=True)

    def close(self) -> None:
        """Do nothing, because there is no connection to close."""
