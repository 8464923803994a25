"""Tests rolling back to a version whose retained table is missing."""

from __future__ import annotations

import pytest

from streamkeeper.errors import OutputLost
from streamkeeper.model.protocol.output_history import OutputRecord
from tests.sinks.warehouse import Warehouse


@pytest.fixture
def replaced(warehouse: Warehouse) -> Warehouse:
    """A database in which v0002 serves under epoch 3 and v0001 is retained; each has batches."""
    warehouse.writer("v0001", 1).raise_fence()
    warehouse.execute(
        "CREATE TABLE totals (customer VARCHAR PRIMARY KEY, total BIGINT)",
        "INSERT INTO totals VALUES ('old', 1)",
        "UPDATE streamkeeper_outputs SET version = 'v0001', batch_id = 4",
    )
    warehouse.writer("v0002", 2, shadow=True).raise_fence()
    warehouse.execute(
        "CREATE TABLE totals__v0002 (customer VARCHAR PRIMARY KEY, total BIGINT)",
        "INSERT INTO totals__v0002 VALUES ('new', 2)",
        "UPDATE streamkeeper_outputs SET version = 'v0002', batch_id = 7 WHERE output = 'totals__v0002'",
    )
    warehouse.writer("v0002", 3).raise_fence()
    assert warehouse.rows() == [("new", 2)]
    return warehouse


def test_rolling_back_to_a_dropped_retained_table_is_refused(replaced: Warehouse) -> None:
    """Rolling back to a version whose retained table was dropped is refused: the serving table and all records stay
    unchanged, and its driver can continue.
    """
    replaced.execute("DROP TABLE totals__v0001")
    before = replaced.outputs
    with pytest.raises(OutputLost, match="table totals__v0001 is missing, although batch 4 of v0001 is recorded"):
        replaced.writer("v0001", 4).raise_fence()
    assert replaced.rows() == [("new", 2)]
    assert replaced.outputs == before
    replaced.writer("v0002", 5).raise_fence()


def test_rolling_back_to_an_existing_retained_table_swaps_the_tables(replaced: Warehouse) -> None:
    """Rolling back to a version whose retained table exists swaps the tables."""
    replaced.writer("v0001", 4).raise_fence()
    assert replaced.rows() == [("old", 1)]
    assert replaced.tables == {"totals", "totals__v0002"}


def test_rolling_back_is_accepted_if_retained_and_serving_table_are_both_missing(replaced: Warehouse) -> None:
    """If the retained and the serving table are both missing, rolling back is accepted and the version keeps its
    recorded batch.
    """
    replaced.execute("DROP TABLE totals__v0001", "DROP TABLE totals")
    replaced.writer("v0001", 4).raise_fence()
    assert replaced.outputs == {"totals": (4, "v0001", 4)}


def test_the_record_has_the_newest_batch_of_each_version_whose_table_exists(replaced: Warehouse) -> None:
    """The output's record contains the newest batch of each version whose table exists; a retained version is listed
    until its table is dropped.
    """
    reader = replaced.writer("v0002", 3)
    assert reader.read_record() == OutputRecord(epoch=3, last={"v0001": 4, "v0002": 7})
    replaced.execute("DROP TABLE totals__v0001")
    assert reader.read_record() == OutputRecord(epoch=3, last={"v0002": 7})
