"""The tasks around a person's decision: the standby ends, the person is asked, the answer goes into the journal.

Who answers may do so in Airflow or from the command line. The asking task is deferred: it holds no worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.execution_time.hitl import upsert_hitl_detail
from airflow.sdk.timezone import utcnow

from streamkeeper.errors import OperationRefused
from streamkeeper.lifecycle.approval import ABOUT, ANSWER
from streamkeeper.lifecycle.steps import Step, path
from streamkeeper.orchestration.answer_trigger import APPROVE, DECLINE, AnswerTrigger, answer_in
from streamkeeper.orchestration.operators import StepOperator, load_deploy
from streamkeeper.orchestration.people import answered_by, assigned_users
from streamkeeper.orchestration.tasks import StreamkeeperTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.model.job_state import OperationState
    from streamkeeper.operations.deploy import Deploy, Progress

_AFTER_TIMEOUT_S = 600.0
"""What a triggerer may be late before the question itself is given up."""


def answer_form() -> dict[str, Param]:
    """What a person may say with an answer: the ``params`` of an ApproveOperator."""
    return {"reason": Param("", type="string", title="Reason", description="Recorded with the answer")}


class RestOperator(StepOperator):
    """Ends the standby while a person decides: an idle driver costs as much as one that works."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.APPROVE, **kwargs)

    def _is_far_enough(self, progress: Progress) -> bool:
        return progress.on == ANSWER


class ApproveOperator(StreamkeeperTask, HITLOperator):
    """Asks a person, in the step that waits for an answer; who does not answer in time has declined.

    Is skipped when the operation asks nobody.
    """

    def __init__(self, *, step: Step, **kwargs: Any) -> None:
        super().__init__(
            subject="Approve an opaque change" if step is Step.APPROVE else "Approve a rebuilt output",
            options=[APPROVE, DECLINE],
            defaults=DECLINE,
            **kwargs,
        )
        self.step = step

    def work(self, context: Context) -> Any:
        """Waits for an answer, and returns it: ``chosen_options``, ``params_input``, ``responded_by_user``."""
        from streamkeeper.operations.approval import right_of
        from streamkeeper.operations.questions import render_question, subject_of

        deploy = load_deploy(context)
        state = deploy.state
        operation = state.operations[deploy.operation]
        answered = answer_in(operation, self.step)
        if answered is not None:
            return answered
        if self.step not in path(operation):
            self._skip(f"this operation does not ask for {self.step.label}")
        release = operation.done[Step.BUNDLE.label]["release"]
        context["ti"].xcom_push(key="bundle", value=state.releases[release].content.bundle)
        self.assigned_users = assigned_users(right_of(deploy.site, state, operation))
        self.subject = subject_of(state, operation)
        self.body = render_question(deploy.site.store, state, operation)
        self.log.info("%s\n%s", self.subject, self.body)
        self._ask(context, deploy.job, operation)
        return None

    def _ask(self, context: Context, job: str, operation: OperationState) -> None:
        ti_id, limit = context["ti"].id, timedelta(seconds=operation.request.approve_s)
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
        self.defer(
            trigger=AnswerTrigger(
                job=job,
                operation=operation.operation,
                step=self.step.name,
                ti_id=ti_id,
                options=self.options,
                defaults=self.defaults,
                params=self.serialized_params,
                multiple=self.multiple,
                timeout_datetime=utcnow() + limit,
            ),
            method_name="execute_complete",
            timeout=limit + timedelta(seconds=_AFTER_TIMEOUT_S),
        )


class AnswerOperator(StepOperator):
    """Records the answer to the question of the task ``asked``; fails by one that is no approval."""

    def __init__(self, *, asked: str, step: Step, **kwargs: Any) -> None:
        super().__init__(step=step, **kwargs)
        self.asked = asked

    def work(self, context: Context) -> str:
        """Returns who has approved; raises DeployFailed when it was declined."""
        deploy = load_deploy(context)
        self._skip_unless_asked_for(deploy)
        answer = context["ti"].xcom_pull(task_ids=self.asked) or {}
        if answer_in(deploy.state.operations[deploy.operation], self.step) is None:
            try:
                self._record(context, deploy, answer)
            except OperationRefused as error:
                if answer_in(deploy.state.operations[deploy.operation], self.step) is None:
                    raise
                # Answered from elsewhere in this moment: the first answer counts.
                self.log.warning("%s", error)
        elif by := answered_by(answer)[0]:
            self.log.info("the answer of %s comes after another one, which counts", by)
        return super().work(context)

    def _record(self, context: Context, deploy: Deploy, answer: Mapping[str, Any]) -> None:
        from streamkeeper.operations.approval import answer_approval, decline_for_silence

        where = (deploy.site, deploy.job, deploy.operation)
        bundle = context["ti"].xcom_pull(task_ids=self.asked, key="bundle") or ""
        by, user_id = answered_by(answer)
        if not by:
            limit_s = deploy.state.operations[deploy.operation].request.approve_s
            reason = f"nobody answered within {limit_s:g} s"
            decline_for_silence(*where, reason=reason, bundle=bundle, about=ABOUT[self.step])
            return
        answer_approval(
            *where,
            approved=answer.get("chosen_options") == [APPROVE],
            by=by,
            reason=(answer.get("params_input") or {}).get("reason", ""),
            user_id=user_id,
            bundle=bundle,
            about=ABOUT[self.step],
        )
