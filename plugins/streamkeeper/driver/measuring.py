"""Computes a query's signals from Spark's progress of each batch, without I/O.

Moments are seconds since 1970, as in ``model/protocol/signals.py``; ``now`` is always an argument.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from datetime import datetime

import msgspec

from streamkeeper.model.protocol.signals import HISTORY_POINTS, HistoryPoint, QuerySignals, SourceSignals
from streamkeeper.sources.contract import SourceLook
from streamkeeper.sources.known_sources import lag_of

RECENT_BATCHES = 30
"""The number of last batches from which usual values and a source's reading rate are computed."""
STALE_S = 60.0
"""The age in seconds after which a batch describes its sources less accurately than a request to the sources would."""


class Durations(msgspec.Struct, frozen=True):
    """Durations of a batch's parts in milliseconds, under Spark's names."""

    triggerExecution: int = 0
    """The whole trigger."""
    addBatch: int = 0
    """Running the batch."""
    walCommit: int = 0
    """Writing the offsets."""
    commitOffsets: int = 0
    """Writing the commit."""


class SourceProgress(msgspec.Struct, frozen=True):
    """The progress of one source; offsets are in Spark's form."""

    description: str = ""
    """Spark's description of the source."""
    endOffset: msgspec.Raw = msgspec.Raw(b"null")
    """The end offset of the batch."""
    latestOffset: msgspec.Raw = msgspec.Raw(b"null")
    """The newest offset in the source."""
    numInputRows: int = 0
    """Rows read in the batch."""
    metrics: dict[str, str] = {}
    """The source's own metrics."""


class OperatorMetrics(msgspec.Struct, frozen=True):
    """Custom metrics of the state stores. Every batch repeats the report of a repair until the repaired store is
    unloaded.
    """

    rocksdbNumSnapshotsAutoRepaired: int = 0


class OperatorProgress(msgspec.Struct, frozen=True):
    """The progress of one stateful operator."""

    numRowsTotal: int = 0
    """Rows of the operator's state."""
    commitTimeMs: int = 0
    """Milliseconds of the state's commits, summed over all tasks."""
    memoryUsedBytes: int = 0
    """Memory of the operator's state."""
    numRowsDroppedByWatermark: int = 0
    """Rows dropped as too late."""
    customMetrics: OperatorMetrics = OperatorMetrics()
    """Metrics of the state store."""


class QueryProgress(msgspec.Struct, frozen=True):
    """The part of Spark's progress JSON that Streamkeeper reads, under Spark's names."""

    name: str
    """The query."""
    batchId: int
    """The batch."""
    runId: str = ""
    """Spark's id of the run."""
    timestamp: datetime | None = None
    """The start of the trigger."""
    numInputRows: int = 0
    """Rows read."""
    inputRowsPerSecond: float = 0.0
    """Rows arriving per second."""
    processedRowsPerSecond: float = 0.0
    """Rows processed per second."""
    durationMs: Durations = Durations()
    """Durations."""
    sources: list[SourceProgress] = []
    """One per source."""
    stateOperators: list[OperatorProgress] = []
    """One per stateful operator."""


def checkpoint_write_s(progress: QueryProgress) -> float:
    """Return the seconds that a batch spent on writing its offsets, its commit and its state.

    If the batch has several stateful operators, only the longest state commit counts. Spark sums the commit times of
    parallel tasks, so this time is limited to the duration of ``addBatch``.
    """
    durations = progress.durationMs
    state = max((operator.commitTimeMs for operator in progress.stateOperators), default=0)
    return (durations.walCommit + durations.commitOffsets + min(state, durations.addBatch)) / 1000


def scheduling_delay_s(begun_ms: int, interval_s: float | None, before: tuple[int, int] | None) -> float:
    """Return by how many seconds a trigger started too late; 0 if there is no interval or no earlier trigger.

    ``begun_ms`` is the start of the trigger; ``before`` is start and end of the last trigger with data, in ms. Spark's
    triggers are due at multiples of the interval (``ProcessingTimeExecutor``). If a trigger runs past the next due
    time, the next trigger follows at once. Triggers without data in between are unknown and assumed to be on time.
    """
    interval_ms = round((interval_s or 0) * 1000)
    if interval_ms <= 0 or before is None:
        return 0.0
    began, ended = before
    followed = begun_ms < _next_due(ended, interval_ms)
    due = _next_due(began, interval_ms) if followed else begun_ms // interval_ms * interval_ms
    return max(0, begun_ms - due) / 1000


