"""Tests the page of an operation and the dialogs as a browser receives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from msgspec.structs import replace

from streamkeeper.model.records.journal_records import (
    InstanceEnded,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseRegistered,
)
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.run_names import operation_id
from streamkeeper.operations.jobs.carriers import Carrier, note_carrier
from streamkeeper.pages.dialog_routes import new_run_id
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.objects import put_object
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.asking import ask, ask_about_output
from tests.pages.asking import everything, get, make_viewed, reads

PAGE = f"/jobs/{JOB}/operations/op2"
RUN = "manual__2026-11-25T12:00:00+00:00"
ASKING = {"state": "backup.approve", "output": "dual_run.review"}
MARKUP = "<img src=x onerror=alert(1)>"
DIALOGS = ("deploy", "rollback", "recover", "stop", "start", "state-dead")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job whose second release waits for approval."""
    made = Registered(tmp_path)
    ask(made, "op2")
    note_carrier(made.installation.store, JOB, "op2", Carrier(dag="streaming_deploy", run=RUN, asking=ASKING))
    return made


@pytest.fixture
def page(job: Registered) -> FastAPI:
    return make_viewed(job.installation)


def test_the_page_shows_steps_pending_approval_and_findings(page: FastAPI) -> None:
    """The page shows the steps, the pending approval, the findings and the rollback path, and links to the run in
    Airflow and to the job.
    """
    text = get(page, PAGE, under="/air/streamkeeper").text
    assert "Let r0002 of sales continue with the state of r0001?" in text
    assert 'id="step-bundle" data-mark="done"' in text
    assert "code-in-state-changed" in text
    assert "returns to its last batch, from a snapshot" in text
    assert f'href="/air/dags/streaming_deploy/runs/{RUN.replace(":", "%3A").replace("+", "%2B")}"' in text
    assert f'href="/air/streamkeeper/jobs/{JOB}"' in text
    assert "Approve or decline" in text


def test_the_page_of_an_open_operation_polls_only_for_new_entries(job: Registered, page: FastAPI) -> None:
    """The page of an open operation polls for entries after the last one it has, receives 204 if there are none, and
    stops polling once the operation is finished.
    """
    asked = re.search(r'hx-get="\?part=live&amp;after=(\d+)"', get(page, PAGE).text)
    assert asked is not None
    since = f"{PAGE}?part=live&after={asked[1]}"
    assert (get(page, since).status_code, get(page, since).text) == (204, "")
    job.record(OperationFinished(operation="op2", outcome=Outcome.REFUSED, sentence="not approved by ada: no"))
    live = get(page, since)
    assert live.status_code == 200
    assert "<html" not in live.text
    assert "not approved by ada: no" in live.text
    assert "data-refresh" not in live.text
    assert "Approve or decline" not in live.text


def test_the_text_of_a_dry_run_is_marked_complete_when_finished(job: Registered, page: FastAPI) -> None:
    """The text of a dry run that its dialog shows is marked as complete once the operation is finished."""
    words = get(page, f"{PAGE}?part=words").text
    assert "BACKUP" in words
    assert "data-over" not in words
    job.record(OperationFinished(operation="op2", outcome=Outcome.DRY_RUN, sentence="dry run: BACKUP"))
    assert "data-over" in get(page, f"{PAGE}?part=words").text


def test_rows_that_differ_are_shown(tmp_path: Path) -> None:
    """The page of a rebuild shows differing rows of the compared outputs, with markup escaped, and the approve command
    when no DAG run continues the operation.
    """
    job = Registered(tmp_path)
    ask_about_output(job, "op2")
    text = get(make_viewed(job.installation), PAGE).text
    assert "customer=&#39;a|b&#39;" in text
    assert "4 of 4 common rows differ" in text
    assert "no DAG run continues this operation" in text
    assert f"streamkeeper approve {JOB} op2 --about output" in text


