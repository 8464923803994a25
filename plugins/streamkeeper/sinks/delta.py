"""DeltaSink: exactly-once writes to a Delta table, with the fence in the data's own commit.

Each commit of a batch names its writer, which is one epoch of a checkpoint version, and the batch as an application
transaction of Delta. The fence of the next writer is a commit that closes the earlier writer: it sets the writer's
number to the highest possible one. Delta then ignores every later write of the earlier writer, and fails a write that
had begun. A cutover, a rollback and a restore set the table to other files in the commit of the fence, so that readers
see either the old or the new content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import InvalidInput
from streamkeeper.locations import lies_within, storage_location
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.sinks.contract import Sink, SinkContext, compute
from streamkeeper.sinks.delta_answer import answer, is_delta_table, read_fences, refuse_cut
from streamkeeper.sinks.delta_columns import check_columns, refuse_other_columns, refuse_table
from streamkeeper.sinks.delta_commit import DeltaTable
from streamkeeper.sinks.delta_record import LOG, SHADOWS, read_record
from streamkeeper.sinks.delta_session import DeltaSession
from streamkeeper.sinks.delta_writer import DeltaWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["DeltaSink", "answer", "read_fences", "refuse_cut"]


@dataclass(frozen=True, slots=True)
class DeltaSink(Sink):
    """Writes a Delta table, which is created from the query's columns if it is missing.

    Without ``key``, each batch adds its rows. With ``key``, a row replaces the row with the same key. In the mode
    complete, a batch replaces all rows. A rebuilt version is written to a table of its own in a folder below the table,
    and replaces the table's content in one commit.
    """

    kind: ClassVar[str] = "delta"

    path: str
    """An absolute local directory, ``s3a://bucket/prefix`` or ``hdfs://namenode:port/path``. On S3 and HDFS, the
    checkpoints of the installation must be there, too.
    """
    key: Sequence[str] = ()
    """The key columns; empty if rows have no key."""
    partition_by: Sequence[str] = ()
    """The partition columns of a table that does not exist yet."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", storage_location("DeltaSink", self.path))
        for name, columns in (("key", self.key), ("partition_by", self.partition_by)):
            if isinstance(columns, str) or not all(isinstance(column, str) and column for column in columns):
                raise InvalidInput(
                    f"table {self.path}: {name} {columns!r} is not a list of columns", hint=f'use {name}=["customer"]'
                )
            if len(set(columns)) != len(columns):
                raise InvalidInput(f"table {self.path}: {name} {columns!r} names a column twice")
            object.__setattr__(self, name, tuple(columns))

    @property
    def output_modes(self) -> frozenset[str]:
        """The modes that the table supports; update needs a key."""
        return frozenset({"append", "complete", *(["update"] if self.key else [])})

    def describe(self) -> SinkDescription:
        """Return the sink's description. The sink is identified by its directory."""
        options = {"key": ",".join(self.key), "partition_by": ",".join(self.partition_by)}
        return SinkDescription(kind=self.kind, output=self.path, options=options)

    def open(self, context: SinkContext) -> DeltaWriter:
        """Return a writer for one epoch."""
        return DeltaWriter(self, context)

    @property
    def fence_place(self) -> str:
        """The directory of the table, which contains the fence."""
        return self.path

    def overlaps(self, other: Sink) -> bool:
        """Whether the other sink writes to the same directory, or one directory is inside the other."""
        theirs = other.describe().output
        return lies_within(self.path, theirs) or lies_within(theirs, self.path)

    def find_conflict(self, *, serves: bool) -> str | None:
        """Return a sentence if the directory contains files that Streamkeeper did not write, unless ``serves``."""
        if serves:
            return None
        record = read_record(tree_at(self.path))
        if record is not None and record.writer is not None:
            return None
        names = [name for name in tree_at(self.path).names("") if name.rstrip("/") not in (LOG, SHADOWS)]
        if not names:
            return None
        return f"directory {self.path} has files that Streamkeeper did not write, such as {names[0]}"

    def rehearse(self, batch: DataFrame) -> None:
        """Check the batch against the table, compute it and drop it."""
        self.check_columns(batch)
        session = DeltaSession(batch.sparkSession)
        session.must_reach(self.path)
        if is_delta_table(tree_at(self.path)):
            table = DeltaTable(session, self.path)
            snapshot = table.newest()
            refuse_table(self.path, table.facts(snapshot))
            self.check_table(table, snapshot, batch.schema)
        compute(batch)

    def check_columns(self, batch: DataFrame) -> None:
        """Raise InvalidInput or Unsupported when the batch's columns do not fit any Delta table of this sink."""
        check_columns(self.path, batch.schema, key=self.key, partition_by=self.partition_by)

    def check_table(self, table: DeltaTable, snapshot: Any, schema: StructType) -> None:
        """Raise OutputUnfit when an existing table has rows, and a schema does not fit them."""
        if table.has_rows(snapshot):
            refuse_other_columns(self.path, table.facts(snapshot), schema, self.partition_by)
