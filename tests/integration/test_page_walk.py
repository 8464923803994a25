"""The page in a browser, in Airflow's own frame: a real Airflow, real drivers, and everything by its buttons."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, Route, expect

from harness.forms import DAG, SALES_TOTALS
from harness.rest import AirflowApi
from harness.waiting import wait_for
from streamkeeper.model.journal import Outcome
from streamkeeper.model.liveness import Life
from streamkeeper.model.operation import OperationState
from streamkeeper.model.recovery import RecoveryAction
from streamkeeper.operations.watching import Watch, run_pass
from streamkeeper.page_address import page_address, page_path
from tests.integration.installation import InstalledAirflow, deploy_first
from tests.integration.test_airflow_approval import CODE, OTHER_CODE, edit
from tests.pages.accessible import grave_violations

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SCREENSHOTS = bool(os.environ.get("STREAMKEEPER_SCREENSHOTS"))
"""Read before the tests take such variables away."""
WAIT_MS = 240_000
"""A driver starts meanwhile, on a machine that may be busy."""

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def served(installation: InstalledAirflow, api: AirflowApi) -> AirflowApi:
    """The first release serves, with a Python function below its state, and the watch has made a pass."""
    edit(installation, CODE)
    deploy_first(installation, api)
    watch(installation)
    return api


def watch(installation: InstalledAirflow) -> None:
    """A pass that does nothing by itself: what the fleet is shown from."""
    run_pass(Watch(site=installation.system.site, acts=False))


def shoot(page: Page, name: str) -> None:
    """One of the README's pictures, where they are wanted."""
    if SCREENSHOTS:
        IMAGES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=IMAGES / f"{name}.png")


class Walker:
    """Somebody at the page, in Airflow's frame: sandboxed, under the page's own policy."""

    def __init__(self, page: Page, installation: InstalledAirflow, airflow: str) -> None:
        self.page, self._installation, self._airflow = page, installation, airflow
        page.set_default_timeout(WAIT_MS)
        self._operation = "none"
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a window: {dialog.message}"))
        page.on("console", lambda told: self._heard(told.type, told.text))

    def _heard(self, kind: str, text: str) -> None:
        """What the page's policy refuses is an error; that a run has no operation yet is an answer."""
        if kind == "error" and "Content Security Policy" in text:
            self.complaints.append(text)

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("iframe")

    def go(self, path: str = "") -> None:
        self.page.goto(page_address(self._airflow, path))

    def open(self, button: str) -> None:
        """The dialog behind a button."""
        self.frame.get_by_role("button", name=button, exact=True).first.click()
        expect(self.frame.locator("dialog[open] form.ask")).to_be_visible(timeout=WAIT_MS)

    def fill(self, label: str, text: str) -> None:
        self.frame.get_by_label(label, exact=True).fill(text)

    def begin(self, button: str, reason: str) -> None:
        """Open an operation's dialog and say why; no probation, whose field is folded away."""
        self.open(button)
        self.fill("Reason", reason)
        self.frame.locator("dialog summary", has_text="Deadlines").click()
        self.fill("Probation (triggers)", "0")

    def send(self, button: str) -> None:
        self.frame.locator("dialog .send").get_by_role("button", name=button, exact=True).click()

    def error(self) -> str:
        """The one line that a dialog says."""
        line = self.frame.locator("dialog .error")
        expect(line).to_be_visible(timeout=WAIT_MS)
        return line.inner_text()

    def words(self) -> str:
        """What a dry run has found, once it is over."""
        expect(self.frame.locator("dialog .send button[value=dry]")).to_be_enabled(timeout=WAIT_MS)
        return self.frame.locator("dialog .found").inner_text()

    def show_found(self) -> None:
        """What a dry run has found, with a place that does not look like a test's."""
        found = self.frame.locator("dialog .found")
        words = "(found, at) => { found.innerHTML = found.innerHTML.replaceAll(at, '/data'); }"
        found.evaluate(words, str(self._installation.places.input))
        found.scroll_into_view_if_needed()

    def operation(self) -> str:
        """The name of the operation to whose page a dialog has led."""
        crumb = self.frame.locator(".crumbs [aria-current=page]")
        another = rf"^(?!{self._operation}$)page-\d{{8}}t\d{{6}}z-"
        try:
            expect(crumb).to_have_text(re.compile(another), timeout=WAIT_MS)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page: {self.frame.locator('body').inner_text()}") from None
        self._operation = crumb.inner_text()
        return self._operation

    def until_over(self, operation: str) -> OperationState:
        """Until the page says by itself that it is over; what the journal has of it."""
        expect(self.frame.locator("#live[data-open]")).to_have_count(0, timeout=WAIT_MS)
        ended = self._installation.state.operations[operation]
        expect(self.frame.locator("#live > .sentence").first).to_contain_text(ended.sentence)
        return ended


