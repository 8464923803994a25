"""Closed file sets of checkpoints that Spark made: a copy of the set alone continues as the whole directory would."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.relocating import relocated
from streamkeeper.checkpoints.trees import LocalTree
from tests.checkpoints.damaging import remove
from tests.checkpoints.real_queries import CASES, ONE_PARTITION, Case, Inputs, Rows, Started, both

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EVERY = "STREAMKEEPER_EVERY_STORE"
"""If set, every case runs with every kind of state that it supports, instead of a selection."""

RUNS = [(case, store) for case in CASES for store in (case.all_stores if os.environ.get(EVERY) else case.stores)]


@pytest.fixture(scope="module")
def maintained(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose state stores make snapshots at once: the first store sets the interval for all later ones."""
    states: Any = spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore  # type: ignore[union-attr]
    states.stop()
    yield spark
    states.stop()


def copy(checkpoint: Path, files: list[str], target: Path) -> Path:
    for each in files:
        (target / each).parent.mkdir(parents=True, exist_ok=True)
        content = relocated(each, (checkpoint / each).read_bytes(), LocalTree(target).location)
        (target / each).write_bytes(content)
    return target


def after(rows: Rows, batch: int) -> Rows:
    return {number: each for number, each in rows.items() if number > batch}


def together(rows: Rows) -> list[tuple[object, ...]]:
    return sorted((row for each in rows.values() for row in each), key=repr)


@pytest.mark.parametrize(("case", "store"), RUNS, ids=[f"{case.name}-{store}" for case, store in RUNS])
def test_a_closed_set_copy_yields_the_same_rows_as_the_directory(
    maintained: SparkSession, tmp_path: Path, case: Case, store: str
) -> None:
    """A copy of the closed set, of the newest or an older batch or with the newest batch to rerun, yields the same rows
    in the same batches as the whole directory, which is moved away first.
    """
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
    live.rename(tmp_path / "gone")  # not removed: a store may still be uploading to it
    for batch, path in copies.items():
        each = Started(maintained, case, store, inputs, path).finish()
        assert each.error == ""
        assert min(each.rows) == batch + 1
        if case.by_batch:
            assert each.rows == after(expected, batch)
        else:
            assert together(each.rows) == together(after(expected, batch))


def test_a_source_log_entry_without_a_plan_after_a_crash_is_included(maintained: SparkSession, tmp_path: Path) -> None:
    """After a crash between a source log entry and its plan, the source is one entry ahead of the batches, and the
    closed set includes that entry; without it the copy fails or has different rows.
    """
    case, inputs, live = CASE["union"], Inputs(tmp_path / "in"), tmp_path / "live"
    inputs.put("left", 2)
    Started(maintained, case, "hdfs", inputs, live).finish()
    remove("offsets/1", "commits/1")(live)
    inputs.put("left", 1)
    assert Started(maintained, case, "hdfs", inputs, live).finish().batches == [1]
    files = closed_set(LocalTree(live), 1)
    inputs.put("left", 1)
    expected = Started(maintained, case, "hdfs", inputs, live).finish().rows
    again = Started(maintained, case, "hdfs", inputs, copy(live, files, tmp_path / "copy")).finish()
    assert (again.error, again.rows) == ("", expected)
    files.remove("sources/0/2.compact")
    short = Started(maintained, case, "hdfs", inputs, copy(live, files, tmp_path / "short")).finish()
    assert short.error or short.rows != expected


def test_two_compacted_entries_let_spark_determine_the_compaction_interval(
    maintained: SparkSession, tmp_path: Path
) -> None:
    """The closed set keeps two compacted entries of a source log; negative control: with one entry alone, Spark guesses
    a wrong interval and fails.
    """
    case, inputs, live = CASE["union"], Inputs(tmp_path / "in"), tmp_path / "live"
    inputs.put("left", 7)
    assert Started(maintained, case, "hdfs", inputs, live).finish().batches == list(range(7))
    remove("sources/0/2.compact")(live)
    inputs.put("left", 8)
    assert Started(maintained, case, "hdfs", inputs, live).finish().batches == list(range(7, 15))
    files = closed_set(LocalTree(live), 14)
    assert [each for each in files if each.endswith(".compact")] == ["sources/0/11.compact", "sources/0/5.compact"]
    copies = [copy(live, files, tmp_path / "copy")]
    files.remove("sources/0/5.compact")
    copies.append(copy(live, files, tmp_path / "short"))
    inputs.put("left", 1)
    whole, short = (Started(maintained, case, "hdfs", inputs, each).finish() for each in copies)
    assert (whole.error, whole.batches) == ("", [15])
    assert "14.compact" in short.error


