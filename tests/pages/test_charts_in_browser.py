"""Tests the job's page in a browser: its charts are drawn, its slow parts are loaded on demand, and it is complete
without scripts.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from harness.waiting import wait_for
from tests.browser import WAIT_MS
from tests.operations.registered_job import JOB
from tests.pages.asking import NAME, make_viewed
from tests.pages.whole_job import DRIVER, WholeJob

UNDER = "/air/streamkeeper"
FIGURES = 7


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a job's page, served under a prefix as in Airflow."""
    app = Starlette(routes=[Mount(UNDER, make_viewed(WholeJob(tmp_path_factory.mktemp("job")).installation))])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_for("the server", lambda: server.started, timeout_s=60)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}{UNDER}/jobs/{JOB}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def complaints() -> list[str]:
    """The browser's errors: those of a script, and requests that the policy refused."""
    return []


@pytest.fixture
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    with browser.new_context(extra_http_headers={NAME: "ada"}, viewport={"width": 1280, "height": 900}) as context:
        found = context.new_page()
        found.set_default_timeout(WAIT_MS)
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
        yield found


def drawn(page: Page) -> list[int]:
    """Return the number of pixels that are not empty, for each chart."""
    found: list[int] = page.evaluate(
        """() => [...document.querySelectorAll("figure .plot canvas")].map((canvas) => {
            const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return all.filter((value, at) => at % 4 === 3 && value > 0).length;
        })"""
    )
    return found


@pytest.mark.parametrize("width", [1280, 400])
def test_every_figure_has_its_chart(page: Page, address: str, complaints: list[str], width: int) -> None:
    """Every figure is drawn under the page's own policy on a wide and on a narrow screen, without horizontal overflow
    and without browser errors.
    """
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address)
    expect(page.locator("figure .uplot")).to_have_count(FIGURES, timeout=WAIT_MS)
    pixels = drawn(page)
    assert len(pixels) == FIGURES
    assert min(pixels) > 500
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def test_charts_follow_the_theme_and_the_width(page: Page, address: str) -> None:
    """The charts are redrawn when the colour theme or the width of the window changes."""
    page.goto(address)
    marker, chart = page.locator("figure .u-marker").first, page.locator("figure .uplot").first
    expect(chart).to_be_visible(timeout=WAIT_MS)

    def colour() -> str:
        found: str = marker.evaluate("(each) => getComputedStyle(each).borderColor")
        return found

    page.evaluate("document.documentElement.dataset.theme = 'light'")
    light, wide = colour(), (chart.bounding_box() or {})["width"]
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    wait_for("another colour", lambda: colour() != light, timeout_s=30)
    page.set_viewport_size({"width": 400, "height": 900})
    wait_for("a narrower chart", lambda: (chart.bounding_box() or {"width": wide})["width"] < wide, timeout_s=30)


def test_tables_stay_readable_when_chart_data_cannot_be_loaded(page: Page, address: str) -> None:
    """When the chart data cannot be loaded, no chart is drawn and the tables remain readable. This is the negative
    control of the charts.
    """
    page.route("**/history.json", lambda route: route.fulfill(status=503, body="{}"))
    with page.expect_response("**/history.json"):
        page.goto(address)
    page.locator("#charts summary").first.click()
    expect(page.locator("#charts td").first).to_be_visible()
    assert page.locator(".uplot").count() == 0


def test_a_heavy_part_is_loaded_by_its_link(page: Page, address: str, complaints: list[str]) -> None:
    """The link of a slow part loads it in place, without leaving the page and without browser errors."""
    page.goto(address)
    page.locator("#log a").click()
    expect(page.locator("#log pre")).to_contain_text("an error: a word", timeout=WAIT_MS)
    page.locator("#findings a").first.click()
    expect(page.locator("#findings pre").first).to_contain_text("+RATE = 2", timeout=WAIT_MS)
    assert page.url == address
    assert complaints == []


def test_figures_and_slow_parts_are_available_without_scripts(browser: Browser, address: str) -> None:
    """With scripts disabled, the figures are readable as tables, and the link of each slow part opens it as a page."""
    with browser.new_context(extra_http_headers={NAME: "ada"}, java_script_enabled=False) as context:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(address)
        page.locator("#charts summary").first.click()
        expect(page.locator("#charts td").first).to_be_visible()
        for name, told in (
            ("log", f"{DRIVER}.log"),
            ("snapshots", "s0001"),
            ("findings", "r0001"),
            ("readers", "None"),
        ):
            page.locator(f"#{name} a").first.click()
            expect(page.locator(f"#{name}")).to_contain_text(told)
            assert page.url == f"{address}?open={name}#{name}"
