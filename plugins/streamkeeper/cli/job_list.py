"""The list of jobs with status, lag, backups and problems, for the person on call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from streamkeeper.cli.listing import ListRow, one_line, print_rows
from streamkeeper.cli.terminal import Console
from streamkeeper.health.health_rule import tell_span
from streamkeeper.model.records.step import label_of
from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow
from streamkeeper.model.watch.fleet_words import tell_commit, tell_lag, tell_status, tell_verified
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.quantities import tell_age

STYLES = {
    JobStatus.NOT_DEPLOYED: "dim",
    JobStatus.STARTING: "yellow",
    JobStatus.SERVING: "green",
    JobStatus.RESTARTING: "bold yellow",
    JobStatus.WAITING: "yellow",
    JobStatus.DRAINING: "yellow",
    JobStatus.FINISHED: "green",
    JobStatus.FAILED: "bold red",
    JobStatus.ENDED: "yellow",
    JobStatus.STOPPED: "dim",
    JobStatus.UNKNOWN: "magenta",
}

SEVERITY_STYLES = {Urgency.PAGE: "bold red", Urgency.TICKET: "yellow", Urgency.INFO: "dim"}

HEADERS = ("job", "release", "status", "lag", "commit", "restarts", "verified")
_STALE_S = 300.0
"""Age in seconds from which the last pass is reported as old: a pass is expected each minute."""


def show_jobs(index: FleetIndex, rows: Iterable[JobRow], *, now: float, console: Console | None = None) -> None:
    """Print one row per job, then the age of the observation. The ages in the rows are relative to the time of the
    observation.

    ``now``: the present time, in seconds since 1970.
    """
    console = console or Console(highlight=False)
    print_rows(HEADERS, [_row(row, index.started) for row in rows], console=console)
    console.print(Text(_told_age(index, now)), soft_wrap=True)


def described(row: JobRow) -> dict[str, object]:
    """Return the fields of a row, except those that only the watch needs."""
    return {name: getattr(row, name) for name in row.__struct_fields__ if name != "memory"}


def _told_age(index: FleetIndex, now: float) -> str:
    if not index.number:
        return "observed now"
    age_s, pass_age_s = max(0.0, now - index.started), index.pass_age_s(now)
    age_text = f"observed by the watch {tell_span(age_s)} ago (--now checks again)"
    if pass_age_s <= _STALE_S:
        return age_text
    if age_s <= _STALE_S:
        return (
            f"{age_text}. Airflow made its last pass {tell_span(pass_age_s)} ago"
            " and sends no notices. Check that Airflow"
            " runs"
        )
    return f"{age_text}. The watch has made no pass since. Check that it runs"


def _row(row: JobRow, now: float) -> ListRow:
    cells = (
        row.job,
        row.release or "-",
        tell_status(row.standing),
        tell_lag(row.queries.values()),
        tell_commit(row.queries.values(), now),
        _restarts(row),
        tell_verified(row.queries.values(), now),
    )
    return ListRow(
        cells=tuple(map(one_line, cells)), notes=tuple(_notes(row, now)), styles=((2, STYLES[row.standing]),)
    )


def _restarts(row: JobRow) -> str:
    return f"{row.restarts} ({row.restarts_lately}/h)" if row.restarts_lately else f"{row.restarts}"


def _notes(row: JobRow, now: float) -> Iterator[Text]:
    """Yield the notes of a row: problems first, then the operation in progress and the last error."""
    if row.symptoms:
        first, more = row.symptoms[0], len(row.symptoms) - 1
        about = f"{first.rule} ({first.query})" if first.query else first.rule
        wrong = f"{first.severity.value}: {about}{f' and {more} more' if more else ''}: {first.cause}"
        yield Text(one_line(wrong), style=SEVERITY_STYLES[first.severity])
    if row.rebuilt and not row.symptoms:
        yield Text(one_line(f"{row.rebuilt}; deploy it"), style="yellow")
    if row.stopped:
        yield Text(one_line(f"stopped {row.stopped}"), style="dim")
    if row.operation:
        yield Text(one_line(_operation(row, now)), style="yellow")
    cause = row.symptoms[0].cause if row.symptoms else ""
    if row.error is not None and row.error.text not in cause:
        when = "error" if row.error.lasts else f"last error, {tell_age(now - row.error.since)} ago"
        yield Text(one_line(f"{when}: {row.error.text}"), style="red" if row.error.lasts else "dim")


def _operation(row: JobRow, now: float) -> str:
    facts = row.under_way
    if facts is None:
        return f"{row.operation} is open"
    asks = (
        f", waits for a person (run `streamkeeper question {row.job} {row.operation}`)"
        if facts.waits_for_person
        else ""
    )
    return f"{facts.kind} {row.operation} at {label_of(facts.step)} for {tell_age(now - facts.began_at)}{asks}"
