"""The contract tests for what a kind of sink declares about its rows and its place (columns, keys, files), run with
Spark's own frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from pyspark.sql import functions as f

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import OutputUnfit, StreamkeeperError
from streamkeeper.locations import scheme_of
from streamkeeper.model.manifests.sink_capabilities import ColumnChange, SinkCapabilities
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import Sink
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from tests.contracts.sink_contract import FIRST, SCHEMA, SECOND, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGES: dict[ColumnChange, Callable[[DataFrame], DataFrame]] = {
    ColumnChange.ADDED: lambda rows: rows.withColumn("more", f.lit("y")),
    ColumnChange.REMOVED: lambda rows: rows.drop("note"),
    ColumnChange.REORDERED: lambda rows: rows.select("note", "total", "customer"),
    ColumnChange.RETYPED: lambda rows: rows.withColumn("note", f.lit(7)),
    ColumnChange.NULLABLE: lambda rows: rows.withColumn("note", f.lit(None).cast("string")),
}
"""For each change of columns, a function that applies it to rows with the columns ``customer``, ``total`` and ``note``.
"""


class RowsPlace(Protocol):
    """A test output of the kind below ``root``, which holds nothing else; ``elsewhere`` is a sink that writes to a
    different place.
    """

    sink: Sink
    elsewhere: Sink
    where: str
    root: Path

    def batch(self, row: tuple[str | None, int]) -> DataFrame:
        """Return a batch of one row, as a frame of the query."""

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the ``customer`` and ``total`` of the rows that a reader of the serving output sees, in order."""


