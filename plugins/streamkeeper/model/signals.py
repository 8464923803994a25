"""What a driver measures of its queries: read from Spark's own progress, told in its status and in a short history.

Seconds are seconds, bytes are bytes, moments are seconds since 1970 by the driver's clock: compare them with each other
and with ``DriverStatus.at``, never with another machine's. None: the source, sink or Spark does not tell.
"""

from __future__ import annotations

import msgspec

HISTORY_POINTS = 120


class SourceSignals(msgspec.Struct, frozen=True, kw_only=True):
    """One source, in the query's order; ``source``: as Spark describes it.

    ``lag_records``, ``lag_files``: what waits there unread; ``lag_s``: how long the newest of it needs to be read at
    the present rate, or how long the oldest has waited, where the source tells that (consumer delay). ``runway_s``:
    until the source drops the next offset that is needed, at the rate at which it drops now. ``too_old_files``: files
    that Spark never reads because they are older than ``maxFileAge`` allows; ``too_old_example``: one of them.
    """

    source: str
    lag_records: int | None = None
    lag_files: int | None = None
    lag_s: float | None = None
    runway_s: float | None = None
    too_old_files: int | None = None
    too_old_example: str = ""


class QuerySignals(msgspec.Struct, frozen=True, kw_only=True):
    """One query after its last trigger.

    ``trigger_s``: its interval, None for availableNow; ``usual_batch_s``: median of the history;
    ``scheduling_delay_s``:
    how much later than due its last batch began; ``checkpoint_write_s``: writing the offsets and commit of the last
    batch, and the longest commit of its state; ``dropped_rows``: by watermarks, since the driver started.
    ``last_trigger``: moment of the last completed trigger, with or without data; ``last_commit``: with data;
    ``open_since``: moment at which the batch that runs now began.
    """

    batch: int = -1
    batch_s: float = 0.0
    usual_batch_s: float = 0.0
    trigger_s: float | None = None
    scheduling_delay_s: float = 0.0
    input_rows_per_s: float = 0.0
    processed_rows_per_s: float = 0.0
    sources: tuple[SourceSignals, ...] = ()
    checkpoint_write_s: float = 0.0
    state_rows: int = 0
    state_memory_bytes: int = 0
    dropped_rows: int = 0
    checkpoint_bytes: int | None = None
    repaired_stores: int = 0
    last_trigger: float | None = None
    last_commit: float | None = None
    open_since: float | None = None

    @property
    def checkpoint_share(self) -> float:
        """Of the last batch's time, what went into the checkpoint."""
        return self.checkpoint_write_s / self.batch_s if self.batch_s > 0 else 0.0

    @property
    def lag_s(self) -> float | None:
        """Of the source that is furthest behind."""
        return max((source.lag_s for source in self.sources if source.lag_s is not None), default=None)

    @property
    def runway_s(self) -> float | None:
        """Of the source that drops first."""
        return min((source.runway_s for source in self.sources if source.runway_s is not None), default=None)


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One minute of a query at most: the newest signals at ``at``, and the slowest batch since the point before."""

    at: float
    slowest_batch_s: float
    signals: QuerySignals


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A ring for every query; ``history.json`` beside the status, replaced as a whole at most once a minute."""

    format: int = 1
    queries: dict[str, tuple[HistoryPoint, ...]] = {}
