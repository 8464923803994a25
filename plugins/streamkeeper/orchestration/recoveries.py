"""The tasks of a recovery before it is a deploy: look, ask a person where it loses or doubles, open the operation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseBranchOperator
from airflow.sdk.timezone import utcnow

from streamkeeper.errors import DeployFailed
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.lifecycle.steps import Step
from streamkeeper.model.health import Severity
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.recovery import RecoveryAction
from streamkeeper.orchestration.answer_trigger import APPROVE, DECLINE
from streamkeeper.orchestration.notifiers import tell_all
from streamkeeper.orchestration.operators import OPERATIONS, FinishOperator, accept, own_operation
from streamkeeper.orchestration.people import answered_by, assigned_users, required_actions, triggered_by
from streamkeeper.orchestration.tasks import StreamkeeperTask, open_site

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.deploy import Deploy
    from streamkeeper.operations.recovering import Asked

_DEADLINES = ("drain_s", "standby_s", "first_commit_s", "approve_s", "catch_up_s", "probation_batches", "probation_s")


def read_asked(params: Mapping[str, Any], *, requested_by: str, **more: Any) -> Asked:
    """What a filled-in form asks for."""
    from streamkeeper.operations.recovering import Asked

    query, snapshot = params.get("query") or "", params.get("snapshot") or ""
    return Asked(
        job=params["job"],
        action=RecoveryAction(params["action"]),
        queries=(query,) if query else (),
        snapshots={query: snapshot} if query and snapshot else {},
        reason=params.get("reason") or "",
        requested_by=requested_by,
        **{name: params[name] for name in _DEADLINES if name in params},
        **more,
    )


def is_diagnosis(context: Context) -> bool:
    """Whether the run only looks."""
    return bool(context["params"]["action"] == RecoveryAction.DIAGNOSE.value)


class DiagnoseOperator(StreamkeeperTask):
    """Looks at the job and shows what it is, and what can be done about it; of an action, that it is possible."""

    def work(self, context: Context) -> str:
        """Returns the cause's sentence; raises OperationRefused for an action that is not possible."""
        from streamkeeper.errors import InvalidInput
        from streamkeeper.operations.diagnoses import render_diagnosis
        from streamkeeper.operations.recovering import announcements, diagnose_for, must_be_possible

        params, site = context["params"], open_site()
        if params.get("snapshot") and not params.get("query"):
            raise InvalidInput("a snapshot is of one query", hint="name the query, too")
        if own_operation(context) in site.journal(params["job"], "task").state().operations:
            return f"operation {own_operation(context)} is started already"
        asked = read_asked(params, requested_by=triggered_by(context))
        found = diagnose_for(site, asked)
        self._report(context, render_diagnosis(found).splitlines())
        if not is_diagnosis(context):
            option = must_be_possible(found, asked.action)
            context["ti"].xcom_push(key="announced", value=list(announcements(option)))
            context["ti"].xcom_push(key="asks", value=option.asks)
        return found.sentence


