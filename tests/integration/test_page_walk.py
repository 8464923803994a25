"""Tests of the page in a browser inside Airflow's own frame, with a real Airflow and real drivers; every operation is
started with a button.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from harness.forms import DAG, SALES_TOTALS
from harness.rest import AirflowApi
from harness.waiting import wait_for
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.pages.page_address import page_path
from tests.integration.installation import CODE, OTHER_CODE, InstalledAirflow, deploy_first, edit
from tests.integration.walker import WAIT_MS, Walker, walking

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SCREENSHOTS = bool(os.environ.get("STREAMKEEPER_SCREENSHOTS"))
"""Read at import, before the tests remove such variables from the environment."""

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.storage, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def served(installation: InstalledAirflow, api: AirflowApi) -> AirflowApi:
    """The API of an Airflow whose job runs its first release, with a Python function below its state, after one watch
    pass.
    """
    edit(installation, CODE)
    deploy_first(installation, api)
    watch(installation)
    return api


def watch(installation: InstalledAirflow) -> None:
    """Run a watch pass that only observes; the fleet page shows its results."""
    run_pass(WatchPass(installation=installation.system.installation, acts=False))


def shoot(page: Page, name: str) -> None:
    """Save one of the README's screenshots if ``STREAMKEEPER_SCREENSHOTS`` is set."""
    if SCREENSHOTS:
        IMAGES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=IMAGES / f"{name}.png")


@pytest.fixture
def walker(browser: Browser, installation: InstalledAirflow, served: AirflowApi) -> Iterator[Walker]:
    with walking(browser, installation) as found:
        yield found


def test_every_operation_can_be_started_with_the_pages_buttons(
    walker: Walker, installation: InstalledAirflow, served: AirflowApi
) -> None:
    """A user can open the fleet and a job, deploy, roll back, approve an opaque change and recover a killed driver with
    the page's buttons alone.
    """
    page, frame = walker.page, walker.frame
    page.goto(served.url)
    page.get_by_role("link", name="Streaming", exact=True).click()
    expect(frame.get_by_role("heading", level=1)).to_have_text("Streaming jobs", timeout=WAIT_MS)
    shoot(page, "fleet")
    frame.get_by_role("link", name=SALES_TOTALS, exact=True).click()
    expect(frame.get_by_role("heading", level=1)).to_have_text(SALES_TOTALS, timeout=WAIT_MS)

    deploy_by_button(walker, served)
    assert installation.state.serving_release == "r0002"
    roll_back_by_button(walker, served)
    assert installation.state.serving_release == "r0001"
    edit(installation, OTHER_CODE)
    approve_by_button(walker)
    assert installation.state.serving_release == "r0003"
    recover_by_button(walker, installation)
    walker.go(page_path(SALES_TOTALS))
    expect(frame.get_by_role("heading", level=1)).to_have_text(SALES_TOTALS, timeout=WAIT_MS)
    shoot(page, "job")


def deploy_by_button(walker: Walker, api: AirflowApi) -> None:
    """Deploy with the button: an error is shown and the typed params stay, a dry run shows the verdict, and a double
    click creates only one run.
    """
    walker.begin("Deploy", "fewer files a batch")
    params = walker.frame.get_by_label("Job params", exact=True)
    right = params.input_value().replace('"files_per_trigger": 100', '"files_per_trigger": 50')
    assert '"warehouse": "secret://' in right
    for wrong, told in (
        (right[:-1], "Job params is not JSON"),
        ('{"warehouse": "***"}', "Job params: warehouse is not shown here"),
        ('{"files_per_trigger": [1]}', "Invalid input for param params"),
    ):
        params.fill(wrong)
        walker.send("Dry run")
        assert told in walker.error()
        assert params.input_value() == wrong
    params.fill(right)
    walker.send("Dry run")
    assert "rate-limit-changed" in walker.words()
    params.fill('{"files_per_trigger": 50, "input": "/data/sales", "warehouse": "secret://airflow/warehouse/password"}')
    walker.show_found()
    shoot(walker.page, "dialog")
    params.fill(right)
    before = by_hand(api)
    walker.frame.locator("dialog .send button[value=send]").dblclick()
    operation = walker.operation()
    expect(walker.frame.locator("#step-drain")).to_have_attribute("data-mark", "done", timeout=WAIT_MS)
    ended = walker.until_over(operation)
    assert ended.outcome is Outcome.SUCCEEDED
    assert len(by_hand(api) - before) == 1
    expect(walker.frame.locator("#words")).to_contain_text("r0002 continues the checkpoint of r0001")
    expect(walker.frame.get_by_role("table").last).to_contain_text("r0001, previous")


