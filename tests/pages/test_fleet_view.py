"""Tests the rows of the fleet's page: what they show of a job, which jobs a filter selects, and in which order."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow, QueryRow, ToldError
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.watched_facts import OperationFacts
from streamkeeper.pages.fleet_view import COLUMNS, ROWS, TONES, FleetFilter, FleetView, ShownJob, view_fleet
from tests.pages.rows import AT, CLEAR, FLEET, remembered, row, wrong


def view(*rows: JobRow, after_s: float = 40, **chosen: object) -> FleetView:
    """Return the fleet's view as it is ``after_s`` seconds after the pass."""
    index = FleetIndex(number=7, started=AT, rows=rows)
    return view_fleet(index, FleetFilter(**chosen), now=AT + after_s)  # type: ignore[arg-type]


def shown(*rows: JobRow, **chosen: object) -> ShownJob:
    """Return the first row of the view."""
    return view(*rows, **chosen).rows[0]  # type: ignore[arg-type]


def names(found: FleetView) -> list[str]:
    return [each.job for each in found.rows]


@pytest.mark.parametrize("standing", list(JobStatus))
def test_every_job_status_is_shown_in_words_and_not_by_colour_alone(standing: JobStatus) -> None:
    """Every status of a job is shown in words, and not by a colour alone."""
    assert shown(row(standing=standing)).standing == ("running" if standing is JobStatus.SERVING else standing.value)
    assert shown(row(standing=standing)).tone == TONES[standing]


def test_a_row_shows_the_release_and_the_figures_of_the_worst_query() -> None:
    """A row shows the release, the owner, and the lag, batch duration against the trigger, rows, last commit and
    verified backup of the worst query.
    """
    told = shown(row(memory=remembered()))
    assert (told.release, told.desired, told.owner, told.health) == ("r0003", "", "airflow:ada", "healthy")
    assert (told.lag, told.batch, told.rows, told.commit, told.verified) == (
        "12 s",
        "1.2 s of 5 s",
        "40",
        "4 min",
        "2 h",
    )
    slow = QueryRow(batch_s=12.0, trigger_s=5.0, rows_per_s=0.5, snapshots_known=True)
    told = shown(row(queries={"a": CLEAR, "b": slow}))
    assert (told.batch, told.late, told.rows, told.verified, told.verified_tone) == (
        "12 s of 5 s",
        True,
        "40",
        "none",
        "warn",
    )
    assert shown(row(queries={"b": QueryRow(batch_s=3.0)})).batch == "3.0 s", "availableNow has no trigger"


def test_unknown_values_are_shown_as_unknown() -> None:
    """Values that are unknown, as for a job that was never deployed or a check that failed, are shown as ``-`` or as
    not checked.
    """
    told = shown(JobRow(job="orders", standing=JobStatus.NOT_DEPLOYED, release=""))
    assert (told.lag, told.batch, told.rows, told.commit, told.verified) == ("-",) * 5
    assert (told.health, told.owner, told.desired) == ("-", "", "")
    assert shown(row(unlooked={"status": "damaged"})).health == "not checked"


def test_an_unhealthy_job_shows_its_first_cause_and_runbook_heading() -> None:
    """An unhealthy job shows its severity, rule, query, cause and runbook heading, the number of further symptoms, and
    an error unless the cause already contains it.
    """
    told = shown(row(worst=Urgency.PAGE, symptoms=(*wrong()["symptoms"],) * 3))  # type: ignore[misc]
    assert (told.health, told.health_tone, told.rule) == ("page", "bad", "stalled (q)")
    assert (told.cause, told.heading, told.more) == ("no trigger", "A job stands still", 2)
    error = ToldError(text="out of memory", since=AT)
    assert shown(row(**wrong(), error=error)).error == "out of memory"
    assert shown(row(**wrong(cause="it ended: out of memory"), error=error)).error == "", "said once"


def test_a_row_shows_the_open_operation_and_its_wait_for_approval() -> None:
    """A row shows the open operation's kind, step label, duration and wait for approval, and the desired release next
    to the current one.
    """
    facts = OperationFacts(operation="op-1", kind="deploy", step="backup", began_at=AT - 600, waits_for_person=True)
    told = shown(row(operation="op-1", under_way=facts, memory=remembered(desired_release="r0004")))
    assert (told.step, told.operation, told.waits) == ("deploy at keep-state for 10 min", "op-1", True)
    assert (told.release, told.desired) == ("r0003", "r0004")


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({}, ["gamma", "beta", "alpha", "delta"]),
        ({"health": "wrong"}, ["gamma", "beta"]),
        ({"health": "ticket"}, ["beta"]),
        ({"health": "well"}, ["alpha", "delta"]),
        ({"standing": JobStatus.FAILED}, ["gamma"]),
        ({"under_way": "open"}, ["gamma", "delta"]),
        ({"under_way": "waits"}, ["gamma"]),
        ({"owner": "cli:bob"}, ["beta"]),
        ({"search": "LAG"}, ["beta"]),
        ({"search": "ta bob"}, ["beta"]),
        ({"search": "op-2"}, ["delta"]),
        ({"search": "nothing"}, []),
    ],
)  # fmt: skip
def test_the_filter_selects_jobs_by_each_criterion(chosen: dict[str, object], found: list[str]) -> None:
    """The filter selects jobs by health, status, open operation, owner, and words in the name, owner, operation or
    cause; forgotten jobs are never listed.
    """
    assert names(view(*FLEET, **chosen)) == found
    assert view(*FLEET, **chosen).jobs == 4
    assert view(*FLEET, **chosen).forgotten == 1
    assert view(*FLEET, **chosen).owners == ("airflow:ada", "cli:bob")


