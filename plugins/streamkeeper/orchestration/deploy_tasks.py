"""The tasks of a deploy and of a rollback.

Each task reads the operation from the journal, carries out the steps that are possible now, and is deferred while it
waits. The journal has all state of the operation, so that a task that was killed, retried or cleared continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import Asset

from streamkeeper.errors import DeployFailed, NotFound, OperationRefused, StreamkeeperError
from streamkeeper.lifecycle.steps import path, plan_assessed
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import Deployment, RequestKind, Rollback
from streamkeeper.orchestration.branching import BranchOperator
from streamkeeper.orchestration.form import deploy_form, read_request, rollback_form
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.tasks import OpeningTask, OperationTask, load_installation
from streamkeeper.orchestration.triggers import StepTrigger
from streamkeeper.orchestration.watch import OperationWatch, Sight
from streamkeeper.system import clock

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.model.records.operation import OperationState
    from streamkeeper.operations.deploys.deploy import Deploy, Progress

_PATIENCE_S = 2.0
"""Seconds that a task waits before it defers. A shorter wait is not worth a deferral, which takes longer than that."""
SHORT_WAIT_S = 10.0
"""The same for steps that a healthy driver finishes within seconds: resuming takes as long, and may cost a retry."""
LOOK_AGAIN_S = 20.0
"""Seconds between checks of the driver's processes, because a driver may die without a report in the store."""
OPERATIONS = Asset(name="streamkeeper_operations", uri="streamkeeper://operations")
"""The asset that every run of a deploy, a rollback or a recovery updates; its event has the outcome."""
GOOD = frozenset({"succeeded", "dry-run"})
"""The outcomes of an operation that did what was requested."""


class BundleOperator(OpeningTask):
    """Starts the operation and creates its release, or finds both if they exist already."""

    form = staticmethod(deploy_form)
    kind: RequestKind = Deployment()
    step = Step.BUNDLE

    def work(self, context: Context) -> str:
        """Return a sentence about the progress. Raises the errors of ``open_deploy``; nothing is recorded then."""
        from streamkeeper.operations.deploys.admission import open_deploy
        from streamkeeper.operations.deploys.deploy import OnOpen
        from streamkeeper.operations.deploys.dry_run_installation import leaves_nothing, place_name, place_of
        from streamkeeper.operations.jobs.forgetting import told_forgotten

        asked, operation, installation = self.asked(context), self.own_operation(context), load_installation()
        request = read_request(asked, requested_by=triggered_by(context), kind=self.kind)
        on_open = OnOpen(asked["on_open"])
        if nowhere := leaves_nothing(installation, request):
            installation = place_of(installation, operation)
            context["ti"].xcom_push(key="tried_out", value=place_name(operation))
        if warning := told_forgotten(installation.journal(request.job, "reader").state()):
            self.log.info("%s", warning)
        deploy = open_deploy(installation, operation, request, on_open=on_open)
        self._opened(context, deploy, deploy.plan())
        if nowhere:
            self.shows("")
        return begin(deploy)


class RollBackOperator(BundleOperator):
    """Starts a rollback to an older release, in the same way as ``BundleOperator`` starts a deploy."""

    form = staticmethod(rollback_form)
    kind = Rollback()