@pytest.fixture
def walker(browser: Browser, installation: InstalledAirflow, served: AirflowApi) -> Iterator[Walker]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        walking = Walker(context.new_page(), installation, served.url)
        yield walking
        assert walking.complaints == []


@pytest.mark.storage
def test_a_walk_from_the_fleet_to_a_recovery(
    walker: Walker, installation: InstalledAirflow, served: AirflowApi
) -> None:
    """Fleet, job, deploy by a button, its steps and its verdict, roll back, approve an opaque change, recover."""
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
    """What is wrong is told and nothing typed is lost; a dry run says what it would be; two clicks are one run."""
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
    """The runs that a dialog has created."""
    return {run for run in api.runs(dag) if run.startswith("page__")}


def roll_back_by_button(walker: Walker, api: AirflowApi, *, loses: bool = False) -> None:
    """``loses``: the answer to what was sent gets lost on the way; sent again it is the same run."""
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
    """Airflow gets what the page sends, and the page gets no answer."""

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
    """The page says by itself that somebody is asked; the answer goes to the task that asks, with its reason."""
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
    """Its driver is killed: a dry run says so, and what can be done at which price; the restart is an operation."""
    site, instance = installation.system.site, installation.state.serving_instance
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
    assert ended.request.recover is not None
    assert ended.request.recover.action is RecoveryAction.RESTART


@pytest.mark.storage
def test_a_lost_answer_makes_no_second_run(walker: Walker, served: AirflowApi) -> None:
    """What was sent and got no answer is sent again: it is the same run, and the page leads to its operation."""
    walker.go(page_path(SALES_TOTALS))
    roll_back_by_button(walker, served, loses=True)


def test_a_stop_is_told_in_its_dialog(walker: Walker, installation: InstalledAirflow) -> None:
    """It has no operation: its dialog says what became of it, and once that is read, the page has the other button."""
    walker.go(page_path(SALES_TOTALS))
    walker.open("Stop")
    walker.fill("Reason", "the warehouse moves")
    walker.send("Stop")
    expect(walker.frame.locator("dialog [role=status]")).to_contain_text("is stopped", timeout=WAIT_MS)
    stopped = installation.state.stopped
    assert stopped is not None
    assert stopped.reason == "the warehouse moves"
    walker.frame.locator("dialog").get_by_role("button", name="Close").click()
    walker.open("Start")


def test_nobody_is_kept_out_by_how_a_page_is_made(
    browser: Browser, installation: InstalledAirflow, served: AirflowApi
) -> None:
    """No serious violation that axe-core knows, light and dark; nothing runs out of it sideways, wide and narrow.

    The dialogs too; a rollback has one once there are two releases.
    Negative control: a picture without a word for it, and a line that is too wide, are found.
    """
    newest = max(installation.state.operations.values(), key=lambda each: each.started).operation
    paths = ("", page_path(SALES_TOTALS), page_path(SALES_TOTALS, newest))
    buttons = ["Deploy", "Recover", *["Roll back"] * (len(installation.state.served) > 1)]
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}) as context:
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(served.url)
            for path in paths:
                page.goto(f"{served.url}/streamkeeper/{path}")
                assert grave_violations(page) == [], (scheme, path)
                assert widest(page) == [], (scheme, path)
            for button in buttons:
                page.get_by_role("button", name=button, exact=True).click()
                expect(page.locator("dialog[open] form.ask")).to_be_visible(timeout=WAIT_MS)
                assert grave_violations(page) == [], (scheme, button)
                assert widest(page) == [], (scheme, button)
                page.keyboard.press("Escape")
            page.evaluate("""() => {
                const picture = document.createElement("img");
                picture.style.width = "3000px";
                document.querySelector("main").append(picture);
            }""")
            assert any("image-alt" in each for each in grave_violations(page))
            assert widest(page) == [1280, 400]


def widest(page: Page) -> list[int]:
    """The widths at which the page can be scrolled sideways."""
    found = []
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(width)
    page.set_viewport_size({"width": 1280, "height": 900})
    return found
