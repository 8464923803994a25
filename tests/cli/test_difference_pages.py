"""Tests of differences as a page: the page is complete in one file, and no content of a job becomes markup of the
page.
"""

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
    """A parser that collects a page's elements and its text, as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_page_shows_hostile_code_as_text_and_loads_no_resource() -> None:
    """The HTML page shows hostile code as text, contains no script, link or image, and forbids loading them by its
    content security policy.
    """
    page = Elements(render_html(f"orders {HOSTILE}", FOUND))
    assert {tag for tag, _ in page.elements} <= {"html", "head", "meta", "title", "style", "body", "pre", "span"}
    assert not [attributes for _, attributes in page.elements if {"src", "href", "onerror"} & attributes.keys()]
    policies = [each["content"] for _, each in page.elements if each.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert f"-{HOSTILE}" in page.text
    assert f"not shown: {HOSTILE}" in page.text


def test_html_page_colors_added_and_removed_lines() -> None:
    """The HTML page colors added and removed lines by styles within the page."""
    page = render_html("orders", FOUND)
    assert page.count("color: #") >= 2


def test_markdown_keeps_each_block_closed() -> None:
    """Backticks and HTML in a changed line neither close the Markdown code block nor become HTML."""
    tokens = MarkdownIt().parse(render_differences(FOUND))
    assert [each.type for each in tokens if each.type in ("fence", "html_block")] == ["fence"]
    children = [child.type for each in tokens for child in each.children or ()]
    assert set(children) <= {"text", "text_special"}
    (fence,) = [each for each in tokens if each.type == "fence"]
    assert f"-{HOSTILE}\n+x = 1\n" in fence.content


def test_a_page_without_differences_states_that_nothing_differs() -> None:
    """A page without differences states that nothing differs, in Markdown and in HTML."""
    assert "Nothing differs" in render_differences(())
    assert "Nothing differs" in render_html("orders", ())


def test_an_invalid_page_location_is_refused(tmp_path: Path) -> None:
    """A page's location is refused when it is a URL, has the wrong ending, is a directory or lies in a directory that
    does not exist.
    """
    (tmp_path / "folder.md").mkdir()
    for location in ("page.txt", "folder.md", "missing/page.md", "../../../etc/passwd"):
        with pytest.raises(InvalidInput):
            page_file("--diff-to", f"{tmp_path}/{location}", ".md", ".html")
    with pytest.raises(Unsupported):
        page_file("--diff-to", "s3://bucket/page.html", ".html")
    assert page_file("--diff-to", "", ".md") is None


def test_a_page_replaces_the_earlier_one_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    """Writing a page replaces the earlier one and leaves no temporary file."""
    write_page(tmp_path / "page.md", "one")
    write_page(tmp_path / "page.md", "two")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("page.md", "two")]
