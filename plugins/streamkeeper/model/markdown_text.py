"""Put foreign texts, such as names, evidence and code, into Markdown so that they stay texts."""

from __future__ import annotations

import re

_MARKS = re.compile(r"[\\`*_\[\]<|~&$]")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_BETWEEN = "\N{ZERO WIDTH SPACE}"
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def escaped(text: str) -> str:
    """Text for a line or a table's cell: no markup, no HTML, no mentions; a line break is ``<br>``."""
    shown = _MENTION.sub(f"@{_BETWEEN}", _MARKS.sub(r"\\\g<0>", visible(text)))
    return "<br>".join(shown.splitlines())


def anchor(heading: str) -> str:
    """The anchor that GitHub and the documentation site give a heading."""
    return _NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")


def code_block(text: str, language: str = "") -> str:
    """A fenced block; the fence is longer than any within the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def visible(text: str) -> str:
    """Text in which characters that control a terminal or change the reading order are spelled out."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else _spelled(character) for character in text
    )


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode()
