"""The tasks of a deploy and of a rollback.

Each opens the operation from the journal, does what can be done, and waits deferred. Nothing is kept in Airflow that
the journal does not hold, so a task that is killed, retried or cleared carries on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import Asset, BaseBranchOperator

from streamkeeper.errors import DeployFailed, NotFound, OperationRefused
from streamkeeper.lifecycle.steps import FORWARD, PlannedStep, Step, path, plan_deploy
from streamkeeper.orchestration.form import read_request
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.run_names import operation_id
from streamkeeper.orchestration.tasks import StreamkeeperTask, open_site
from streamkeeper.orchestration.triggers import StepTrigger
from streamkeeper.orchestration.watch import Sight, Watch

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.model.job_state import OperationState
    from streamkeeper.operations.deploy import Deploy, Progress
    from streamkeeper.operations.sites import Site

_PATIENCE_S = 2.0
"""A deferral costs a task more than this: a wait that may be shorter is waited out."""
SECONDS_S = 10.0
"""For what a driver that is well does within seconds: waking up would take as long, and may cost a retry."""
LOOK_AGAIN_S = 20.0
"""A driver that dies without a word changes nothing in the store: a task looks at its processes this often."""
_OPENED_BY = "bundle"
_TRIED_OUT = "tried_out"

OPERATIONS = Asset(name="streamkeeper_operations", uri="streamkeeper://operations")
"""Updated by every operation that ends well or falls back; its event says how."""
GOOD = frozenset({"succeeded", "dry-run"})
"""Outcomes of a deploy that did what it was asked to."""


def own_operation(context: Context) -> str:
    """The id of the operation that this run starts."""
    run = context["dag_run"]
    return operation_id(run.dag_id, run.run_id)


def load_deploy(context: Context, *, on: str = "", waited_s: float = 0.0) -> Deploy:
    """The deploy that the run's first task opened: its own, or the open one it carries on."""
    from streamkeeper.operations.deploy import Deploy

    operation = opened_operation(context) or own_operation(context)
    return Deploy.load(_site_of_run(context), context["params"]["job"], operation, on=on, waited_s=waited_s)


def _site_of_run(context: Context) -> Site:
    """The installation; of a dry run that is to leave nothing, the place that it has for itself."""
    from streamkeeper.operations.trying_out import place_of

    return place_of(open_site(), own_operation(context)) if _has_a_place(context) else open_site()


def _has_a_place(context: Context) -> bool:
    return bool(context["ti"].xcom_pull(task_ids=_OPENED_BY, key=_TRIED_OUT))


def opened_operation(context: Context) -> str:
    """The operation that the run's first task opened; empty when it failed to, whatever the journal holds."""
    return context["ti"].xcom_pull(task_ids=_OPENED_BY, key="operation") or ""


