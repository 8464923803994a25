"""Provides a user of the page in a browser, inside Airflow's own frame, who performs every operation with the
buttons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, FrameLocator, Page, expect

from streamkeeper.model.records.operation import OperationState
from streamkeeper.pages.page_address import page_address
from tests.integration.installation import InstalledAirflow

WAIT_MS = 240_000
"""Long enough for a driver to start on a busy machine."""


class Walker:
    """A user of the page inside Airflow's sandboxed frame, under the page's own content security policy."""

    def __init__(self, page: Page, installation: InstalledAirflow, airflow: str) -> None:
        self.page, self._installation, self._airflow = page, installation, airflow
        page.set_default_timeout(WAIT_MS)
        self._operation = "none"
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a window: {dialog.message}"))
        page.on("console", lambda told: self._heard(told.type, told.text))

    def _heard(self, kind: str, text: str) -> None:
        """Record a console error only if it is a violation of the Content Security Policy; other errors, such as the
        response for a run that has no operation yet, are expected.
        """
        if kind == "error" and "Content Security Policy" in text:
            self.complaints.append(text)

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("iframe")

    def go(self, path: str = "") -> None:
        self.page.goto(page_address(self._airflow, path))

    def open(self, button: str) -> None:
        """Click a button and wait until its dialog is open."""
        self.frame.get_by_role("button", name=button, exact=True).first.click()
        expect(self.frame.locator("dialog[open] form.ask")).to_be_visible(timeout=WAIT_MS)

    def fill(self, label: str, text: str) -> None:
        """Fill the visible field with that label, because a dialog's second form has a field of the same label."""
        self.frame.get_by_label(label, exact=True).filter(visible=True).fill(text)

    def begin(self, button: str, reason: str) -> None:
        """Open an operation's dialog, fill in the reason, and set the probation, whose field is collapsed, to 0
        triggers.
        """
        self.open(button)
        self.fill("Reason", reason)
        self.frame.locator("dialog summary", has_text="Deadlines").click()
        self.fill("Probation (triggers)", "0")

    def send(self, button: str) -> None:
        self.frame.locator("dialog .send").get_by_role("button", name=button, exact=True).click()

    def error(self) -> str:
        """Return the error line of the dialog."""
        line = self.frame.locator("dialog .error")
        expect(line).to_be_visible(timeout=WAIT_MS)
        return line.inner_text()

    def words(self) -> str:
        """Return the result of a dry run once it is complete."""
        expect(self.frame.locator("dialog .send button[value=dry]")).to_be_enabled(timeout=WAIT_MS)
        return self.frame.locator("dialog .found").inner_text()

    def show_found(self) -> None:
        """Show the result of a dry run with ``/data`` in place of the test's path, and scroll to it."""
        found = self.frame.locator("dialog .found")
        words = "(found, at) => { found.innerHTML = found.innerHTML.replaceAll(at, '/data'); }"
        found.evaluate(words, str(self._installation.places.input))
        found.scroll_into_view_if_needed()

    def operation(self) -> str:
        """Return the name of the operation whose page the dialog has opened."""
        crumb = self.frame.locator(".crumbs [aria-current=page]")
        another = rf"^(?!{self._operation}$)page-\d{{8}}t\d{{6}}z-"
        try:
            expect(crumb).to_have_text(re.compile(another), timeout=WAIT_MS)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page: {self.frame.locator('body').inner_text()}") from None
        self._operation = crumb.inner_text()
        return self._operation

    def until_over(self, operation: str) -> OperationState:
        """Wait until the page shows that the operation has finished, and return the operation from the journal."""
        expect(self.frame.locator("#live[data-open]")).to_have_count(0, timeout=WAIT_MS)
        ended = self._installation.state.operations[operation]
        expect(self.frame.locator("#live > .sentence").first).to_contain_text(ended.sentence)
        return ended


@contextmanager
def walking(browser: Browser, installation: InstalledAirflow) -> Iterator[Walker]:
    """Yield a walker, and check at the end that the browser reported no error of the page."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        walker = Walker(context.new_page(), installation, installation.airflow.url)
        yield walker
        assert walker.complaints == []
