"""What a driver measured as lines over time."""

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


def test_what_a_source_does_not_tell_is_a_gap() -> None:
    """A figure that is there at times is a line with gaps; the sources of a query add up, the slowest is the lag."""
    sources = (SourceSignals(source="a", lag_s=3.0, lag_records=5), SourceSignals(source="b", lag_s=9.0, lag_records=2))
    found = charts_of(point(1), point(2, sources=sources), point(3))
    assert told(found["lag"]) == {"lag": (None, 9.0, None)}
    assert told(found["unread"]) == {"records": (None, 7.0, None)}


def test_a_query_without_state_has_no_chart_of_it() -> None:
    """Nor one of a lag that nobody tells; negative control: one with state has."""
    assert not {"state_rows", "state_memory", "lag", "unread"} & set(charts_of(point(1), point(2)))
    found = charts_of(point(1), point(2, state_rows=7, state_memory_bytes=3 * 2**20))
    assert told(found["state_rows"]) == {"rows": (0.0, 7.0)}
    assert told(found["state_memory"]) == {"memory": (0.0, 3.0)}


def test_a_query_that_has_nothing_to_read_is_drawn_at_zero() -> None:
    """To be up to date is something to see."""
    found = charts_of(point(1, sources=(SourceSignals(source="a", lag_s=0.0),)))
    assert told(found["lag"]) == {"lag": (0.0,)}
    assert told(found["rates"]) == {"input": (0.0,), "processed": (0.0,)}


def test_a_batch_is_held_against_its_trigger() -> None:
    """Without an interval there is nothing to hold it against; what is no number is a gap."""
    found = charts_of(point(1, batch_s=1.5, usual_batch_s=float("nan"), trigger_s=5.0))
    assert told(found["batch"]) == {"slowest": (2.0,), "newest": (1.5,), "trigger": (5.0,)}
    assert "trigger" not in told(charts_of(point(1, batch_s=1.5))["batch"])


def test_time_goes_one_way_though_a_clock_was_set_back() -> None:
    """Points in the order of their moments, each with its own values."""
    (found,) = make_charts("i", History(queries={"q": (point(9, batch_s=1.0), point(4, batch_s=2.0))})).queries
    assert found.at == (4, 9)
    assert told(next(chart for chart in found.charts if chart.name == "batch"))["newest"] == (2.0, 1.0)


def test_a_driver_that_has_just_begun_is_not_drawn_at_zero() -> None:
    """Its first point is of before its first batch: what waits is known then, and nothing of batches."""
    source = SourceSignals(source="a", lag_files=2)
    found = charts_of(point(1, batch=-1, trigger_s=5.0, sources=(source,)), point(2, input_rows_per_s=7.0))
    assert told(found["rates"])["input"] == (None, 7.0)
    assert told(found["batch"])["slowest"] == (None, 2.0)
    assert list(charts_of(point(1, batch=-1, sources=(source,)))) == ["unread"]


def test_a_query_without_a_point_has_no_charts() -> None:
    """As one of a driver that has just begun."""
    assert make_charts("i", History(queries={"q": ()})) == JobCharts(instance="i")


def test_a_value_in_a_table_is_as_short_as_it_can_be() -> None:
    """Without digits that say nothing."""
    line = Line(label="rows", values=(None, 0.0, 1200.0, 1234567.25, 0.125, 100.0))
    assert [line.text(number) for number in range(6)] == ["-", "0", "1,200", "1,234,567.25", "0.125", "100"]


def test_what_the_driver_before_has_measured_comes_before_a_gap() -> None:
    """A deploy does not empty the charts; what both have measured is told by the one that serves."""
    before = History(queries={"q": (point(8, batch_s=1.0), point(2, batch_s=3.0)), "gone": (point(3),)})
    serves = History(queries={"q": (point(6, batch_s=2.0), point(7, batch_s=4.0))})
    found = make_charts("i", serves, before=("h", before))
    (query,) = found.queries
    assert (found.before, query.at) == ("h", (2, 4.0, 6, 7))
    newest = told(next(chart for chart in query.charts if chart.name == "batch"))["newest"]
    assert newest == (3.0, None, 2.0, 4.0)


def test_a_driver_that_has_measured_nothing_is_not_named() -> None:
    """Nor one that has measured the same minutes alone."""
    serves = History(queries={"q": (point(6),)})
    assert make_charts("i", serves, before=("h", History())) == make_charts("i", serves)
    assert make_charts("i", serves, before=("h", History(queries={"q": (point(9),)}))) == make_charts("i", serves)