class DecideOperator(BaseBranchOperator):
    """Ends a diagnosis; asks a person where the action loses or doubles; else goes on."""

    def __init__(self, *, diagnosed: str, ask: str, go_on: str, end: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.diagnosed, self.ask, self.go_on, self.end = diagnosed, ask, go_on, end

    def choose_branch(self, context: Context) -> str:
        """The next task."""
        if is_diagnosis(context):
            return self.end
        return self.ask if context["ti"].xcom_pull(task_ids=self.diagnosed, key="asks") else self.go_on


class AcceptOperator(StreamkeeperTask, HITLOperator):
    """Shows a person what is lost or doubled, and opens the recovery that they have accepted.

    Who does not answer within ``approve_s`` has declined.
    """

    def __init__(self, *, diagnosed: str, **kwargs: Any) -> None:
        super().__init__(
            subject="Accept what a recovery loses or doubles", options=[APPROVE, DECLINE], defaults=DECLINE, **kwargs
        )
        self.diagnosed = diagnosed

    def work(self, context: Context) -> Any:
        """Waits for an answer, and returns it: ``chosen_options``, ``params_input``, ``responded_by_user``."""
        told, params = context["ti"].xcom_pull(task_ids=self.diagnosed, key="announced") or [], context["params"]
        report = context["ti"].xcom_pull(task_ids=self.diagnosed, key="report") or ""
        site, until = open_site(), utcnow() + timedelta(seconds=float(params["approve_s"]))
        right = right_to_answer(site.settings, site.journal(params["job"], "task").state(), triggered_by(context))
        self.subject = f"{params['action']} {params['job']}, although it loses or doubles?"
        self.assigned_users = assigned_users(right)
        by = (
            f"Unless it is answered by {until:%Y-%m-%d %H:%M} UTC, it counts as declined. May answer: {right.sentence}."
        )
        self.body = "\n".join([escaped(by), "", *(f"- {escaped(each)}" for each in told), "", report])
        self.response_timeout = timedelta(seconds=float(params["approve_s"]))
        self._tell_approvers(context, [by, "", *(f"- {each}" for each in told)])
        return HITLOperator.execute(self, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Open what was accepted, here, where Airflow itself says by whom; raises DeployFailed for a no."""
        answer = super().execute_complete(context, event)
        return self._told(context, lambda: self._take(context, answer))

    def _take(self, context: Context, answer: Any) -> Any:
        (by, user_id), reason = answered_by(answer), answer["params_input"].get("reason", "")
        if answer["chosen_options"] != [APPROVE] or not by:
            who = f"{by}: {reason or 'no reason given'}" if by else "nobody answered in time"
            raise DeployFailed(f"not accepted: {who}")
        told = context["ti"].xcom_pull(task_ids=self.diagnosed, key="announced") or []
        params = {**context["params"], "reason": reason or context["params"].get("reason")}
        accepted = {"accepted_by": by, "accepted_by_id": user_id, "accept_loss": True, "accept_replay": True}
        open_asked(context, read_asked(params, requested_by=triggered_by(context), announced=tuple(told), **accepted))
        return answer

    def _tell_approvers(self, context: Context, lines: list[str]) -> None:
        from streamkeeper.operations.notices import Message, runbook_link

        link = required_actions(self, context)
        message = Message(
            job=context["params"]["job"],
            query="",
            rule="approval-waiting",
            severity=Severity.TICKET.value,
            event="asked",
            subject=f"[approval] {self.subject}",
            text="\n".join([*lines, *(["", f"Answer: {link}"] if link else [])]),
            runbook=runbook_link("A deploy waits for an approval"),
        )
        for failed in tell_all(context, message):
            self.log.warning("%s", failed)


class RecoverOperator(StreamkeeperTask):
    """Starts a recovery that asks nobody, or finds it started by whoever accepted it; from here on it is a deploy."""

    def __init__(self, *, diagnosed: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.diagnosed = diagnosed

    def work(self, context: Context) -> str:
        """Returns the sentence of how far it came; raises OperationRefused for what nobody has accepted."""
        announced = context["ti"].xcom_pull(task_ids=self.diagnosed, key="announced") or []
        asked = read_asked(context["params"], requested_by=triggered_by(context), announced=tuple(announced))
        deploy = open_asked(context, asked)
        context["ti"].xcom_push(key="operation", value=deploy.operation)
        for planned in deploy.plan():
            self.log.info("%s: %s; else %s", planned.step.label, planned.does, planned.otherwise)
        return accept(deploy.advance(Step.BUNDLE))


def open_asked(context: Context, asked: Asked) -> Deploy:
    """Start the run's recovery, or find it started, as carried on by this run."""
    from streamkeeper.operations.carriers import Carrier, note_carrier
    from streamkeeper.operations.recovering import open_recovery

    site, run = open_site(), context["dag_run"]
    deploy = open_recovery(site, own_operation(context), asked)
    note_carrier(site.store, asked.job, deploy.operation, Carrier(dag=run.dag_id, run=run.run_id))
    return deploy


class RecoveredOperator(FinishOperator):
    """Gives the run the recovery's outcome; a diagnosis has none, and succeeds when it was made."""

    def __init__(self, *, diagnosed: str, **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, **kwargs)
        self.diagnosed = diagnosed

    def work(self, context: Context) -> str:
        """Returns its sentence; raises DeployFailed unless it succeeded."""
        if not is_diagnosis(context):
            return super().work(context)
        told = context["ti"].xcom_pull(task_ids=self.diagnosed)
        if not told:
            raise DeployFailed(context["ti"].xcom_pull(task_ids=self.diagnosed, key="error") or "nothing was seen")
        if "outlet_events" in context:
            diagnosed = {"job": context["params"]["job"], "outcome": "diagnosed", "sentence": str(told)}
            context["outlet_events"][OPERATIONS].extra = diagnosed
        return str(told)