class BundleOperator(StreamkeeperTask):
    """Starts the operation and makes its release, or finds both made."""

    def __init__(self, *, rollback: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rollback = rollback

    def work(self, context: Context) -> str:
        """Returns the sentence of how far it came; raises OperationOpen when another operation is open, and what
        ``open_deploy`` does before anything is on record."""
        from streamkeeper.operations.admission import open_deploy
        from streamkeeper.operations.carriers import Carrier, note_carrier
        from streamkeeper.operations.deploy import OnOpen
        from streamkeeper.operations.forgetting import told_forgotten
        from streamkeeper.operations.trying_out import leaves_nothing, place_of

        request = read_request(context["params"], requested_by=triggered_by(context), rollback=self.rollback)
        on_open = OnOpen(context["params"]["on_open"])
        site, run = open_site(), context["dag_run"]
        if leaves_nothing(site, request):
            site = place_of(site, own_operation(context))
            context["ti"].xcom_push(key=_TRIED_OUT, value=True)
        if told := told_forgotten(site.journal(request.job, "reader").state()):
            self.log.info("%s", told)
        deploy = open_deploy(site, own_operation(context), request, on_open=on_open)
        note_carrier(site.store, request.job, deploy.operation, Carrier(dag=run.dag_id, run=run.run_id))
        context["ti"].xcom_push(key="operation", value=deploy.operation)
        for planned in _announced(deploy):
            self.log.info("%s: %s; else %s", planned.step.label, planned.does, planned.otherwise)
        return accept(deploy.advance(Step.BUNDLE))


class StepOperator(StreamkeeperTask):
    """Advances the operation to the end of one step; while that takes time it is deferred.

    Is skipped when the verdict does not ask for the step.
    """

    accepted = GOOD
    look_s = 0.0
    """Between two looks of a task that is awake; 0: as often as the operation itself."""
    look_again_s = LOOK_AGAIN_S

    def __init__(self, *, step: Step, deadline_param: str = "", patience_s: float = _PATIENCE_S, **kwargs: Any) -> None:
        """``patience_s``: how long to stay awake each time."""
        super().__init__(**kwargs)
        self.step = step
        self.deadline_param = deadline_param
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

        deploy = load_deploy(context, on=on, waited_s=waited_s)
        self._skip_unless_asked_for(deploy)
        watch = self._watch(deploy)
        began = time.monotonic()
        while True:
            # Seen before advancing: what happens in between wakes the task at once.
            sight = watch.look()
            progress = deploy.advance(self.step)
            if progress.kind is not ProgressKind.WAITING or self._is_far_enough(progress):
                self.log.info("%s: %s", progress.step.label, progress.sentence)
                return self._accept(progress)
            told = self._tell(f"waiting for {progress.on}: {progress.sentence}", told)
            if time.monotonic() - began > self._patience_s(sight, waited_s):
                break
            time.sleep(self.look_s or POLL_S)
        self._defer(context, deploy, progress, sight, told)
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

    def asleep_s(self, progress: Progress, *, limit_s: float) -> float:
        """How long to be deferred at most: until it is to look again, or until what it waits for is late."""
        return min(self.look_again_s, max(1.0, limit_s - progress.waited_s + 0.2))

    def _skip_unless_asked_for(self, deploy: Deploy) -> None:
        operation = deploy.state.operations[deploy.operation]
        over = operation.outcome is not None or operation.fall_back
        if self.step in FORWARD and operation.verdict is not None and not over and self.step not in path(operation):
            self._skip(f"this operation does not ask for {self.step.label}")

    def _watch(self, deploy: Deploy) -> Watch:
        journal = deploy.site.journal(deploy.job, f"task:{deploy.operation}")
        return Watch(deploy.site.store, journal, deploy.job, deploy.operation, self.step)

    def _defer(
        self, context: Context, deploy: Deploy, progress: Progress, sight: Sight, told: str, *, limit_s: float = 0.0
    ) -> None:
        if not limit_s:
            limit_s = float(context["params"][self.deadline_param]) if self.deadline_param else self.look_again_s
        at_most_s = self.asleep_s(progress, limit_s=limit_s)
        trigger = StepTrigger(
            job=deploy.job,
            operation=deploy.operation,
            step=self.step.name,
            sight=sight,
            at_most_s=at_most_s,
            store=deploy.site.settings.store if _has_a_place(context) else "",
        )
        self.defer(
            trigger=trigger,
            method_name="look_again",
            kwargs={"on": progress.on, "waited_s": progress.waited_s, "told": told},
            timeout=timedelta(seconds=at_most_s * 3 + 60),
        )


class AssessOperator(StepOperator):
    """Assesses the candidate and shows the findings; a verdict that ends the deploy is for the branch to see."""

    def work(self, context: Context) -> str:
        """Returns the verdict's sentence."""
        from streamkeeper.operations.questions import render_assessment

        deploy = load_deploy(context)
        progress = deploy.advance(self.step)
        operation = deploy.state.operations[deploy.operation]
        if operation.verdict is None:
            return accept(progress)
        report = render_assessment(deploy.site.store, deploy.job, operation)
        self.log.info("the assessment\n%s", report)
        context["ti"].xcom_push(key="report", value=report)
        return operation.verdict_sentence


class HandoverOperator(StreamkeeperTask):
    """Drain, prove dead, reach, restore, go: one task that stays awake, for these seconds are the gap in the output."""

    def work(self, context: Context) -> str:
        """Returns the sentence of how far it came; raises DeployFailed when the deploy cannot go on."""
        shown: list[str] = []

        def show(progress: Progress) -> None:
            line = f"{progress.step.label}: {progress.sentence}"
            if line not in shown[-1:]:
                shown.append(line)
                self.log.info("%s", line)

        return accept(load_deploy(context).run(Step.GO, on_progress=show))


class ChooseOperator(BaseBranchOperator):
    """Follows the verdict. ``ways``: step -> the group that begins with it; else ``go_on``, and ``end`` when over."""

    def __init__(self, *, ways: Mapping[Step, str], go_on: str, end: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ways, self.go_on, self.end = dict(ways), go_on, end

    def choose_branch(self, context: Context) -> str:
        """The branch's task or task group."""
        deploy = load_deploy(context)
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

    The task itself succeeds when the old release serves again; the run's state is for ``finish`` to give, and the event
    of such an end is this task's: Airflow makes none of a task that fails.
    """

    accepted = GOOD | {"fell-back", "refused", "aborted"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[OPERATIONS], **kwargs)

    def work(self, context: Context) -> str:
        """Returns the operation's sentence; is skipped when nothing was touched."""
        from airflow.sdk.exceptions import AirflowSkipException

        try:
            deploy = load_deploy(context)
        except NotFound as error:
            raise AirflowSkipException(error.message) from None
        if Step.DRAIN.label not in deploy.state.operations[deploy.operation].begun:
            raise AirflowSkipException(f"operation {deploy.operation} has touched nothing that serves")
        return super().work(context)

    def _advance(self, context: Context, *, on: str, waited_s: float, told: str) -> str:
        sentence = super()._advance(context, on=on, waited_s=waited_s, told=told)
        tell_end(context)
        return sentence


class FinishOperator(StepOperator):
    """Ends what a refused or dry-run deploy has started, and makes the run's state that of the operation."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[OPERATIONS], **kwargs)

    def work(self, context: Context) -> str:
        """Returns the operation's sentence; raises DeployFailed with it unless it succeeded."""
        try:
            deploy = load_deploy(context)
        except NotFound as error:
            _clear_place(context)
            raise DeployFailed(first_error(context) or error.message) from None
        operation = deploy.state.operations[deploy.operation]
        if operation.outcome is not None and not opened_operation(context):
            # An operation of the same id that ended long ago: its outcome is not this run's.
            raise DeployFailed(first_error(context) or f"the task {_OPENED_BY} opened no operation")
        if operation.outcome is None and not operation.fall_back:
            raise OperationRefused(
                f"operation {deploy.operation} is open: {first_error(context) or 'a task of the run failed'}",
                hint="clear the failed task to continue it, or trigger again with on_open=continue or abort",
            )
        return super().work(context)

    def _advance(self, context: Context, *, on: str, waited_s: float, told: str) -> str:
        try:
            sentence = super()._advance(context, on=on, waited_s=waited_s, told=told)
        except DeployFailed:
            tell_end(context)
            _clear_place(context)
            raise
        tell_end(context)
        _clear_place(context)
        return sentence


def tell_end(context: Context) -> None:
    """What became of the run's operation, as the task's ``report``, and with the event of the asset."""
    from streamkeeper.operations.endings import read_ending, render_ending

    deploy = load_deploy(context)
    ending = read_ending(deploy.site.journal(deploy.job, f"task:{deploy.operation}"), deploy.operation)
    context["ti"].xcom_push(key="report", value=render_ending(ending))
    if "outlet_events" in context:
        context["outlet_events"][OPERATIONS].extra = msgspec.to_builtins(ending)


def _clear_place(context: Context) -> None:
    """Nothing stays of a dry run that had a place for itself; its report is with the run."""
    from streamkeeper.operations.trying_out import clear_place

    if _has_a_place(context):
        clear_place(_site_of_run(context), context["params"]["job"])


def _announced(deploy: Deploy) -> tuple[PlannedStep, ...]:
    """The steps of the operation; of a dry run those that the real one would take."""
    state = deploy.state
    request = state.operations[deploy.operation].request
    if not request.dry_run:
        return deploy.plan()
    real = msgspec.structs.replace(request, dry_run=False)
    return plan_deploy(real, serving=state.predecessor, stopped=state.stopped)


def accept(progress: Progress, outcomes: frozenset[str] = GOOD) -> str:
    """The sentence of a progress that is as it should be; raises DeployFailed for any other."""
    from streamkeeper.operations.deploy import ProgressKind

    if progress.kind is ProgressKind.DONE:
        return progress.sentence
    if progress.outcome is not None and progress.kind is ProgressKind.ENDED and progress.outcome.value in outcomes:
        return progress.sentence
    raise DeployFailed(progress.sentence)


def first_error(context: Context) -> str:
    """The first error that a task of this run told; empty when none did."""
    dag = context["ti"].task.dag
    told = context["ti"].xcom_pull(task_ids=list(dag.task_ids) if dag else [], key="error") or []
    return next((str(each) for each in told if each), "")
