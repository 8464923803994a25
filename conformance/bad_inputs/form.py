"""Airflow's trigger form in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Locator, Page, Response, sync_playwright
from playwright.sync_api import TimeoutError as NotThere

from conformance.bad_inputs.stage import TRACEBACK, Answer

_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_SHORT_WAIT_MS, _LONGEST_WAIT_MS = 5_000, 20_000


class CannotBeTyped(Exception):
    """Raised if the form lacks a field, or if the field does not accept such a value."""


class TriggerForm:
    """Fills in and submits the form as a person would; ``url``: Airflow's address."""

    def __init__(self, page: Page, url: str) -> None:
        self._page, self._url = page, url

    def send(self, dag: str, conf: Any) -> Answer | str:
        """Fill in the values and trigger; return the run's id, or the error with which the form refuses. Raises
        CannotBeTyped.
        """
        if not isinstance(conf, Mapping):
            raise CannotBeTyped(dag)
        self._open(dag)
        for name, value in conf.items():
            self._fill(name, value)
        dialog = self._page.get_by_role("dialog")
        button = dialog.get_by_test_id("trigger-dag-submit")
        if button.is_disabled():
            told = [text for text in dialog.locator("[data-part='error-text']").all_inner_texts() if text.strip()]
            return Answer("form", told[0] if told else "", len(told), traceback=False)
        with self._page.expect_response(_is_trigger, timeout=_LONGEST_WAIT_MS) as answered:
            button.click()
        if answered.value.ok:
            return str(answered.value.json()["dag_run_id"])
        lines = dialog.locator(".chakra-alert__description p").first.inner_text(timeout=_SHORT_WAIT_MS).splitlines()
        return Answer(f"HTTP {answered.value.status}", lines[0], len(lines), traceback=TRACEBACK in "".join(lines))

    def _open(self, dag: str) -> None:
        self._page.goto(f"{self._url}/dags/{dag}")
        try:
            self._page.get_by_role("button", name="Trigger").first.click(timeout=_LONGEST_WAIT_MS)
        except NotThere:
            raise CannotBeTyped(dag) from None
        self._page.locator("[id^=element_]").first.wait_for(timeout=_LONGEST_WAIT_MS)

    def _fill(self, name: str, value: Any) -> None:
        field = self._find(name)
        if isinstance(value, bool):
            if field.is_checked() != value:
                field.locator("xpath=..").click()
        elif field.evaluate("field => ['INPUT', 'TEXTAREA'].includes(field.tagName)"):
            if not isinstance(value, str | int | float):
                raise CannotBeTyped(name)
            field.fill(str(value))
            if field.input_value() != str(value):
                raise CannotBeTyped(name)
        elif field.locator(".monaco-editor").count():
            field.click()
            self._page.keyboard.press("Control+A")
            self._page.keyboard.insert_text(value if isinstance(value, str) else json.dumps(value))
        else:
            raise CannotBeTyped(name)

    def _find(self, name: str) -> Locator:
        """Return the field after opening its section."""
        field = self._page.get_by_role("dialog").locator(f"#element_{name}, [name=element_{name}]").first
        if not field.count():
            raise CannotBeTyped(name)
        section = field.locator("xpath=ancestor::*[@data-part='item'][1]").locator("[data-part='item-trigger']").first
        if section.get_attribute("aria-expanded") == "false":
            section.click()
        return field


def _is_trigger(response: Response) -> bool:
    return response.request.method == "POST" and response.url.endswith("/dagRuns")


@contextmanager
def trigger_form(url: str) -> Iterator[TriggerForm]:
    """Open a browser without any earlier state; ``url``: the address of an Airflow that requires no login."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(_QUIET))
        try:
            yield TriggerForm(browser.new_page(viewport={"width": 1280, "height": 1400}), url)
        finally:
            browser.close()
