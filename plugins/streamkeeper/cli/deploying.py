"""``deploy``: what a deploy would do, and doing it from here."""

from __future__ import annotations

import getpass
import secrets
from typing import Annotated

import msgspec
import pendulum
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamkeeper.cli.given import Conf, Job, Params, open_site, read_conf, read_params
from streamkeeper.errors import DeployFailed
from streamkeeper.lifecycle.steps import PlannedStep, Step, plan_deploy
from streamkeeper.model.coding import from_json
from streamkeeper.model.finding import Assessment, Verdict
from streamkeeper.model.journal import DeployRequest, Handover, Outcome
from streamkeeper.operations.deploy import Deploy, OnOpen, Progress
from streamkeeper.operations.sites import Site
from streamkeeper.registry.objects import read_object

Release = Annotated[str | None, typer.Option("--release", metavar="r0007", help="A pushed release, else the code")]
Warmth = Annotated[Handover, typer.Option("--handover", help="cold: where there is no room for two drivers")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the journal")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the steps and the verdict; what serves goes on")]
DrainS = Annotated[float, typer.Option("--drain-s", min=1, help="Past this a draining driver is killed")]
StandbyS = Annotated[float, typer.Option("--standby-s", min=1, help="Past this a candidate is given up")]
FirstCommitS = Annotated[float, typer.Option("--first-commit-s", min=1, help="Past this the old release goes again")]
Open = Annotated[OnOpen, typer.Option("--on-open", help="What to do about an operation that is open")]

_USUAL = DeployRequest(job="any")


def deploy(
    job: Job,
    *,
    release: Release = None,
    params: Params = "{}",
    conf: Conf = None,
    handover: Warmth = Handover.WARM,
    reason: Reason = "",
    dry_run: DryRun = False,
    drain_s: DrainS = _USUAL.drain_s,
    standby_s: StandbyS = _USUAL.standby_s,
    first_commit_s: FirstCommitS = _USUAL.first_commit_s,
    on_open: Open = OnOpen.REFUSE,
) -> None:
    """Deploy a job: the code under the jobs root, or a pushed release."""
    site = open_site()
    request = DeployRequest(
        job=job,
        release=release,
        params=read_params(params),
        conf=read_conf(conf),
        handover=handover,
        dry_run=dry_run,
        reason=reason,
        requested_by=f"cli:{getpass.getuser()}",
        drain_s=drain_s,
        standby_s=standby_s,
        first_commit_s=first_commit_s,
    )
    if dry_run:
        serving = site.journal(job, "reader").state().serving_release
        real = msgspec.structs.replace(request, dry_run=False)
        Console().print(render_plan(plan_deploy(real, serving=serving)))
    running = Deploy.open(site, new_operation(), request, on_open=on_open)
    progress = _run(running)
    _tell_end(site, running, progress)


def new_operation() -> str:
    """A name for an operation started from the command line."""
    return f"cli-{pendulum.now('UTC'):%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"


def render_plan(steps: tuple[PlannedStep, ...]) -> Table:
    """The steps that a deploy carries out, in their order."""
    table = Table("step", "does", "deadline", "otherwise")
    for each in steps:
        table.add_row(each.step.label, each.does, f"{each.deadline_s:g} s", each.otherwise)
    return table


def _run(running: Deploy) -> Progress:
    console, last = Console(soft_wrap=True, highlight=False), ""

    def show(progress: Progress) -> None:
        nonlocal last
        line = f"{progress.step.label:13} {progress.sentence}"
        if line != last:
            console.print(Text(line))
            last = line

    try:
        return running.run(until=Step.FALL_BACK, on_progress=show)
    except KeyboardInterrupt:
        typer.echo(
            f"\nstopped looking: operation {running.operation} of job {running.job} stays open. Carry it on: "
            f"streamkeeper deploy {running.job} --on-open continue; end it: … --on-open abort",
            err=True,
        )
        raise typer.Exit(130) from None


def _tell_end(site: Site, running: Deploy, progress: Progress) -> None:
    """Say how it ended; raises DeployFailed when the asked release does not serve."""
    state = running.state
    operation = state.operations[running.operation]
    if operation.report:
        report = read_object(site.store, running.job, "reports", operation.report, ".json")
        _print_findings(from_json(report, Assessment, where=f"report {operation.report}"))
    match progress.outcome:
        case Outcome.SUCCEEDED:
            return
        case Outcome.DRY_RUN:
            if operation.verdict is not Verdict.RESUME:
                raise typer.Exit(1)
        case _:
            serves = f"{state.serving_release} is the serving release" if state.serving_release else "nothing serves"
            raise DeployFailed(f"job {running.job}: {progress.sentence}", hint=serves)


def _print_findings(assessment: Assessment) -> None:
    table = Table("query", "verdict", "finding", "where", "evidence", "way out")
    for name, query in sorted(assessment.queries.items()):
        table.add_row(name, query.verdict.name)
        for each in query.findings:
            table.add_row("", each.severity.value, each.rule, each.where, Text(each.evidence), Text(each.hint))
    Console().print(f"verdict: {assessment.verdict.name}")
    Console().print(table)