class StepOperator(OperationTask):
    """Carries out the operation up to the end of one step, and is deferred while it waits.

    Skipped if the verdict does not need the step.
    """

    accepted = GOOD
    look_s = 0.0
    """Pause between two observations while the task is not deferred, seconds; 0 for the operation's default pause."""
    look_again_s = LOOK_AGAIN_S

    def __init__(self, *, step: Step, patience_s: float = _PATIENCE_S, **kwargs: Any) -> None:
        """Create the task. ``step``: the step; ``patience_s``: how long to wait without deferring, in seconds."""
        super().__init__(**kwargs)
        self.step = step
        self.patience_s = patience_s

    def work(self, context: Context) -> str:
        """Return a sentence about the progress; raises DeployFailed if the operation cannot continue."""
        return self._advance(context, on="", waited_s=0.0, logged="")

    def look_again(self, context: Context, event: dict[str, Any], on: str, waited_s: float, told: str = "") -> str:
        """Continue after the trigger has fired. ``on``: what the operation waits for; ``waited_s``: for how long so
        far, seconds; ``told``: the line that was logged last."""
        # On SQLite a trigger can get the id of an ended one, and its late event: the state is read, not the event.
        waited_s += float(event.get("waited_s", 0.0))
        return str(self._told(context, lambda: self._advance(context, on=on, waited_s=waited_s, logged=told)))

    def _advance(self, context: Context, *, on: str, waited_s: float, logged: str) -> str:
        from streamkeeper.operations.deploys.deploy import POLL_S, ProgressKind

        deploy = self.load(on=on, waited_s=waited_s)
        self._skip_unless_asked_for(deploy)
        watch = self._watch(deploy)
        began = clock.monotonic()
        while True:
            # Observed before advancing, so that a change in between resumes the task at once.
            sight = watch.look()
            progress = deploy.advance(self.step)
            if progress.kind is not ProgressKind.WAITING or self._is_far_enough(progress):
                self.log.info("%s: %s", progress.step.label, progress.sentence)
                if progress.kind is ProgressKind.FALLING_BACK:
                    _go_ahead(deploy, Step.FALL_BACK)
                return self._accept(progress)
            logged = self._tell(f"waiting for {progress.on}: {progress.sentence}", logged)
            if clock.monotonic() - began > self._patience_s(sight, waited_s):
                break
            clock.sleep(self.look_s or POLL_S)
        self._defer(deploy, progress, sight, logged)
        return ""

    def _tell(self, line: str, logged: str) -> str:
        """Log the line unless it equals ``logged``, the last logged line; return it."""
        if line != logged:
            self.log.info("%s", line)
        return line

    def _accept(self, progress: Progress) -> str:
        return progress.sentence if self._is_far_enough(progress) else accept(progress, self.accepted)

    def _is_far_enough(self, progress: Progress) -> bool:
        """Whether the operation waits for something that another task handles, so that this task is done."""
        return False

    def _patience_s(self, sight: Sight, waited_s: float) -> float:
        """Return how long to wait without deferring, seconds, given the observation and the time waited so far."""
        return self.patience_s

    def asleep_s(self, progress: Progress) -> float:
        """Return the longest deferral in seconds: ``look_again_s``, or less if the wait has an earlier deadline."""
        limit_s = progress.deadline_s or self.look_again_s
        return min(self.look_again_s, max(1.0, limit_s - progress.waited_s + 0.2))

    def _skip_unless_asked_for(self, deploy: Deploy) -> None:
        operation = deploy.state.operations[deploy.operation]
        over = operation.outcome is not None or operation.fall_back
        on_path = self.step is Step.FALL_BACK or self.step in path(operation)
        if operation.verdict is not None and not over and not on_path:
            self._skip(f"this operation does not need {self.step.label}")

    def _watch(self, deploy: Deploy) -> OperationWatch:
        journal = deploy.installation.journal(deploy.job, f"task:{deploy.operation}")
        return OperationWatch(deploy.installation.store, journal, deploy.job, deploy.operation, self.step)

    def _defer(self, deploy: Deploy, progress: Progress, sight: Sight, logged: str) -> None:
        at_most_s = self.asleep_s(progress)
        trigger = StepTrigger(
            job=deploy.job,
            operation=deploy.operation,
            step=self.step.name,
            sight=sight,
            at_most_s=at_most_s,
            store=deploy.installation.settings.store if self.tried_out else "",
        )
        self.defer(
            trigger=trigger,
            method_name="look_again",
            kwargs={"on": progress.on, "waited_s": progress.waited_s, "told": logged},
            timeout=timedelta(seconds=at_most_s * 3 + 60),
        )


