"""The page as Airflow serves it: who is let in, by which right, and that nothing of it costs a task's start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestration.test_plugin_discovery import ROOT, run

pytestmark = pytest.mark.airflow

ASK = """
import json, os, sys
from datetime import timedelta
from airflow import plugins_manager
apps, _ = plugins_manager.get_fastapi_plugins()
views, _ = plugins_manager._get_ui_plugins()
behind = ("streamkeeper.pages.app", "streamkeeper.operations.installation")
early = [name for name in behind if name in sys.modules]
from airflow.utils.db import initdb
initdb()
from fastapi import FastAPI
from starlette.testclient import TestClient
from airflow.api_fastapi.app import create_auth_manager, get_auth_manager, init_plugins
create_auth_manager()
app = FastAPI()
init_plugins(app)
client = TestClient(app)

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

def status(role):
    if role is None:
        client.cookies.clear()
    else:
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=role, role=role))
        client.cookies.set(COOKIE_NAME_JWT_TOKEN, token)
    answer = client.get("/streamkeeper/")
    return [answer.status_code, answer.headers.get("content-security-policy", "")[:18]]

client.cookies.set(COOKIE_NAME_JWT_TOKEN, "forged")
forged = client.get("/streamkeeper/").status_code
client.cookies.clear()
roles = {str(role): status(role) for role in (None, "viewer", "user", "op", "admin")}
print("SEEN" + json.dumps({"early": early, "views": views, "apps": [each["url_prefix"] for each in apps],
    "roles": roles, "forged": forged}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a real API server's application answers, with a database of its own."""
    home = tmp_path_factory.mktemp("airflow")
    more = {"STREAMKEEPER_HOME": str(home / "streamkeeper"), "AIRFLOW__API__BASE_URL": "http://127.0.0.1:8080/flow"}
    return run(ASK, "", ROOT / "plugins", home, more)


def test_the_page_has_an_entry_in_the_bar(seen: dict[str, Any]) -> None:
    """Below the path that Airflow itself is served at."""
    assert seen["apps"] == ["/streamkeeper"]
    [view] = [each for each in seen["views"] if each["url_route"] == "streamkeeper"]
    assert (view["href"], view["nav_top_level"]) == ("/flow/streamkeeper/", True)


def test_nobody_sees_it_without_a_session(seen: dict[str, Any]) -> None:
    """Nor with a forged one; whoever may read the DAG behind it does, and every answer has its policy."""
    assert seen["roles"].pop("None") == [401, "default-src 'none'"]
    assert seen["forged"] in (401, 403)
    shown = [200, "default-src 'none'"]
    assert seen["roles"] == {"viewer": shown, "user": shown, "op": shown, "admin": shown}


def test_what_stands_behind_a_page_is_imported_when_it_is_asked_for(seen: dict[str, Any]) -> None:
    """Every process of Airflow's loads the plugin, tasks too."""
    assert seen["early"] == []
