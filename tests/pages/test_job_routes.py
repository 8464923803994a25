"""Tests the page of a job: complete content, foreign markup as text, no secrets, and a part whose failure leaves the
others intact.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from harness.fault_store import FaultStore, unavailable
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.records.journal_records import JobForgotten, OperationFinished, OperationStarted, Outcome
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.jobs import timelines
from streamkeeper.registry.objects import object_key
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask
from tests.pages.asking import get, make_site, make_viewed, reads
from tests.pages.whole_job import DRIVER, LITERAL, MARKUP, OPERATION, REFERENCE, RUN, WholeJob, another_job

ALWAYS = ("standing", "health", "charts", "timeline", "release", "queries")
ON_DEMAND = ("findings", "snapshots", "readers", "log")


@pytest.fixture
def job(tmp_path: Path) -> WholeJob:
    return WholeJob(tmp_path)


@pytest.fixture
def page(job: WholeJob) -> FastAPI:
    return make_viewed(job.installation)


def part(page: FastAPI, name: str) -> str:
    """Return a single part of the job's page."""
    answer = get(page, f"/jobs/{JOB}?part={name}")
    assert answer.status_code == 200, answer.text
    return answer.text


def ageless(text: str) -> str:
    """Remove the ages, which differ between two requests, from the text."""
    return re.sub(r"[\d.]+ \w+ ago", "", text).strip()


def every_answer(page: FastAPI) -> list[httpx.Response]:
    """Return the responses to all requests that the job's page offers."""
    asked = [f"?part={name}" for name in (*ALWAYS, *ON_DEMAND)] + [f"?open={name}" for name in ON_DEMAND]
    return [get(page, f"/jobs/{JOB}{each}") for each in ("", "/history.json", *asked)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "standing",
            ("running", DRIVER, "r0002", "1,200 in, 3,000 processed", "every 5 s", "25%", f"/{OPERATION}"),
        ),
        (
            "health",
            ("lag-seconds", "look at a word", "A query falls behind", "started it: a word", "checkpoint: a"),
        ),
        ("charts", ("Lag", "Batch duration against the trigger", "State memory", 'data-chart="rates"')),
        ("timeline", ("handoff from v0001 to v0002", "SWITCH", "cli:bob: all done", "stop", "succeeded")),
        ("release", ("r0002", "Spark 4.2.0", REFERENCE)),
        (
            "queries",
            ("source 0: file /in", "3 files, lag 90 s", "stateful operator 0: aggregate", "v0001 after its"),
        ),
        ("findings", ("grouping-keys-changed", "sales.py:7", "-RATE = 1", "+RATE = 2", "against r0001")),
        ("snapshots", ("s0001", "verified 2026-11-24T10:00:00 by drill d1", "kept: the newest")),
        ("log", (f"{DRIVER}.log", "an error: a word")),
    ],
)
def test_each_part_shows_its_recorded_data(page: FastAPI, name: str, words: tuple[str, ...]) -> None:
    """Each part shows its data from the journal, the driver's folder, the watch's index, the objects and the log."""
    text = html.unescape(part(page, name))
    assert [each for each in words if each not in text] == []
    assert "<html" not in text


def test_the_whole_page_has_every_part_and_loads_the_heavy_ones_on_demand(page: FastAPI) -> None:
    """The whole page contains every quick part, and each slow part as a link that htmx loads in place and that opens as
    a page without a script.
    """
    whole = ageless(get(page, f"/jobs/{JOB}").text)
    for name in ALWAYS:
        assert ageless(part(page, name)) in whole
    for name in ON_DEMAND:
        assert ageless(part(page, name)) not in whole
        assert f'href="/jobs/{JOB}?open={name}#{name}" hx-get="/jobs/{JOB}?part={name}"' in whole
        opened = get(page, f"/jobs/{JOB}?open={name}").text
        assert ageless(part(page, name)) in ageless(opened)
        assert "<html" in opened


