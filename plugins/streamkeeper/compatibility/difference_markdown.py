"""Differences of two versions of a job as Markdown, for pages of every kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from streamkeeper.compatibility.differences import Difference
from streamkeeper.model.markdown_text import code_block, escaped

SAME = "Nothing differs in params, conf, code and plans."


def render_differences(differences: Iterable[Difference], *, level: int = 2) -> str:
    """A heading and a block for each."""
    parts: list[str] = []
    for each in differences:
        parts.append(f"{'#' * level} {escaped(each.title)}")
        parts += [code_block("\n".join(each.lines), "diff")] if each.lines else []
        parts += [escaped(each.note)] if each.note else []
    return "\n\n".join(parts or [SAME]) + "\n"
