"""The ledger sees what is lost and what is doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.ledger import Totals, compare_events, compare_totals, expected_totals

SALES = {"c1": Totals(2, 30, 500), "c2": Totals(1, 7, 49)}


def test_totals_come_from_every_file(tmp_path: Path) -> None:
    """The oracle adds count, sum and sum of squares over all files of the folder."""
    (tmp_path / "0.csv").write_text("e1,c1,10\ne2,c2,7\n")
    (tmp_path / "1.csv").write_text("e3,c1,20\n")
    assert expected_totals(tmp_path) == SALES


def test_equal_totals_are_clean() -> None:
    """What came out as it went in is neither lost nor doubled."""
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
    """No single count, sum or square may be wrong unseen."""
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
