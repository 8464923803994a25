"""``deploy`` and ``rollback``: carry out the operation in this process, or print what it would do."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pendulum
import typer
from msgspec.structs import replace

from streamkeeper.cli.approving import command_line
from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import INTERRUPTED, JsonResult, Report, reporting
from streamkeeper.cli.common_options import load_installation
from streamkeeper.cli.difference_pages import Diff, DiffTo, page_file, show_differences
from streamkeeper.cli.operation_end import report_end
from streamkeeper.cli.options import takes_request
from streamkeeper.cli.terminal import echo
from streamkeeper.compatibility.differences import find_differences
from streamkeeper.errors import InvalidInput, OperationOpen, OperationRefused
from streamkeeper.lifecycle.approval_steps import ABOUT, ANSWER
from streamkeeper.lifecycle.steps import plan_deploy
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.asked_fields import Verb
from streamkeeper.model.requests.diagnosis import Recovery
from streamkeeper.model.requests.request import DeployRequest, Rollback, StartCurrent
from streamkeeper.operations.deploys.admission import find_same, open_deploy
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen, Progress, ProgressKind
from streamkeeper.operations.deploys.dry_run_installation import leaves_nothing, place_to_try_out
from streamkeeper.operations.deploys.dual_runs import TURN, dual_run_before, never_came
from streamkeeper.operations.deploys.questions import render_question
from streamkeeper.operations.jobs.carriers import note_carrier, this_process
from streamkeeper.operations.jobs.forgetting import told_forgotten
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_versions import released_version
from streamkeeper.system import clock

NoInherit = Annotated[
    bool,
    typer.Option(
        "--no-inherit",
        help="Use only the params and confs given with --params and --conf, and none of the current release",
    ),
]
Open = Annotated[
    OnOpen,
    typer.Option(
        "--on-open",
        help="What to do if another operation of the job is open: refuse (end this command), continue (continue that"
        " operation instead) or abort (end that operation, then run this command)",
    ),
]

_TURN_POLL_S = 2.0
_STEP_WIDTH = max(len(step.label) for step in Step)


@takes_request(Verb.DEPLOY)
def deploy(
    request: DeployRequest,
    *,
    no_inherit: NoInherit = False,
    on_open: Open = OnOpen.REFUSE,
    diff: Diff = False,
    diff_to: DiffTo = "",
    json: JsonResult = False,
) -> None:
    """Deploy the code in the jobs root, or a pushed release. The same command continues an interrupted deploy."""
    if no_inherit or request.release is not None:
        request = replace(request, inherit_params=False, inherit_conf=False)
    _carry_out("deploy", request, on_open, as_json=json, diff=diff, diff_to=diff_to)


def _page_of(*, diff: bool, diff_to: str, dry_run: bool, as_json: bool) -> Path | None:
    """Return the file for the differences, None without one; raises InvalidInput unless this is a dry run."""
    page = page_file("--diff-to", diff_to, ".md", ".html")
    if (diff or page) and not dry_run:
        raise InvalidInput(
            "--diff and --diff-to require --dry-run, because only a dry run finds differences", hint="add --dry-run"
        )
    if as_json and diff:
        raise InvalidInput(
            "--json prints one JSON object, so --diff cannot print too",
            hint="write the differences to a file with --diff-to FILE",
        )
    return page


@takes_request(Verb.ROLLBACK)
def rollback(request: DeployRequest, *, on_open: Open = OnOpen.REFUSE, json: JsonResult = False) -> None:
    """Make an older release of a job current again. With --dry-run, only print what would be read and written again."""
    _carry_out("rollback", request.of_kind(Rollback()), on_open, as_json=json)


def _carry_out(
    command: str, request: DeployRequest, on_open: OnOpen, *, as_json: bool, diff: bool = False, diff_to: str = ""
) -> None:
    """Carry out a request in the name of the caller. The differences are printed before the operation's result."""
    page = _page_of(diff=diff, diff_to=diff_to, dry_run=request.dry_run, as_json=as_json)

    def show_difference(running: Deploy) -> None:
        _show_difference(report, running, shown=diff, file=page)

    with reporting(command, job=request.job, as_json=as_json) as report:
        installation, request = load_installation(begins=True), replace(request, requested_by=caller())
        if leaves_nothing(installation, request):
            operation = new_operation()
            with place_to_try_out(installation, operation, request.job) as place:
                _start_and_finish(report, place, operation, request, on_open, show_difference, stays=False)
            return
        same = find_same(installation, request) if on_open is OnOpen.REFUSE else ""
        if same:
            report.line(f"operation {same} is open and was started by the same command; continuing it")
            finish(report, installation, Deploy.load(installation, request.job, same), show_difference)
            return
        _start_and_finish(report, installation, new_operation(), request, on_open, show_difference)


def _start_and_finish(
    report: Report,
    installation: Installation,
    operation: str,
    asked: DeployRequest,
    on_open: OnOpen,
    on_followed: Callable[[Deploy], None],
    *,
    stays: bool = True,
) -> None:
    before = installation.journal(asked.job, "reader").state()
    # In all other cases a refusal reports that the job was forgotten.
    if (asked.revive or not before.versions) and (warning := told_forgotten(before)):
        report.line(warning)
    try:
        running = open_deploy(installation, operation, asked, on_open=on_open)
    except OperationOpen as error:
        report.result.operation = error.operation
        hint = "add --on-open continue to continue that operation, or --on-open abort to end it first"
        raise OperationRefused(error.message, hint=hint) from None
    state = running.state
    request = state.operations[running.operation].request
    if request.inherited_from and not request.dry_run:
        first = plan_deploy(request, serving=state.predecessor, stopped=state.stopped)[0]
        report.line(f"{first.step.label:{_STEP_WIDTH}} {first.does}")
    finish(report, installation, running, on_followed, stays=stays)


