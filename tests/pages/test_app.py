"""Tests the application: access control, GET only, security headers on every response, and errors in one sentence."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from streamkeeper.errors import NotFound, RegistryDamaged, StoreUnavailable
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages import app as app_module
from streamkeeper.pages.headers import POLICY
from streamkeeper.pages.static_files import STATIC
from tests.pages.asking import everything, get, leave_index, make_site, make_viewed, reads
from tests.pages.rows import row

MARKUP = "<img src=x onerror=alert(1)>"


def raising(error: Exception) -> FastAPI:
    """Return an application whose installation cannot be opened because of this error."""

    def site() -> Installation:
        raise error

    return make_viewed(site)


@pytest.fixture
def page(tmp_path: Path) -> FastAPI:
    site = make_site(tmp_path)
    leave_index(site, row())
    return make_viewed(site)


def test_every_route_only_reads(page: FastAPI) -> None:
    """Every route accepts only GET, and other methods return 405."""
    routes = [route for route in page.routes if isinstance(route, APIRoute)]
    assert routes
    assert {method for route in routes for method in route.methods} == {"GET"}
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert get(page, "/", method=method).status_code == 405


def test_every_route_is_guarded(tmp_path: Path) -> None:
    """Every route returns 401 without a signed-in user and 403 without the right to the DAG, and neither response
    contains the page. Negative control: a user with the right sees it.
    """
    site = make_site(tmp_path)
    leave_index(site, row())
    allowed, refused = make_viewed(site, reads), make_viewed(site, lambda right, dag_id: False)
    for route in [route for route in allowed.routes if isinstance(route, APIRoute)]:
        path = re.sub(r"\{[^}]*\}", "orders", route.path)
        assert get(allowed, path, who="").status_code == 401, path
        assert get(refused, path).status_code == 403, path
    assert "Sign in" in get(allowed, "/", who="").text
    assert get(allowed, "/?sort=nothing", who="").status_code == 401, "who asks comes before what is asked"
    assert "ada may not read the DAG streaming_watch" in get(refused, "/").text
    assert "<table" not in get(refused, "/").text
    assert "<table" in get(allowed, "/").text


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/page.css", "/static/nowhere.js", "/?part=nothing"])
@pytest.mark.parametrize("who", ["ada", ""])
def test_every_response_has_the_headers(page: FastAPI, path: str, who: str) -> None:
    """Every response, whether page, part, file or error, carries the content security policy and the other security
    headers.
    """
    headers = get(page, path, who=who).headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == ("private, max-age=86400" if path == "/static/page.css" else "no-store")


def test_a_failing_page_has_the_security_headers_and_hides_the_error() -> None:
    """An unexpected error returns 500 with the security headers, refers to Airflow's log, and does not reveal the text
    of the error.
    """
    answer = get(raising(ValueError("password=hunter2")), "/")
    assert answer.status_code == 500
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert "hunter2" not in answer.text
    assert "log of Airflow" in answer.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound(f"job {MARKUP} is not known", hint="known jobs: none yet"), 404),
        (StoreUnavailable("the store does not answer", hint="see that it runs"), 503),
        (RegistryDamaged("entry 7 cannot be read"), 500),
    ],
)
def test_an_error_is_one_sentence(error: Exception, status: int) -> None:
    """An error page contains the error in one sentence with markup escaped; a request by htmx receives the bare
    sentence as plain text.
    """
    answer = get(raising(error), "/")
    assert answer.status_code == status
    assert str(error).replace("<", "&lt;").replace(">", "&gt;") in answer.text
    assert MARKUP not in answer.text
    bare = get(raising(error), "/", headers={"HX-Request": "true"})
    assert (bare.status_code, bare.text) == (status, str(error))
    assert bare.headers["Content-Type"].startswith("text/plain")


def test_links_lead_where_the_application_is_mounted(page: FastAPI) -> None:
    """When the application is mounted under a prefix, its own links start with that prefix, and links to Airflow start
    with Airflow's.
    """
    text = get(page, "/", under="/air/streamkeeper").text
    assert 'href="/air/streamkeeper/"' in text
    assert 'src="/air/streamkeeper/static/page.js?v=' in text
    assert 'href="/air/"' in get(page, "/", who="", under="/air/streamkeeper").text


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"])
def test_only_the_pages_own_files_are_served(page: FastAPI, path: str) -> None:
    """A path that leads out of the static folder returns 404. Negative control: a file inside it is served."""
    assert get(page, path).status_code == 404
    assert get(page, "/static/page.js").status_code == 200


def test_vendored_files_are_what_was_published() -> None:
    """Every vendored library matches its published hash and has its licence, and the static folder contains no other
    library.
    """
    vendored = json.loads((STATIC / "vendored.json").read_text())
    for name, told in vendored.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == told["sha256"], name
        assert (STATIC / told["licence"]).stat().st_size > 500
    ours = {"buttons.js", "charts.js", "page.css", "page.js", "vendored.json"}
    licences = {told["licence"] for told in vendored.values()}
    assert {path.name for path in STATIC.iterdir()} == {*vendored, *licences, *ours}


def test_no_template_has_a_script_or_style_of_its_own() -> None:
    """No template contains an inline script, style or event handler, which the policy forbids, or marks a value as safe
    markup.
    """
    for path in (STATIC.parent / "templates").glob("*.html"):
        text = path.read_text()
        assert "|safe" not in text.replace(" ", ""), path
        assert " style=" not in text, path
        assert "<style" not in text, path
        assert not re.search(r"<[^>]*\son\w+\s*=", text), path
        assert text.count("<script") == text.count("<script src="), path


def test_a_requested_part_has_the_same_markup_as_in_the_page(page: FastAPI) -> None:
    """A requested part is the same markup as in the whole page, and an unknown part returns 400."""
    whole, part = get(page, "/").text, get(page, "/?part=jobs").text
    assert "<table" in part
    assert "<html" not in part
    assert part.strip() in whole
    assert get(page, "/?part=nothing").status_code == 400


def test_a_router_of_a_module_becomes_part_of_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that a module's ``router_of`` returns becomes part of the application, with its error pages and
    headers.
    """

    def router_of(site: object, viewer: object) -> APIRouter:
        router = APIRouter()

        @router.get("/jobs/{job}")
        def job(job: str) -> None:
            raise NotFound(f"job {job} is not known")

        return router

    monkeypatch.setattr(app_module, "ROUTERS", (*app_module.ROUTERS, router_of))
    answer = get(make_viewed(make_site(tmp_path), everything), "/jobs/orders")
    assert (answer.status_code, answer.headers["Content-Security-Policy"]) == (404, POLICY)
    assert "job orders is not known" in answer.text
