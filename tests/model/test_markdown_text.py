"""Tests that foreign text in Markdown is rendered as plain text by a real parser."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from streamkeeper.model.markdown_text import code_block, escaped, visible

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a | b \\| c",
    "![x](http://example.org/pixel.png) [a](javascript:alert)",
    "`code` ``` **bold** _it_ ~~no~~",
    "&lt;b&gt; &#60;script&#62;",
    "</details><!-- comment -->",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_parsed_as_plain_text(text: str) -> None:
    """Hostile text in a table cell is parsed as exactly that text, without HTML, links or images."""
    page = MarkdownIt().enable("table").parse(f"| a | b |\n|---|---|\n| {escaped(text)} | end |")
    cells = [each for each in page if each.type == "inline"][2:]
    assert [each.content for each in cells][1:] == ["end"]
    assert {child.type for child in cells[0].children or ()} <= {"text", "text_special"}
    assert "".join(child.content for child in cells[0].children or ()) == text


def test_escaping_prevents_mentions_and_keeps_the_table_row() -> None:
    """Escaping prevents user mentions, keeps addresses such as ``orders@broker:9092``, and keeps line breaks within the
    table row.
    """
    assert "@ann" not in escaped("ask @ann")
    assert escaped("orders@broker:9092") == "orders@broker:9092"
    assert escaped("a\nb") == "a<br>b"


@pytest.mark.parametrize("text", ["```\n<script>", "````\n```\n", "~~~", "plain", ""])
def test_a_code_block_contains_its_whole_text(text: str) -> None:
    """A code block contains its whole text, even if the text contains backticks or fences."""
    page = MarkdownIt().parse(code_block(text, "diff") + "\n\nafter")
    assert [each.type for each in page] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert page[0].content == f"{text}\n"


def test_escape_sequences_and_text_direction_overrides_are_spelled_out() -> None:
    """Escape sequences and right-to-left overrides are spelled out instead of taking effect."""
    assert visible("\x1b[31mred\u202e\ud800\n\tü") == "\\x1b[31mred\\u202e\\ud800\n\tü"
