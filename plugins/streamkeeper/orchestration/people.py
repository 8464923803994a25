"""Airflow's users, as the journal signs them: who has triggered a run, who has answered, whom a question is for."""

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
    """Who has triggered the run; NOBODY for a schedule and for another DAG."""
    name = context["dag_run"].triggering_user_name
    return airflow_user(name) if name else NOBODY


def answered_by(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Who has given an answer in Airflow, and their id there; empty where nobody has."""
    user = answer.get("responded_by_user")
    return (airflow_user(str(user["name"])), str(user["id"])) if user else ("", "")


def assigned_users(right: RightToAnswer) -> list[HITLUser]:
    """Whom Airflow itself lets answer; empty for everybody.

    Airflow takes an empty list for everybody: where nobody is left, those are named whose answer would not count.
    """
    named = right.named()
    if named is None:
        return []
    everybody = named or right.listed
    return [{"id": person.id or person.name, "name": person.name} for person in everybody]


def required_actions(task: HITLOperator, context: Context) -> str:
    """Where a person answers what the task asks; empty where Airflow does not know its own address."""
    try:
        return task.generate_link_to_ui(task_instance=context["ti"])
    except ValueError:
        return ""