def test_a_file_sink_copy_writes_only_later_batches_to_a_separate_output(
    maintained: SparkSession, tmp_path: Path
) -> None:
    """A copy with a file sink and a separate output writes exactly the rows of the batches after its own."""
    case, inputs, live = CASE["union"], Inputs(tmp_path / "in"), tmp_path / "live"
    inputs.put("left", 4)
    assert Started(maintained, case, "hdfs", inputs, live, tmp_path / "out").finish().error == ""
    copies = {each: copy(live, closed_set(LocalTree(live), each), tmp_path / f"copy-{each}") for each in (3, 1)}
    inputs.put("left", 1)
    assert Started(maintained, case, "hdfs", inputs, live, tmp_path / "out").finish().batches == [4]
    for batch, path in copies.items():
        output = tmp_path / f"out-{batch}"
        done = Started(maintained, case, "hdfs", inputs, path, output).finish()
        assert (done.error, done.batches) == ("", list(range(batch + 1, 5)))
        assert lines(output) == [each for each in lines(tmp_path / "out") if int(each.split(",")[1]) // 10 > batch]


def lines(output: Path) -> list[str]:
    """Return the rows that a file sink has written; the second column counts from the file's number times 10."""
    return sorted(line for path in output.glob("part-*.csv") for line in path.read_text().splitlines())


def test_a_copy_with_a_rate_source_continues_without_gap_or_repetition(
    maintained: SparkSession, tmp_path: Path
) -> None:
    """A copy with the rate source, which like Kafka's only writes ``sources/0/0``, continues without a gap or a
    repetition.
    """

    def run(checkpoint: Path) -> tuple[int, list[int]]:
        values: dict[int, list[int]] = {}
        wait_for_rows(checkpoint)

        def take(rows: Any, batch: int) -> None:
            values[batch] = sorted(row.value for row in rows.collect())

        rows = maintained.readStream.format("rate").option("rowsPerSecond", 50).load()
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        ((batch, found),) = values.items()
        return batch, found

    live, ends = tmp_path / "live", {}
    for _ in range(3):
        batch, found = run(live)
        ends[batch] = found[-1] if found else ends.get(batch - 1, -1)
    for batch in (2, 1):
        files = closed_set(LocalTree(live), batch)
        assert "sources/0/0" in files
        number, found = run(copy(live, files, tmp_path / f"copy-{batch}"))
        assert (number, found[0]) == (batch + 1, ends[batch] + 1)


def wait_for_rows(checkpoint: Path) -> None:
    """Wait until the rate source has new rows: its offsets are whole seconds since the first start that the checkpoint
    records.
    """
    newest = last_committed(LocalTree(checkpoint))
    if newest is None:
        return
    start_ms = int((checkpoint / "sources/0/0").read_text().split()[-1])
    (end_s,) = map(int, read_offsets(LocalTree(checkpoint), newest).ends.values())
    while time.time() * 1000 < start_ms + (end_s + 1) * 1000:
        time.sleep(0.01)


@pytest.mark.parametrize("store", ["hdfs", "format-2"])
def test_no_file_of_the_set_can_be_left_out(maintained: SparkSession, tmp_path: Path, store: str) -> None:
    """Without any single file of the set, the start fails or its first batch differs; only operator descriptions, which
    Spark merely compares, can be left out.
    """
    case = msgspec.structs.replace(CASE["total"], conf=ONE_PARTITION)
    inputs, live = Inputs(tmp_path / "in"), tmp_path / "live"
    inputs.put("left", 5)
    assert Started(maintained, case, store, inputs, live).finish().error == ""
    files = closed_set(LocalTree(live), 4)
    inputs.put("left", 1)
    whole = Started(maintained, case, store, inputs, copy(live, files, tmp_path / "whole")).finish()
    assert (whole.error, list(whole.rows)) == ("", [5])
    superfluous = []
    for number, left_out in enumerate(files):
        part = copy(live, [each for each in files if each != left_out], tmp_path / f"without-{number}")
        done = Started(maintained, case, store, inputs, part).finish()
        if done.error == "" and done.rows == whole.rows:
            superfluous.append(left_out)
    assert superfluous == [each for each in files if "/_metadata/" in each]


CASE = {each.name: each for each in (*CASES, Case(name="union", frame=both, stores=()))}


def made(live: Path, case: Case) -> dict[int, Path]:
    """Return batch -> a copy of its closed set."""
    newest = last_committed(LocalTree(live))
    assert newest is not None
    found = {}
    for batch in (newest, newest - 1 if case.again else newest - 2):
        files = closed_set(LocalTree(live), batch, pending=case.again and batch < newest)
        found[batch] = copy(live, files, live.parent / f"copy-{batch}")
    return found