@pytest.mark.parametrize("column", list(COLUMNS))
def test_every_column_sorts_both_ways(column: str) -> None:
    """Every column sorts in both directions, and unknown values come last in either direction."""
    facts = OperationFacts(operation="op", kind="deploy", step="go", began_at=AT)
    later = replace(facts, began_at=AT + 9)
    bad = replace(CLEAR, lag_s=900.0, committed_at=AT - 9, batch_s=9.0, rows_per_s=9.0, verified_at=1.0)
    one = row(
        "one", JobStatus.FAILED, **wrong(), under_way=facts, release="r0001", queries={"q": bad}, memory=remembered()
    )
    two = row("two", under_way=later, release="r0009", memory=remembered(owner="zoe"))
    unknown = JobRow(job="unknown", standing=JobStatus.UNKNOWN, release="", unlooked={"records": "damaged"})
    there = names(view(unknown, two, one, sort=column))
    back = names(view(unknown, two, one, sort=column, turned=True))
    # Of these everything is known of every job.
    last = [] if column in ("job", "standing", "health") else ["unknown"]
    assert there == [*reversed(back[: len(back) - len(last)]), *last]


def test_sorting_by_a_figure_puts_the_worst_first() -> None:
    """Sorting by a figure puts the worst or largest value first: the most lag, the slowest batches, the most rows, the
    oldest commit, or no verified backup.
    """
    bad = QueryRow(
        lag_s=900.0, committed_at=AT - 9000, batch_s=9.0, trigger_s=5.0, rows_per_s=90.0, snapshots_known=True
    )
    for column in ("lag", "batch", "rows", "commit", "verified"):
        assert names(view(row("a"), row("b", queries={"q": bad}), sort=column)) == ["b", "a"], column


def test_a_page_has_a_hundred_jobs() -> None:
    """A page lists at most ``ROWS`` jobs, each job is on exactly one page, and a page number beyond the last shows the
    last page.
    """
    rows = [row(f"job_{number:03}") for number in range(ROWS * 2 + 1)]
    pages = [names(view(*rows, page=number)) for number in (1, 2, 3)]
    assert [len(page) for page in pages] == [ROWS, ROWS, 1]
    assert [job for page in pages for job in page] == [each.job for each in rows]
    assert names(view(*rows, page=99)) == pages[2]
    assert view(*rows).pages == 3


def test_a_filter_address_contains_only_values_that_differ_from_the_defaults() -> None:
    """The address of a filter contains the chosen values, escaped, and leaves out the defaults."""
    chosen = FleetFilter(search="a&b=ü", standing=JobStatus.NOT_DEPLOYED, sort="lag", turned=True)
    assert parse_qs(chosen.address(page=2).removeprefix("?")) == {
        "search": ["a&b=ü"], "standing": ["not deployed"], "sort": ["lag"], "turned": ["1"], "page": ["2"],
    }  # fmt: skip
    assert FleetFilter().address() == "?"


def test_an_index_older_than_the_limit_counts_as_out_of_date() -> None:
    """The age of the view is that of the index, never negative, and more than 180 s counts as out of date."""
    assert (view(row()).age_s, view(row()).stale) == (40, False)
    assert not view(row(), after_s=180).stale
    assert view(row(), after_s=181).stale
    assert view(row(), after_s=-5).age_s == 0


def test_a_recent_pass_by_a_different_watch_does_not_hide_a_dead_scheduler() -> None:
    """The view is out of date if Airflow's own last pass is, even after a recent pass by a different watch, unless
    Airflow made no pass for more than 30 days.
    """

    def seen(airflow_s: float) -> FleetView:
        index = FleetIndex(number=7, started=AT, airflow_pass_at=AT - airflow_s, rows=(row(),))
        return view_fleet(index, FleetFilter(), now=AT + 40)

    assert (seen(0).pass_age_s, seen(0).stale) == (40, False)
    assert (seen(600).age_s, seen(600).pass_age_s, seen(600).stale) == (40, 640, True)
    assert (seen(31 * 86_400).pass_age_s, seen(31 * 86_400).stale) == (40, False)
