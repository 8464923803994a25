"""The tasks of a deploy and of a rollback.

Each opens the operation from the journal, does what can be done, and waits deferred. Nothing is kept in Airflow that
the journal does not hold, so a task that is killed, retried or cleared carries on.
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
"""A deferral costs a task more than this: a wait that may be shorter is waited out."""
SECONDS_S = 10.0
"""For what a driver that is well does within seconds: waking up would take as long, and may cost a retry."""
LOOK_AGAIN_S = 20.0
"""A driver that dies without a word changes nothing in the store: a task looks at its processes this often."""
OPERATIONS = Asset(name="streamkeeper_operations", uri="streamkeeper://operations")
"""Updated by every run of a deploy, a rollback or a recovery; its event says what became of it."""
GOOD = frozenset({"succeeded", "dry-run"})
"""Outcomes of a deploy that did what it was asked to."""


class BundleOperator(OpeningTask):
    """Starts the operation and makes its release, or finds both made."""

    form = staticmethod(deploy_form)
    rollback = False
    step = Step.BUNDLE

    def work(self, context: Context) -> str:
        """Returns the sentence of how far it came; raises OperationOpen when another operation is open, and what
        ``open_deploy`` does before anything is on record."""
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
    """The same of an older release that is to serve again."""

    form = staticmethod(rollback_form)
    rollback = True


class StepOperator(OperationTask):
    """Advances the operation to the end of one step; while that takes time it is deferred.

    Is skipped when the verdict does not ask for the step.
    """

    accepted = GOOD
    look_s = 0.0
    """Between two looks of a task that is awake; 0: as often as the operation itself."""
    look_again_s = LOOK_AGAIN_S

    def __init__(self, *, step: Step, patience_s: float = _PATIENCE_S, **kwargs: Any) -> None:
        """``patience_s``: how long to stay awake each time."""
        super().__init__(**kwargs)
        self.step = step
        self.patience_s = patience_s

    def work(self, context: Context) -> str:
        """Returns the sentence of how far it came; raises DeployFailed when the deploy cannot go on."""
        return self._advance(context, on="", waited_s=0.0, told="")

    def look_again(self, context: Context, event: dict[str, Any], on: str, waited_s: float, told: str = "") -> str:
        """Goes on where the trigger woke it; ``told``: what the log says already."""
        # On SQLite a trigger gets the number of one that ended, and its task may get that one's late event: look.
        waited_s += float(event.get("waited_s", 0.0))
        return str(self._told(context, lambda: self._advance(context, on=on, waited_s=waited_s, told=told)))

    def _advance(self, context: Context, *, on: str, waited_s: float, told: str) -> str:
        from streamkeeper.operations.deploy import POLL_S, ProgressKind

        deploy = self.load(on=on, waited_s=waited_s)
        self._skip_unless_asked_for(deploy)
        watch = self._watch(deploy)
        began = time.monotonic()
        while True:
            # Seen before advancing: what happens in between wakes the task at once.
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
        """Say the line unless it was the last one; returns it."""
        if line != told:
            self.log.info("%s", line)
        return line

    def _accept(self, progress: Progress) -> str:
        return progress.sentence if self._is_far_enough(progress) else accept(progress, self.accepted)

    def _is_far_enough(self, progress: Progress) -> bool:
        """Whether what the operation waits for is another task's to see to."""
        return False

    def _patience_s(self, sight: Sight, waited_s: float) -> float:
        """How long to stay awake, for what is seen, when so much was waited before."""
        return self.patience_s

    def asleep_s(self, progress: Progress) -> float:
        """How long to be deferred at most: until it is to look again, or until what it waits for is late."""
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
    """Assesses the candidate and shows the findings; a verdict that ends the deploy is for the branch to see."""

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
    """From draining what serves to telling the candidate to go: one task that stays awake, for these seconds are the
    gap in the output."""

    step = Step.GO

    def work(self, context: Context) -> str:
        """Returns the sentence of how far it came; raises DeployFailed when the deploy cannot go on."""
        shown: list[str] = []

        def show(progress: Progress) -> None:
            line = f"{progress.step.label}: {progress.sentence}"
            if line not in shown[-1:]:
                shown.append(line)
                self.log.info("%s", line)

        return accept(self.load().run(self.step, on_progress=show))


