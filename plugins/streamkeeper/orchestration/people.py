"""Airflow's users as the journal names them: who triggered a run, who answered, who may answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamkeeper.model.approvers import NOBODY, airflow_user

if TYPE_CHECKING:
    from airflow.providers.standard.operators.hitl import HITLOperator
    from airflow.sdk import Context
    from airflow.sdk.execution_time.hitl import HITLUser

    from streamkeeper.lifecycle.right_to_answer import RightToAnswer


def triggered_by(context: Context) -> str:
    """The user who triggered the run; NOBODY for a schedule and for another DAG."""
    name = context["dag_run"].triggering_user_name
    return airflow_user(name) if name else NOBODY


def answered_by(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The user who answered in Airflow, and their id there; both empty without an answer."""
    user = answer.get("responded_by_user")
    return (airflow_user(str(user["name"])), str(user["id"])) if user else ("", "")


def assigned_users(right: RightToAnswer) -> list[HITLUser]:
    """The users whom Airflow itself lets answer; empty for all users.

    Airflow takes an empty list for all users: if nobody may answer, it names users whose answer would not count.
    """
    named = right.named()
    if named is None:
        return []
    everybody = named or right.listed
    return [{"id": person.id or person.name, "name": person.name} for person in everybody]


def required_actions(task: HITLOperator, context: Context) -> str:
    """The address where a person answers the task's question; empty if Airflow's own address is not configured."""
    try:
        return task.generate_link_to_ui(task_instance=context["ti"])
    except ValueError:
        return ""
