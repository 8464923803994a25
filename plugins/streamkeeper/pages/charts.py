"""A driver's measurements of the last hours as lines over time, for charts and tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

import msgspec

from streamkeeper.model.protocol.signals import History, HistoryPoint, QuerySignals
from streamkeeper.model.redaction import Structure
from streamkeeper.model.watch.quantities import total

_MIB = 2**20


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chart. A value of None is a gap in the line."""

    label: Structure
    values: tuple[float | None, ...]

    def text(self, number: int) -> str:
        """Return the value at the index ``number`` as text for a table, such as 1,234.5; "-" for None."""
        value = self.values[number]
        return "-" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart of a query."""

    name: Structure
    """Its id for the script."""
    title: Structure
    """Its title."""
    unit: Structure
    """The unit of all its lines; empty for counts."""
    says: Structure
    """Its meaning for a person."""
    lines: tuple[Line, ...]
    """Its lines."""


class QueryCharts(msgspec.Struct, frozen=True, kw_only=True):
    """The charts of one query.

    ``at``: the times of the points in seconds since 1970 by the driver's clock, ascending. Every line has one value per
    time.
    """

    query: Structure
    at: tuple[float, ...]
    charts: tuple[Chart, ...]


class JobCharts(msgspec.Struct, frozen=True, kw_only=True):
    """The charts of a job.

    ``instance``: the driver whose measurements are shown; ``before``: the previous driver, whose points are shown
    first, empty without such points.
    """

    instance: Structure
    before: Structure = ""
    queries: tuple[QueryCharts, ...] = ()


def make_charts(instance: str, history: History, *, before: tuple[str, History] = ("", History())) -> JobCharts:
    """Return one chart per query and measured quantity, with queries ordered by name and points by time.

    ``instance``, ``history``: the driver and its measurements.
    ``before``: the previous driver and its measurements; a gap separates the points of the two drivers.
    """
    name, earlier = before
    queries = []
    went_before = False
    for query, ring in sorted(history.queries.items()):
        points = _in_order(ring)
        older = [point for point in _in_order(earlier.queries.get(query, ())) if points and point.at < points[0].at]
        went_before |= bool(older)
        queries.append(_of_query(query, older, points))
    drawn = tuple(found for found in queries if found.at)
    return JobCharts(instance=instance, before=name if went_before else "", queries=drawn)


def _in_order(ring: Iterable[HistoryPoint]) -> list[HistoryPoint]:
    """Return the points sorted by time, because the driver's clock may have been set back."""
    return sorted(ring, key=lambda point: point.at)


def _of_query(query: str, older: list[HistoryPoint], points: list[HistoryPoint]) -> QueryCharts:
    drawn: list[HistoryPoint | None] = [*older, *([None] if older else []), *points]
    charts = (
        Chart(name=each.name, title=each.title, unit=each.unit, says=each.says, lines=lines)
        for each in _CHARTS
        if (lines := _lines(drawn, each))
    )
    between = (older[-1].at + points[0].at) / 2 if older else 0.0
    moments = tuple(between if point is None else point.at for point in drawn)
    return QueryCharts(query=query, at=moments, charts=tuple(charts))


_Read = Callable[[HistoryPoint], float | None]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The recipe of a chart: how its lines are read from measurements."""

    name: str
    """The chart's id."""
    title: str
    """Its title."""
    unit: str
    """The unit of all its lines."""
    says: str
    """Its meaning for a person."""
    lines: tuple[tuple[str, _Read], ...]
    """Label and reader of each line."""
    of_state: bool = False
    """Whether the chart is left out if all values are 0, as for a query without state."""


def _lines(points: Sequence[HistoryPoint | None], drawing: _Drawing) -> tuple[Line, ...]:
    """Return the lines with at least one value. A missing point is a gap in all lines."""
    lines = [
        Line(label=label, values=tuple(None if point is None else _number(read(point)) for point in points))
        for label, read in drawing.lines
    ]
    with_values = tuple(line for line in lines if any(value is not None for value in line.values))
    return () if drawing.of_state and not any(value for line in with_values for value in line.values) else with_values


def _number(value: float | None) -> float | None:
    return round(float(value), 3) if value is not None and isfinite(value) else None


def _of(read: Callable[[QuerySignals], float | None]) -> _Read:
    return lambda point: read(point.signals)


def _of_batch(read: Callable[[QuerySignals], float | None]) -> _Read:
    """Return a reader of a value that exists only once a batch has been committed; until then the reader
    returns None.
    """
    return lambda point: read(point.signals) if point.signals.batch >= 0 else None


def _records(signals: QuerySignals) -> float | None:
    return total(source.lag_records for source in signals.sources)


def _files(signals: QuerySignals) -> float | None:
    return total(source.lag_files for source in signals.sources)


_CHARTS = (
    _Drawing(
        name="lag",
        title="Lag",
        unit="s",
        says="time until the waiting input of the slowest source is read, or its age",
        lines=(("lag", _of(lambda signals: signals.lag_s)),),
    ),
    _Drawing(
        name="unread",
        title="Unread input",
        unit="",
        says="input that waits at the sources",
        lines=(("records", _of(_records)), ("files", _of(_files))),
    ),
    _Drawing(
        name="rates",
        title="Rows per second",
        unit="rows/s",
        says="the lag grows if fewer rows are processed than arrive",
        lines=(
            ("input", _of_batch(lambda signals: signals.input_rows_per_s)),
            ("processed", _of_batch(lambda signals: signals.processed_rows_per_s)),
        ),
    ),
    _Drawing(
        name="batch",
        title="Batch duration against the trigger",
        unit="s",
        says="a batch that takes longer than the trigger delays the next one",
        lines=(
            ("slowest", lambda point: point.slowest_batch_s if point.signals.batch >= 0 else None),
            ("newest", _of_batch(lambda signals: signals.batch_s)),
            ("usual", _of_batch(lambda signals: signals.usual_batch_s)),
            ("trigger", _of_batch(lambda signals: signals.trigger_s)),
        ),
    ),
    _Drawing(
        name="state_rows",
        title="State rows",
        unit="rows",
        says="sum over all stateful operators",
        lines=(("rows", _of_batch(lambda signals: signals.state_rows)),),
        of_state=True,
    ),
    _Drawing(
        name="state_memory",
        title="State memory",
        unit="MiB",
        says="as reported by the state stores",
        lines=(("memory", _of_batch(lambda signals: signals.state_memory_bytes / _MIB)),),
        of_state=True,
    ),
    _Drawing(
        name="checkpoint_share",
        title="Checkpoint writes",
        unit="%",
        says="share of the batch duration spent on writing offsets, commits and state",
        lines=(("share", _of_batch(lambda signals: 100 * signals.checkpoint_share)),),
    ),
)
