"""Tests of how the signals of a query are computed from what Spark reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from streamkeeper.driver.measuring import (
    RECENT_BATCHES,
    Meter,
    QueryProgress,
    add_point,
    checkpoint_write_s,
    scheduling_delay_s,
)
from streamkeeper.model.protocol.signals import HISTORY_POINTS, HistoryPoint, QuerySignals
from streamkeeper.sources.contract import SourceLook
from streamkeeper.sources.kafka import STEADY_S, Held, positions, records_behind, runway_s
from streamkeeper.sources.known_sources import lag_of

EPOCH = 1_795_000_000.0
"""A multiple of every interval used here."""


def progress(batch: int = 0, at: float = 0.0, took_ms: int = 400, **changes: object) -> QueryProgress:
    """Return Spark's JSON report of a batch that began ``at`` seconds after ``EPOCH``."""
    told = {
        "name": "q",
        "runId": "run-1",
        "batchId": batch,
        "timestamp": datetime.fromtimestamp(EPOCH + at, UTC).isoformat(),
        "durationMs": {"triggerExecution": took_ms, "addBatch": took_ms - 100, "walCommit": 20, "commitOffsets": 30},
        **changes,
    }
    return msgspec.json.decode(json.dumps(told), type=QueryProgress)


def kafka(end: int, newest: int, rows: int = 0) -> dict[str, object]:
    """Return the report of a Kafka source with one partition."""
    at = [{"t": {"0": each}} for each in (end, newest)]
    return {"description": "KafkaV2[Subscribe[t]]", "endOffset": at[0], "latestOffset": at[1], "numInputRows": rows}


@pytest.mark.parametrize(
    ("begun", "before", "delay"),
    [
        (10_003, None, 0.0),
        (20_003, (10_003, 12_000), 0.003),
        (23_000, (10_003, 22_990), 3.0),
        (30_004, (10_003, 22_990), 0.004),
        (63_000, (10_000, 62_995), 43.0),
        (20_000, (20_000, 20_000), 0.0),
    ],
    ids=["first", "in time", "the one before ran over", "an idle one between", "a long one", "clock stood still"],
)
def test_trigger_delay_is_measured_from_the_time_it_was_due(
    begun: int, before: tuple[int, int] | None, delay: float
) -> None:
    """A trigger is due at multiples of the interval, or right after a batch that ran longer, and its delay is measured
    from then.
    """
    assert scheduling_delay_s(begun, 10.0, before) == pytest.approx(delay)
    assert scheduling_delay_s(begun, None, before) == scheduling_delay_s(begun, 0.0, before) == 0.0


def test_the_longest_state_commit_counts_and_no_more_than_its_batch() -> None:
    """The time of writing the checkpoint includes the longest state commit, because operators commit in parallel, and
    never exceeds the duration of the batch.
    """
    two = progress(stateOperators=[{"commitTimeMs": 50}, {"commitTimeMs": 200}])
    assert checkpoint_write_s(two) == pytest.approx(0.02 + 0.03 + 0.2)
    assert checkpoint_write_s(progress(stateOperators=[{"commitTimeMs": 9000}])) == pytest.approx(0.35)
    assert checkpoint_write_s(progress()) == pytest.approx(0.05)


def test_lag_is_the_sum_over_all_reported_partitions() -> None:
    """The lag is the sum over all known partitions; a partition that is ahead of the queried position counts as 0."""
    end = positions(b'{"t":{"0":5,"1":9},"u":{"0":1}}')
    assert end == {("t", 0): 5, ("t", 1): 9, ("u", 0): 1}
    assert records_behind({("t", 0): 8, ("t", 1): 7, ("u", 1): 100, ("u", 0): 3}, end or {}) == 5
    assert [positions(each) for each in (b'{"logOffset":3}', b"null", b"7", b"-", b'{"t":3}')] == [None] * 5


def test_the_lag_from_sparks_offsets_is_the_same_sum() -> None:
    """The lag from Spark's own offsets is the same sum; a source other than Kafka has an unknown lag and not 0."""
    end, newest = b'{"t":{"0":5,"1":9},"u":{"0":1}}', b'{"t":{"0":8,"1":7},"u":{"1":100,"0":3}}'
    assert lag_of(end, newest) == records_behind(positions(newest) or {}, positions(end) or {}) == 5
    assert [lag_of(each, b"null") for each in (b'{"logOffset":3}', b"null")] == [None, None]


