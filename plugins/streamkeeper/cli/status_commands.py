"""``jobs``, ``status``, ``old-input`` and ``history``: commands that only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streamkeeper.cli.command_results import JsonResult, reporting
from streamkeeper.cli.common_options import Job, Json, load_read_only
from streamkeeper.cli.job_list import STYLES, described, show_jobs
from streamkeeper.cli.listing import one_line
from streamkeeper.cli.terminal import Console, echo, echo_json
from streamkeeper.health.health_rule import tell_span
from streamkeeper.model.coding import to_json
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.redaction import redact, redact_value
from streamkeeper.model.secret_names import literals_of
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.old_input import list_old_input
from streamkeeper.operations.jobs.overview import JobOverview, job_overview
from streamkeeper.operations.jobs.overview_facts import Fact, Tone, overview_facts
from streamkeeper.operations.jobs.sentences import render_record
from streamkeeper.registry.driver_control import stray_orders
from streamkeeper.registry.fleet import read_index
from streamkeeper.system import clock

REFRESH_S = 2.0
_NOT_LISTED = "a pattern, options that select its files, another server or scheme, or too many files"
_STYLES = {Tone.PLAIN: "", Tone.WARN: "yellow", Tone.BAD: "red"}


def jobs(
    *,
    now: Annotated[
        bool, typer.Option("--now", help="Check every job now instead of printing the results of the watch's last pass")
    ] = False,
    json: Json = False,
) -> None:
    """List every job: status, lag, newest commit, newest verified backup, and problems."""
    installation = load_read_only()
    index = None if now else read_index(installation.store, installation.id)
    # The last pass may be older than the first deploy.
    if index is None or not index.rows:
        from streamkeeper.operations.fleet.watching import (
            look_now,  # loads every check, and the watch's results need none
        )

        index = look_now(installation, now=clock.unix())
    rows = [row for row in index.rows if not row.forgotten]
    forgotten = ", ".join(row.job for row in index.rows if row.forgotten)
    if json:
        echo_json(to_json([described(row) for row in rows]))
        return
    if rows:
        show_jobs(index, rows, now=clock.unix())
    elif forgotten:
        echo(
            f"every job at {installation.store.url} was forgotten. Deploy one of"
            " them with `--revive`, or deploy a new job"
        )
    else:
        echo(f"no job is registered yet at {installation.store.url}. Deploy a job, or push a release")
    if forgotten:
        echo(f"forgotten: {forgotten}")


def status(
    job: Job,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh the output every two seconds, until Ctrl-C")] = False,
    json: Json = False,
) -> None:
    """Show the current release, the driver's last report, and the operation in progress."""
    installation = load_read_only()
    seen = job_overview(installation, job)
    if json:
        echo_json(to_json(seen))
    elif watch:
        beats, console = BeatWatch(), Console()
        with suppress(KeyboardInterrupt), _screen(console) as show:
            while True:
                show(render_overview(seen, beats.describe(seen, clock.monotonic())))
                clock.sleep(REFRESH_S)
                seen = job_overview(installation, job)
    else:
        Console().print_table(render_overview(seen, f"{seen.status.beat}" if seen.status else ""))


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Yield a function that prints a view. On a terminal, each view replaces the last one; in a pipe it is appended."""
    if not console.is_terminal:
        yield console.print_table
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda picture: live.update(picture, refresh=True)


def old_input(job: Job, *, json: Json = False) -> None:
    """List the input files that Spark never reads because maxFileAge excludes them, one path per line."""
    installation = load_read_only()
    found = list(list_old_input(installation, read_job(installation, job)))
    if json:
        echo_json(to_json(found))
        return
    read = {path: query for source in found for path, query in source.read_by_others.items()}
    for path in sorted({path for source in found for path in source.files or ()}):
        shown = path if path.isprintable() else ascii(path)
        echo(f"{shown}: query {read[path]} has read it" if path in read else shown, err=path in read)
    for source in found:
        if source.files is None:
            echo(f"query {source.query}: {source.place} is not checked: {_NOT_LISTED}", err=True)


def history(
    job: Job,
    *,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Number of newest entries to print. 0 prints all")] = 0,
    json: JsonResult = False,
) -> None:
    """Print a job's journal, oldest entry first, with times in UTC."""
    with reporting("history", job=job, as_json=json) as report:
        installation = load_read_only()
        hidden = literals_of(read_job(installation, job).releases.values())
        journal = installation.journal(job, "reader")
        entries = list(journal.entries())
        shown = entries[-limit:] if limit else entries
        sentences = [one_line(redact(render_record(entry.record), hidden)) for entry in shown]
        ignored = {
            "not a journal entry": [one_line(key) for key in journal.strays()],
            "not a command to a driver": [one_line(key) for key in stray_orders(installation.store, job)],
        }
        report.describe(
            f"{len(shown)} of {len(entries)} entries",
            entries=[
                {
                    "number": entry.number,
                    "at": entry.at,
                    "sentence": sentence,
                    "record": redact_value(entry.record, hidden),
                }
                for entry, sentence in zip(shown, sentences, strict=True)
            ],
            ignored=[key for keys in ignored.values() for key in keys],
        )
        if json:
            return
        console = Console(soft_wrap=True, highlight=False)
        for entry, sentence in zip(shown, sentences, strict=True):
            console.print(Text(f"{entry.number:6}  {entry.at[:19]}  {sentence}"))
        for why, keys in ignored.items():
            for key in keys:
                console.print(Text(f"{why}, ignored: {key}", style="dim"))


