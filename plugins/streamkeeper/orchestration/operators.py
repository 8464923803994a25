"""The tasks of a deploy and of a rollback.

Each opens the operation from the journal, carries out the steps that are possible now, and waits deferred. Airflow
keeps no state that the journal lacks, so a task that was killed, retried or cleared continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import Asset

from streamkeeper.errors import DeployFailed, NotFound, OperationRefused, StreamkeeperError
from streamkeeper.lifecycle.steps import path, plan_assessed
from streamkeeper.model.step import Step
from streamkeeper.orchestration.branching import BranchOperator
from streamkeeper.orchestration.form import deploy_form, read_request, rollback_form
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.tasks import OpeningTask, OperationTask, open_site
from streamkeeper.orchestration.triggers import StepTrigger
from streamkeeper.orchestration.watch import Sight, Watch

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.model.operation import OperationState
    from streamkeeper.operations.deploy import Deploy, Progress

_PATIENCE_S = 2.0
"""A deferral costs a task more than this: a wait that may be shorter is awaited without deferring."""
SECONDS_S = 10.0
"""For steps that a healthy driver finishes within seconds: waking up would take as long, and may cost a retry."""
LOOK_AGAIN_S = 20.0
"""A driver that dies without a report changes nothing in the store: a task checks its processes this often."""
OPERATIONS = Asset(name="streamkeeper_operations", uri="streamkeeper://operations")
"""Updated by every run of a deploy, a rollback or a recovery; its event has the outcome."""
GOOD = frozenset({"succeeded", "dry-run"})
"""Outcomes of a deploy that did what was requested."""


class BundleOperator(OpeningTask):
    """Starts the operation and creates its release, or finds both."""

    form = staticmethod(deploy_form)
    rollback = False
    step = Step.BUNDLE

    def work(self, context: Context) -> str:
        """Returns the sentence of its progress; raises OperationOpen if another operation is open, and the errors of
        ``open_deploy`` before anything is recorded."""
        from streamkeeper.operations.admission import open_deploy
        from streamkeeper.operations.deploy import OnOpen
        from streamkeeper.operations.forgetting import told_forgotten
        from streamkeeper.operations.trying_out import leaves_nothing, place_name, place_of

        asked, operation, site = self.asked(context), self.own_operation(context), open_site()
        request = read_request(asked, requested_by=triggered_by(context), rollback=self.rollback)
        on_open = OnOpen(asked["on_open"])
        if nowhere := leaves_nothing(site, request):
            site = place_of(site, operation)
            context["ti"].xcom_push(key="tried_out", value=place_name(operation))
        if told := told_forgotten(site.journal(request.job, "reader").state()):
            self.log.info("%s", told)
        deploy = open_deploy(site, operation, request, on_open=on_open)
        self._opened(context, deploy, deploy.plan())
        if nowhere:
            self.shows("")
        return begin(deploy)


class RollBackOperator(BundleOperator):
    """Bundles like ``BundleOperator``, but for a rollback: an older release becomes current again."""

    form = staticmethod(rollback_form)
    rollback = True


class StepOperator(OperationTask):
    """Advances the operation to the end of one step; deferred while that takes time.

    Skipped if the verdict does not need the step.
    """

    accepted = GOOD
    look_s = 0.0
    """Pause between two observations of an awake task; 0: that of the operation itself."""
    look_again_s = LOOK_AGAIN_S

    def __init__(self, *, step: Step, patience_s: float = _PATIENCE_S, **kwargs: Any) -> None:
        """``patience_s``: how long to stay awake each time."""
        super().__init__(**kwargs)
        self.step = step
        self.patience_s = patience_s

    def work(self, context: Context) -> str:
        """Returns the sentence of its progress; raises DeployFailed if the deploy cannot continue."""
        return self._advance(context, on="", waited_s=0.0, told="")

    def look_again(self, context: Context, event: dict[str, Any], on: str, waited_s: float, told: str = "") -> str:
        """Continues after the trigger has fired; ``told``: the last line in the log."""
        # On SQLite a trigger can get the number of an ended one, and its task that one's late event: check the state.
        waited_s += float(event.get("waited_s", 0.0))
        return str(self._told(context, lambda: self._advance(context, on=on, waited_s=waited_s, told=told)))

    def _advance(self, context: Context, *, on: str, waited_s: float, told: str) -> str:
        from streamkeeper.operations.deploy import POLL_S, ProgressKind

        deploy = self.load(on=on, waited_s=waited_s)
        self._skip_unless_asked_for(deploy)
        watch = self._watch(deploy)
        began = time.monotonic()
        while True:
            # Observed before advancing: a change in between wakes the task at once.
            sight = watch.look()
            progress = deploy.advance(self.step)
            if progress.kind is not ProgressKind.WAITING or self._is_far_enough(progress):
                self.log.info("%s: %s", progress.step.label, progress.sentence)
                if progress.kind is ProgressKind.FALLING_BACK:
                    _go_ahead(deploy, Step.FALL_BACK)
                return self._accept(progress)
            told = self._tell(f"waiting for {progress.on}: {progress.sentence}", told)
            if time.monotonic() - began > self._patience_s(sight, waited_s):
                break
            time.sleep(self.look_s or POLL_S)
        self._defer(deploy, progress, sight, told)
        return ""

    def _tell(self, line: str, told: str) -> str:
        """Log the line unless it was the last one; returns it."""
        if line != told:
            self.log.info("%s", line)
        return line

    def _accept(self, progress: Progress) -> str:
        return progress.sentence if self._is_far_enough(progress) else accept(progress, self.accepted)

    def _is_far_enough(self, progress: Progress) -> bool:
        """Whether the operation waits for something that another task handles."""
        return False

    def _patience_s(self, sight: Sight, waited_s: float) -> float:
        """How long to stay awake, given the observation and the time waited so far."""
        return self.patience_s

    def asleep_s(self, progress: Progress) -> float:
        """How long to be deferred at most: until the next observation, or until the wait is overdue."""
        limit_s = progress.deadline_s or self.look_again_s
        return min(self.look_again_s, max(1.0, limit_s - progress.waited_s + 0.2))

    def _skip_unless_asked_for(self, deploy: Deploy) -> None:
        operation = deploy.state.operations[deploy.operation]
        over = operation.outcome is not None or operation.fall_back
        on_path = self.step is Step.FALL_BACK or self.step in path(operation)
        if operation.verdict is not None and not over and not on_path:
            self._skip(f"this operation does not need {self.step.label}")

    def _watch(self, deploy: Deploy) -> Watch:
        journal = deploy.site.journal(deploy.job, f"task:{deploy.operation}")
        return Watch(deploy.site.store, journal, deploy.job, deploy.operation, self.step)

    def _defer(self, deploy: Deploy, progress: Progress, sight: Sight, told: str) -> None:
        at_most_s = self.asleep_s(progress)
        trigger = StepTrigger(
            job=deploy.job,
            operation=deploy.operation,
            step=self.step.name,
            sight=sight,
            at_most_s=at_most_s,
            store=deploy.site.settings.store if self.tried_out else "",
        )
        self.defer(
            trigger=trigger,
            method_name="look_again",
            kwargs={"on": progress.on, "waited_s": progress.waited_s, "told": told},
            timeout=timedelta(seconds=at_most_s * 3 + 60),
        )


class AssessOperator(StepOperator):
    """Assesses the candidate and shows the findings; the branch handles a verdict that ends the deploy."""

    reports = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.ASSESS, **kwargs)

    def work(self, context: Context) -> str:
        """Returns the verdict's sentence."""
        from streamkeeper.operations.questions import render_assessment

        deploy = self.load()
        progress = deploy.advance(self.step)
        operation = deploy.state.operations[deploy.operation]
        if operation.verdict is None:
            return accept(progress)
        report = render_assessment(deploy.site.store, deploy.job, operation)
        self.log.info("the assessment\n%s", report)
        context["ti"].xcom_push(key="report", value=report)
        if operation.request.dry_run and operation.ways and not operation.refusal:
            state = deploy.state
            self.log.info("a deploy would take these steps:")
            self.log_steps(plan_assessed(operation, serving=state.predecessor, stopped=state.stopped))
        return operation.verdict_sentence