def held(at: float, oldest: int, newest: int) -> Held:
    return Held(moment=at, oldest={("t", 0): oldest}, newest={("t", 0): newest})


@pytest.mark.parametrize(
    ("needed", "now", "runway"),
    [
        (500, held(1200, 200, 900), 300 * 1200 / 200),
        (500, held(60, 200, 900), 300 * STEADY_S / 200),
        (500, held(1200, 0, 900), None),
        (900, held(1200, 900, 900), None),
        (150, held(1200, 200, 900), 0.0),
        (200, held(1200, 200, 900), 0.0),
    ],
    ids=["steady", "one segment in a minute", "nothing dropped", "all read", "dropped", "next"],
)
def test_runway_is_the_distance_to_the_oldest_record_over_the_deletion_rate(
    needed: int, now: Held, runway: float | None
) -> None:
    """The runway is the distance to the oldest record divided by the rate of deletion, and is unknown if nothing is
    deleted or everything was read.
    """
    found = runway_s({("t", 0): needed, ("gone", 0): 1}, now, held(0, 0, 800))
    assert found == (None if runway is None else pytest.approx(runway))


def test_the_partition_that_drops_first_decides() -> None:
    """The partition with the shortest runway decides, each with its own rate of deletion."""
    before = Held(moment=0, oldest={("t", 0): 0, ("t", 1): 0}, newest={("t", 0): 900, ("t", 1): 900})
    now = Held(moment=1000, oldest={("t", 0): 100, ("t", 1): 10}, newest={("t", 0): 900, ("t", 1): 900})
    assert runway_s({("t", 0): 500, ("t", 1): 20}, now, before) == pytest.approx(1000.0)


def test_what_is_usual_is_the_median_of_the_last_batches() -> None:
    """The usual duration is the median of the recent batches, so that one slow batch does not change it and old ones
    are dropped.
    """
    meter = Meter(1.0)
    for number in range(RECENT_BATCHES):
        meter.commit(progress(number, number, took_ms=9000 if number % 10 == 0 else 400), EPOCH)
    assert meter.signals(EPOCH).usual_batch_s == pytest.approx(0.4)
    for number in range(RECENT_BATCHES):
        meter.commit(progress(100 + number, 100 + number, took_ms=700), EPOCH)
    assert meter.signals(EPOCH).usual_batch_s == pytest.approx(0.7)


def test_dropped_rows_are_a_total_and_a_repair_counts_once() -> None:
    """Dropped rows are summed over all batches, and a repair of a state store counts once although Spark reports it as
    long as the store stays loaded; a new run counts anew.
    """
    meter = Meter(1.0)
    for number, (repaired, run) in enumerate([(0, "a"), (2, "a"), (2, "a"), (0, "a"), (1, "a"), (1, "b")]):
        operator = {"numRowsDroppedByWatermark": 3, "customMetrics": {"rocksdbNumSnapshotsAutoRepaired": repaired}}
        meter.commit(progress(number, number, runId=run, stateOperators=[operator]), EPOCH)
    seen = meter.signals(EPOCH)
    assert (seen.dropped_rows, seen.repaired_stores) == (18, 2 + 1 + 1)


def test_an_open_batch_ends_with_its_own_progress() -> None:
    """A running batch is closed only by its own progress report, and not by a late one of the previous batch."""
    meter = Meter(1.0)
    meter.begin(4, EPOCH + 9)
    meter.commit(progress(3, 1), EPOCH + 10)
    assert meter.signals(EPOCH + 10).open_since == EPOCH + 9
    meter.idle(EPOCH + 10)
    assert meter.signals(EPOCH + 10).open_since == EPOCH + 9
    meter.commit(progress(4, 9), EPOCH + 11)
    assert meter.signals(EPOCH + 11).open_since is None
    meter.begin(5, EPOCH + 12)
    meter.end()
    assert meter.signals(EPOCH + 12).open_since is None


def test_an_idle_query_is_distinguished_from_a_stalled_one() -> None:
    """An idle query still has triggers and no open batch; a stalled query has neither triggers nor commits, and its
    batch stays open.
    """
    meter = Meter(1.0)
    meter.commit(progress(0, 0, took_ms=400), EPOCH + 1)
    meter.idle(EPOCH + 50)
    idle = meter.signals(EPOCH + 60)
    assert (idle.last_commit, idle.last_trigger, idle.open_since) == (EPOCH + 0.4, EPOCH + 50, None)
    meter.begin(1, EPOCH + 61)
    stalled = meter.signals(EPOCH + 600)
    assert (stalled.last_commit, stalled.last_trigger, stalled.open_since) == (EPOCH + 0.4, EPOCH + 50, EPOCH + 61)