class AssessOperator(StepOperator):
    """Assesses the candidate and reports the findings. The next task, a branch, handles a verdict that ends the
    deploy."""

    reports = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.ASSESS, **kwargs)

    def work(self, context: Context) -> str:
        """Return the verdict as a sentence."""
        from streamkeeper.operations.deploys.questions import render_assessment

        deploy = self.load()
        progress = deploy.advance(self.step)
        operation = deploy.state.operations[deploy.operation]
        if operation.verdict is None:
            return accept(progress)
        report = render_assessment(deploy.installation.store, deploy.job, operation)
        self.log.info("the assessment\n%s", report)
        context["ti"].xcom_push(key="report", value=report)
        if operation.request.dry_run and operation.transitions and not operation.refusal:
            state = deploy.state
            self.log.info("a deploy would take these steps:")
            self.log_steps(plan_assessed(operation, serving=state.predecessor, stopped=state.stopped))
        return operation.verdict_sentence


class HandoverOperator(OperationTask):
    """Drains the current driver, proves its termination, and starts the candidate. One task does all this
    without deferring, to keep the time short in which no driver writes the output."""

    step = Step.GO

    def work(self, context: Context) -> str:
        """Return a sentence about the progress; raises DeployFailed if the operation cannot continue."""
        shown: list[str] = []

        def show(progress: Progress) -> None:
            line = f"{progress.step.label}: {progress.sentence}"
            if line not in shown[-1:]:
                shown.append(line)
                self.log.info("%s", line)

        return accept(self.load().run(self.step, on_progress=show))


