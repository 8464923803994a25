"""A browser for tests of pages that a person sees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WAIT_MS = 60_000
"""A long timeout, because a busy machine draws late."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, shared within one module only: while it runs, its process cannot run a different event
    loop.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, as in a container, it starts without its sandbox only.
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()