def by_hand(api: AirflowApi, dag: str = DAG) -> set[str]:
    """Return the ids of the runs that a dialog has created."""
    return {run for run in api.runs(dag) if run.startswith("page__")}


def roll_back_by_button(walker: Walker, api: AirflowApi, *, loses: bool = False) -> None:
    """Roll back with the button; with ``loses``, the first response gets lost, and sending again must not create a
    second run.
    """
    before = by_hand(api, "streaming_rollback")
    walker.begin("Roll back", "back to what served")
    if loses:
        with lost_answer(walker.page):
            walker.send("Roll back")
            assert "it is carried out only once" in walker.error()
    walker.send("Roll back")
    assert walker.until_over(walker.operation()).outcome is Outcome.SUCCEEDED
    assert len(by_hand(api, "streaming_rollback") - before) == 1


class lost_answer:
    """A context in which Airflow receives the page's requests but the page receives no response."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __enter__(self) -> None:
        self._page.route("**/dagRuns", self._lose)

    def __exit__(self, *_: object) -> None:
        self._page.unroute("**/dagRuns")

    def _lose(self, route: Route) -> None:
        route.fetch()
        route.abort()


def approve_by_button(walker: Walker) -> None:
    """Deploy an opaque change and approve it on its page: the button appears without a reload, and the answer is
    recorded with its reason.
    """
    walker.go(page_path(SALES_TOTALS))
    walker.begin("Deploy", "the same by other means")
    walker.send("Deploy")
    operation = walker.operation()
    expect(walker.frame.get_by_role("button", name="Approve or decline")).to_be_visible(timeout=WAIT_MS)
    shoot(walker.page, "operation")
    walker.open("Approve or decline")
    walker.fill("Reason", "read, it means the same")
    walker.send("Approve")
    expect(walker.frame.get_by_text("read, it means the same")).to_be_visible(timeout=WAIT_MS)
    ended = walker.until_over(operation)
    assert ended.approval is not None
    assert (ended.outcome, ended.approval.approved) == (Outcome.SUCCEEDED, True)
    assert ended.approval.reason == "read, it means the same"


def recover_by_button(walker: Walker, installation: InstalledAirflow) -> None:
    """Kill the driver and recover it with the button: the dry run shows the cause and that a restart loses nothing, and
    the restart is an operation.
    """
    site, instance = installation.system.installation, installation.state.serving_instance
    site.runner.kill(SALES_TOTALS, instance)
    wait_for("its end", lambda: site.runner.observe(SALES_TOTALS, instance).life is Life.DEAD, timeout_s=60)
    walker.go(page_path(SALES_TOTALS))
    walker.begin("Recover", "its driver was killed")
    walker.send("Dry run")
    words = walker.words()
    assert "driver-killed" in words
    assert "loses nothing" in words
    walker.send("Recover")
    ended = walker.until_over(walker.operation())
    assert ended.outcome is Outcome.SUCCEEDED
    assert ended.request.recovery is not None
    assert ended.request.recovery.action is RecoveryAction.RESTART


def test_a_request_repeated_after_a_lost_response_creates_one_run(walker: Walker, served: AirflowApi) -> None:
    """When a request is sent again because its response got lost, Airflow creates only one run, and the page opens that
    run's operation.
    """
    walker.go(page_path(SALES_TOTALS))
    roll_back_by_button(walker, served, loses=True)