def test_seconds_behind_follow_from_the_rate_of_reading() -> None:
    """The lag in seconds is computed from the rate of reading, which is limited by the trigger interval: 10 records
    every 5 s.
    """
    meter = Meter(5.0)
    for number in range(4):
        meter.commit(progress(number, 5 * number, sources=[kafka(10 * number, 100, rows=10)]), EPOCH)
    (source,) = meter.signals(EPOCH).sources
    assert (source.source, source.lag_records, source.lag_s) == ("KafkaV2[Subscribe[t]]", 70, pytest.approx(35.0))
    assert meter.signals(EPOCH).lag_s == pytest.approx(35.0)
    meter.commit(progress(9, 50, sources=[kafka(100, 100, rows=10)]), EPOCH + 50)
    assert meter.signals(EPOCH + 50).lag_s == 0.0


def test_lag_at_no_rate_is_not_a_number_of_seconds() -> None:
    """A query that has read nothing yet reports its lag in records only."""
    meter = Meter(5.0)
    meter.commit(progress(sources=[kafka(0, 100)]), EPOCH)
    (source,) = meter.signals(EPOCH).sources
    assert (source.lag_records, source.lag_s) == (100, None)


def test_a_queried_lag_replaces_the_lag_of_an_old_batch() -> None:
    """The lag from a look at the source replaces the lag of the last batch once that batch is old; right after a batch,
    Spark's own report is used.
    """
    meter = Meter(5.0)
    meter.commit(progress(0, 0, sources=[kafka(10, 12, rows=10)]), EPOCH)
    meter.look([SourceLook(lag_records=500, runway_s=90.0)], EPOCH + 30)
    assert [(each.lag_records, each.runway_s) for each in meter.signals(EPOCH + 30).sources] == [(2, 90.0)]
    meter.look([SourceLook(lag_records=500, runway_s=80.0)], EPOCH + 120)
    assert [(each.lag_records, each.runway_s) for each in meter.signals(EPOCH + 121).sources] == [(500, 80.0)]
    meter.look([], EPOCH + 180)
    assert [(each.lag_records, each.runway_s) for each in meter.signals(EPOCH + 181).sources] == [(2, None)]


def test_the_age_of_waiting_files_grows_between_two_looks() -> None:
    """The age of the oldest waiting file grows between two looks unless a batch has been read since; without waiting
    files the delay is 0.
    """
    meter = Meter(5.0)
    meter.commit(progress(0, 0, sources=[{"description": "FileStreamSource[file:/in]"}]), EPOCH)
    meter.look([SourceLook(lag_files=3, waited_s=20.0)], EPOCH + 10)
    (source,) = meter.signals(EPOCH + 25).sources
    assert (source.lag_records, source.lag_files, source.lag_s) == (None, 3, 35.0)
    meter.commit(progress(1, 26, sources=[{"description": "FileStreamSource[file:/in]"}]), EPOCH + 27)
    assert meter.signals(EPOCH + 40).lag_s == 20.0
    meter.look([SourceLook(lag_files=0, waited_s=0.0)], EPOCH + 50)
    assert meter.signals(EPOCH + 90).lag_s == 0.0


def test_history_keeps_the_newest_points_and_their_slowest_batches() -> None:
    """The history keeps a fixed number of newest points, and the slowest batch between two points is recorded in the
    later one only.
    """
    ring: tuple[HistoryPoint, ...] = ()
    for number in range(HISTORY_POINTS + 5):
        ring = add_point(ring, HistoryPoint(at=number, slowest_batch_s=0, signals=QuerySignals()))
    assert (len(ring), ring[0].at, ring[-1].at) == (HISTORY_POINTS, 5, HISTORY_POINTS + 4)
    meter = Meter(1.0)
    meter.commit(progress(0, 0, took_ms=8000), EPOCH)
    meter.commit(progress(1, 8, took_ms=400), EPOCH)
    assert [meter.point(EPOCH).slowest_batch_s for _ in range(2)] == [8.0, 0.0]
    assert meter.point(EPOCH).signals.batch == 1
