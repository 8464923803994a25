"""Printing with control characters spelled out, so that no text can control the terminal.

Every module of the command line prints through this module; ``tests/cli/test_terminal.py`` checks that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
import typer
from rich.cells import cell_len
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from streamkeeper.model.markdown_text import visible

_WIDEST = 1_000_000
_COLUMN_GAP = 2


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text with control characters spelled out."""
    typer.echo(visible(text), err=err, nl=nl)


def echo_json(data: bytes | str) -> None:
    """Print JSON with control characters escaped, so that it still parses to the same values."""
    text = data.decode() if isinstance(data, bytes) else data
    typer.echo("".join(_in_json(each) for each in text))


class Console(rich.console.Console):
    """Rich's console, changed so that it spells out control characters in texts, except for its own colour codes."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield the segments, with control characters in their texts spelled out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def print_table(self, table: Any) -> None:
        """Print a table or a group of tables. In a pipe or a file, use the width of the longest row, so that no cell is
        cut."""
        if not self.is_terminal:
            options = self.options.update(max_width=_WIDEST)
            self.width = max(self.width, Measurement.get(self, options, table).maximum)
        self.print(table)

    def print_markdown(self, text: str) -> None:
        """Print Markdown. In a pipe or a file, use the width of the longest table row, so that no cell is cut, and
        leave out the spaces with which lines are filled up to this width.
        """
        from rich.markdown import Markdown  # slow to load and rarely needed

        if self.is_terminal:
            self.print(Markdown(text))
            return
        rows = [line for line in text.splitlines() if line.startswith("|")]
        widths = (cell_len(row) + _COLUMN_GAP * row.count("|") for row in rows)
        self.width = max(self.width, *widths, 0)
        with self.capture() as printed:
            self.print(Markdown(text))
        self.print(Text("\n".join(line.rstrip() for line in printed.get().splitlines())), soft_wrap=True)


def _in_json(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))
