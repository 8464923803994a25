"""Generates the page that lists the decisions, from their headings."""

from __future__ import annotations

import re
from pathlib import Path

from harness.places import ROOT
from harness.reference.markdown import page, table

DECISIONS = ROOT / "docs" / "decisions"
_INTRODUCTION = """
Each page records one decision: what was decided, why, and what was rejected. A decision that no longer holds names the
one that replaced it.
"""


def render_decision_list() -> str:
    """Return the text of docs/internals/decisions.md."""
    return page("Decisions", _INTRODUCTION, table(("number", "decision"), map(_row, sorted(DECISIONS.glob("*.md")))))


def _row(path: Path) -> tuple[str, str]:
    found = re.match(r"# (\d+)\. (.+)", path.read_text(encoding="utf-8"))
    if found is None:
        raise LookupError(f"{path} does not begin with its number and its name")
    return found[1], f"[{found[2]}](../decisions/{path.name})"