def _next_due(moment_ms: int, interval_ms: int) -> int:
    return (moment_ms // interval_ms + 1) * interval_ms


class Meter:
    """The measurements of one query over all its runs in one process; not thread-safe."""

    def __init__(self, trigger_s: float | None) -> None:
        self._trigger_s = trigger_s
        self._newest: QueryProgress | None = None
        self._lags: tuple[int | None, ...] = ()
        self._signals = QuerySignals(trigger_s=trigger_s)
        self._durations: deque[float] = deque(maxlen=RECENT_BATCHES)
        self._rows: deque[tuple[int, ...]] = deque(maxlen=RECENT_BATCHES)
        self._before: tuple[int, int] | None = None
        self._run = ""
        self._dropped = 0
        self._repairs: tuple[int, ...] = ()
        self._repaired = 0
        self._looks: tuple[SourceLook, ...] = ()
        self._looked_at = 0.0
        self._bytes: int | None = None
        self._open: tuple[int, float] | None = None
        self._triggered: float | None = None
        self._slowest = 0.0

    def begin(self, batch: int, now: float) -> None:
        """Record the start of a batch."""
        self._open = batch, now

    def end(self) -> None:
        """Record that the run has terminated, so that no batch is running."""
        self._open = None

    def idle(self, now: float) -> None:
        """Record a trigger that found no data."""
        self._triggered = max(now, self._triggered or now)

    def look(self, sources: Sequence[SourceLook], now: float) -> None:
        """Record the present state of the sources, in the order in which the query lists them."""
        self._looks, self._looked_at = tuple(sources), now

    def weigh(self, checkpoint_bytes: int | None) -> None:
        """Record the present size of the checkpoint."""
        self._bytes = checkpoint_bytes

    def commit(self, progress: QueryProgress, now: float) -> None:
        """Record the commit of a batch. A late report does not mark as finished a batch that started after the reported
        one.
        """
        if progress.runId != self._run:
            self._run, self._before, self._repairs = progress.runId, None, ()
        took_ms = progress.durationMs.triggerExecution
        begun_ms = round((progress.timestamp.timestamp() if progress.timestamp else now) * 1000)
        ended = begun_ms + took_ms
        delay = scheduling_delay_s(begun_ms, self._trigger_s, self._before)
        self._before = begun_ms, ended
        self._newest = progress
        self._lags = tuple(lag_of(source.endOffset, source.latestOffset) for source in progress.sources)
        self._durations.append(took_ms / 1000)
        self._rows.append(tuple(source.numInputRows for source in progress.sources))
        self._slowest = max(self._slowest, took_ms / 1000)
        self._dropped += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
        self._count_repairs(progress.stateOperators)
        if self._open is not None and self._open[0] <= progress.batchId:
            self._open = None
        self._triggered = max(ended / 1000, self._triggered or 0.0)
        self._signals = QuerySignals(
            batch=progress.batchId,
            batch_s=took_ms / 1000,
            usual_batch_s=statistics.median(self._durations),
            trigger_s=self._trigger_s,
            scheduling_delay_s=delay,
            input_rows_per_s=progress.inputRowsPerSecond,
            processed_rows_per_s=progress.processedRowsPerSecond,
            checkpoint_write_s=checkpoint_write_s(progress),
            state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
            state_memory_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
            dropped_rows=self._dropped,
            repaired_stores=self._repaired,
            last_commit=ended / 1000,
        )

    def signals(self, now: float) -> QuerySignals:
        """Return all measurements as of ``now``."""
        return msgspec.structs.replace(
            self._signals,
            sources=self._sources(now),
            checkpoint_bytes=self._bytes,
            last_trigger=self._triggered,
            open_since=self._open[1] if self._open else None,
        )

    def point(self, now: float) -> HistoryPoint:
        """Return a point of the history, with the slowest batch since the previous call."""
        slowest, self._slowest = self._slowest, 0.0
        return HistoryPoint(at=now, slowest_batch_s=slowest, signals=self.signals(now))

    def _count_repairs(self, operators: Sequence[OperatorProgress]) -> None:
        repairs = tuple(operator.customMetrics.rocksdbNumSnapshotsAutoRepaired for operator in operators)
        before = self._repairs if len(self._repairs) == len(repairs) else (0,) * len(repairs)
        self._repaired += sum(max(0, now - then) for now, then in zip(repairs, before, strict=True))
        self._repairs = repairs

    def _sources(self, now: float) -> tuple[SourceSignals, ...]:
        sources = self._newest.sources if self._newest else []
        looks = self._looks if len(self._looks) == len(sources) or not sources else (SourceLook(),) * len(sources)
        return tuple(
            self._source(position, sources[position] if sources else SourceProgress(), look, now)
            for position, look in enumerate(looks or (SourceLook(),) * len(sources))
        )

    def _source(self, position: int, progress: SourceProgress, look: SourceLook, now: float) -> SourceSignals:
        lag = self._lags[position] if position < len(self._lags) else None
        if lag is None or (look.lag_records is not None and self._looked_at - (self._committed_at or 0) > STALE_S):
            lag = look.lag_records
        waited = look.waited_s
        if lag is not None:
            waited = self._time_to_read(position, lag)
        elif waited and (self._committed_at or 0) <= self._looked_at:
            # No data was read since that request: the unread data has waited longer by the time since.
            waited += max(0.0, now - self._looked_at)
        return SourceSignals(
            source=progress.description,
            lag_records=lag,
            lag_files=look.lag_files,
            too_old_files=look.too_old_files,
            too_old_example=look.too_old_example,
            lag_s=waited,
            runway_s=look.runway_s,
        )

    @property
    def _committed_at(self) -> float | None:
        return self._signals.last_commit

    def _time_to_read(self, position: int, lag: int) -> float | None:
        """Return the seconds that reading ``lag`` records takes at the rate of the last batches; None without a rate.

        A batch counts for at least the trigger interval, because the next batch starts only when it is due.
        """
        if lag == 0:
            return 0.0
        rows = sum(row[position] for row in self._rows if position < len(row))
        spent = sum(max(duration, self._trigger_s or 0.0) for duration in self._durations)
        return lag * spent / rows if rows > 0 else None


def add_point(ring: Sequence[HistoryPoint], point: HistoryPoint) -> tuple[HistoryPoint, ...]:
    """Return the points of ``ring`` and ``point``; if the ring was full, its oldest point is left out."""
    return (*ring, point)[-HISTORY_POINTS:]
