"""Print differences in the terminal, or write them as Markdown or as one HTML file without scripts or network
access."""

from __future__ import annotations

import html
import io
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from streamkeeper.cli.terminal import Console
from streamkeeper.compatibility.difference_markdown import SAME, render_differences
from streamkeeper.compatibility.differences import Difference
from streamkeeper.errors import InvalidInput
from streamkeeper.locations import local_path
from streamkeeper.model.markdown_text import escaped

Diff = Annotated[
    bool,
    typer.Option(
        "--diff",
        help="Print how the candidate's params, confs, code and plans differ from those of the current release",
    ),
]
DiffTo = Annotated[
    str,
    typer.Option(
        "--diff-to",
        metavar="FILE",
        help="Write the differences between the candidate and the current release to this file, .md or .html",
    ),
]

_COLORS = {"+": "green", "-": "red", "@": "cyan"}
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{{{ margin: 2em; color: {{foreground}}; background: {{background}}; font: 14px/1.4 monospace }}}}
{{stylesheet}}
</style>
</head>
<body><pre>{{code}}</pre></body>
</html>
"""


def page_file(option: str, location: str, *suffixes: str) -> Path | None:
    """Return the file that an option of the command line names; None if ``location`` is empty.

    ``option``: the option's name, for messages. ``location``: the option's value. ``suffixes``: the allowed suffixes.
    Raises InvalidInput for another suffix, if the file's folder does not exist, or if ``location`` is a folder.
    """
    if not location:
        return None
    file = local_path(option, location)
    if file.suffix not in suffixes:
        raise InvalidInput(f"{option} {location}: the file name must end in {' or '.join(suffixes)}")
    if not file.parent.is_dir() or file.is_dir():
        raise InvalidInput(f"{option} {location} cannot be written", hint="name a file in an existing folder")
    return file


def write_page(file: Path, text: str) -> None:
    """Write a page atomically; raises InvalidInput if it cannot be written."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None


def show_differences(title: str, differences: Iterable[Difference], *, shown: bool, file: Path | None) -> None:
    """Print the differences if ``shown`` is set. If ``file`` is given, also write them there, in the format that the
    file's suffix names.
    """
    found = tuple(differences)
    if shown:
        Console(highlight=False).print(_text(found), soft_wrap=True)
    if file is not None:
        heading = f"# {escaped(title)}\n\n"
        write_page(file, render_html(title, found) if file.suffix == ".html" else heading + render_differences(found))


def render_html(title: str, differences: Iterable[Difference]) -> str:
    """Return the differences as an HTML page that looks like the terminal's output."""
    console = Console(record=True, file=io.StringIO(), highlight=False, width=80)
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(_text(differences), soft_wrap=True)
    page = _PAGE.format(title=html.escape(title).replace("{", "&#123;").replace("}", "&#125;"))
    return console.export_html(theme=DEFAULT_TERMINAL_THEME, code_format=page)


def _text(differences: Iterable[Difference]) -> Text:
    lines = [line for difference in differences for line in _lines(difference)]
    return Text("\n").join(lines or [Text(SAME)])


def _lines(difference: Difference) -> Iterator[Text]:
    yield Text()
    yield Text(difference.title, style="bold")
    yield from (Text(line, style="bold") for line in difference.lines[:2])
    yield from (Text(line, style=_COLORS.get(line[:1], "")) for line in difference.lines[2:])
    if difference.note:
        yield Text(difference.note, style="italic")