class HandoverOperator(OperationTask):
    """From draining the current driver to starting the candidate: one task that stays awake, because these seconds
    are the gap in the output."""

    step = Step.GO

    def work(self, context: Context) -> str:
        """Returns the sentence of its progress; raises DeployFailed if the deploy cannot continue."""
        shown: list[str] = []

        def show(progress: Progress) -> None:
            line = f"{progress.step.label}: {progress.sentence}"
            if line not in shown[-1:]:
                shown.append(line)
                self.log.info("%s", line)

        return accept(self.load().run(self.step, on_progress=show))


class ChooseOperator(OperationTask, BranchOperator):
    """Follows the verdict. ``ways``: step -> the group that starts with it; else ``go_on``, and ``end`` after the
    end."""

    def __init__(self, *, ways: Mapping[Step, str], go_on: str, end: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ways, self.go_on, self.end = dict(ways), go_on, end

    def work(self, context: Context) -> Any:
        """Skips the branches that are not taken; returns the task or task group that is."""
        return self.do_branch(context, self.choose_branch(context))

    def choose_branch(self, context: Context) -> str:
        """The branch's task or task group."""
        deploy = self.load()
        operation = deploy.state.operations[deploy.operation]
        self.log.info("%s", operation.fall_back or operation.verdict_sentence)
        return choose_group(operation, self.ways, go_on=self.go_on, end=self.end)


def choose_group(operation: OperationState, ways: Mapping[Step, str], *, go_on: str, end: str) -> str:
    """The next group of an assessed operation: the first branch that its verdict needs."""
    if operation.fall_back or operation.outcome is not None:
        return end
    steps = path(operation)
    return next((group for step, group in ways.items() if step in steps), go_on)


class FallBackOperator(StepOperator):
    """The automatic rollback after the current driver was affected: the operation continues until a release runs or
    none can.

    The task itself succeeds if the old release runs again; ``finish`` sets the state of the run.
    """

    accepted = GOOD | {"fell-back", "refused", "aborted"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, **kwargs)

    def work(self, context: Context) -> str:
        """Returns the operation's sentence; skipped if the current release was not affected."""
        try:
            deploy = self.load()
        except NotFound as error:
            self._skip(error.message)
        if not deploy.state.operations[deploy.operation].has_begun(Step.DRAIN):
            self._skip(f"operation {deploy.operation} has not affected the current release")
        return super().work(context)


class FinishOperator(StepOperator):
    """Ends the drivers of a refused or dry-run deploy, and gives the run the state of the operation.

    ``outlets``: further assets that a successful operation updates.
    """

    ends = True

    def __init__(self, *, outlets: Iterable[Asset] = (), **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, outlets=[OPERATIONS, *outlets], **kwargs)

    def work(self, context: Context) -> str:
        """Returns the operation's sentence; raises DeployFailed with it unless it succeeded.

        Skipped if every task before it was skipped, in a DAG that did not request an operation.
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
                hint="clear the failed task to continue it, or trigger again with on_open=continue or abort",
            )
        return super().work(context)

    def _advance(self, context: Context, *, on: str, waited_s: float, told: str) -> str:
        try:
            sentence = super()._advance(context, on=on, waited_s=waited_s, told=told)
        except DeployFailed:
            tell_end(context, self.load())
            self._clear_place()
            raise
        tell_end(context, self.load())
        self._clear_place()
        return sentence

    def _clear_place(self) -> None:
        """Remove the place of a dry run that had its own; its report is stored with the run."""
        from streamkeeper.operations.trying_out import clear_place

        if self.tried_out:
            clear_place(self._site(), self.job)


class AnnounceFailureOperator(OperationTask):
    """Updates the asset if ``finish`` failed, and succeeds: Airflow makes no event for a task that fails.

    It reports the results that ``finish`` has left and reads no store, which may be unavailable by then. If no
    operation has ended, its ``outcome`` is ``open``, or ``not-opened``.
    """

    def __init__(self, *, finish: str, **kwargs: Any) -> None:
        super().__init__(outlets=[OPERATIONS], **kwargs)
        self.finish = finish

    def work(self, context: Context) -> str:
        """Returns the sentence of the run's end."""
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
    """The end of an operation: the task's ``report``, its ``ending`` as a value, and the event of the asset."""
    from streamkeeper.operations.endings import read_ending, render_ending

    ending = read_ending(deploy.site.journal(deploy.job, f"task:{deploy.operation}"), deploy.operation)
    told = msgspec.to_builtins(ending)
    context["ti"].xcom_push(key="report", value=render_ending(ending))
    context["ti"].xcom_push(key="ending", value=told)
    update_asset(context, told)


def update_asset(context: Context, told: Mapping[str, Any]) -> None:
    """Attach this to the event that Airflow makes if the task succeeds."""
    if "outlet_events" in context:
        context["outlet_events"][OPERATIONS].extra = dict(told)


def begin(deploy: Deploy) -> str:
    """Create the release, and start the driver that the next task waits for; returns the sentence of the progress."""
    sentence = accept(deploy.advance(Step.BUNDLE))
    _go_ahead(deploy, Step.STANDBY)
    return sentence


def _go_ahead(deploy: Deploy, step: Step) -> None:
    """Start a step while Airflow schedules its task; that task meets and reports any error."""
    with suppress(StreamkeeperError):
        deploy.advance(step)


def accept(progress: Progress, outcomes: frozenset[str] = GOOD) -> str:
    """The sentence of a successful progress; raises DeployFailed for any other."""
    from streamkeeper.operations.deploy import ProgressKind

    if progress.kind is ProgressKind.DONE:
        return progress.sentence
    if progress.outcome is not None and progress.kind is ProgressKind.ENDED and progress.outcome.value in outcomes:
        return progress.sentence
    raise DeployFailed(progress.sentence)
