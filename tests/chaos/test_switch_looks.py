"""Each check of the switch campaign finds the damage that it is for."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from chaos.scenarios import FEW, MANY, plan_points
from chaos.switching import find_unrecorded
from chaos.watching import Sight, Watch, find_steps_back, sum_in_file
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState

INF = float("inf")


@pytest.mark.parametrize(
    ("counts", "until", "found"),
    [
        ([None, 5, 7, 7, 12], INF, 0),
        ([5, 7, 6, 12], INF, 1),
        ([5, None, 7], INF, 1),
        ([5, 4, None, 7], INF, 2),
        ([5, 7, 6, 12], 2.0, 0),
    ],
    ids=["grows", "back", "gone", "both", "after-it-fell-back"],
)
def test_a_decreasing_total_and_a_missing_table_are_found(counts: list[int | None], until: float, found: int) -> None:
    """A decreasing total and a missing table are found, except for a table that is missing before its first rows and
    anything after the time limit.
    """
    sights = [Sight(float(at), count) for at, count in enumerate(counts)]
    assert len(find_steps_back(sights, until=until)) == found


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Two tables that contain the same five sales."""
    file = tmp_path / "warehouse.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for name in ("totals", "totals__v0002"):
            connection.execute(f"CREATE TABLE {name} (sales INTEGER)")
            connection.execute(f"INSERT INTO {name} VALUES (5)")
        connection.commit()
    return file


def swap_at_once(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ALTER TABLE totals RENAME TO totals__v0001")
    connection.execute("ALTER TABLE totals__v0002 RENAME TO totals")
    connection.execute("COMMIT")


def swap_in_two_steps(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE totals RENAME TO totals__v0001")
    time.sleep(0.4)
    connection.execute("ALTER TABLE totals__v0002 RENAME TO totals")


@pytest.mark.parametrize(("swap", "found"), [(swap_at_once, 0), (swap_in_two_steps, 1)])
def test_a_reader_sees_a_swap_that_is_not_one_transaction(
    warehouse: Path, swap: Callable[[sqlite3.Connection], None], found: int
) -> None:
    """The reader polls often enough to find the table missing during a swap in two steps, and finds nothing if the swap
    is one transaction.
    """
    with (
        Watch(partial(sum_in_file, warehouse)) as watch,
        closing(sqlite3.connect(warehouse, isolation_level=None)) as connection,
    ):
        time.sleep(0.3)
        swap(connection)
        time.sleep(0.3)
    assert len(find_steps_back(watch.sights)) == found
    assert watch.looks_per_s > 5


def test_a_checkpoint_version_missing_from_the_journal_is_found(tmp_path: Path) -> None:
    """Checkpoint versions that the journal does not record are found; drafts are ignored."""
    for name in ("totals/v0001", "totals/v0002", "totals/.seeding-v0003", "copies/v0001"):
        (tmp_path / name).mkdir(parents=True)
    known = CheckpointVersion(query="totals", version="v0001", release="r0001", origin="fresh", state_format="")
    state = JobState(job="ledgers", versions={"totals": (known,)})
    found = find_unrecorded(LocalTree(tmp_path), state)
    assert found == ["copies/v0001 is not recorded", "totals/v0002 is not recorded"]


def test_each_point_is_hit_in_the_first_scenario_that_reaches_it() -> None:
    """Each failpoint is planned once, in the first scenario that reaches it, or on request in every scenario; a case
    has fewer points at which a driver dies than points of the operation itself.
    """
    own = [f"act.{number}.before" for number in range(MANY + 1)]
    traced = {"switch": [*own, "driver.fence.before", "sink.swapped"], "return": ["sink.swapped", "act.0.before"]}
    plans = plan_points(traced, everywhere=False)
    assert plans == [
        f"switch/points:{'+'.join(own[:MANY])}",
        f"switch/points:{own[MANY]}",
        "switch/points:driver.fence.before+sink.swapped",
    ]
    assert plan_points(traced, everywhere=True)[3:] == ["return/points:act.0.before", "return/points:sink.swapped"]
    assert FEW < MANY
