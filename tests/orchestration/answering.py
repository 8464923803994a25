"""A real Airflow whose users answer questions by REST: its database, its permissions and its responses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.orchestration.test_plugin_discovery import ROOT, run

ANSWER = """
import json, sys
from airflow.utils.db import initdb
initdb()
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.execution_api.datamodels.hitl import HITLDetailRequest
from airflow.api_fastapi.execution_api.routes.hitl import upsert_hitl_detail
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.timezone import utcnow
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from starlette.testclient import TestClient

asked = json.loads(sys.argv[1])
with DAG("a_dag", schedule=None) as dag:
    for number in range(len(asked["questions"])):
        EmptyOperator(task_id=str(number))
tasks = DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_dict
with create_session() as session:
    session.add(DagBundleModel(name="b"))
    session.flush()
    session.add(DagModel(dag_id="a_dag", bundle_name="b"))
    session.add(DagRun(dag_id="a_dag", run_id="r", run_type=DagRunType.MANUAL, run_after=utcnow(),
        triggered_by=DagRunTriggeredByType.TEST))
    session.flush()
    for number, question in enumerate(asked["questions"]):
        task = TaskInstance(task=tasks[str(number)], dag_version_id=None, run_id="r", state="deferred")
        session.add(task)
        session.flush()
        upsert_hitl_detail(task.id, HITLDetailRequest(**question, ti_id=task.id), session)
client = TestClient(create_app("core"))

def answer(number, name):
    user = SimpleAuthManagerUser(username=name, role="op")
    client.cookies.set(COOKIE_NAME_JWT_TOKEN, get_auth_manager().generate_jwt(user))
    body = {"chosen_options": ["Approve"], "params_input": {"reason": "seen"}}
    path = f"/api/v2/dags/a_dag/dagRuns/r/taskInstances/{number}/-1/hitlDetails"
    return client.patch(path, json=body).status_code

def counts(number):
    with create_session() as session:
        told = session.query(HITLDetail).filter(HITLDetail.task_instance.has(task_id=str(number))).one()
        return told.responded_by["name"] if told.responded_by else ""

print("SEEN" + json.dumps({"answers": [[(answer(number, name), counts(number)) for name in asked["users"]]
    for number in range(len(asked["questions"]))]}))
"""


def answer_by_rest(home: Path, questions: Sequence[dict[str, Any]], users: Sequence[str]) -> list[list[list[Any]]]:
    """Let each user approve each question, one after the other.

    ``home`` is an empty Airflow home; ``questions`` are the requests that a task gives Airflow. Returns for each
    question and user the HTTP status and the name of the user whose answer Airflow has recorded, empty without one.
    """
    kept = ("options", "subject", "body", "defaults", "multiple", "assigned_users")
    given = {"questions": [{name: each[name] for name in kept} for each in questions], "users": list(users)}
    answers: list[list[list[Any]]] = run(ANSWER, json.dumps(given), ROOT / "plugins", home, {})["answers"]
    return answers
