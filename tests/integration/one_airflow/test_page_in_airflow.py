"""Tests of the page in a browser inside Airflow's own frame: its navigation, theme and accessibility."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.forms import DAG, SALES_TOTALS
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.pages.page_address import page_path
from tests.integration.installation import InstalledAirflow, Run
from tests.integration.walker import WAIT_MS
from tests.pages.accessible import grave_violations

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


def test_an_operation_page_opens_inside_airflow_with_its_theme(first: Run, browser: Browser) -> None:
    """A task's link opens its operation's page inside Airflow; the page follows Airflow's theme, links to the run
    outside the frame, and keeps its own address across a reload.
    """
    api, address = first.api, first.api.links(DAG, first.run_id, "takeover.promote")["Page"]
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(address)
        inside = page.frame_locator("iframe")
        expect(inside.locator("h1")).to_contain_text(SALES_TOTALS, timeout=WAIT_MS)
        for theme in ("dark", "light"):
            page.evaluate(f"localStorage.setItem('theme', '{theme}')")
            page.reload()
            expect(inside.locator("html")).to_have_attribute("data-theme", theme, timeout=WAIT_MS)

        inside.get_by_text(f"run {first.run_id} of {DAG}").click()
        page.wait_for_url(f"{api.url}/dags/{DAG}/runs/**")
        expect(page.locator("iframe")).to_have_count(0)
        page.go_back()
        expect(inside.locator("h1")).to_contain_text(SALES_TOTALS, timeout=WAIT_MS)

        page.goto(f"{api.url}/plugin/streamkeeper")
        inside.locator("#search").fill("nothing is called like this")
        page.wait_for_url("**/plugin/streamkeeper/streamkeeper/?search=nothing+is+called+like+this")
        page.reload()
        expect(inside.locator("#search")).to_have_value("nothing is called like this", timeout=WAIT_MS)

        page.goto(f"{api.url}/dags/{DAG}/runs/{quote(first.run_id, safe='')}/plugin/streamkeeper-operation")
        expect(inside.locator("h1")).to_contain_text(SALES_TOTALS, timeout=WAIT_MS)


def test_pages_have_no_serious_accessibility_violation(browser: Browser, served: InstalledAirflow) -> None:
    """The pages and their dialogs have no serious violation that axe-core detects in the light and dark themes, and
    none can be scrolled sideways at 1280 or 400 pixels.

    The rollback dialog is included once there are two releases. Negative control: an image without alternative text
    that is 3000 pixels wide is found by both checks.
    """
    run_pass(WatchPass(installation=served.system.installation, acts=False))  # the fleet is shown from what it has seen
    newest = max(served.state.operations.values(), key=lambda each: each.started).operation
    paths = ("", page_path(SALES_TOTALS), page_path(SALES_TOTALS, newest))
    buttons = ["Deploy", "Recover", *["Roll back"] * (len(served.state.served) > 1)]
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}) as context:
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(served.airflow.url)
            for path in paths:
                page.goto(f"{served.airflow.url}/streamkeeper/{path}")
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
    """Return the widths at which the page can be scrolled sideways."""
    found = []
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(width)
    page.set_viewport_size({"width": 1280, "height": 900})
    return found