def test_slow_parts_make_no_store_requests_until_opened(job: WholeJob) -> None:
    """The page makes a bounded number of requests to the store, as long as no slow part is opened. Negative control: an
    open part makes more.
    """
    store = CountingStore(job.installation.store)
    site = job.installation.__class__(settings=job.installation.settings, store=store, runner=job.runner)
    page = make_viewed(site)

    def requests(query: str) -> int:
        before = store.requests
        assert get(page, f"/jobs/{JOB}{query}").status_code == 200
        return store.requests - before

    entries = job.state.number
    assert requests("") <= 2 * entries + 15
    assert requests("?open=snapshots") > requests("")


def test_markup_stays_text_everywhere(tmp_path: Path) -> None:
    """Markup in a reason, error, param, code, log line, finding or drill message is escaped on every part."""
    page = make_viewed(WholeJob(tmp_path, text=MARKUP).installation)
    for answer in every_answer(page):
        assert answer.status_code == 200
        assert "<img" not in answer.text or answer.headers["Content-Type"] == "application/json"
    for name in (*ALWAYS, *ON_DEMAND):
        if name not in ("charts", "readers"):
            assert html.escape(MARKUP) in part(page, name), name


def test_characters_that_reverse_the_reading_direction_are_escaped(tmp_path: Path) -> None:
    """Characters that reverse the reading direction are shown as escape sequences, in a reason as in a log."""
    page = make_viewed(WholeJob(tmp_path, text="a\u202eb").installation)
    for name in ("standing", "timeline", "log", "health"):
        assert "a\\u202eb" in part(page, name)
        assert "\u202e" not in part(page, name)


def test_no_secret_is_on_any_part(job: WholeJob, page: FastAPI) -> None:
    """A secret reference is shown, while the literal secret is masked in every response, including the log. Negative
    control: the log file on disk contains it.
    """
    for answer in every_answer(page):
        assert LITERAL not in answer.text
    assert REFERENCE in part(page, "release")
    assert "an error: a word by ***" in part(page, "log")
    log = job.installation.settings.log(JOB, DRIVER).read_text()
    assert LITERAL in log, "negative control: it was there to be shown"


def test_an_unknown_or_invalid_job_name_returns_404(page: FastAPI) -> None:
    """An unknown job, an invalid name and a path that leads out of the store each return 404."""
    answer = get(page, "/jobs/nope")
    assert (answer.status_code, "job nope is not known" in answer.text) == (404, True)
    for name in ("Sales", "sales.json", "%2e%2e", "a" * 64, "sales%2fjournal", "sales%0a"):
        assert get(page, f"/jobs/{name}").status_code == 404, name
        assert get(page, f"/jobs/{name}/history.json").status_code == 404, name


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?part=nothing", 404),
        ("?open=nothing", 404),
        ("?open=standing", 404),
        ("?before=soon", 400),
        ("?before=-3", 200),
        ("?before=99999999999999999999", 200),
        ("?part=timeline&before=1", 200),
    ],
)
def test_an_unknown_part_returns_404_and_an_invalid_position_400(page: FastAPI, query: str, status: int) -> None:
    """An unknown part returns 404 and a position that is not a number returns 400, while any number is accepted."""
    assert get(page, f"/jobs/{JOB}{query}").status_code == status


def damage(job: WholeJob, key: str) -> None:
    """Replace a record of the store with invalid content."""
    job.installation.store.replace(key, b"{")


def test_a_damaged_manifest_is_reported_in_place_of_the_plan(job: WholeJob, page: FastAPI) -> None:
    """A damaged manifest is reported in place of the query's plan, and checkpoints, offsets and the rest of the page
    remain.
    """
    damage(job, object_key(JOB, "manifests", job.state.described["r0002"][QUERY], ".json"))
    answer = get(page, f"/jobs/{JOB}")
    assert answer.status_code == 200
    assert "its plan cannot be read: " in answer.text
    assert "{&#34;logOffset&#34;:7}" in answer.text
    assert "v0001 after its batch 8" in answer.text
    assert "its content does not match the hash in its name" in part(page, "readers")