def test_the_page_shows_the_proof_that_the_previous_driver_terminated(job: Registered, page: FastAPI) -> None:
    """The page shows the proof that the previous driver terminated, and its role."""
    job.record(InstanceEnded(operation="op2", instance="op-candidate", proof="no process is left", exit="drained"))
    text = get(page, PAGE).text
    assert "no process is left" in text
    assert "r0001, previous" in text


def test_rollback_cost_and_code_difference_are_loaded_only_on_demand(job: Registered, page: FastAPI) -> None:
    """The page loads the rollback cost and the code difference only on demand, and reports that they are not applicable
    or not known for releases without bundles.
    """
    text = get(page, PAGE).text
    assert 'hx-get="?part=back"' in text
    assert 'hx-get="?part=code"' in text
    assert "Not applicable: " in get(page, f"{PAGE}?part=back").text
    assert "not known" in get(page, f"{PAGE}?part=code").text


def test_code_that_differs_is_shown_without_its_secrets(job: Registered, page: FastAPI, tmp_path: Path) -> None:
    """The code difference escapes markup and masks secrets."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    state = job.installation.journal(JOB, "test").state()
    for number, line in ((1, "a = 1"), (2, f'a = "{MARKUP}"\npassword = "hunter22"')):
        (jobs / "sales.py").write_text(f"{line}\n")
        bundle = build_bundle(jobs, JOB)
        put_object(job.installation.store, JOB, "bundles", bundle.data, ".zip")
        content = replace(state.releases[f"r{number:04d}"].content, bundle=bundle.sha256, entry=bundle.entry)
        job.record(ReleaseRegistered(release=replace(state.releases["r0001"], number=number, content=content)))
    text = get(page, f"{PAGE}?part=code").text
    assert "+a = &#34;&lt;img src=x onerror=alert(1)&gt;&#34;" in text
    assert "hunter22" not in text
    assert "+password" in text


def test_markup_and_direction_characters_are_escaped(tmp_path: Path) -> None:
    """Markup in a reason, a name, a sentence or a proof is escaped, and characters that reverse the reading direction
    are shown as escape sequences.
    """
    job = Registered(tmp_path)
    request = DeployRequest(job=JOB, reason=f"{MARKUP} \u202egnp.exe", requested_by=MARKUP, expect_different=(MARKUP,))
    job.record(OperationStarted(operation="op2", request=request, steps=("bundle",)))
    job.record(InstanceEnded(operation="op2", instance="op-candidate", proof=MARKUP, exit=MARKUP))
    job.record(OperationFinished(operation="op2", outcome=Outcome.FAILED, sentence=MARKUP))
    text = get(make_viewed(job.installation), PAGE).text
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") == 7
    assert MARKUP not in text
    assert "\u202e" not in text
    assert "\\u202egnp.exe" in text


def test_a_secret_in_a_param_is_on_no_page(tmp_path: Path) -> None:
    """A literal secret in a param appears neither in an error on the page nor in a dialog. Negative control: a plain
    param value does.
    """
    job = Registered(tmp_path)
    state = job.installation.journal(JOB, "test").state()
    release = state.releases["r0001"]
    params = {"password": "opensesame", "input": "/data/in"}
    job.record(ReleaseRegistered(release=replace(release, content=replace(release.content, params=params))))
    ask(job, "op2")
    job.record(OperationFinished(operation="op2", outcome=Outcome.FAILED, sentence="no login: opensesame, /data/in"))
    page = make_viewed(job.installation)
    for path in (PAGE, f"/jobs/{JOB}/dialogs/deploy"):
        text = get(page, path).text
        assert "opensesame" not in text, path
        assert "/data/in" in text, path


def test_a_viewer_gets_no_button_and_no_dialog(job: Registered) -> None:
    """A user who may only read sees the operation without buttons, and every dialog returns 403. Negative control: an
    admin gets buttons and dialogs.
    """
    page, admins = make_viewed(job.installation, reads), make_viewed(job.installation, everything)
    text = get(page, PAGE).text
    assert "code-in-state-changed" in text
    assert "/dialogs/" not in text
    assert "/dialogs/" in get(admins, PAGE).text
    for name in (*DIALOGS, "answer"):
        refused = get(page, f"/jobs/{JOB}/dialogs/{name}")
        assert (refused.status_code, "<form" in refused.text) == (403, False), name
        assert "<form" in get(admins, f"/jobs/{JOB}/dialogs/{name}").text, name


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_can_only_be_sent_to_the_airflow_api(page: FastAPI, name: str) -> None:
    """A dialog's form has no action or method of its own: it contains Airflow's API path and a new run id, with which
    the script sends it.
    """
    text = get(page, f"/jobs/{JOB}/dialogs/{name}", under="/air/streamkeeper").text
    form = text[text.index("<form") : text.index(">", text.index("<form"))]
    assert "action=" not in form
    assert "method=" not in form
    assert 'data-api="/air/api/v2"' in form
    assert re.search(r'data-run="page__\d{8}T\d{6}Z_[0-9a-f]{8}"', form)
    assert form != get(page, f"/jobs/{JOB}/dialogs/{name}", under="/air/streamkeeper").text[: len(form)]


def test_every_field_of_a_dialog_has_a_label(page: FastAPI) -> None:
    """Every field of a dialog has a label, and its default is valid JSON."""
    for name in DIALOGS:
        text = get(page, f"/jobs/{JOB}/dialogs/{name}").text
        fields = re.findall(r'<(?:input|select|textarea) id="(field-[a-z_]+)"', text)
        assert fields, name
        assert [each for each in fields if f'<label for="{each}">' not in text] == [], name
        for default in re.findall(r'data-default="([^"]+)"', text):
            json.loads(default.replace("&#34;", '"'))


def test_a_run_leads_to_its_operation(tmp_path: Path) -> None:
    """The address of a DAG run redirects to its operation, with or without the job's name; a run without an operation
    returns 404.
    """
    job = Registered(tmp_path)
    name = operation_id("streaming_deploy", RUN)
    ask(job, name)
    note_carrier(job.installation.store, JOB, name, Carrier(dag="streaming_deploy", run=RUN, asking=ASKING))
    page = make_viewed(job.installation)
    query = f"dag=streaming_deploy&run={RUN.replace('+', '%2B')}"
    for more in ("", f"&job={JOB}"):
        answer = get(page, f"/runs?{query}{more}", under="/air/streamkeeper")
        assert answer.status_code == 303
        assert answer.headers["Location"] == f"/air/streamkeeper/jobs/{JOB}/operations/{name}"
    assert get(page, f"/runs?{query}&part=words").headers["Location"].endswith(f"{name}?part=words")
    for wrong in ("dag=streaming_deploy&run=other", f"{query}x&job={JOB}"):
        assert get(page, f"/runs?{wrong}").status_code == 404
    assert get(page, "/runs?dag=streaming_deploy").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        f"/jobs/{JOB}/operations/none",
        f"/jobs/{JOB}/operations/..%2F..%2Fetc",
        f"/jobs/{JOB}/operations/OP",
        "/jobs/none/operations/op",
        "/jobs/..%2Fsales/operations/op",
        "/jobs/Sales/dialogs/deploy",
        f"/jobs/{JOB}/dialogs/drop",
        "/jobs/none/dialogs/deploy",
        f"/jobs/{JOB}/operations/op?part=nothing",
        "/jobs/..%2Fx/operations/op?part=live&after=3",
    ],
)
def test_an_unknown_or_invalid_address_returns_404_with_an_error_page(page: FastAPI, path: str) -> None:
    """An address with an unknown or invalid job, operation, dialog or part returns 404 with an error page."""
    answer = get(page, path)
    assert answer.status_code == 404
    assert "<h1>Not Found</h1>" in answer.text


def test_no_two_dialogs_create_the_same_run() -> None:
    """The run ids of 100 dialogs are distinct, and each yields a valid operation id."""
    assert len({new_run_id() for _ in range(100)}) == 100
    assert operation_id("streaming_deploy", new_run_id()).startswith("page-20")
