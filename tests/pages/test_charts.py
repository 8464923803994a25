"""Tests the charts: what a driver measured, as lines over time."""

from __future__ import annotations

from streamkeeper.model.protocol.signals import History, HistoryPoint, QuerySignals, SourceSignals
from streamkeeper.pages.charts import Chart, JobCharts, Line, make_charts


def point(at: float, **signals: object) -> HistoryPoint:
    return HistoryPoint(at=at, slowest_batch_s=2.0, signals=QuerySignals(**{"batch": 1, **signals}))  # type: ignore[arg-type]


def charts_of(*points: HistoryPoint) -> dict[str, Chart]:
    (found,) = make_charts("i", History(queries={"totals": points})).queries
    return {chart.name: chart for chart in found.charts}


def told(chart: Chart) -> dict[str, tuple[float | None, ...]]:
    return {line.label: line.values for line in chart.lines}


def test_a_value_missing_from_a_source_is_a_gap_in_its_line() -> None:
    """A value that a source reports only at times becomes a line with gaps; unread records of several sources are
    added, and the lag is that of the slowest source.
    """
    sources = (SourceSignals(source="a", lag_s=3.0, lag_records=5), SourceSignals(source="b", lag_s=9.0, lag_records=2))
    found = charts_of(point(1), point(2, sources=sources), point(3))
    assert told(found["lag"]) == {"lag": (None, 9.0, None)}
    assert told(found["unread"]) == {"records": (None, 7.0, None)}


def test_a_query_without_state_has_no_chart_of_it() -> None:
    """A query without state has no state charts, and one whose sources report no lag has no lag chart. Negative
    control: a stateful query has its state charts.
    """
    assert not {"state_rows", "state_memory", "lag", "unread"} & set(charts_of(point(1), point(2)))
    found = charts_of(point(1), point(2, state_rows=7, state_memory_bytes=3 * 2**20))
    assert told(found["state_rows"]) == {"rows": (0.0, 7.0)}
    assert told(found["state_memory"]) == {"memory": (0.0, 3.0)}


def test_an_up_to_date_query_is_drawn_at_zero() -> None:
    """A query that is up to date is drawn with lag and rates of zero instead of a gap."""
    found = charts_of(point(1, sources=(SourceSignals(source="a", lag_s=0.0),)))
    assert told(found["lag"]) == {"lag": (0.0,)}
    assert told(found["rates"]) == {"input": (0.0,), "processed": (0.0,)}


def test_the_batch_chart_has_a_line_for_the_trigger_interval() -> None:
    """The batch chart contains a line for the trigger interval only if the query has one, and a value that is not a
    number is a gap.
    """
    found = charts_of(point(1, batch_s=1.5, usual_batch_s=float("nan"), trigger_s=5.0))
    assert told(found["batch"]) == {"slowest": (2.0,), "newest": (1.5,), "trigger": (5.0,)}
    assert "trigger" not in told(charts_of(point(1, batch_s=1.5))["batch"])


def test_points_are_in_order_of_time_after_a_clock_was_set_back() -> None:
    """Points are drawn in the order of their times, each with its own values, even if the clock was set back."""
    (found,) = make_charts("i", History(queries={"q": (point(9, batch_s=1.0), point(4, batch_s=2.0))})).queries
    assert found.at == (4, 9)
    assert told(next(chart for chart in found.charts if chart.name == "batch"))["newest"] == (2.0, 1.0)


def test_a_point_before_the_first_batch_is_a_gap_and_not_zero() -> None:
    """A point from before the first batch has a gap in the charts of batches and rates, but shows the unread input."""
    source = SourceSignals(source="a", lag_files=2)
    found = charts_of(point(1, batch=-1, trigger_s=5.0, sources=(source,)), point(2, input_rows_per_s=7.0))
    assert told(found["rates"])["input"] == (None, 7.0)
    assert told(found["batch"])["slowest"] == (None, 2.0)
    assert list(charts_of(point(1, batch=-1, sources=(source,)))) == ["unread"]


def test_a_query_without_a_point_has_no_charts() -> None:
    """A query without measurements has no charts."""
    assert make_charts("i", History(queries={"q": ()})) == JobCharts(instance="i")


def test_a_value_in_a_table_has_no_trailing_zeros() -> None:
    """A value in a table has no trailing zeros, has thousands separators, and is ``-`` if it is missing."""
    line = Line(label="rows", values=(None, 0.0, 1200.0, 1234567.25, 0.125, 100.0))
    assert [line.text(number) for number in range(6)] == ["-", "0", "1,200", "1,234,567.25", "0.125", "100"]


def test_measurements_of_the_previous_driver_are_drawn_before_a_gap() -> None:
    """The charts show the previous driver's measurements before a gap and the current driver's after it; where the two
    overlap, only the current driver's are shown.
    """
    before = History(queries={"q": (point(8, batch_s=1.0), point(2, batch_s=3.0)), "gone": (point(3),)})
    serves = History(queries={"q": (point(6, batch_s=2.0), point(7, batch_s=4.0))})
    found = make_charts("i", serves, before=("h", before))
    (query,) = found.queries
    assert (found.before, query.at) == ("h", (2, 4.0, 6, 7))
    newest = told(next(chart for chart in query.charts if chart.name == "batch"))["newest"]
    assert newest == (3.0, None, 2.0, 4.0)


def test_a_previous_driver_without_measurements_is_not_named() -> None:
    """A previous driver without measurements, or with none from before the current driver's, is not named in the
    charts.
    """
    serves = History(queries={"q": (point(6),)})
    assert make_charts("i", serves, before=("h", History())) == make_charts("i", serves)
    assert make_charts("i", serves, before=("h", History(queries={"q": (point(9),)}))) == make_charts("i", serves)