def test_a_damaged_driver_status_is_reported_in_its_place(job: WholeJob, page: FastAPI) -> None:
    """A damaged driver status is reported in its place, plans and health remain, and no unread input is shown."""
    damage(job, f"control/{JOB}/{DRIVER}/status.json")
    text = get(page, f"/jobs/{JOB}").text
    assert "status.json cannot be read: " in text
    assert "stateful operator 0" in text
    assert "lag-seconds" in text
    assert "unread input: " not in text


@pytest.mark.parametrize(
    ("name", "key", "told"),
    [
        ("findings", "report", "the last findings cannot be read: "),
        ("snapshots", f"snapshots/{JOB}/{QUERY}/index/0000000001", "s0001"),
        ("findings", "bundle", "the difference is unknown: "),
        ("charts", f"control/{JOB}/{DRIVER}/history.json", "has recorded no measurements yet"),
    ],
)
def test_damage_to_the_data_of_one_part_is_reported_within_that_part(
    job: WholeJob, page: FastAPI, name: str, key: str, told: str
) -> None:
    """Damage to the data of one part is reported within that part, and the page around it remains available."""
    objects = {
        "report": object_key(JOB, "reports", job.state.operations[OPERATION].report, ".json"),
        "bundle": object_key(JOB, "bundles", job.state.releases["r0002"].content.bundle, ".zip"),
    }
    damage(job, objects.get(key, key))
    text = html.unescape(part(page, name))
    assert told in text
    assert get(page, f"/jobs/{JOB}" + ("" if name in ALWAYS else f"?open={name}")).status_code == 200


def test_the_log_part_reports_a_log_that_is_missing_on_this_machine(job: WholeJob, page: FastAPI) -> None:
    """When the driver's log is missing on this machine, the log part reports that no machine is recorded as having
    started the driver.
    """
    job.installation.settings.log(JOB, DRIVER).unlink()
    assert f"no machine has recorded that it started {DRIVER}" in part(page, "log")


def test_a_damaged_journal_leaves_the_health_on_the_page(job: WholeJob, page: FastAPI) -> None:
    """With a damaged journal, the page still shows the health from the watch's index, and every other part reports the
    damage.
    """
    damage(job, entry_key(JOB, 3))
    answer = get(page, f"/jobs/{JOB}?open=log")
    assert answer.status_code == 200
    assert "lag-seconds" in answer.text
    assert answer.text.count("the journal cannot be read: ") == len(ALWAYS) - 1 + 1
    assert get(page, f"/jobs/{JOB}/history.json").status_code == 503


def test_a_job_whose_journal_is_lost_has_a_page(job: WholeJob, page: FastAPI) -> None:
    """A job whose journal is lost has a page that states the loss and the rebuild command, while an unknown job still
    returns 404.
    """
    for key in list(job.installation.store.list(f"registry/{JOB}/")):
        job.installation.store.delete(key)
    answer = get(page, f"/jobs/{JOB}")
    assert answer.status_code == 200
    assert f"the journal of job {JOB} is lost" in answer.text
    assert f"streamkeeper registry rebuild {JOB}" in answer.text
    assert get(page, "/jobs/nobody").status_code == 404


def test_a_damaged_entry_before_the_folded_copy_affects_only_the_timeline(job: WholeJob, page: FastAPI) -> None:
    """A damaged entry older than the folded copy of the state affects only the timeline, which reports it; the other
    parts remain.
    """
    while job.state.number < 105:
        job.record(OperationStarted(operation="op", request=DeployRequest(job=JOB), steps=()))
    damage(job, entry_key(JOB, 50))
    text = get(page, f"/jobs/{JOB}").text
    assert "its history cannot be read: " in text
    assert "stateful operator 0" in text
    assert 'class="badge good">running' in text


def test_an_unavailable_store_returns_503_for_the_page_and_each_part(job: WholeJob) -> None:
    """When the store is unavailable, the page and each of its parts return 503."""
    store = FaultStore(job.installation.store, unavailable())
    site = job.installation.__class__(settings=job.installation.settings, store=store, runner=job.runner)
    page = make_viewed(site)
    for query in ("", "?part=log", "?part=standing"):
        assert get(page, f"/jobs/{JOB}{query}").status_code == 503