class SinkRowsContract:
    """The contract of a kind of sink about rows, run against an empty ``place``."""

    changes: Mapping[ColumnChange, Callable[[DataFrame], DataFrame]] = CHANGES
    """The changes of columns, applied to the rows of ``noted``."""

    def noted(self, rows: DataFrame) -> DataFrame:
        """Return rows with one more column that the kind accepts."""
        return rows.withColumn("note", f.lit("x"))

    @pytest.fixture
    def can(self, place: RowsPlace) -> SinkCapabilities:
        return capabilities_of(place.sink.describe().kind)

    def test_outputs_of_two_places_differ_in_identity_as_declared(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """The outputs of two different places have different identities exactly if the kind declares that its identity
        is the place.
        """
        differ = place.sink.describe().output != place.elsewhere.describe().output
        assert differ is can.names_place

    def test_a_sink_on_a_local_disk_is_tied_to_one_machine(self, place: RowsPlace, can: SinkCapabilities) -> None:
        """A sink is declared as tied to one machine exactly if it keeps its files on the local disk and its identity is
        its place.
        """
        _begin(place)
        kept = [path for path in place.root.rglob("*") if path.is_file()]
        assert bool(can.of_one_machine.get(scheme_of(place.sink.describe().output))) is (bool(kept) and can.names_place)

    def test_a_sink_that_permits_writes_from_surviving_executors_fences(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """A sink that permits writes from executors that outlive their driver has to fence."""
        assert can.not_from_elsewhere or can.fences

    def test_a_log_with_one_file_per_batch_is_in_the_declared_folder(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """A log with one file per batch is in the folder that the kind declares, and in no other one."""
        writer = _begin(place)
        writer.write(place.batch(SECOND), 1)
        version = _folder(place, "v0001")
        logs = [name for name in version.folders("") if {"0", "1"} <= set(version.files(name))]
        assert logs == [can.log_folder] * bool(can.log_folder)

    def test_the_output_is_readable_as_a_stream_by_the_declared_source_only(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """The output can be read as a stream by exactly the kind of source that the sink declares."""
        _begin(place)
        assert [kind for kind, read in STREAMS.items() if read(place) == [FIRST]] == [can.read_as] * bool(can.read_as)

    def test_placing_columns_are_in_the_declared_option_only(self, place: RowsPlace, can: SinkCapabilities) -> None:
        """The columns that decide where a row is stored are in the declared option of the sink's description, and in no
        other option.
        """
        columns, options = set(place.batch(FIRST).columns), place.sink.describe().options
        naming = [name for name, value in options.items() if value and set(value.split(",")) <= columns]
        assert naming == [can.placed_by] * bool(can.placed_by)

    def test_placing_columns_with_fixed_names_leave_no_place_for_other_columns(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """A kind whose placing columns have fixed names refuses a column that it does not know, with the column's name,
        and writes rows with the known ones.
        """
        if not can.placing_columns:
            return
        writer = _begin(place)
        known = place.batch(SECOND)
        assert set(known.columns) & set(can.placing_columns)
        writer.write(known, 1)
        with pytest.raises(StreamkeeperError, match="no_such_column"):
            writer.write(known.withColumn("no_such_column", f.lit("x")), 2)
        assert place.rows() == [FIRST, SECOND]

    def test_a_null_in_a_placing_column_is_refused_if_required(self, place: RowsPlace, can: SinkCapabilities) -> None:
        """A row with a null in a placing column is refused with the column's name if the sink needs a place for each
        row; otherwise it is written.
        """
        writer, homeless = _begin(place), (None, 5)
        if can.needs_place:
            with pytest.raises(StreamkeeperError, match="customer"):
                writer.write(place.batch(homeless), 1)
        else:
            writer.write(place.batch(homeless), 1)
        assert (homeless in place.rows()) is not can.needs_place

    def test_a_batch_in_complete_mode_replaces_all_rows_as_declared(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """In complete mode, a batch replaces all rows exactly if the kind declares it."""
        if "complete" not in place.sink.output_modes:
            assert not can.complete_replaces
            return
        writer = opened(place, 1, mode="complete")
        for number, row in enumerate((FIRST, SECOND)):
            writer.write(place.batch(row), number)
        assert (place.rows() == [SECOND]) is can.complete_replaces

    def test_an_added_column_is_refused_if_both_versions_share_one_place(
        self, place: RowsPlace, can: SinkCapabilities
    ) -> None:
        """A next version with an added column is refused if both versions share one place, and accepted if each version
        has its own.
        """
        _begin(place)
        new = opened(place, 2, "v0002", serving=(OutputSegment("v0001", 0), OutputSegment("v0002")))
        new.seed(0)
        wider = self.noted(place.batch(SECOND))
        if can.one_place:
            with pytest.raises(OutputUnfit):
                new.write(wider, 1)
        else:
            new.write(wider, 1)
        assert place.rows() == [FIRST, *([] if can.one_place else [SECOND])]

    @pytest.mark.parametrize("change", ColumnChange)
    def test_accepted_column_changes_keep_all_rows_of_the_version_readable(
        self, place: RowsPlace, can: SinkCapabilities, change: ColumnChange
    ) -> None:
        """A change of columns that the kind declares as accepted keeps all rows of the version readable; changes that
        it does not declare are not tested.
        """
        accepted = can.columns.get(place.sink.describe().options.get("format", ""), frozenset())
        if change not in accepted:
            return
        writer = opened(place, 1)
        for number, row in enumerate((FIRST, SECOND)):
            rows = self.noted(place.batch(row))
            writer.write(self.changes[change](rows) if number else rows, number)
        assert place.rows() == [FIRST, SECOND]


def _begin(place: RowsPlace) -> Any:
    """Return a writer that has written ``FIRST`` as its first batch."""
    writer = opened(place, 1)
    writer.write(place.batch(FIRST), 0)
    return writer


def _read_files(place: RowsPlace) -> list[tuple[str, int]]:
    """Return the rows that a stream of the first version's files reads, or nothing without such files."""
    session, described = place.batch(FIRST).sparkSession, place.sink.describe()
    form, folder = described.options.get("format", "parquet"), f"{described.output}/v0001"
    if _folder(place, "v0001").absence():
        return []
    stream = session.readStream.schema(SCHEMA).format(form).load(folder).select("customer", "total")
    read = stream.writeStream.format("memory").queryName("read").trigger(availableNow=True)
    read.option("checkpointLocation", str(place.root / "read")).start().awaitTermination()
    return [(row.customer, row.total) for row in session.table("read").collect()]


def _folder(place: RowsPlace, name: str) -> Tree:
    """Return a folder of an output in files; one that does not exist for any other output."""
    output = place.sink.describe().output
    in_files = scheme_of(output) in ("", "file", "s3a", "hdfs")
    return tree_at(f"{output if in_files else place.root / 'no files'}/{name}")


STREAMS = {"file": _read_files}
"""Kind of source -> the function that reads the output with it."""
