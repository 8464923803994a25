"""Runs axe-core on a page in a browser; the library is vendored here with its hash and its licence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

FOLDER = Path(__file__).with_name("axe")
_GRAVE = ("serious", "critical")


def axe_source() -> str:
    """Return the source of axe-core; raises ``ValueError`` if the file differs from the published one."""
    told = json.loads((FOLDER / "vendored.json").read_text())["axe.min.js"]
    source = (FOLDER / "axe.min.js").read_bytes()
    if hashlib.sha256(source).hexdigest() != told["sha256"]:
        raise ValueError(f"axe.min.js is not that of {told['package']} {told['version']}")
    return source.decode()


def grave_violations(page: Page) -> list[str]:
    """Return the serious and critical accessibility violations of the page, one line each: rule, description and
    element.
    """
    page.evaluate(axe_source())
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:160]}"
        for each in found["violations"]
        if each["impact"] in _GRAVE
        for node in each["nodes"]
    ]
