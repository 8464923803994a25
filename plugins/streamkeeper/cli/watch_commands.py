"""``watch`` and ``incidents``: watch jobs without Airflow, and print the incidents."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from streamkeeper.cli.common_options import Json, load_installation, load_read_only
from streamkeeper.cli.job_list import SEVERITY_STYLES
from streamkeeper.cli.listing import one_line
from streamkeeper.cli.terminal import Console, echo, echo_json
from streamkeeper.errors import JournalLost, StreamkeeperError
from streamkeeper.health.health_rule import tell_span
from streamkeeper.model.coding import to_json
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.incident import (
    IncidentCleared,
    IncidentRaised,
    IncidentRecord,
    IncidentRepeated,
    JobIncidents,
    NoticeSent,
    WatchActed,
)
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.registry.fleet import read_index
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.registry.jobs import list_job_folders, list_jobs
from streamkeeper.system import clock

EVERY_S = 60.0

Name = Annotated[
    str,
    typer.Argument(
        metavar="[JOB]",
        help="Name of the job. Its open and cleared incidents are printed, with their actions. Without it, the open"
        " incidents of all jobs are printed",
    ),
]


def watch(
    *,
    once: Annotated[bool, typer.Option("--once", help="Check all jobs once and exit")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Report the incidents that the watch would raise and the actions that it would take, and write"
            " nothing",
        ),
    ] = False,
    overdue_s: Annotated[
        float | None,
        typer.Option(
            "--overdue-s",
            min=1,
            help="Do not check the jobs. Instead, exit with 1 if the last pass of Airflow's watch is older than this"
            " many seconds. If Airflow's watch has made no pass in the last 30 days, the last pass of any watch counts",
        ),
    ] = None,
) -> None:
    """Check every job each minute until Ctrl-C, report problems with their causes, and take actions that are safe
    without a person.

    This command sends no notices. The DAG streaming_watch in Airflow also sends the notices of incidents that this
    command raises.
    """
    if overdue_s is not None:
        _must_be_recent(overdue_s)
        return
    installation = load_installation(begins=True)
    while True:
        began = clock.monotonic()
        try:
            _pass(WatchPass(installation=installation, dry_run=dry_run))
        except StreamkeeperError as error:
            if once:
                raise
            echo(f"{_moment(clock.unix())}  the pass failed: {error}", err=True)
        if once:
            return
        try:
            clock.sleep(max(0.0, EVERY_S - (clock.monotonic() - began)))
        except KeyboardInterrupt:
            return


def _must_be_recent(overdue_s: float) -> None:
    """Print the age of the last pass; exit with 1 if the pass is older than ``overdue_s`` seconds, or there was
    none."""
    installation = load_read_only()
    index = read_index(installation.store, installation.id)
    if index is None:
        echo(f"no watch has made a pass over the jobs of {installation.store.url}", err=True)
        raise typer.Exit(1)
    age_s = index.pass_age_s(now := clock.unix())
    by = "by Airflow" if index.is_behind_airflow(now) else f"by {index.by}"
    age_text = f"the last pass of the watch, {by}, is {tell_span(age_s)} old"
    if age_s > overdue_s:
        echo(
            f"{age_text}, and at most {tell_span(overdue_s)} are allowed. Check that Airflow's scheduler runs", err=True
        )
        raise typer.Exit(1)
    echo(age_text)


def _pass(made: WatchPass) -> None:
    report = run_pass(made)
    for line in report.lines:
        echo(f"{_moment(clock.unix())}  {line}")
    wrong = sum(1 for row in report.index.rows if row.symptoms)
    summary = f"{len(report.index.rows)} jobs in {report.index.seconds:.1f} s, {wrong} with problems"
    echo(f"{_moment(clock.unix())}  pass {report.index.number}: {summary}")


def incidents(job: Name = "", *, json: Json = False) -> None:
    """Show the open incidents of all jobs, or every incident of one job with its actions and its end."""
    installation = load_read_only()
    if job:
        with suppress(JournalLost):
            read_job(installation, job)
        log = IncidentLog(installation.store, job)
        entries = list(log.entries())
        if json:
            echo_json(to_json(entries))
            _end_with(log.passed)
            return
        console = Console(soft_wrap=True, highlight=False)
        for entry in entries:
            console.print(Text(f"{entry.number:6}  {_moment(entry.at)}  {one_line(render_incident(entry.record))}"))
        if not entries and not log.passed:
            console.print(f"no incident of {job} was ever raised by a watch")
        _end_with(log.passed)
        return
    found: list[JobIncidents] = []
    passed: list[str] = []
    for name in sorted({*list_jobs(installation.store), *list_job_folders(installation.store, "incidents/")}):
        log = IncidentLog(installation.store, name)
        found.append(log.state())
        passed += [f"{name}: {why}" for why in log.passed]
    if json:
        echo_json(to_json([state for state in found if state.open]))
    else:
        _show_open(found, complete=not passed)
    _end_with(passed)


def _end_with(passed: list[str]) -> None:
    """Print the records that could not be read, and exit with 1 if there are any."""
    for why in passed:
        echo(f"an incident record is ignored: {why}", err=True)
    if passed:
        raise typer.Exit(1)


def _show_open(found: list[JobIncidents], *, complete: bool) -> None:
    """Print the open incidents, the most severe first, with cause, remedy and actions."""
    console = Console(soft_wrap=True, highlight=False)
    order = list(Urgency)
    worst_first = sorted(
        (incident for state in found for incident in state.open.values()),
        key=lambda incident: (order.index(incident.symptom.severity), incident.raised_at),
    )
    for incident in worst_first:
        symptom = incident.symptom
        about = f"{symptom.job}/{symptom.query}" if symptom.query else symptom.job
        since = tell_span(max(0.0, clock.unix() - incident.raised_at))
        head = Text(f"{symptom.severity.value} {symptom.rule}", style=SEVERITY_STYLES[symptom.severity])
        console.print(head.append(f" of {about} for {since}: {one_line(symptom.cause)}", style="default"))
        console.print(Text(f"    how to fix: {symptom.action}"))
        if incident.acts:
            console.print(Text(f"    done: the watch {one_line(incident.acts[-1])}"))
        console.print(Text(f"    runbook: {symptom.heading}"))
    if not worst_first and not complete:
        console.print("no open incident in the records that can be read")
    elif not worst_first:
        console.print("no open incident in the last pass of a watch")


def render_incident(record: IncidentRecord) -> str:
    """Return an incident record as one line of text."""
    match record:
        case IncidentRaised(symptom=symptom) | IncidentRepeated(symptom=symptom):
            verb = "raised" if isinstance(record, IncidentRaised) else "still open"
            about = f" of {symptom.query}" if symptom.query else ""
            return (
                f"{symptom.severity.value} {symptom.rule}{about} {verb}: {symptom.cause} (runbook: {symptom.heading})"
            )
        case IncidentCleared(key=key, sentence=sentence):
            return f"{key} cleared: {sentence}"
        case WatchActed(key=key, sentence=sentence):
            return f"{key}: the watch {sentence}"
        case NoticeSent(of=of, to=to):
            return f"notice of {of} sent to {', '.join(to) or 'no notifier'}"


def _moment(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")[:19]
