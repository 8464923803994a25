"""``stop``, ``start``, ``forget``, ``state-dead`` and ``logs``: commands about the driver of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import INTERRUPTED, JsonResult, reporting
from streamkeeper.cli.common_options import Job, load_installation, load_read_only
from streamkeeper.cli.deploying import finish, new_operation
from streamkeeper.cli.options import asked, takes_request
from streamkeeper.cli.terminal import echo
from streamkeeper.errors import NotFound
from streamkeeper.model.requests.asked_fields import Verb
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deaths import state_death
from streamkeeper.operations.deploys.deploy import OnOpen
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.stopping import stop_job
from streamkeeper.operations.jobs.driver_logs import find_log, shown_lines
from streamkeeper.operations.jobs.forgetting import forget_job
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.log_reading import Follower, last_lines
from streamkeeper.system import clock

Reason = Annotated[str, asked("reason")]

_FOLLOW_S = 0.5
_EXIT_LOOK_S = 2.0


@takes_request(Verb.STOP)
def stop(request: DeployRequest, *, json: JsonResult = False) -> None:
    """Stop the driver of a job between two batches. The job stays stopped until a person starts, deploys or rolls it
    back.
    """
    job = request.job
    with reporting("stop", job=job, as_json=json) as report:
        try:
            ended = stop_job(
                load_installation(),
                job,
                requested_by=caller(),
                reason=request.reason,
                operation=new_operation(),
                drain_s=request.drain_s,
                log=report.line,
            )
        except KeyboardInterrupt:
            report.result.outcome = INTERRUPTED
            report.describe(
                f"interrupted: job {job} is recorded as stopped, but its driver may still run."
                f" To continue, run `streamkeeper stop {job} --reason …`"
            )
            echo(f"\n{report.result.message}", err=True)
            raise typer.Exit(130) from None
        sentence = f"{ended.sentence}; nothing to do" if ended.already else ended.sentence
        report.end(sentence, already=ended.already, instance=ended.instance)


@takes_request(Verb.START)
def start(request: DeployRequest, *, json: JsonResult = False) -> None:
    """Start the current release of a job that has no running driver. The release resumes from its checkpoints."""
    job = request.job
    with reporting("start", job=job, as_json=json) as report:
        installation = load_installation()
        running = open_start(
            installation,
            job,
            requested_by=caller(),
            reason=request.reason,
            operation=new_operation(),
            on_open=OnOpen.CONTINUE,
        )
        if running is None:
            report.end(f"job {job} is running already")
            return
        finish(report, installation, running)


def forget(job: Job, *, reason: Reason, json: JsonResult = False) -> None:
    """Retire a stopped job, which is then no longer listed, watched or backed up. Its checkpoints, snapshots, outputs
    and records stay."""
    with reporting("forget", job=job, as_json=json) as report:
        lines = list(forget_job(load_installation(), job, requested_by=caller(), reason=reason))
        report.describe(lines[0] if lines else "", lines=lines)
        for line in () if json else lines:
            echo(line)


def state_dead(
    job: Job,
    instance: Annotated[
        str,
        typer.Argument(
            metavar="INSTANCE", help="Id of the driver that has terminated, as `streamkeeper status` prints it"
        ),
    ],
    *,
    reason: Reason,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="Record the statement that the driver has terminated. Without this option, only the risks of the"
            " statement are printed",
        ),
    ] = False,
) -> None:
    """State that a driver has terminated, if its machine will not come back and its termination cannot be proven. A
    copy of its checkpoints can then be restored."""
    for line in state_death(load_installation(), job, instance, by=caller(), reason=reason, accept=accept):
        echo(line)
    if not accept:
        echo("nothing is recorded. Add --accept once you are certain that the driver has terminated")
        raise typer.Exit(1)
    echo(f"recorded: the termination of {instance} is stated, not proven. Next, run `streamkeeper recover {job}`")


def logs(
    job: Job,
    *,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Also print new lines of the log, until Ctrl-C or the end of the driver"),
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines of the log to print")] = 100,
    instance: Annotated[
        str, typer.Option("--instance", help="Id of the driver whose log to print. Without it, the current driver")
    ] = "",
) -> None:
    """Print the log of a job's driver, with secrets masked."""
    installation = load_read_only()
    place = find_log(installation, job, instance)
    if place.elsewhere:
        raise NotFound(place.elsewhere)
    path = Path(place.path)
    last, offset = last_lines(path, lines)
    shown = shown_lines(installation, job)
    for line in last:
        echo(shown(line))
    if not follow:
        return
    follower = Follower(path, offset)
    try:
        _follow(installation, job, place.instance, follower, shown)
    except KeyboardInterrupt:
        return
    finally:
        follower.close()


def _follow(
    installation: Installation, job: str, instance: str, follower: Follower, shown: Callable[[str], str]
) -> None:
    control, looked, ended = Control(installation.store, job, instance), 0.0, False
    while True:
        end_reported = False
        for line in follower.read():
            echo(shown(line))
            end_reported = True
        if ended and not end_reported:
            return
        if not end_reported and clock.monotonic() - looked > _EXIT_LOOK_S:
            # Once the exit is recorded, the log is complete: one more read prints the rest.
            ended, looked = control.read_exit() is not None, clock.monotonic()
            continue
        clock.sleep(_FOLLOW_S)
