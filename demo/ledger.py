"""The ledger: what went in, by plain Python over the input files, against what came out.

Two accounts. The totals account compares count, sum and sum of squares per customer: a lost and a doubled row of one
customer that cancel out in the count still show in the others. The events account compares event ids one by one.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec


class Totals(msgspec.Struct, frozen=True):
    """Of one customer's sales."""

    count: int = 0
    total: int = 0
    squares: int = 0


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One job's line in the ledger; ``examples`` names a few of what differs."""

    name: str
    produced: int
    lost: int
    duplicated: int
    examples: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everything came out exactly once."""
        return self.lost == 0 and self.duplicated == 0


_SHOWN = 5


def read_rows(folder: Path) -> Iterator[list[str]]:
    """The rows of every CSV file in ``folder``."""
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            yield from csv.reader(lines)


def expected_totals(sales: Path) -> dict[str, Totals]:
    """Per customer, from sales files (``event_id, customer, amount``)."""
    totals: dict[str, Totals] = {}
    for _event, customer, amount in read_rows(sales):
        before = totals.get(customer, Totals())
        value = int(amount)
        totals[customer] = Totals(before.count + 1, before.total + value, before.squares + value * value)
    return totals


def compare_totals(name: str, expected: Mapping[str, Totals], found: Mapping[str, Totals]) -> Account:
    """Rows missing and rows too many; a customer whose count is right but whose sums are not has one of each."""
    lost = duplicated = 0
    examples: list[str] = []
    for customer in sorted({*expected, *found}):
        wanted, got = expected.get(customer, Totals()), found.get(customer, Totals())
        if wanted == got:
            continue
        examples.append(f"{customer}: {_render(wanted)} expected, {_render(got)} found")
        lost += max(wanted.count - got.count, 0)
        duplicated += max(got.count - wanted.count, 0)
        if wanted.count == got.count:
            lost, duplicated = lost + 1, duplicated + 1
    produced = sum(each.count for each in expected.values())
    return Account(name=name, produced=produced, lost=lost, duplicated=duplicated, examples=tuple(examples[:_SHOWN]))


def compare_events(name: str, expected: Iterable[str], found: Iterable[str]) -> Account:
    """Event ids missing, and event ids that came out more than once or were never produced."""
    wanted, got = Counter(expected), Counter(found)
    missing, extra = wanted - got, got - wanted
    examples = [f"{event} is missing" for event in sorted(missing)[:_SHOWN]]
    examples += [f"{event} came out {got[event]} times" for event in sorted(extra)[:_SHOWN]]
    return Account(
        name=name,
        produced=wanted.total(),
        lost=missing.total(),
        duplicated=extra.total(),
        examples=tuple(examples),
    )


def _render(totals: Totals) -> str:
    return f"count {totals.count}, sum {totals.total}, squares {totals.squares}"
