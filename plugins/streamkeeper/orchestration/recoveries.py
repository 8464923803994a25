"""The tasks of a recovery before its steps: diagnose, ask a person about loss or duplication, open the operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.timezone import utcnow

from streamkeeper.errors import DeployFailed
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.watch.health import Urgency
from streamkeeper.orchestration.answer_trigger import APPROVE, DECLINE
from streamkeeper.orchestration.branching import BranchOperator
from streamkeeper.orchestration.deploy_tasks import FinishOperator, begin, update_asset
from streamkeeper.orchestration.form import read_request, recover_form
from streamkeeper.orchestration.notifiers import tell_all
from streamkeeper.orchestration.people import answered_by, assigned_users, required_actions, triggered_by
from streamkeeper.orchestration.tasks import OpeningTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.deploys.deploy import Deploy
    from streamkeeper.operations.recovery.recovering import RecoveryRequest


def read_asked(params: Mapping[str, Any], *, requested_by: str, **more: Any) -> RecoveryRequest:
    """Return the request of a filled-in form; ``more``: further fields of the request."""
    from streamkeeper.operations.recovery.recovering import RecoveryRequest

    query, snapshot = params.get("query") or "", params.get("snapshot") or ""
    return RecoveryRequest(
        request=read_request(params, requested_by=requested_by),
        action=RecoveryAction(params["action"]),
        queries=(query,) if query else (),
        snapshots={query: snapshot} if query and snapshot else {},
        **more,
    )


class _RecoveryTask(OpeningTask):
    """A task of a recovery. ``diagnosed``: id of the task that diagnoses; empty for that task itself."""

    form = staticmethod(recover_form)

    def __init__(self, *, diagnosed: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.diagnosed = diagnosed

    def only_looks(self, context: Context) -> bool:
        """Whether the run only diagnoses, or is the dry run of an action: it then changes nothing."""
        asked = self.asked(context)
        return bool(asked["action"] == RecoveryAction.DIAGNOSE.value or asked.get("dry_run"))

    def found(self, context: Context, key: str = "return_value") -> Any:
        """Return a result of the diagnosing task; None if it has no such result."""
        return context["ti"].xcom_pull(task_ids=self.diagnosed, key=key)

    def open_asked(self, context: Context, **more: Any) -> Deploy:
        """Start the recovery as it was announced, or find it started, and record that this run executes it."""
        from streamkeeper.operations.recovery.recovering import open_recovery

        announced = tuple(self.found(context, "announced") or ())
        asked = {**self.asked(context), **more.pop("fields", {})}
        request = read_asked(asked, requested_by=triggered_by(context), announced=announced, **more)
        deploy = open_recovery(load_installation(), self.own_operation(context), request)
        self._opened(context, deploy, deploy.plan())
        return deploy


class DiagnoseOperator(_RecoveryTask):
    """Diagnoses the job, reports the cause and the possible actions, and checks that the requested action is
    possible."""

    reports = True

    def work(self, context: Context) -> str:
        """Return the cause as a sentence; raises OperationRefused for an action that is not possible."""
        from streamkeeper.errors import InvalidInput
        from streamkeeper.operations.recovery.diagnoses import render_diagnosis
        from streamkeeper.operations.recovery.recovering import announcements, diagnose_for, must_be_possible

        params, installation = self.asked(context), load_installation()
        if params.get("snapshot") and not params.get("query"):
            raise InvalidInput("a snapshot is named without its query", hint="fill in the field query, too")
        if (own := self.own_operation(context)) in installation.journal(params["job"], "task").state().operations:
            return f"operation {own} is started already"
        asked = read_asked(params, requested_by=triggered_by(context))
        self.prefer_right_machine(installation, params["job"])
        found = diagnose_for(installation, asked)
        self._report(context, render_diagnosis(found).splitlines())
        if asked.action is not RecoveryAction.DIAGNOSE:
            option = must_be_possible(found, asked.action)
            context["ti"].xcom_push(key="announced", value=list(announcements(option)))
            context["ti"].xcom_push(key="asks", value=option.asks)
        return found.sentence


class DecideOperator(_RecoveryTask, BranchOperator):
    """Chooses the branch: the end if the run only diagnoses, a question if the action loses or duplicates rows, and the
    recovery otherwise.
    """

    def __init__(self, *, ask: str, go_on: str, end: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ask, self.go_on, self.end = ask, go_on, end

    def work(self, context: Context) -> Any:
        """Skip the branches that are not taken, and return the id of the task that is taken."""
        return self.do_branch(context, self.choose_branch(context))

    def choose_branch(self, context: Context) -> str:
        """Return the id of the next task."""
        if self.only_looks(context):
            return self.end
        return self.ask if self.found(context, "asks") else self.go_on


class AcceptOperator(_RecoveryTask, HITLOperator):
    """Asks a person to accept the announced loss or duplication, and then opens the recovery.

    No answer within ``approve_s`` seconds counts as declined.
    """

    template_fields: Sequence[str] = (*OpeningTask.template_fields, *HITLOperator.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            subject="Accept the loss or duplication of a recovery",
            options=[APPROVE, DECLINE],
            defaults=DECLINE,
            **kwargs,
        )

    def work(self, context: Context) -> Any:
        """Wait for an answer and return it, with ``chosen_options``, ``params_input`` and ``responded_by_user``."""
        announced, params = self.found(context, "announced") or [], self.asked(context)
        report = self.found(context, "report") or ""
        installation, until = load_installation(), utcnow() + timedelta(seconds=float(params["approve_s"]))
        right = right_to_answer(
            installation.settings, installation.journal(params["job"], "task").state(), triggered_by(context)
        )
        self.subject = f"Accept loss or duplication by {params['action']} of {params['job']}?"
        self.assigned_users = assigned_users(right)
        by = (
            f"Without an answer by {until:%Y-%m-%d %H:%M} UTC, the question counts as declined. May answer:"
            f" {right.sentence}."
        )
        self.body = "\n".join([escaped(by), "", *(f"- {escaped(line)}" for line in announced), "", report])
        self.response_timeout = timedelta(seconds=float(params["approve_s"]))
        self._note(context, announced, until.timestamp(), right.sentence)
        self._tell_approvers(context, [by, "", *(f"- {line}" for line in announced)])
        return HITLOperator.execute(self, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Open the accepted recovery; raises DeployFailed if the question was declined.

        The recovery is opened here, and not in a later task, because Airflow passes the answering user to this task.
        """
        answer = super().execute_complete(context, event)
        return self._told(context, lambda: self._take(context, answer))

    def _note(self, context: Context, announced: Sequence[str], until: float, may: str) -> None:
        """Store the question, so that the watch, ``streamkeeper status`` and the page show it."""
        from streamkeeper.registry.pending_questions import PendingQuestion, note_question

        params = self.asked(context)
        question = PendingQuestion(
            operation=self.own_operation(context),
            action=params["action"],
            sentence="; ".join(announced),
            asked_by=triggered_by(context),
            asked_at=utcnow().timestamp(),
            until=until,
            may=may,
            link=required_actions(self, context),
        )
        note_question(load_installation().store, params["job"], question)

    def _take(self, context: Context, answer: Any) -> Any:
        from streamkeeper.registry.pending_questions import drop_question

        drop_question(load_installation().store, self.asked(context)["job"], self.own_operation(context))
        (by, user_id), reason = answered_by(answer), answer["params_input"].get("reason", "")
        if answer["chosen_options"] != [APPROVE] or not by:
            who = f"{by}: {reason or 'no reason given'}" if by else "no answer in time"
            raise DeployFailed(f"not accepted: {who}")
        accepted = {"accepted_by": by, "accepted_by_id": user_id, "accept_loss": True, "accept_replay": True}
        self.open_asked(context, fields={"reason": reason or self.asked(context).get("reason")}, **accepted)
        return answer

    def _tell_approvers(self, context: Context, lines: list[str]) -> None:
        from streamkeeper.operations.jobs.notices import Message, runbook_link

        link = required_actions(self, context)
        message = Message(
            job=self.asked(context)["job"],
            query="",
            rule="approval-waiting",
            severity=Urgency.TICKET.value,
            event="asked",
            subject=f"[approval] {self.subject}",
            text="\n".join([*lines, *(["", f"Answer: {link}"] if link else [])]),
            runbook=runbook_link("A deploy waits for an approval"),
        )
        for failed in tell_all(context, message):
            self.log.warning("%s", failed)


class RecoverOperator(_RecoveryTask):
    """Opens a recovery that needs no acceptance, or continues the recovery that AcceptOperator has opened.

    The later tasks are those of a deploy.
    """

    step = Step.BUNDLE

    def work(self, context: Context) -> str:
        """Return a sentence about the progress; raises OperationRefused for an action that was not accepted."""
        return begin(self.open_asked(context))


class RecoveredOperator(_RecoveryTask, FinishOperator):
    """Gives the run the outcome of the recovery. A run that only diagnoses succeeds as soon as the diagnosis
    is done.
    """

    template_fields: Sequence[str] = (*OpeningTask.template_fields, *FinishOperator.template_fields)

    def work(self, context: Context) -> str:
        """Return the result as a sentence; raises DeployFailed unless the recovery, or the diagnosis, succeeded."""
        if not self.only_looks(context):
            return super().work(context)
        sentence = self.found(context)
        if not sentence:
            raise DeployFailed(self.found(context, "error") or "the diagnosis left no result")
        update_asset(context, {"job": self.asked(context)["job"], "outcome": "diagnosed", "sentence": str(sentence)})
        return str(sentence)
