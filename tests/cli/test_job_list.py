"""Tests of the job list, from rows alone: every standing of a job, and text that others wrote."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from streamkeeper.cli.job_list import HEADERS, show_jobs
from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow, QueryRow, ToldError
from streamkeeper.model.watch.fleet_words import tell_lag
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.watched_facts import OperationFacts

AT = 1_800_000_000.0
CLEAR = QueryRow(lag_s=12.0, committed_at=AT - 240, snapshots_known=True, verified_at=AT - 7200)


def shown(*rows: JobRow, width: int = 80, terminal: bool = False, after_s: float = 40, number: int = 7) -> list[str]:
    """Return the lines of the list as it is printed ``after_s`` seconds after the watch's pass."""
    file = io.StringIO()
    index = FleetIndex(number=number, started=AT, rows=rows)
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None)
    show_jobs(index, rows, now=AT + after_s, console=console)
    return file.getvalue().splitlines()


def row(standing: JobStatus = JobStatus.SERVING, **given: object) -> JobRow:
    """Return the row of a healthy running job, with the given fields replaced."""
    return JobRow(**{"job": "orders", "standing": standing, "release": "r0003", "queries": {"q": CLEAR}, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("standing", list(JobStatus))
def test_every_job_standing_is_printed_as_one_row(standing: JobStatus) -> None:
    """Every standing of a job is printed as one row with all columns."""
    header, line = shown(row(standing))[:2]
    assert tuple(header.split()) == HEADERS
    assert line.split("  ")[0] == "orders"
    assert ("running" if standing is JobStatus.SERVING else standing.value) in line
    assert line.split()[-7:] == ["12", "s", "4", "min", "0", "2", "h"]


def test_a_never_deployed_job_shows_dashes_for_release_lag_commit_and_backup() -> None:
    """A job that was never deployed shows ``-`` for release, lag, commit and backup."""
    line = shown(JobRow(job="orders", standing=JobStatus.NOT_DEPLOYED, release=""))[1]
    assert line.split() == ["orders", "-", "not", "deployed", "-", "-", "0", "-"]


def test_a_job_row_shows_the_worst_values_of_its_queries() -> None:
    """A job's row shows the largest lag, the oldest commit and the oldest verified snapshot of its queries; a query
    known to have no verified snapshot shows ``none``.
    """
    behind = QueryRow(lag_s=600.0, committed_at=AT - 86_400, snapshots_known=True, verified_at=AT - 200_000)
    line = shown(row(queries={"a": CLEAR, "b": behind}, restarts=5, restarts_lately=2))[1]
    assert line.split()[3:] == ["10", "min", "24", "h", "5", "(2/h)", "2.3", "d"]
    without = QueryRow(snapshots_known=True)
    assert shown(row(queries={"a": CLEAR, "b": without}))[1].endswith("none")
    assert shown(row(queries={"a": CLEAR, "b": QueryRow()}))[1].endswith("-")


@pytest.mark.parametrize(
    ("lag", "told"),
    [
        (QueryRow(lag_s=1.0, lag_records=9), "1 s"), (QueryRow(lag_records=12_345), "12,345 rows"),
        (QueryRow(lag_files=3), "3 files"), (QueryRow(lag_files=0, lag_records=0), "0"), (QueryRow(), "-"),
    ],
)  # fmt: skip
def test_lag_is_shown_in_seconds_else_in_waiting_rows_or_files(lag: QueryRow, told: str) -> None:
    """Lag is shown in seconds when known, otherwise in waiting rows or files, and as ``-`` when unknown."""
    assert tell_lag([lag]) == told


def test_a_row_shows_worst_symptom_waiting_operation_and_last_error() -> None:
    """A row shows the worst symptom with its cause, the operation that waits for a person with its command, and the
    last error with its age; an error equal to that cause is not repeated.
    """
    symptom = Symptom(
        rule="stalled", severity=Urgency.PAGE, job="orders", query="q", cause="no trigger", action="", heading=""
    )
    facts = OperationFacts(operation="op-1", kind="deploy", step="approve", began_at=AT - 600, waits_for_person=True)
    given = {"symptoms": (symptom, symptom), "operation": "op-1", "under_way": facts}
    error = ToldError(text="out of\n\x1b[31m[red]memory[/red]", since=AT - 7200, lasts=False)
    told = [
        "page: stalled (q) and 1 more: no trigger",
        "deploy op-1 at approve for 10 min, waits for a person (run `streamkeeper question orders op-1`)",
        "last error, 2 h ago: out of \\x1b[31m[red]memory[/red]",
    ]
    assert shown(row(**given, error=error))[1].endswith("; ".join(told))
    lines = shown(row(**given, error=error), terminal=True, width=100)
    assert lines[2:5] == [f"    {each}" for each in told]
    assert "error: out of" in shown(row(error=ToldError(text="out of", since=AT)))[1]
    repeated = shown(row(symptoms=(symptom,), error=ToldError(text="no trigger", since=AT)))[1]
    assert repeated.count("no trigger") == 1
    other = replace(symptom, cause="no commit")
    hidden = shown(row(symptoms=(other, symptom), error=ToldError(text="no trigger", since=AT)))[1]
    assert "no trigger" in hidden, "only the first symptom's cause is in the row"
    assert "stopped by ann: [b]moved" in shown(row(JobStatus.STOPPED, stopped="by ann: [b]moved"))[1]


def test_forty_jobs_fit_a_terminal_of_eighty_columns() -> None:
    """Forty jobs are printed on one line each within 80 columns; the longest name is cut and every figure is kept."""
    names = [f"job_{number:02}" for number in range(39)]
    rows = [
        row(job=each, standing=JobStatus.NOT_DEPLOYED, restarts=12, restarts_lately=3) for each in [*names, "x" * 63]
    ]
    lines = shown(*rows, terminal=True)
    assert len(lines) == 42
    assert all(len(each) <= 80 for each in lines)
    assert all(each.endswith("12 (3/h)  2 h") for each in lines[1:-1])


def test_the_list_shows_the_age_of_the_last_watch_pass() -> None:
    """The list states how long ago the watch observed it, shows ages as of that moment, and warns when the watch has
    made no pass for long.
    """
    assert shown(row())[1] == shown(row(), after_s=9000)[1]
    assert shown(row())[2] == "observed by the watch 40 s ago (--now checks again)"
    assert shown(row(), after_s=9000)[2].endswith(
        "2.5 h ago (--now checks again). The watch has made no pass since. Check that it runs"
    )
    assert shown(row(), number=0)[2] == "observed now"