def finish(
    report: Report,
    installation: Installation,
    running: Deploy,
    on_followed: Callable[[Deploy], None] = lambda _: None,
    *,
    stays: bool = True,
) -> None:
    """Carry out an open operation and print each step. Raises DeployFailed unless its outcome is success or DRY_RUN.
    Raises typer.Exit(1) after a dry run whose real run would not go ahead.

    ``report``: prints the progress and collects the result.
    ``installation``: the installation.
    ``running``: the operation.
    ``on_followed``: called with the operation after its last step, before the result is printed.
    ``stays``: whether the operation stays open after Ctrl-C.
    """
    report.result.operation = running.operation
    note_carrier(installation.store, running.job, running.operation, this_process())
    progress = follow_operation(report, running, stays=stays)
    on_followed(running)
    report_end(report, installation, running, progress)


def _show_difference(report: Report, running: Deploy, *, shown: bool, file: Path | None) -> None:
    """Show the differences between the current and the operation's release, if the operation has a release by now."""
    state = running.state
    release = state.operations[running.operation].release
    if not (shown or file) or not release:
        return
    if not state.serving_release:
        report.line(f"{release} is the first release, so there is no other release to compare it with")
        return
    before, after = (
        released_version(running.installation, state, number) for number in (state.serving_release, release)
    )
    title = f"{running.job}: {before.name} -> {after.name}"
    show_differences(title, find_differences(before, after), shown=shown, file=file)


def new_operation() -> str:
    """Return a new id for an operation that is started from the command line."""
    return f"cli-{pendulum.instance(clock.now()):%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"


def follow_operation(report: Report, running: Deploy, *, stays: bool = True) -> Progress:
    """Carry out an operation, print its progress, and return its progress at the end.

    ``stays``: whether the operation stays open after Ctrl-C, which then prints how to continue it.
    """
    last = ""
    asked: Step | None = None

    def echo_line(line: str) -> None:
        nonlocal last
        if line != last:
            report.line(line)
            last = line

    def show(progress: Progress) -> None:
        nonlocal asked
        if progress.kind is ProgressKind.WAITING and progress.on == ANSWER and progress.step is not asked:
            asked, state = progress.step, running.state
            operation = state.operations[running.operation]
            left = timedelta(seconds=max(0.0, operation.request.approve_s - progress.waited_s))
            question = render_question(running.installation, state, operation, until=clock.now() + left, whole=True)
            report.console().print_markdown(question)
        if progress.kind is not ProgressKind.DONE:
            echo_line(f"{progress.step.label:{_STEP_WIDTH}} {progress.sentence}{_asks(running, progress)}")

    try:
        progress = running.run(until=Step.READY, on_progress=show)
        if progress.kind is ProgressKind.DONE:
            _wait_for_turn(running, echo_line)
        return running.run(until=Step.FALL_BACK, on_progress=show)
    except KeyboardInterrupt:
        report.result.outcome = INTERRUPTED
        report.describe(_left_open(running) if stays else "interrupted: the dry run leaves nothing behind")
        echo(f"\n{report.result.message}", err=True)
        raise typer.Exit(130) from None


def _left_open(running: Deploy) -> str:
    request, job = running.state.operations[running.operation].request, running.job
    back = isinstance(request.kind, Rollback)
    verb = f"{'rollback' if back else 'deploy'} {job} --on-open"
    match request.kind:
        case StartCurrent():
            resume = f"start {job}"
        case Recovery() as recovery:
            resume = f"recover {job} --action {recovery.asked_for.value}"
        case _:
            resume = f"{verb} continue"
    is_open = f"interrupted: operation {running.operation} of job {job} stays open"
    then = "then roll back" if back else "then deploy"
    abort = f"To end it and {then}, run `streamkeeper {verb} abort`"
    return f"{is_open}. To continue it, run `streamkeeper {resume}`. {abort}"


def _asks(running: Deploy, progress: Progress) -> str:
    """Return a hint with the command that answers if the operation waits for a person, else ""."""
    if progress.kind is not ProgressKind.WAITING or progress.on != ANSWER:
        return ""
    return f". Answer with `{command_line(running.job, running.operation, ABOUT[progress.step])}`, or decline"


def _wait_for_turn(running: Deploy, log: Callable[[str], None]) -> None:
    """Wait until no other dual run is in progress, because only one runs at a time.

    Abort this operation if it waits longer than its ``catch_up_s``.
    """
    limit_s, since = running.state.operations[running.operation].request.catch_up_s, clock.monotonic()
    while (before := dual_run_before(running.installation, running.job, running.operation)) is not None:
        if clock.monotonic() - since > limit_s:
            running.abort(requested_by=caller(), reason=never_came(before, limit_s))
            return
        log(f"{Step.SHADOW.label:{_STEP_WIDTH}} waiting for {TURN} to end: {before.sentence}")
        clock.sleep(_TURN_POLL_S)
