"""``deploy`` and ``rollback``: what one would do, and doing it from here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import pendulum
import typer
from msgspec.structs import replace
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from streamkeeper.cli.approving import command_line
from streamkeeper.cli.caller import caller
from streamkeeper.cli.difference_pages import Diff, DiffTo, page_file, show_differences
from streamkeeper.cli.given import Conf, Job, open_site, read_conf, read_params
from streamkeeper.cli.options import asked
from streamkeeper.cli.terminal import Console, echo
from streamkeeper.compatibility.differences import find_differences
from streamkeeper.compatibility.report import render_text
from streamkeeper.errors import DeployFailed, InvalidInput
from streamkeeper.lifecycle.approval import ANSWER
from streamkeeper.lifecycle.steps import PlannedStep, plan_deploy
from streamkeeper.model.journal import Outcome
from streamkeeper.model.request import ROLLBACK, DeployRequest, Handover, Strategy
from streamkeeper.model.step import Step
from streamkeeper.operations.admission import find_same, open_deploy
from streamkeeper.operations.carriers import note_carrier, this_process
from streamkeeper.operations.deploy import Deploy, OnOpen, Progress, ProgressKind
from streamkeeper.operations.dual_runs import TURN, dual_run_before, never_came
from streamkeeper.operations.forgetting import told_forgotten
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.job_versions import released_version
from streamkeeper.operations.questions import render_question
from streamkeeper.operations.trying_out import leaves_nothing, place_to_try_out
from streamkeeper.registry.objects import read_assessment

Release = Annotated[str | None, asked("release", metavar="r0007")]
Older = Annotated[str | None, asked("release", metavar="r0003", help=ROLLBACK["release"])]
Kept = Annotated[str | None, asked("params", metavar="JSON")]
NoInherit = Annotated[
    bool, typer.Option("--no-inherit", help="Without --params or --conf: none, not those of the serving release")
]
How = Annotated[Strategy, asked("strategy")]
Warmth = Annotated[Handover, asked("handover")]
Reason = Annotated[str, asked("reason")]
DryRun = Annotated[bool, asked("dry_run")]
DryRollback = Annotated[bool, asked("dry_run", help=ROLLBACK["dry_run"])]
StateLoss = Annotated[bool, asked("accept_state_loss")]
OutputLoss = Annotated[bool, asked("accept_output_loss")]
Risk = Annotated[bool, asked("accept_risk")]
Loss = Annotated[bool, asked("accept_loss")]
Revive = Annotated[bool, asked("revive")]
Compare = Annotated[bool, asked("compare")]
Missing = Annotated[float, asked("most_missing")]
Differing = Annotated[float, asked("most_differing")]
Expected = Annotated[list[str] | None, asked("expect_different", metavar="COLUMN")]
DrainS = Annotated[float, asked("drain_s")]
StandbyS = Annotated[float, asked("standby_s")]
FirstCommitS = Annotated[float, asked("first_commit_s")]
ApproveS = Annotated[float, asked("approve_s")]
CatchUpS = Annotated[float, asked("catch_up_s")]
Batches = Annotated[int, asked("probation_batches")]
ProbationS = Annotated[float, asked("probation_s")]
Open = Annotated[OnOpen, typer.Option("--on-open", help="What to do about an operation that is open")]

_USUAL = DeployRequest(job="any")
_TURN_POLL_S = 2.0
_STEP_WIDTH = max(len(step.label) for step in Step)


def deploy(
    job: Job,
    *,
    release: Release = None,
    params: Kept = None,
    conf: Conf = None,
    no_inherit: NoInherit = False,
    strategy: How = _USUAL.strategy,
    handover: Warmth = _USUAL.handover,
    reason: Reason = "",
    dry_run: DryRun = False,
    accept_state_loss: StateLoss = False,
    accept_output_loss: OutputLoss = False,
    accept_risk: Risk = False,
    revive: Revive = False,
    compare: Compare = _USUAL.compare,
    most_missing: Missing = _USUAL.most_missing,
    most_differing: Differing = _USUAL.most_differing,
    expect_different: Expected = None,
    drain_s: DrainS = _USUAL.drain_s,
    standby_s: StandbyS = _USUAL.standby_s,
    first_commit_s: FirstCommitS = _USUAL.first_commit_s,
    approve_s: ApproveS = _USUAL.approve_s,
    catch_up_s: CatchUpS = _USUAL.catch_up_s,
    probation_batches: Batches = _USUAL.probation_batches,
    probation_s: ProbationS = _USUAL.probation_s,
    on_open: Open = OnOpen.REFUSE,
    diff: Diff = False,
    diff_to: DiffTo = "",
) -> None:
    """Deploy a job: the code under the jobs root, or a pushed release. Typed again, it goes on where it stopped."""
    page = _page_of(diff=diff, diff_to=diff_to, dry_run=dry_run)
    request = DeployRequest(
        job=job,
        release=release,
        params=read_params("{}" if params is None else params),
        conf=read_conf(conf),
        inherit_params=release is None and not no_inherit and params is None,
        inherit_conf=release is None and not no_inherit and not conf,
        strategy=strategy,
        handover=handover,
        dry_run=dry_run,
        reason=reason,
        drain_s=drain_s,
        standby_s=standby_s,
        first_commit_s=first_commit_s,
        accept_state_loss=accept_state_loss,
        accept_output_loss=accept_output_loss,
        accept_risk=accept_risk,
        revive=revive,
        approve_s=approve_s,
        catch_up_s=catch_up_s,
        compare=compare,
        most_missing=most_missing,
        most_differing=most_differing,
        expect_different=tuple(expect_different or ()),
        probation_batches=probation_batches,
        probation_s=probation_s,
    )
    _carry_out(request, on_open, lambda running: _show_difference(running, shown=diff, file=page))


def _page_of(*, diff: bool, diff_to: str, dry_run: bool) -> Path | None:
    """Where differences are to be written; raises InvalidInput without a dry run that finds them."""
    page = page_file("--diff-to", diff_to, ".md", ".html")
    if (diff or page) and not dry_run:
        raise InvalidInput("--diff shows what a dry run has found", hint="--dry-run --diff")
    return page


def rollback(
    job: Job,
    *,
    release: Older = None,
    reason: Reason,
    handover: Warmth = _USUAL.handover,
    dry_run: DryRollback = False,
    accept_risk: Risk = False,
    accept_loss: Loss = False,
    drain_s: DrainS = _USUAL.drain_s,
    standby_s: StandbyS = _USUAL.standby_s,
    first_commit_s: FirstCommitS = _USUAL.first_commit_s,
    probation_batches: Batches = _USUAL.probation_batches,
    probation_s: ProbationS = _USUAL.probation_s,
    on_open: Open = OnOpen.REFUSE,
) -> None:
    """Let an older release serve again; --dry-run says before what would be read and written again."""
    request = DeployRequest(
        job=job,
        release=release,
        rollback=True,
        handover=handover,
        dry_run=dry_run,
        reason=reason,
        drain_s=drain_s,
        standby_s=standby_s,
        first_commit_s=first_commit_s,
        accept_risk=accept_risk,
        accept_loss=accept_loss,
        probation_batches=probation_batches,
        probation_s=probation_s,
    )
    _carry_out(request, on_open)


def _carry_out(request: DeployRequest, on_open: OnOpen, on_followed: Callable[[Deploy], None] = lambda _: None) -> None:
    """As asked for by whoever runs this; ``on_followed``: called before the end is told."""
    site, request = open_site(begins=True), replace(request, requested_by=caller())
    if leaves_nothing(site, request):
        operation = new_operation()
        with place_to_try_out(site, operation, request.job) as place:
            _start_and_finish(place, operation, request, on_open, on_followed, stays=False)
        return
    same = find_same(site, request) if on_open is OnOpen.REFUSE else ""
    if same:
        echo(f"operation {same} is open and was asked for in the same words: carrying it on")
        finish(site, Deploy.load(site, request.job, same), on_followed)
        return
    _start_and_finish(site, new_operation(), request, on_open, on_followed)


def _start_and_finish(
    site: Installation,
    operation: str,
    asked: DeployRequest,
    on_open: OnOpen,
    on_followed: Callable[[Deploy], None],
    *,
    stays: bool = True,
) -> None:
    before = site.journal(asked.job, "reader").state()
    # Else the refusal says it.
    if (asked.revive or not before.versions) and (told := told_forgotten(before)):
        echo(told)
    running = open_deploy(site, operation, asked, on_open=on_open)
    state = running.state
    request = state.operations[running.operation].request
    steps = plan_deploy(replace(request, dry_run=False), serving=state.predecessor, stopped=state.stopped)
    if request.dry_run:
        Console().print(render_plan(steps))
    elif request.inherited_from:
        echo(f"{steps[0].step.label:{_STEP_WIDTH}} {steps[0].does}")
    finish(site, running, on_followed, stays=stays)


def finish(
    site: Installation, running: Deploy, on_followed: Callable[[Deploy], None] = lambda _: None, *, stays: bool = True
) -> None:
    """Carry an open operation on to its end, telling each step; raises DeployFailed when it does not serve.

    ``stays``: whether there is anything to carry on after Ctrl-C.
    """
    note_carrier(site.store, running.job, running.operation, this_process())
    progress = follow_operation(running, stays=stays)
    on_followed(running)
    tell_end(site, running, progress)


def _show_difference(running: Deploy, *, shown: bool, file: Path | None) -> None:
    """Between what serves and the release that the operation was about, as far as it came to have one."""
    state = running.state
    release = state.operations[running.operation].release
    if not (shown or file) or not release:
        return
    if not state.serving_release:
        echo(f"{release} is the first release: there is nothing that it differs from")
        return
    before, after = (released_version(running.site, state, number) for number in (state.serving_release, release))
    title = f"{running.job}: {before.name} -> {after.name}"
    show_differences(title, find_differences(before, after), shown=shown, file=file)


def new_operation() -> str:
    """A name for an operation started from the command line."""
    return f"cli-{pendulum.now('UTC'):%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"


def render_plan(steps: tuple[PlannedStep, ...]) -> Table:
    """The steps that a deploy carries out, in their order."""
    table = Table("step", "does", "deadline", "otherwise")
    for step in steps:
        table.add_row(step.step.label, step.does, f"{step.deadline_s:g} s", step.otherwise)
    return table


def follow_operation(running: Deploy, *, stays: bool = True) -> Progress:
    """Carry an operation to its end and say how far it is; Ctrl-C leaves it open and says how to go on."""
    console, last = Console(soft_wrap=True, highlight=False), ""
    asked: Step | None = None

    def say(line: str) -> None:
        nonlocal last
        if line != last:
            console.print(Text(line))
            last = line

    def show(progress: Progress) -> None:
        nonlocal asked
        if progress.kind is ProgressKind.WAITING and progress.on == ANSWER and progress.step is not asked:
            asked, state = progress.step, running.state
            operation = state.operations[running.operation]
            left = timedelta(seconds=max(0.0, operation.request.approve_s - progress.waited_s))
            question = render_question(running.site, state, operation, until=datetime.now(UTC) + left, whole=True)
            console.print(Markdown(question))
        if progress.kind is not ProgressKind.DONE:
            say(f"{progress.step.label:{_STEP_WIDTH}} {progress.sentence}{_asks(running, progress)}")

    try:
        progress = running.run(until=Step.READY, on_progress=show)
        if progress.kind is ProgressKind.DONE:
            _wait_for_turn(running, say)
        return running.run(until=Step.FALL_BACK, on_progress=show)
    except KeyboardInterrupt:
        echo(f"\nstopped looking: {_left_open(running) if stays else 'nothing is left of it'}", err=True)
        raise typer.Exit(130) from None


def _left_open(running: Deploy) -> str:
    request, job = running.state.operations[running.operation].request, running.job
    verb = f"{'rollback' if request.rollback else 'deploy'} {job} --on-open"
    go_on = f"start {job}" if request.start else f"{verb} continue"
    is_open = f"operation {running.operation} of job {job} stays open"
    return f"{is_open}. Carry it on: streamkeeper {go_on}; end it: streamkeeper {verb} abort"


def _asks(running: Deploy, progress: Progress) -> str:
    """How to answer, while a person is asked."""
    waiting = progress.kind is ProgressKind.WAITING and progress.on == ANSWER
    return f": {command_line(running.job, running.operation)} (or decline)" if waiting else ""


def _wait_for_turn(running: Deploy, say: Callable[[str], None]) -> None:
    """One dual run at a time; an operation that waits longer than it may take to catch up is ended."""
    limit_s, since = running.state.operations[running.operation].request.catch_up_s, time.monotonic()
    while (before := dual_run_before(running.site, running.job, running.operation)) is not None:
        if time.monotonic() - since > limit_s:
            running.abort(requested_by=caller(), reason=never_came(before, limit_s))
            return
        say(f"{Step.SHADOW.label:{_STEP_WIDTH}} waiting for {TURN} to end: {before.sentence}")
        time.sleep(_TURN_POLL_S)


def tell_end(site: Installation, running: Deploy, progress: Progress) -> None:
    """Say how it ended; raises DeployFailed when the asked release does not serve."""
    state = running.state
    operation = state.operations[running.operation]
    if operation.report:
        assessment = read_assessment(site.store, running.job, operation.report)
        _print_findings(render_text(assessment, decision=operation.verdict_sentence, ways=operation.ways))
    match progress.outcome:
        case Outcome.SUCCEEDED:
            return
        case Outcome.DRY_RUN:
            if operation.refusal or not operation.ways:
                raise typer.Exit(1)
        case _:
            serves = f"{state.serving_release} is the serving release" if state.serving_release else "nothing serves"
            raise DeployFailed(f"job {running.job}: {progress.sentence}", hint=serves)


def _print_findings(text: str) -> None:
    Console(soft_wrap=True, highlight=False).print(f"verdict: {text}", markup=False, end="")
