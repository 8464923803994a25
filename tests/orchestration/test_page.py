"""Tests the page as Airflow serves it: which users are admitted, with which rights, and that loading the plugin does
not import the page's code.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestration.test_plugin_discovery import ROOT, run

pytestmark = pytest.mark.airflow

ASK = """
import json, os, sys
from airflow import plugins_manager
apps, _ = plugins_manager.get_fastapi_plugins()
plugins_manager._get_ui_plugins()
behind = ("streamkeeper.pages.app", "streamkeeper.operations.jobs.installation")
early = [name for name in behind if name in sys.modules]
from airflow.utils.db import initdb
initdb()
from starlette.testclient import TestClient
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from streamkeeper.orchestration.page import viewer_of
client = TestClient(create_app("core"))

def sign_in(role):
    client.cookies.clear()
    if role is not None:
        user = SimpleAuthManagerUser(username=role, role=role)
        client.cookies.set(COOKIE_NAME_JWT_TOKEN, get_auth_manager().generate_jwt(user))

def told(role):
    sign_in(role)
    answer = client.get("/flow/streamkeeper/")
    run = {"logical_date": None, "conf": {"job": "orders", "reason": "made by hand"}}
    posted = client.post("/flow/api/v2/dags/streaming_deploy/dagRuns", json=run)
    return {"page": answer.status_code, "policy": answer.headers["content-security-policy"][:18],
        "text": answer.text, "post": posted.status_code}

def rights(role):
    user = SimpleAuthManagerUser(username=role, role=role)
    return [right for right in ("see", "run", "answer") if viewer_of(user).may(right, "streaming_deploy")]

client.cookies.set(COOKIE_NAME_JWT_TOKEN, "forged")
forged = client.get("/flow/streamkeeper/").status_code
roles = {str(role): told(role) for role in (None, "viewer", "user", "op", "admin")}
sign_in("admin")
plugins = client.get("/flow/api/v2/plugins").json()["plugins"]
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.orchestration import page
site = page._installation()
made = site.id, page._installation() is site
shared = Installation.from_environment(os.environ)
now = page._installation().id
page._opened.cache_clear()
del os.environ["STREAMKEEPER_HOME"]
unset = client.get("/flow/streamkeeper/")
print("SEEN" + json.dumps({"early": early, "apps": [each["url_prefix"] for each in apps], "roles": roles,
    "views": [view for each in plugins if each["name"] == "streamkeeper" for view in each["external_views"]],
    "rights": {role: rights(role) for role in ("viewer", "user", "op", "admin")}, "forged": forged,
    "installations": [*made, now, shared.id], "unset": [unset.status_code, unset.text]}))
"""
SHOWN = "default-src 'none'"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the responses of a real API server's application that has its own database."""
    home = tmp_path_factory.mktemp("airflow")
    more = {"STREAMKEEPER_HOME": str(home / "streamkeeper"), "AIRFLOW__API__BASE_URL": "http://127.0.0.1:8080/flow"}
    return run(ASK, "", ROOT / "plugins", home, more)


def test_the_page_has_an_entry_in_the_bar_and_a_tab_of_runs(seen: dict[str, Any]) -> None:
    """Airflow's list of plugins contains the navigation entry and the tab for DAG runs, both under the path at which
    Airflow itself is served.
    """
    assert seen["apps"] == ["/streamkeeper"]
    views = {view["url_route"]: view for view in seen["views"]}
    nav, tab = views.pop("streamkeeper"), views.pop("streamkeeper-operation")
    assert views == {}
    assert nav["name"] == "Streaming", "more is cut off in the bar"
    assert (nav["href"], nav["destination"], nav["nav_top_level"]) == ("/flow/streamkeeper/", "nav", True)
    assert (tab["href"], tab["destination"]) == ("/flow/streamkeeper/runs?dag={DAG_ID}&run={RUN_ID}", "dag_run")


def test_requests_without_a_valid_session_are_rejected(seen: dict[str, Any]) -> None:
    """Requests without a session or with a forged one are rejected, every role that may read the DAG sees the page, and
    responses carry the content security policy.
    """
    nobody = seen["roles"]["None"]
    assert (nobody["page"], nobody["policy"]) == (401, SHOWN)
    assert "Sign in to Airflow" in nobody["text"]
    assert "<h1>Streaming jobs" not in nobody["text"]
    assert "<h1>Streaming jobs" in seen["roles"]["viewer"]["text"]
    assert seen["forged"] in (401, 403)
    for role in ("viewer", "user", "op", "admin"):
        told = seen["roles"][role]
        assert (told["page"], told["policy"]) == (200, SHOWN), role
        assert f'<p class="who">{role}</p>' in told["text"]
        assert 'href="/flow/streamkeeper/"' in told["text"]


def test_a_viewer_can_start_no_run_even_by_a_direct_post(seen: dict[str, Any]) -> None:
    """A viewer has only the right to see the page, and a DAG run that a viewer posts by hand returns 403. Control: the
    posts of other roles pass the authorization.
    """
    assert seen["rights"]["viewer"] == ["see"]
    assert seen["rights"]["op"] == seen["rights"]["admin"] == ["see", "run", "answer"]
    posted = {role: told["post"] for role, told in seen["roles"].items()}
    assert (posted["None"], posted["viewer"]) == (401, 403)
    assert (posted["user"], posted["op"], posted["admin"]) == (404, 404, 404), "no DAG was parsed here"


def test_an_installation_created_later_appears_in_the_next_view(seen: dict[str, Any]) -> None:
    """An installation created after the API server first read it appears in the next view, while an unchanged
    installation is not opened a second time.
    """
    before, kept, now, made = seen["installations"]
    assert (before, kept) == ("", True)
    assert now == made
    assert made


def test_a_missing_setting_is_named_on_a_503_page(seen: dict[str, Any]) -> None:
    """A missing setting produces a 503 page that contains the name of the setting."""
    status, text = seen["unset"]
    assert status == 503
    assert "STREAMKEEPER_HOME is not set" in text


def test_loading_the_plugin_imports_neither_application_nor_installation(seen: dict[str, Any]) -> None:
    """Loading the plugin, which every Airflow process and task does, imports neither the page application nor the
    installation module.
    """
    assert seen["early"] == []
