"""Escapes foreign text, such as names, evidence and code, so that Markdown shows it as plain text."""

from __future__ import annotations

import re

_MARKS = re.compile(r"[\\`*_\[\]<|~&$]")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_BETWEEN = "\N{ZERO WIDTH SPACE}"
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def escaped(text: str) -> str:
    """Return the text escaped for a line or a table cell of Markdown; a line break becomes ``<br>``.

    The result causes no markup, HTML or mentions.
    """
    shown = _MENTION.sub(f"@{_BETWEEN}", _MARKS.sub(r"\\\g<0>", visible(text)))
    return "<br>".join(shown.splitlines())


def anchor(heading: str) -> str:
    """Return the anchor that GitHub and the documentation site give a heading."""
    return _NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")


def code_block(text: str, language: str = "") -> str:
    """Return the text as a fenced block, whose fence is longer than any run of backticks in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def visible(text: str) -> str:
    """Return the text with spelled-out names for characters that control a terminal or change the reading order."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else _spelled(character) for character in text
    )


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode()