class ChooseOperator(OperationTask, BranchOperator):
    """Follows the verdict. ``ways``: step -> the group that begins with it; else ``go_on``, and ``end`` when over."""

    def __init__(self, *, ways: Mapping[Step, str], go_on: str, end: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ways, self.go_on, self.end = dict(ways), go_on, end

    def work(self, context: Context) -> Any:
        """Skips the ways that are not taken; returns the task or task group that is."""
        return self.do_branch(context, self.choose_branch(context))

    def choose_branch(self, context: Context) -> str:
        """The branch's task or task group."""
        deploy = self.load()
        operation = deploy.state.operations[deploy.operation]
        self.log.info("%s", operation.fall_back or operation.verdict_sentence)
        return choose_group(operation, self.ways, go_on=self.go_on, end=self.end)


def choose_group(operation: OperationState, ways: Mapping[Step, str], *, go_on: str, end: str) -> str:
    """Where an assessed operation goes on: the first of these ways that its verdict asks for."""
    if operation.fall_back or operation.outcome is not None:
        return end
    steps = path(operation)
    return next((group for step, group in ways.items() if step in steps), go_on)


class FallBackOperator(StepOperator):
    """The way out once the serving driver was touched: the operation goes on until something serves or cannot.

    The task itself succeeds when the old release serves again; the run's state is for ``finish`` to give.
    """

    accepted = GOOD | {"fell-back", "refused", "aborted"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, **kwargs)

    def work(self, context: Context) -> str:
        """Returns the operation's sentence; is skipped when nothing was touched."""
        try:
            deploy = self.load()
        except NotFound as error:
            self._skip(error.message)
        if not deploy.state.operations[deploy.operation].has_begun(Step.DRAIN):
            self._skip(f"operation {deploy.operation} has not affected the current release")
        return super().work(context)


class FinishOperator(StepOperator):
    """Ends what a refused or dry-run deploy has started, and makes the run's state that of the operation.

    ``outlets``: further assets that an operation which ends well updates.
    """

    ends = True

    def __init__(self, *, outlets: Iterable[Asset] = (), **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, outlets=[OPERATIONS, *outlets], **kwargs)

    def work(self, context: Context) -> str:
        """Returns the operation's sentence; raises DeployFailed with it unless it succeeded.

        Is skipped where every task before it was, in a DAG that has come to ask for no operation.
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
        """Nothing stays of a dry run that had a place for itself; its report is with the run."""
        from streamkeeper.operations.trying_out import clear_place

        if self.tried_out:
            clear_place(self._site(), self.job)


class AnnounceFailureOperator(OperationTask):
    """Updates the asset where ``finish`` failed, and succeeds: Airflow makes no event of a task that fails.

    It says what ``finish`` has left, and asks no store: the one that the operation is in may be gone by now. Where no
    operation has ended, its ``outcome`` is ``open``, or ``not-opened``.
    """

    def __init__(self, *, finish: str, **kwargs: Any) -> None:
        super().__init__(outlets=[OPERATIONS], **kwargs)
        self.finish = finish

    def work(self, context: Context) -> str:
        """Returns the sentence of what became of the run."""
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
    """What became of an operation: the task's ``report``, its ``ending`` as a value, and the event of the asset."""
    from streamkeeper.operations.endings import read_ending, render_ending

    ending = read_ending(deploy.site.journal(deploy.job, f"task:{deploy.operation}"), deploy.operation)
    told = msgspec.to_builtins(ending)
    context["ti"].xcom_push(key="report", value=render_ending(ending))
    context["ti"].xcom_push(key="ending", value=told)
    update_asset(context, told)


def update_asset(context: Context, told: Mapping[str, Any]) -> None:
    """Say this with the event that Airflow makes of the task if it succeeds."""
    if "outlet_events" in context:
        context["outlet_events"][OPERATIONS].extra = dict(told)


def begin(deploy: Deploy) -> str:
    """Make the release, and start the driver that the next task waits for; the sentence of how far it came."""
    sentence = accept(deploy.advance(Step.BUNDLE))
    _go_ahead(deploy, Step.STANDBY)
    return sentence


def _go_ahead(deploy: Deploy, step: Step) -> None:
    """Begin a step while Airflow schedules its task; what is in its way is for that task to meet, and to say."""
    with suppress(StreamkeeperError):
        deploy.advance(step)


def accept(progress: Progress, outcomes: frozenset[str] = GOOD) -> str:
    """The sentence of a progress that is as it should be; raises DeployFailed for any other."""
    from streamkeeper.operations.deploy import ProgressKind

    if progress.kind is ProgressKind.DONE:
        return progress.sentence
    if progress.outcome is not None and progress.kind is ProgressKind.ENDED and progress.outcome.value in outcomes:
        return progress.sentence
    raise DeployFailed(progress.sentence)
