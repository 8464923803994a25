"""A driver's measurements of its queries, read from Spark's progress and reported in its status and a short history.

Points in time are seconds since 1970 by the driver's clock: compare them with each other and with ``DriverStatus.at``,
but never with another machine's clock. None means that the source, the sink or Spark does not report the value.
"""

from __future__ import annotations

import msgspec

HISTORY_POINTS = 120


class SourceSignals(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one source."""

    source: str
    """Spark's description of the source."""
    lag_records: int | None = None
    """Unread records."""
    lag_files: int | None = None
    """Unread files."""
    lag_s: float | None = None
    """Seconds that the query needs, at its present rate, to read all unread input.

    If the source reports how long the oldest unread item has waited (consumer delay), the value is that time instead.
    """
    runway_s: float | None = None
    """Seconds until the source drops the next needed offset, at its present rate of dropping."""
    too_old_files: int | None = None
    """Files that Spark never reads because they are older than ``maxFileAge`` allows."""
    too_old_example: str = ""
    """The name of one of those files."""


class QuerySignals(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one query after its last trigger."""

    batch: int = -1
    """The last batch; -1 before the first."""
    batch_s: float = 0.0
    """Duration of the last batch."""
    usual_batch_s: float = 0.0
    """Median duration in the history."""
    trigger_s: float | None = None
    """The trigger interval; None for availableNow."""
    scheduling_delay_s: float = 0.0
    """Seconds by which the last batch started later than its trigger."""
    input_rows_per_s: float = 0.0
    """Arriving rows per second."""
    processed_rows_per_s: float = 0.0
    """Processed rows per second."""
    sources: tuple[SourceSignals, ...] = ()
    """The measurements of each source, in the query's order."""
    checkpoint_write_s: float = 0.0
    """Time for writing the last batch's offsets and commit, plus the longest commit of its state."""
    state_rows: int = 0
    """Rows of the query's state."""
    state_memory_bytes: int = 0
    """Memory of the query's state."""
    dropped_rows: int = 0
    """Rows dropped by watermarks since the driver's start."""
    checkpoint_bytes: int | None = None
    """Size of the checkpoint."""
    repaired_stores: int = 0
    """State stores that Spark has repaired."""
    last_trigger: float | None = None
    """Time of the last completed trigger, with or without data."""
    last_commit: float | None = None
    """Time of the last commit with data."""
    open_since: float | None = None
    """Time at which the running batch started; None if no batch is running."""

    @property
    def checkpoint_share(self) -> float:
        """Share of the last batch's duration that was spent on the checkpoint."""
        return self.checkpoint_write_s / self.batch_s if self.batch_s > 0 else 0.0

    @property
    def lag_s(self) -> float | None:
        """Lag of the source with the largest lag."""
        return max((source.lag_s for source in self.sources if source.lag_s is not None), default=None)

    @property
    def runway_s(self) -> float | None:
        """The shortest runway of any source, which is that of the source that drops unread data first."""
        return min((source.runway_s for source in self.sources if source.runway_s is not None), default=None)


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a query's history: the newest signals at ``at``, and the slowest batch since the previous point."""

    at: float
    slowest_batch_s: float
    signals: QuerySignals


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``history.json``: the latest points of each query, replaced as a whole at most once a minute."""

    format: int = 1
    queries: dict[str, tuple[HistoryPoint, ...]] = {}