class ChooseOperator(OperationTask, BranchOperator):
    """Chooses the branch that the verdict needs; the arguments are those of ``choose_group``."""

    def __init__(self, *, branches: Mapping[Step, str], go_on: str, end: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.branches, self.go_on, self.end = dict(branches), go_on, end

    def work(self, context: Context) -> Any:
        """Skip the branches that are not taken, and return the id of the taken task or task group."""
        return self.do_branch(context, self.choose_branch(context))

    def choose_branch(self, context: Context) -> str:
        """Return the id of the task or task group that the operation needs next."""
        deploy = self.load()
        operation = deploy.state.operations[deploy.operation]
        self.log.info("%s", operation.fall_back or operation.verdict_sentence)
        return choose_group(operation, self.branches, go_on=self.go_on, end=self.end)


def choose_group(operation: OperationState, branches: Mapping[Step, str], *, go_on: str, end: str) -> str:
    """Return the id of the task group or task that an assessed operation needs next.

    ``branches``: step -> task group; the group of the first step that the operation needs is returned. ``go_on``: the
    group to return if the operation needs none of these steps. ``end``: the task to return for an operation that has
    ended or is rolled back.
    """
    if operation.fall_back or operation.outcome is not None:
        return end
    steps = path(operation)
    return next((group for step, group in branches.items() if step in steps), go_on)


class FallBackOperator(StepOperator):
    """Rolls back automatically if the operation has affected the current driver.

    The rollback is complete when a release runs, or when no release can run. This task succeeds if the old release runs
    again although the operation has failed, because the task ``finish`` sets the state of the run.
    """

    accepted = GOOD | {"fell-back", "refused", "aborted"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, **kwargs)

    def work(self, context: Context) -> str:
        """Return the result as a sentence; skipped if the operation has not affected the current release."""
        try:
            deploy = self.load()
        except NotFound as error:
            self._skip(error.message)
        if not deploy.state.operations[deploy.operation].has_begun(Step.DRAIN):
            self._skip(f"operation {deploy.operation} has not affected the current release")
        return super().work(context)


class FinishOperator(StepOperator):
    """Terminates the drivers of a refused deploy or a dry run, and gives the run the outcome of the operation.

    ``outlets``: further assets that a successful operation updates.
    """

    ends = True

    def __init__(self, *, outlets: Iterable[Asset] = (), **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, outlets=[OPERATIONS, *outlets], **kwargs)

    def work(self, context: Context) -> str:
        """Return the operation's result as a sentence; raises DeployFailed with that sentence unless the operation
        succeeded. Skipped if every task before it was skipped, because the DAG then requested no operation.
        """
        try:
            deploy = self.load()
        except NotFound as error:
            self._clear_place()
            if not self.first_error(context) and not self.count_failed(context, self._tasks_beside()):
                self._skip("no operation was requested")
            raise DeployFailed(self.first_error(context) or error.message) from None
        operation = deploy.state.operations[deploy.operation]
        if operation.outcome is None and not operation.fall_back:
            raise OperationRefused(
                f"operation {deploy.operation} is open: {self.first_error(context) or 'a task of the run failed'}",
                hint="to continue the operation, clear the failed task, or trigger the DAG again with"
                " on_open=continue. To end the operation, trigger the DAG again with on_open=abort",
            )
        return super().work(context)

    def _advance(self, context: Context, *, on: str, waited_s: float, logged: str) -> str:
        try:
            sentence = super()._advance(context, on=on, waited_s=waited_s, logged=logged)
        except DeployFailed:
            tell_end(context, self.load())
            self._clear_place()
            raise
        tell_end(context, self.load())
        self._clear_place()
        return sentence

    def _clear_place(self) -> None:
        """Remove the private place of a dry run, if it had one. The report stays stored with the run."""
        from streamkeeper.operations.deploys.dry_run_installation import clear_place

        if self.tried_out:
            clear_place(self._installation(), self.job)


class AnnounceFailureOperator(OperationTask):
    """Updates the asset if the task ``finish`` failed, because Airflow makes no asset event for a task that fails.

    The event has the results that ``finish`` left. If ``finish`` left none, the ``outcome`` is ``open`` for a run with
    an operation, and ``not-opened`` for a run without one. The store is not read, because it may be unavailable.
    """

    def __init__(self, *, finish: str, **kwargs: Any) -> None:
        super().__init__(outlets=[OPERATIONS], **kwargs)
        self.finish = finish

    def work(self, context: Context) -> str:
        """Return the result of the run as a sentence."""
        ti = context["ti"]
        ending = ti.xcom_pull(task_ids=self.finish, key="ending") or {
            "job": self.job,
            "operation": self.operation,
            "outcome": "open" if self.operation else "not-opened",
            "sentence": ti.xcom_pull(task_ids=self.finish, key="error") or "the run failed without a reason",
        }
        update_asset(context, ending)
        return str(ending["sentence"])


def tell_end(context: Context, deploy: Deploy) -> None:
    """Publish the end of an operation as the task's XComs ``report`` and ``ending``, and in the event of the asset."""
    from streamkeeper.operations.jobs.endings import read_ending, render_ending

    ending = read_ending(deploy.installation.journal(deploy.job, f"task:{deploy.operation}"), deploy.operation)
    encoded = msgspec.to_builtins(ending)
    context["ti"].xcom_push(key="report", value=render_ending(ending))
    context["ti"].xcom_push(key="ending", value=encoded)
    update_asset(context, encoded)


def update_asset(context: Context, extra: Mapping[str, Any]) -> None:
    """Attach ``extra`` to the asset event that Airflow makes if the task succeeds."""
    if "outlet_events" in context:
        context["outlet_events"][OPERATIONS].extra = dict(extra)


def begin(deploy: Deploy) -> str:
    """Create the release, start the standby driver for the next task, and return a sentence about the progress."""
    sentence = accept(deploy.advance(Step.BUNDLE))
    _go_ahead(deploy, Step.STANDBY)
    return sentence


def _go_ahead(deploy: Deploy, step: Step) -> None:
    """Start a step while Airflow schedules its task. Errors are ignored here, because that task reports them."""
    with suppress(StreamkeeperError):
        deploy.advance(step)


def accept(progress: Progress, outcomes: frozenset[str] = GOOD) -> str:
    """Return the sentence of ``progress`` if its step is done, or if its operation ended with one of ``outcomes``. If
    neither is the case, raise DeployFailed with that sentence."""
    from streamkeeper.operations.deploys.deploy import ProgressKind

    if progress.kind is ProgressKind.DONE:
        return progress.sentence
    if progress.outcome is not None and progress.kind is ProgressKind.ENDED and progress.outcome.value in outcomes:
        return progress.sentence
    raise DeployFailed(progress.sentence)
