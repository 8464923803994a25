"""Differences as a page: complete in one file, and nothing of a job's becomes part of the page's own."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from streamkeeper.cli.difference_pages import page_file, render_html, write_page
from streamkeeper.compatibility.difference_markdown import render_differences
from streamkeeper.compatibility.differences import Difference
from streamkeeper.errors import InvalidInput, Unsupported

HOSTILE = "<script>alert(1)</script> {code} {0} ``` </pre></details> <img src=http://example.org/x>"
FOUND = (
    Difference(title=f"file {HOSTILE}", lines=("--- r0001", "+++ candidate", "@@ -1 +1 @@", f"-{HOSTILE}", "+x = 1")),
    Difference(title="file data.bin", note=f"not shown: {HOSTILE}"),
)


class Elements(HTMLParser):
    """What a browser would make of a page: its elements, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_shows_everything_and_runs_and_loads_nothing() -> None:
    """No script, no link, no image; the page itself forbids them; what was code is text."""
    page = Elements(render_html(f"orders {HOSTILE}", FOUND))
    assert {tag for tag, _ in page.elements} <= {"html", "head", "meta", "title", "style", "body", "pre", "span"}
    assert not [attributes for _, attributes in page.elements if {"src", "href", "onerror"} & attributes.keys()]
    policies = [each["content"] for _, each in page.elements if each.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert f"-{HOSTILE}" in page.text
    assert f"not shown: {HOSTILE}" in page.text


def test_html_colors_what_came_and_what_went() -> None:
    """By classes whose style is in the page."""
    page = render_html("orders", FOUND)
    assert page.count("color: #") >= 2


def test_markdown_keeps_each_block_closed() -> None:
    """Backticks in a line do not end it, and HTML in it is none."""
    tokens = MarkdownIt().parse(render_differences(FOUND))
    assert [each.type for each in tokens if each.type in ("fence", "html_block")] == ["fence"]
    children = [child.type for each in tokens for child in each.children or ()]
    assert set(children) <= {"text", "text_special"}
    (fence,) = [each for each in tokens if each.type == "fence"]
    assert f"-{HOSTILE}\n+x = 1\n" in fence.content


def test_no_difference_is_told_too() -> None:
    """An empty page would leave a reader in doubt."""
    assert "Nothing differs" in render_differences(())
    assert "Nothing differs" in render_html("orders", ())


def test_a_page_goes_only_where_a_page_may(tmp_path: Path) -> None:
    """A URL, another ending, a folder and a folder that is missing are refused before anything runs."""
    (tmp_path / "folder.md").mkdir()
    for location in ("page.txt", "folder.md", "missing/page.md", "../../../etc/passwd"):
        with pytest.raises(InvalidInput):
            page_file("--diff-to", f"{tmp_path}/{location}", ".md", ".html")
    with pytest.raises(Unsupported):
        page_file("--diff-to", "s3://bucket/page.html", ".html")
    assert page_file("--diff-to", "", ".md") is None


def test_a_page_replaces_the_one_before_and_leaves_no_draft(tmp_path: Path) -> None:
    """Whoever reads it sees the old one or the new one."""
    write_page(tmp_path / "page.md", "one")
    write_page(tmp_path / "page.md", "two")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("page.md", "two")]