def test_parts_of_a_job_in_its_first_deploy_list_what_is_missing(tmp_path: Path) -> None:
    """A job whose first deploy is still open has every part, each of which states what does not exist yet."""
    site = make_site(tmp_path)
    started = OperationStarted(operation="op", request=DeployRequest(job="orders", reason="first"), steps=("bundle",))
    site.journal("orders", "test").append(lambda _: started)
    page = make_viewed(site)
    text = get(page, "/jobs/orders").text
    for told in (
        "not deployed",
        "the watch has made no pass yet",
        "no driver has run yet",
        "this job has no current release",
    ):
        assert told in text
    assert "op: deploy the code under the jobs root" in text
    for name, told in (
        ("findings", "no operation of this job has been assessed"),
        ("snapshots", "No query of this job has ever had a checkpoint"),
        ("readers", "None among the jobs that could be checked"),
        ("log", "job orders has started no driver yet"),
    ):
        assert told in get(page, f"/jobs/orders?part={name}").text


def test_the_page_of_a_forgotten_job_shows_who_forgot_it_and_why(job: WholeJob, page: FastAPI) -> None:
    """A forgotten job still has a page, which shows who forgot it and why, and its timeline."""
    job.record(JobForgotten(requested_by="cli:ada", reason=MARKUP))
    text = get(page, f"/jobs/{JOB}").text
    assert f"forgotten by cli:ada: {html.escape(MARKUP)}" in text
    assert part(page, "timeline").index("forget") < part(page, "timeline").index("deploy")


def test_the_readers_are_links_to_their_jobs(job: WholeJob, page: FastAPI) -> None:
    """Jobs whose source is this job's output are listed as links. Negative control: a job that reads a path with the
    same prefix is not listed.
    """
    job.leave_index(another_job(job, "copies", f"{job.output}/v0001"), another_job(job, "others", f"{job.output}-2"))
    text = part(page, "readers")
    assert '<a href="/jobs/copies">copies</a>' in text
    assert "others" not in text


def test_buttons_are_shown_only_to_users_who_may_run_the_dags(job: WholeJob, page: FastAPI) -> None:
    """A user who may only read sees no buttons. Negative control: a user who may run the DAGs sees them and can restore
    a snapshot.
    """
    reader = make_viewed(job.installation, reads)
    for query in ("", "?part=snapshots", "?open=snapshots"):
        assert "<button" not in get(reader, f"/jobs/{JOB}{query}").text
        assert "<button" in get(page, f"/jobs/{JOB}{query}").text
    assert f'hx-get="/jobs/{JOB}/dialogs/deploy"' in part(page, "buttons")
    assert "action=restore" in part(page, "snapshots")
    assert ">Stop</button>" in part(page, "buttons")
    job.runner.life = Life.DEAD
    assert ">Start</button>" in part(page, "buttons")


def test_a_part_that_refreshes_itself_reads_nothing_twice(job: WholeJob) -> None:
    """A part that refreshes itself reads only new journal entries. Negative control: the whole page reads all of
    them.
    """
    store = CountingStore(job.installation.store)
    page = make_viewed(job.installation.__class__(settings=job.installation.settings, store=store, runner=job.runner))
    costs = []
    for query in ("?part=standing", "?part=standing", "?part=buttons", ""):
        before = store.requests
        assert get(page, f"/jobs/{JOB}{query}").status_code == 200
        costs.append(store.requests - before)
    assert costs[0] > job.state.number
    # Buttons also depend on what the watch's index says, how it stands on what a person is asked.
    assert max(costs[1:3]) <= 5
    assert costs[3] > job.state.number
    job.record(JobForgotten(requested_by="ada", reason="no more"))
    assert "forgotten by ada" in part(page, "standing")


@pytest.mark.parametrize("name", ["content", "title", "heading", "crumbs", "nosuch"])
def test_a_block_of_the_page_frame_cannot_be_requested_as_a_part(page: FastAPI, name: str) -> None:
    """A block of the page's frame cannot be requested as a part and returns 404."""
    answer = get(page, f"/jobs/{JOB}?part={name}")
    assert answer.status_code == 404
    assert "this part of the page does not exist" in answer.text


