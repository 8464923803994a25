"""Somebody at the page in a browser, in Airflow's own frame, who does everything by its buttons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, FrameLocator, Page, expect

from streamkeeper.model.records.operation import OperationState
from streamkeeper.pages.page_address import page_address
from tests.integration.installation import InstalledAirflow

WAIT_MS = 240_000
"""A driver starts meanwhile, on a machine that may be busy."""


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
        """The field of that label that shows: what a dialog asks later has the same one."""
        self.frame.get_by_label(label, exact=True).filter(visible=True).fill(text)

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


@contextmanager
def walking(browser: Browser, installation: InstalledAirflow) -> Iterator[Walker]:
    """Nothing that the page complains about in the browser is left unsaid."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        walker = Walker(context.new_page(), installation, installation.airflow.url)
        yield walker
        assert walker.complaints == []
