"""Renders the differences between two versions of a job as Markdown, for pages of every kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from streamkeeper.compatibility.differences import Difference
from streamkeeper.model.markdown_text import code_block, escaped

SAME = "Nothing differs in params, conf, code and plans."


def render_differences(differences: Iterable[Difference], *, level: int = 2) -> str:
    """Return the differences as Markdown, each with a heading and a block. ``level``: the level of the headings."""
    parts: list[str] = []
    for difference in differences:
        parts.append(f"{'#' * level} {escaped(difference.title)}")
        parts += [code_block("\n".join(difference.lines), "diff")] if difference.lines else []
        parts += [escaped(difference.note)] if difference.note else []
    return "\n\n".join(parts or [SAME]) + "\n"
