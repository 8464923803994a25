"""Tests of printed lists: complete in a pipe, within a terminal's width, and one line for each row."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from streamkeeper.cli.listing import ListRow, one_line, print_rows
from streamkeeper.model.watch.quantities import tell_age, tell_size

ROWS = [
    ListRow(cells=("orders", "3"), notes=(Text("well"),)),
    ListRow(cells=("a" * 120, "4"), notes=(Text("error: " + "x" * 300), Text("second"))),
    ListRow(cells=("日本語", "5")),
]


def printed(width: int, *, terminal: bool) -> list[str]:
    """Print the list at this width and return its lines."""
    file = io.StringIO()
    print_rows(("job", "n"), ROWS, console=Console(file=file, width=width, force_terminal=terminal, color_system=None))
    return file.getvalue().splitlines()


def test_a_pipe_gets_every_row_whole_on_one_line() -> None:
    """In a pipe every row is printed on one line, uncut, whatever the width."""
    _, first, second, third = printed(40, terminal=False)
    assert first.split() == ["orders", "3", "well"]
    assert second == "a" * 120 + "  4  error: " + "x" * 300 + "; second"
    assert third.split() == ["日本語", "5"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_gets_lines_of_its_width(width: int) -> None:
    """On a terminal, notes that do not fit are printed below their row, long text is cut with ``…``, and columns stay
    aligned.
    """
    plain = printed(width, terminal=True)
    assert all(cell_len(line) <= width for line in plain)
    _, first, note, second, error, told, third = plain
    assert (first.split(), note) == (["orders", "3"], "    well")
    assert second == "a" * (width - 4) + "…  4"
    assert error == "    error: " + "x" * (width - 12) + "…"
    assert told == "    second"
    assert cell_len(third) == width


def test_a_note_that_fits_stands_beside_its_row() -> None:
    """On a wide terminal a row with a short note is one line."""
    assert "orders" + " " * 116 + "3  well" in printed(140, terminal=True)


def test_control_characters_and_markup_are_printed_as_plain_text() -> None:
    """Line breaks, escape sequences, direction marks and rich markup are printed as plain text."""
    assert one_line("[red]a\n\tb\x1b[2J\x07\u202e[/red]") == "[red]a b\\x1b[2J\\x07\\u202e[/red]"


def test_ages_and_sizes_are_short() -> None:
    """Ages and sizes are printed in one suitable unit, such as ``59 s``, ``28 h`` or ``1.4 MiB``."""
    ages = [None, -5, 0.4, 59, 119, 180, 700, 7300, 100_000, 172_800, 9_000_000]
    told = ["-", "0 s", "0 s", "59 s", "119 s", "3 min", "12 min", "2 h", "28 h", "2 d", "104 d"]
    assert [tell_age(each) for each in ages] == told
    assert [tell_size(each) for each in (0, 1023, 1024, 1_500_000, 2**40 * 3000)] == [
        "0 B", "1023 B", "1.0 KiB", "1.4 MiB", "3000 TiB",
    ]  # fmt: skip
