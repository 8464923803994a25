"""Print lists to a terminal or a pipe, one line per row. Control characters in a text are spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from streamkeeper.cli.terminal import Console
from streamkeeper.model.markdown_text import visible

_GAP = "  "
_SHORTEST_NAME = 8
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row of a list. ``notes``: texts after the cells; ``styles``: pairs of column number and style of the cell."""

    cells: tuple[str, ...]
    notes: tuple[Text, ...] = ()
    styles: tuple[tuple[int, str], ...] = ()


def print_rows(headers: Sequence[str], rows: Sequence[ListRow], *, console: Console | None = None) -> None:
    """Print a header and the rows.

    In a pipe or a file a row is one line with its notes at the end, and no cell is cut. On a terminal, notes that do
    not fit next to their row follow on separate lines, and lines wider than the terminal are cut with ….
    """
    console = console or Console(highlight=False)
    widths = [
        max(cell_len(cell) for cell in column) for column in zip(headers, *(row.cells for row in rows), strict=True)
    ]
    whole = not console.is_terminal
    if not whole:
        rest = sum(widths[1:]) + len(_GAP) * (len(widths) - 1)
        widths[0] = min(widths[0], max(_SHORTEST_NAME, console.width - rest))
    _print(console, _line(headers, widths, ()))
    for row in rows:
        line = _line(row.cells, widths, row.styles)
        beside = Text.assemble(line, _GAP, Text("; ").join(row.notes))
        if row.notes and (whole or cell_len(beside.plain) <= console.width):
            _print(console, beside)
            continue
        _print(console, line)
        for note in row.notes:
            _print(console, Text.assemble(_INDENT, note))


def one_line(text: str) -> str:
    """Return the text on one line, with control characters spelled out."""
    return visible(" ".join(text.split()))


def _line(cells: Sequence[str], widths: Sequence[int], styles: Sequence[tuple[int, str]]) -> Text:
    styled, line = dict(styles), Text()
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        line.append(_GAP if number else "").append(_fitted(cell, width), style=styled.get(number))
    return line


def _fitted(cell: str, width: int) -> str:
    return set_cell_size(cell, width) if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"


def _print(console: Console, line: Text) -> None:
    if console.is_terminal:
        line.truncate(console.width, overflow="ellipsis")
    line.rstrip()
    console.print(line, soft_wrap=True)
