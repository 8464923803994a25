"""The closed file set of checkpoints that Spark made: copied alone, it goes on as the whole directory would."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from tests.checkpoints.real_queries import CASES, Case, Inputs, Rows, Started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EVERY = "STREAMKEEPER_EVERY_STORE"
"""Set: every case with every kind of state that it can be run with, instead of a selection."""

RUNS = [(case, store) for case in CASES for store in (case.all_stores if os.environ.get(EVERY) else case.stores)]


@pytest.fixture(scope="module")
def maintained(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose state stores make snapshots at once: the first store sets the interval for all after it."""
    states: Any = spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore  # type: ignore[union-attr]
    states.stop()
    yield spark
    states.stop()


def copy(checkpoint: Path, files: list[str], target: Path) -> Path:
    for each in files:
        (target / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / each, target / each)
    return target


def after(rows: Rows, batch: int) -> Rows:
    return {number: each for number, each in rows.items() if number > batch}


def together(rows: Rows) -> list[tuple[object, ...]]:
    return sorted((row for each in rows.values() for row in each), key=repr)


@pytest.mark.parametrize(("case", "store"), RUNS, ids=[f"{case.name}-{store}" for case, store in RUNS])
def test_a_copy_goes_on_as_the_whole_directory_does(
    maintained: SparkSession, tmp_path: Path, case: Case, store: str
) -> None:
    """At the newest batch and at an older one, or with the newest to run again: the same rows in the same batches."""
    inputs, live = Inputs(tmp_path / "in"), tmp_path / "live"
    expected: Rows = {}
    for number, (left, right) in enumerate(case.steps):
        if number == len(case.steps) - 1:
            copies = made(live, case)
        inputs.put("left", left)
        inputs.put("right", right)
        done = Started(maintained, case, store, inputs, live).finish()
        assert (done.error, bool(done.rows)) == ("", True)
        expected |= done.rows
    assert any(expected.values())
    for batch, path in copies.items():
        each = Started(maintained, case, store, inputs, path).finish()
        assert each.error == ""
        assert min(each.rows) == batch + 1
        if case.by_batch:
            assert each.rows == after(expected, batch)
        else:
            assert together(each.rows) == together(after(expected, batch))


def made(live: Path, case: Case) -> dict[int, Path]:
    """Batch -> a copy of its closed set."""
    newest = last_committed(live)
    assert newest is not None
    found = {}
    for batch in (newest, newest - 1 if case.again else newest - 2):
        files = closed_set(LocalTree(live), batch, pending=case.again and batch < newest)
        found[batch] = copy(live, files, live.parent / f"copy-{batch}")
    return found