class BeatWatch:
    """Measures how long ago a driver's heartbeat number last grew, by this machine's monotonic clock only."""

    def __init__(self) -> None:
        self._last: tuple[str, int, int] | None = None
        self._grew_at = 0.0

    def describe(self, seen: JobOverview, now: float) -> str:
        """Return the heartbeat number, and the time since it last grew, as text; empty if no driver has reported.

        ``now``: the present time of the monotonic clock, in seconds.
        """
        if seen.status is None:
            return ""
        mark = (seen.status.instance, seen.status.generation, seen.status.beat)
        if mark != self._last:
            self._last, self._grew_at = mark, now
        return f"{seen.status.beat}, grew {now - self._grew_at:.0f} s ago"


def render_overview(seen: JobOverview, beat: str) -> RenderableType:
    """Return the status of one job as text and tables; ``beat``: the heartbeat as text."""
    facts = Table.grid(padding=(0, 2))
    for fact in overview_facts(seen, beat=beat):
        facts.add_row(Text(fact.name, style="dim"), Text(visible(fact.text), style=_style(fact, seen.standing)))
    return Group(facts, _queries(seen), _signals(seen)) if seen.status and seen.status.queries else facts


def _queries(seen: JobOverview) -> Table:
    table = Table("query", "checkpoint", "epoch", "batch", "rows", "state rows", "triggers", "error")
    for name, query in sorted((seen.status.queries if seen.status else {}).items()):
        batch = "-" if query.committed is None else str(query.committed)
        numbers = [str(query.epoch), batch, str(query.rows), str(query.state_rows), str(query.triggers)]
        table.add_row(name, query.version, *numbers, Text(one_line(query.error)))
    return table


def _signals(seen: JobOverview) -> Table:
    """Return a table with durations, rates and lag of each query, as the driver measured them for its last batch."""
    table = Table("query", "duration", "trigger", "rows in", "processed", "lag", "checkpoint", "dropped")
    for name, query in sorted((seen.status.queries if seen.status else {}).items()):
        signals = query.signals
        if signals.last_trigger is None:
            continue
        due = f"{signals.trigger_s:g} s" if signals.trigger_s else "as soon as possible"
        behind = tell_span(signals.lag_s) if signals.lag_s is not None else "-"
        rates = (f"{signals.input_rows_per_s:.0f}/s", f"{signals.processed_rows_per_s:.0f}/s")
        table.add_row(
            name,
            f"{signals.batch_s:.1f} s",
            due,
            *rates,
            behind,
            f"{signals.checkpoint_share:.0%}",
            str(signals.dropped_rows),
        )
    return table


def _style(fact: Fact, standing: JobStatus) -> str:
    return STYLES[standing] if fact.name == "status" else _STYLES[fact.tone]
