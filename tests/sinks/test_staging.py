"""Tests, without Spark, the rows that a partition leaves in the staging table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from streamkeeper.model.protocol.fault_kinds import Fault, Judged
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.sinks.columns import TableColumn
from streamkeeper.sinks.kinds.sink_kind import ClientError
from streamkeeper.sinks.kinds.table_kind import judge_database
from streamkeeper.sinks.staging import CHUNK_ROWS, StagingPlan, outputs_table, stage_partition, staging_table
from tests.sinks.warehouse import Warehouse

COLUMNS = (TableColumn(name="customer", kind="string"), TableColumn(name="total", kind="long"))


@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 7])
def test_a_partition_of_any_size_is_staged_whole(warehouse: Warehouse, rows: int) -> None:
    """Every row of a partition is staged once and in order, even if the rows need several statements."""
    wanted = [(f"c{number}", number) for number in range(rows)]
    stage_partition(warehouse_plan(warehouse), ((*row, None) for row in wanted))
    assert staged_rows(warehouse) == wanted


def warehouse_plan(warehouse: Warehouse) -> StagingPlan:
    """Create the table of outputs and the staging table, and return the plan of a write to them."""
    metadata = sa.MetaData()
    outputs, _ = outputs_table(metadata), staging_table(metadata, "totals", COLUMNS, warehouse.engine.dialect.name)
    metadata.create_all(warehouse.engine)
    with warehouse.engine.begin() as connection:
        connection.execute(sa.insert(outputs), {"output": "totals", "owner": "sales/totals", "epoch": 1})
    return StagingPlan(url=warehouse.url, table="totals", columns=COLUMNS, epoch=1, token="a")


def staged_rows(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Return the staged rows in order."""
    return warehouse.rows("SELECT customer, total FROM totals__staged ORDER BY _sk_part, _sk_row")


def test_a_repeated_task_replaces_the_rows_of_its_first_attempt(warehouse: Warehouse) -> None:
    """A partition that is staged a second time, with other rows, leaves only the rows of the second attempt."""
    plan = warehouse_plan(warehouse)
    stage_partition(plan, [("a", 1, None), ("b", 2, None)])
    stage_partition(plan, [("c", 3, None)])
    assert staged_rows(warehouse) == [("c", 3)]


def test_a_partition_whose_rows_fail_leaves_no_row(warehouse: Warehouse) -> None:
    """If a row cannot be computed after others were sent to the database, no row of the partition is staged, and the
    error is the row's own.
    """

    def fails() -> Iterator[tuple[str, int, None]]:
        yield from ((f"c{number}", number, None) for number in range(CHUNK_ROWS + 1))
        raise ZeroDivisionError("of the query")

    plan = warehouse_plan(warehouse)
    with pytest.raises(ZeroDivisionError, match="of the query"):
        stage_partition(plan, fails())
    assert staged_rows(warehouse) == []


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_texts_with_the_characters_of_copy_are_staged_as_they_are(warehouse: Warehouse) -> None:
    """Texts that contain the separators and marks of COPY, such as a tab or a backslash, are staged unchanged."""
    wanted = [
        (text, number)
        for number, text in enumerate(["a\tb", "a\nb", "a\r", "\\N", "\\.", "\\", "", " ", "é", "\u2028"])
    ]
    stage_partition(warehouse_plan(warehouse), [(*row, None) for row in wanted])
    assert staged_rows(warehouse) == wanted


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_a_value_that_the_database_refuses_is_not_in_the_error(warehouse: Warehouse) -> None:
    """The error about a text with a NUL character is one of SQLAlchemy's, as with INSERT, and names no values."""
    with pytest.raises(sa.exc.DataError, match="0x00") as error:
        stage_partition(warehouse_plan(warehouse), [("hush\0", 1, None)])
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_a_connection_that_ends_within_a_partition_looks_like_a_database_that_is_down(warehouse: Warehouse) -> None:
    """If the server ends the connection while rows are sent, the error is judged like one of a database that does not
    answer, also by its text alone, which is all that a driver gets from a worker.
    """

    def ended() -> Iterator[tuple[str, int, None]]:
        yield from ((f"c{number}", number, None) for number in range(CHUNK_ROWS))
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY totals__staged%%'"
        assert warehouse.rows(others) == [(True,)]
        yield from ((f"d{number}", number, None) for number in range(200_000))

    with pytest.raises(sa.exc.OperationalError) as error:
        stage_partition(warehouse_plan(warehouse), ended())
    away = Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    names = tuple(each.__name__ for each in type(error.value).__mro__)
    live = ClientError(names=names, message=str(error.value), error=error.value.orig)
    assert judge_database(live) == away
    assert judge_database(ClientError(names=names, message=str(error.value), error=None)) == away
    assert staged_rows(warehouse) == []
