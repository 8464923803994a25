"""The tasks of a person's decision: terminate the standby, ask the question, record the answer in the journal.

People answer in Airflow or from the command line. While the question is open, the asking task is deferred and occupies
no worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.execution_time.hitl import upsert_hitl_detail
from airflow.sdk.timezone import parse, utcnow

from streamkeeper.errors import OperationRefused
from streamkeeper.lifecycle.approval_steps import ABOUT, ANSWER
from streamkeeper.lifecycle.steps import path
from streamkeeper.model.records.step import Step
from streamkeeper.orchestration.answer_trigger import APPROVE, DECLINE, AnswerTrigger, answer_in
from streamkeeper.orchestration.deploy_tasks import StepOperator
from streamkeeper.orchestration.notifiers import tell_all
from streamkeeper.orchestration.people import answered_by, assigned_users, required_actions
from streamkeeper.orchestration.tasks import OperationTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.deploys.deploy import Deploy, Progress

_AFTER_TIMEOUT_S = 600.0
"""Seconds after the deadline in which the triggerer may still resume the asking task before Airflow fails it."""


def answer_form() -> dict[str, Param]:
    """Return the fields of an answer, which are the ``params`` of an ApproveOperator."""
    return {
        "reason": Param(
            "",
            type="string",
            title="Reason",
            description="Your reason for this answer, recorded with it in the job's journal",
        )
    }


class RestOperator(StepOperator):
    """Terminates the standby driver before a person is asked, because an idle driver costs as much as a working one."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.APPROVE, **kwargs)

    def _is_far_enough(self, progress: Progress) -> bool:
        return progress.on == ANSWER


class ApproveOperator(OperationTask, HITLOperator):
    """Asks a person the question of a step. A question without an answer in time counts as declined.

    The task is skipped if the operation does not need the step.
    """

    template_fields: Sequence[str] = (*OperationTask.template_fields, *HITLOperator.template_fields)

    def __init__(self, *, step: Step, **kwargs: Any) -> None:
        super().__init__(
            subject="Approve an opaque change" if step is Step.APPROVE else "Approve a rebuilt output",
            options=[APPROVE, DECLINE],
            defaults=DECLINE,
            **kwargs,
        )
        self.step = step

    def work(self, context: Context) -> Any:
        """Wait for an answer and return it, with ``chosen_options``, ``params_input`` and ``responded_by_user``."""
        deploy = self.load()
        operation = deploy.state.operations[deploy.operation]
        answered = answer_in(operation, self.step)
        if answered is not None:
            return answered
        if self.step not in path(operation):
            self._skip(f"this operation does not need {self.step.label}")
        until = utcnow() + timedelta(seconds=operation.request.approve_s)
        self._tell_approvers(context, deploy, until)
        self._ask(context, deploy, until)
        return None

    def execute_complete(
        self, context: Context, event: dict[str, Any], operation: str = "", bundle: str = "", until: str = ""
    ) -> Any:
        """Record the answer. If the person may not answer, the question stays open.

        This task records the answer, because Airflow itself tells this task who answered. A later task would have to
        rely on a stored value, which any user with the right to edit runs can change.

        ``operation``, ``bundle``: the operation and the bundle that the person was asked to approve; ``until``: the
        deadline of the question.
        """
        answer = super().execute_complete(context, event)
        return self._told(context, lambda: self._take(context, answer, operation, bundle, until))

    def _take(self, context: Context, answer: Any, operation: str, bundle: str, until: str) -> Any:
        from streamkeeper.operations.deploys.approval import answer_approval, right_of
        from streamkeeper.operations.deploys.deploy import Deploy

        # Older versions did not pass these arguments; their questions are about the run's own operation.
        deploy = Deploy.load(load_installation(), self.job, operation) if operation else self.load()
        self.shows(deploy.job, deploy.operation)
        state = deploy.state
        asked = state.operations[deploy.operation]
        by, user_id = answered_by(answer)
        if answer_in(asked, self.step) is not None or not by:
            return answer
        if objection := right_of(deploy.installation, state, asked).objection(by, user_id):
            self.log.warning("the answer of %s does not count, and the question stays open: %s", by, objection)
            return self._ask(context, deploy, parse(until) if until else utcnow())
        try:
            answer_approval(
                deploy.installation,
                deploy.job,
                deploy.operation,
                approved=answer["chosen_options"] == [APPROVE],
                by=by,
                reason=answer["params_input"].get("reason", ""),
                user_id=user_id,
                bundle=bundle,
                about=ABOUT[self.step],
            )
        except OperationRefused as error:
            if answer_in(deploy.state.operations[deploy.operation], self.step) is None:
                raise
            # The question was answered elsewhere at the same moment, and the first answer counts.
            self.log.warning("%s", error)
        return answer

    def _tell_approvers(self, context: Context, deploy: Deploy, until: datetime) -> None:
        from streamkeeper.operations.deploys.questions import compose_question

        state = deploy.state
        message = compose_question(
            deploy.installation,
            state,
            state.operations[deploy.operation],
            until=until,
            link=required_actions(self, context),
        )
        for failed in tell_all(context, message):
            self.log.warning("%s", failed)

    def _ask(self, context: Context, deploy: Deploy, until: datetime) -> None:
        from streamkeeper.operations.deploys.approval import right_of
        from streamkeeper.operations.deploys.questions import render_question, subject_of
        from streamkeeper.operations.jobs.carriers import note_asking

        ti_id, run, state = context["ti"].id, context["dag_run"], deploy.state
        operation = state.operations[deploy.operation]
        release = operation.release
        self.assigned_users = assigned_users(right_of(deploy.installation, state, operation))
        self.subject = subject_of(state, operation)
        self.body = render_question(deploy.installation, state, operation, until=until)
        self.log.info("%s\n%s", self.subject, self.body)
        store, about = deploy.installation.store, ABOUT[self.step]
        note_asking(store, deploy.job, deploy.operation, about, dag=run.dag_id, run=run.run_id, task=self.task_id)
        upsert_hitl_detail(
            ti_id=ti_id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            defaults=self.defaults,
            multiple=self.multiple,
            params=self.serialized_params,
            assigned_users=self.assigned_users,
        )
        left = max(until - utcnow(), timedelta(0))
        self.defer(
            trigger=AnswerTrigger(
                job=deploy.job,
                operation=deploy.operation,
                step=self.step.name,
                ti_id=ti_id,
                options=self.options,
                defaults=self.defaults,
                params=self.serialized_params,
                multiple=self.multiple,
                timeout_datetime=until,
            ),
            method_name="execute_complete",
            kwargs={
                "operation": deploy.operation,
                "bundle": state.releases[release].content.bundle,
                "until": until.isoformat(),
            },
            timeout=left + timedelta(seconds=_AFTER_TIMEOUT_S),
        )


class AnswerOperator(StepOperator):
    """Succeeds after an approval, and fails after a refusal. If no answer is recorded, the task records that the
    question is declined, and fails.
    """

    def work(self, context: Context) -> str:
        """Return a sentence about the approval; raises DeployFailed if the question was declined."""
        from streamkeeper.operations.deploys.approval import decline_for_silence

        deploy = self.load()
        self._skip_unless_asked_for(deploy)
        operation = deploy.state.operations[deploy.operation]
        if answer_in(operation, self.step) is None:
            reason = f"no answer within {operation.request.approve_s:g} s"
            decline_for_silence(
                deploy.installation, deploy.job, deploy.operation, reason=reason, about=ABOUT[self.step]
            )
        return super().work(context)
