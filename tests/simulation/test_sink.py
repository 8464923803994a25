"""Tests that the simulated table, files and function have exactly the capabilities that their kinds of sink declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.simulation import file_output
from harness.simulation.file_log import IncompleteLog
from harness.simulation.plan import OutputKind
from harness.simulation.sink import DATABASE, FunctionWriter, SimulatedTable, TableWriter
from harness.simulation.spark import Frame
from harness.simulation.world import World
from streamkeeper.errors import NotFound
from streamkeeper.sinks.contract import Sink, SinkContext
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from tests.contracts.sink_contract import FIRST, LATE, SECOND, SinkContract

ROWS = {FIRST: 0, SECOND: 1, LATE: 9}
"""The rows of the contract's tests, mapped to offsets of the topic, which are the rows of a simulated output."""


class Place:
    """A world in which nothing runs, with an output that the test calls directly."""

    def __init__(self, world: World, sink: Sink | None = None) -> None:
        self._world, self.sink = world, sink or world.sink
        self.where = {OutputKind.TABLE: DATABASE, OutputKind.FILES: file_output.PLACE}.get(world.kind, "")
        world.rules.no_gaps = False
        if world.kind is OutputKind.TABLE:
            # Of the first version, what comes after its second batch may be written again.
            world.rules._kept["v0001"] = 1

    def batch(self, row: tuple[str, int]) -> Any:
        session: Any = None
        return Frame(session, [ROWS[row]])

    def rows(self) -> list[tuple[str, int]]:
        if self._world.kind is OutputKind.FILES:
            seen = file_output.rows_seen(self.where)
            return [row for row, number in ROWS.items() for each in seen if each == number]
        return [row for row, number in ROWS.items() for _ in self._world.output.batches.get(number, [])]


@pytest.fixture
def table() -> Iterator[World]:
    """A world whose output has a fence."""
    with World.opened(1, output=OutputKind.TABLE) as world:
        yield world


@pytest.fixture
def function() -> Iterator[World]:
    """A world whose output has no fence."""
    with World.opened(1, output=OutputKind.FUNCTION) as world:
        yield world


@pytest.fixture
def files() -> Iterator[World]:
    """A world whose output is files."""
    with World.opened(1, output=OutputKind.FILES) as world:
        yield world


class TestSimulatedFiles(SinkContract):
    """A simulated file output has the declared capabilities of files."""

    @pytest.fixture
    def place(self, files: World) -> Place:
        return Place(files)


class TestSimulatedTable(SinkContract):
    """A simulated table has the declared capabilities of a table."""

    @pytest.fixture
    def place(self, table: World) -> Place:
        return Place(table)


class TestSimulatedFunction(SinkContract):
    """A simulated function has the declared capabilities of a function."""

    @pytest.fixture
    def place(self, function: World) -> Place:
        return Place(function)


class Unfenced(SimulatedTable):
    """A sink that declares to be a table but writes as a function does, without a fence."""

    def open(self, context: SinkContext) -> Any:
        return FunctionWriter(self._world, context)


TESTS = (
    SinkContract.test_a_replayed_batch_has_the_declared_effect,
    SinkContract.test_the_newest_batch_is_reported_by_another_writer_and_a_lookup,
    SinkContract.test_the_fence_of_an_output_names_its_installation,
    SinkContract.test_a_writer_with_a_superseded_epoch_cannot_write_to_a_fenced_output,
    SinkContract.test_a_writer_superseded_by_another_version_is_fenced,
    SinkContract.test_another_installation_cannot_take_over_a_fenced_output,
    SinkContract.test_shadow_rows_are_invisible_to_readers_and_removed_on_discard,
    SinkContract.test_readers_see_only_the_rows_of_the_shadow_after_a_cutover,
    SinkContract.test_comparing_a_shadow_with_the_output_reports_equal_or_different_rows,
    SinkContract.test_readers_see_the_rows_of_both_versions_after_a_handoff,
    SinkContract.test_a_restore_treats_later_batches_of_the_old_version_as_declared,
)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_the_suite_sees_a_table_without_a_fence(function: World, test: Any) -> None:
    """Negative control: an output that declares to be a table but writes without a fence fails each of the contract's
    tests of a table's capabilities.
    """
    with pytest.raises((AssertionError, pytest.fail.Exception, NotFound)):
        test(SinkContract(), Place(function, Unfenced(function)), capabilities_of("table"))


def test_the_suite_sees_a_fence_that_is_not_in_the_transaction(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a writer that trusts the epoch of its own start instead of the one in the transaction fails the
    contract's test of a superseded writer.
    """
    commit = TableWriter._commit

    def commit_anyway(self: TableWriter, rows: Any, batch_id: int) -> None:
        row = self._row
        assert row is not None
        epoch, row.epoch = row.epoch, self._context.epoch
        commit(self, rows, batch_id)
        row.epoch = epoch

    monkeypatch.setattr(TableWriter, "_commit", commit_anyway)
    with pytest.raises(pytest.fail.Exception):
        SinkContract().test_a_writer_with_a_superseded_epoch_cannot_write_to_a_fenced_output(
            Place(table), capabilities_of("table")
        )


@pytest.mark.parametrize("missing", ["4", "9.compact"])
def test_the_reader_of_files_refuses_a_log_with_a_gap_as_spark_does(files: World, missing: str) -> None:
    """Negative control: a simulated reader refuses a sink log with a missing batch, as Spark does; otherwise it would
    return the remaining rows.
    """
    place = Place(files)
    writer = place.sink.open(SinkContext(job="sales", query="totals", version="v0001", epoch=1))
    writer.raise_fence()
    session: Any = None
    for number in range(13 if missing == "9.compact" else 6):
        writer.write(Frame(session, [number]), number)
    root = file_output.PLACE
    assert file_output.rows_seen(root) == list(range(13 if missing == "9.compact" else 6))
    files.files.remove(f"{root}/v0001/_spark_metadata/{missing}")
    with pytest.raises(IncompleteLog):
        file_output.rows_seen(root)
