"""Airflow's users under their names in the journal: who triggered a run, who answered, who may answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamkeeper.model.settings.approvers import NOBODY, airflow_user

if TYPE_CHECKING:
    from airflow.providers.standard.operators.hitl import HITLOperator
    from airflow.sdk import Context
    from airflow.sdk.execution_time.hitl import HITLUser

    from streamkeeper.lifecycle.right_to_answer import RightToAnswer


def triggered_by(context: Context) -> str:
    """Return the user who triggered the run; NOBODY if a schedule or another DAG triggered it."""
    name = context["dag_run"].triggering_user_name
    return airflow_user(name) if name else NOBODY


def answered_by(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the Airflow id of the user who answered in Airflow; both are empty without an answer."""
    user = answer.get("responded_by_user")
    return (airflow_user(str(user["name"])), str(user["id"])) if user else ("", "")


def assigned_users(right: RightToAnswer) -> list[HITLUser]:
    """Return the users whom Airflow lets answer. An empty list lets every user answer.

    If no user may answer, for example because the only approver made the request, the list must not be empty. It then
    contains every listed approver, and Streamkeeper rejects their answers.
    """
    named = right.named()
    if named is None:
        return []
    everybody = named or right.listed
    return [{"id": person.id or person.name, "name": person.name} for person in everybody]


def required_actions(task: HITLOperator, context: Context) -> str:
    """Return the address where a person answers the task's question; empty if Airflow's address is not configured."""
    try:
        return task.generate_link_to_ui(task_instance=context["ti"])
    except ValueError:
        return ""
