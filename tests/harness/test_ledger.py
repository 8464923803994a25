"""Tests that the ledger detects lost and duplicated rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.ledger import (
    Account,
    Totals,
    compare_events,
    compare_totals,
    events_so_far,
    expected_totals,
    totals_of,
    totals_so_far,
)

SALES = {"c1": Totals(2, 30, 500), "c2": Totals(1, 7, 49)}


def test_totals_come_from_every_file(tmp_path: Path) -> None:
    """The oracle adds up count, sum and sum of squares over all files of the folder."""
    (tmp_path / "0.csv").write_text("e1,c1,10\ne2,c2,7\n")
    (tmp_path / "1.csv").write_text("e3,c1,20\n")
    assert expected_totals(tmp_path) == SALES


def test_equal_totals_are_clean() -> None:
    """Output totals that equal the input totals are reported as neither lost nor duplicated."""
    account = compare_totals("sales_totals", SALES, dict(SALES))
    assert account.clean
    assert account.produced == 3


@pytest.mark.parametrize(
    ("found", "lost", "duplicated"),
    [
        ({"c1": Totals(1, 10, 100), "c2": Totals(1, 7, 49)}, 1, 0),
        ({"c1": Totals(3, 50, 900), "c2": Totals(1, 7, 49)}, 0, 1),
        ({"c1": Totals(2, 20, 200), "c2": Totals(1, 7, 49)}, 1, 1),
        ({"c1": Totals(2, 30, 468), "c2": Totals(1, 7, 49)}, 1, 1),
        ({"c1": Totals(2, 30, 500)}, 1, 0),
        ({**SALES, "c9": Totals(2, 2, 2)}, 0, 2),
    ],
    ids=["row lost", "row doubled", "one lost, one doubled", "only the squares differ", "customer lost", "invented"],
)
def test_totals_show_each_kind_of_damage(found: dict[str, Totals], lost: int, duplicated: int) -> None:
    """A wrong count, sum or sum of squares, a missing customer or an invented one is reported as lost or duplicated
    rows with examples.
    """
    account = compare_totals("sales_totals", SALES, found)
    assert (account.lost, account.duplicated) == (lost, duplicated)
    assert account.examples


@pytest.mark.parametrize(
    ("found", "lost", "duplicated"),
    [(["a", "b"], 0, 0), (["a"], 1, 0), (["a", "b", "b"], 0, 1), (["a", "a"], 1, 1), (["a", "b", "z"], 0, 1)],
    ids=["clean", "lost", "doubled", "both", "invented"],
)
def test_events_show_each_kind_of_damage(found: list[str], lost: int, duplicated: int) -> None:
    """Event ids are compared one by one, as a multiset."""
    account = compare_events("event_copy", ["a", "b"], found)
    assert (account.produced, account.lost, account.duplicated) == (2, lost, duplicated)


ROWS = [["e1", "c1", "10"], ["e2", "c2", "7"], ["e3", "c1", "20"], ["e4", "c2", "5"]]


def test_the_column_largest_is_compared_only_if_the_table_has_it() -> None:
    """A table of an older release without the column ``largest`` is clean, and a table with a wrong value in that
    column is not.
    """
    expected = totals_of(ROWS)
    assert expected["c1"] == Totals(2, 30, 500, 20)
    assert compare_totals("t", expected, {name: each.plain for name, each in expected.items()}).clean
    wrong = {**expected, "c1": Totals(2, 30, 500, 10)}
    account = compare_totals("t", expected, wrong)
    assert (account.lost, account.duplicated) == (1, 1)
    assert "largest 20 expected" in account.examples[0]


def test_rows_in_flight_count_as_neither_lost_nor_duplicated() -> None:
    """Output that covers only the first sales is clean and counts the others as in flight; closing the account counts
    them as lost.
    """
    account = totals_so_far("t", ROWS, totals_of(ROWS[:3]))
    assert account == Account(name="t", produced=4, lost=0, duplicated=0, in_flight=1)
    assert (account.closed.lost, account.closed.in_flight) == (1, 0)
    copied = events_so_far("e", ["a", "b", "c", "d"], ["b", "a"])
    assert copied == Account(name="e", produced=4, lost=0, duplicated=0, in_flight=2)


def test_a_row_lost_on_the_way_is_not_in_flight() -> None:
    """A missing row counts as lost, not as in flight, if later rows were already written."""
    assert not totals_so_far("t", ROWS, totals_of([ROWS[0], ROWS[2], ROWS[3]])).clean
    copied = events_so_far("e", ["a", "b", "c", "d"], ["a", "c"])
    assert (copied.lost, copied.duplicated, copied.in_flight) == (1, 0, 1)


def test_a_duplicated_row_is_detected_while_other_rows_are_in_flight() -> None:
    """A duplicated row is detected while other rows are still in flight."""
    assert totals_so_far("t", ROWS, totals_of([ROWS[0], ROWS[1], ROWS[1]])).duplicated == 1
    copied = events_so_far("e", ["a", "b", "c", "d"], ["a", "b", "b"])
    assert (copied.lost, copied.duplicated, copied.in_flight) == (0, 1, 2)


def test_doubled_output_is_reported_as_duplicates_with_zero_rows_in_flight() -> None:
    """Output that contains every row twice is reported as duplicates, with zero rows in flight instead of a negative
    number.
    """
    account = totals_so_far("t", ROWS, totals_of([*ROWS, *ROWS]))
    assert (account.duplicated, account.in_flight) == (4, 0)