def test_a_pending_approval_is_shown_to_every_viewer(tmp_path: Path) -> None:
    """A pending approval is shown to every viewer, with its link and the permitted approvers, even to a user who may
    not answer.
    """
    job = Registered(tmp_path)
    ask(job, "op-asks")
    text = html.unescape(part(make_viewed(job.installation, reads), "buttons"))
    assert f"Let r0002 of {JOB} continue with the state of r0001?" in text
    assert "/operations/op-asks" in text
    assert "May answer:" in text


def test_a_job_whose_journal_cannot_be_read_has_no_buttons(job: WholeJob, page: FastAPI) -> None:
    """A job with a damaged journal has no buttons, while one with only a damaged driver status still offers
    recovery.
    """
    damage(job, f"control/{JOB}/{DRIVER}/status.json")
    assert ">Recover</button>" in get(page, f"/jobs/{JOB}").text
    damage(job, entry_key(JOB, 3))
    assert "<button" not in get(page, f"/jobs/{JOB}").text


def test_the_chart_data_matches_the_tables(page: FastAPI) -> None:
    """The JSON of the charts contains the same series and number of values as the tables."""
    answer = get(page, f"/jobs/{JOB}/history.json")
    assert answer.headers["Content-Type"] == "application/json"
    told = json.loads(answer.text)
    assert told["instance"] == DRIVER
    (query,) = told["queries"]
    lines = {(chart["name"], line["label"]): line["values"] for chart in query["charts"] for line in chart["lines"]}
    assert lines["rates", "processed"] == [3000.0] * 3
    assert lines["batch", "trigger"] == [5.0] * 3
    assert lines["checkpoint_share", "share"] == [25.0] * 3
    assert len(query["at"]) == 3
    assert part(page, "charts").count("<td") == 3 * sum(len(chart["lines"]) for chart in query["charts"])


def test_links_go_where_the_page_is_mounted(job: WholeJob, page: FastAPI) -> None:
    """Under a prefix, the links to the operation, to Airflow's page of the DAG run and to the chart data are
    correct.
    """
    text = get(page, f"/jobs/{JOB}", under="/air/streamkeeper").text
    assert f'href="/air/streamkeeper/jobs/{JOB}/operations/{OPERATION}"' in text
    run = RUN.replace(":", "%3A").replace("+", "%2B")
    assert f'data-airflow href="/air/dags/streaming_deploy/runs/{run}"' in text
    assert f'data-history="/air/streamkeeper/jobs/{JOB}/history.json"' in text


def test_the_timeline_goes_back_to_the_first_entry(
    job: WholeJob, page: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeline's pages lead back to the first entry and list each operation exactly once."""
    monkeypatch.setattr(timelines, "OPERATIONS", 2)
    for number in range(5):
        name = f"more-{number}"
        job.record(OperationStarted(operation=name, request=DeployRequest(job=JOB), steps=()))
        job.record(OperationFinished(operation=name, outcome=Outcome.REFUSED, sentence="no"))
    seen: list[str] = []
    text = part(page, "timeline")
    while True:
        seen += [each.partition('"')[0] for each in text.split("/operations/")[1:]]
        if "Older" not in text:
            break
        before = text.rpartition("?before=")[2].partition("#")[0]
        text = part(page, f"timeline&before={before}")
    assert seen == [*(f"more-{number}" for number in (4, 3, 2, 1, 0)), OPERATION, "op1", "op"]


def test_the_store_is_only_read(job: WholeJob, page: FastAPI, tmp_path: Path) -> None:
    """No request for the job's page changes a key or a value of the store."""

    def everything() -> dict[str, bytes]:
        store = LocalStore(tmp_path / "store")
        return {key: store.read(key) for folder in ("registry/", "control/", "fleet/") for key in store.list(folder)}

    before = everything()
    every_answer(page)
    assert everything() == before
    assert before
