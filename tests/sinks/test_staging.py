"""Tests, without Spark, the rows that a partition leaves in the staging table."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
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


def warehouse_plan(warehouse: Warehouse, columns: tuple[TableColumn, ...] = COLUMNS) -> StagingPlan:
    """Create the table of outputs and the staging table, and return the plan of a write to them."""
    metadata = sa.MetaData()
    outputs, _ = outputs_table(metadata), staging_table(metadata, "totals", columns, warehouse.engine.dialect.name)
    metadata.create_all(warehouse.engine)
    with warehouse.engine.begin() as connection:
        connection.execute(sa.insert(outputs), {"output": "totals", "owner": "sales/totals", "epoch": 1})
    return StagingPlan(url=warehouse.url, table="totals", columns=columns, epoch=1, token="a")


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
def test_columns_of_any_name_are_staged(warehouse: Warehouse) -> None:
    """Columns are staged whose names are reserved words, or contain capitals, blanks, quotation marks or percent
    signs.
    """
    names = ["order", "Total", "share %", "a%b", "%s", 'say "hi"', "été"]
    columns = tuple(TableColumn(name=name, kind="long") for name in names)
    stage_partition(warehouse_plan(warehouse, columns), [(*range(len(names)), None)])
    (row,) = warehouse.rows("SELECT * FROM totals__staged")
    assert row[4:-1] == tuple(range(len(names)))


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_bytes_are_staged_unchanged_under_each_setting_of_the_server(warehouse: Warehouse, conforming: str) -> None:
    """Bytes are staged unchanged, also if the server reads a backslash in a literal as an escape."""
    wanted = bytes(range(256))
    plan = warehouse_plan(warehouse, (TableColumn(name="content", kind="binary"),))
    url = f"{plan.url}?options=-cstandard_conforming_strings%3D{conforming}"
    stage_partition(msgspec.structs.replace(plan, url=url), [(bytearray(wanted), None), (None, None)])
    rows = warehouse.rows("SELECT content FROM totals__staged ORDER BY _sk_row")
    assert [each and bytes(each) for (each,) in rows] == [wanted, None]


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("ALTER TABLE totals__staged ALTER total TYPE smallint", sa.exc.DataError),
        ("ALTER TABLE totals__staged ADD CHECK (total < 5)", sa.exc.IntegrityError),
    ],
)
def test_an_error_of_the_server_contains_no_values(warehouse: Warehouse, change: str, kind: type[Exception]) -> None:
    """An error of the server about a row is one of SQLAlchemy's, as with INSERT, and names the table. Neither it nor
    its traceback contains the row. It is not judged as a database that is down, whatever words the row contains.
    """
    row = ("hush server connection", 99_999, None)
    plan = warehouse_plan(warehouse)
    warehouse.execute(change)
    with pytest.raises(kind, match="COPY totals__staged") as error:
        stage_partition(plan, [row])
    assert row[0] not in "".join(traceback.format_exception(error.value))
    assert judge_database(judged_by_text(error.value)) is None
    assert staged_rows(warehouse) == []


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_a_time_limit_of_statements_does_not_include_the_time_of_the_query(warehouse: Warehouse) -> None:
    """A partition that takes longer to compute than the server's time limit for statements is staged. Negative control:
    a statement that takes as long is cancelled.
    """

    def slowly() -> Iterator[tuple[str, int, None]]:
        for number in range(2 * CHUNK_ROWS):
            if number == CHUNK_ROWS + 1:
                time.sleep(1.5)
            yield f"c{number}", number, None

    plan = warehouse_plan(warehouse)
    limited = f"{plan.url}?options=-cstatement_timeout%3D1000"
    stage_partition(msgspec.structs.replace(plan, url=limited), slowly())
    assert len(staged_rows(warehouse)) == 2 * CHUNK_ROWS
    engine = sa.create_engine(limited)
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError, match="statement timeout"):
        connection.execute(sa.text("SELECT pg_sleep(1.5)"))
    engine.dispose()


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_a_connection_that_ends_within_a_partition_looks_like_a_database_that_is_down(warehouse: Warehouse) -> None:
    """If the server ends the connection while rows are sent, the error names the reason and is judged like one of a
    database that does not answer, also by its text alone, which is all that a driver gets from a worker.
    """

    def ended() -> Iterator[tuple[str, int, None]]:
        yield from ((f"c{number}", number, None) for number in range(CHUNK_ROWS))
        of_the_task = "FROM pg_stat_activity WHERE query LIKE 'COPY %%' AND datname = current_database()"
        assert warehouse.rows(f"SELECT pg_terminate_backend(pid) {of_the_task}") == [(True,)]
        yield from ((f"d{number}", number, None) for number in range(CHUNK_ROWS))

    with pytest.raises(sa.exc.OperationalError, match="terminating connection|server closed") as error:
        stage_partition(warehouse_plan(warehouse), ended())
    away = Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    assert judge_database(replace(judged_by_text(error.value), error=error.value.orig)) == away
    assert judge_database(judged_by_text(error.value)) == away
    assert staged_rows(warehouse) == []


def judged_by_text(error: BaseException) -> ClientError:
    """Return the error as a driver gets it from a worker: only its classes and its text."""
    return ClientError(names=tuple(each.__name__ for each in type(error).__mro__), message=str(error), error=None)
