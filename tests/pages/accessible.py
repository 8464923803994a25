"""What axe-core finds on a page that a browser shows; the library is vendored here, by its hash, with its licence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

FOLDER = Path(__file__).with_name("axe")
_GRAVE = ("serious", "critical")


def axe_source() -> str:
    """Its code; raises ValueError for what is not the file that was published."""
    told = json.loads((FOLDER / "vendored.json").read_text())["axe.min.js"]
    source = (FOLDER / "axe.min.js").read_bytes()
    if hashlib.sha256(source).hexdigest() != told["sha256"]:
        raise ValueError(f"axe.min.js is not that of {told['package']} {told['version']}")
    return source.decode()


def grave_violations(page: Page) -> list[str]:
    """What keeps somebody from using the page, a line each: rule, what it is about, and where."""
    page.evaluate(axe_source())
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:160]}"
        for each in found["violations"]
        if each["impact"] in _GRAVE
        for node in each["nodes"]
    ]
