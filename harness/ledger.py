"""The ledger compares the input, read from its files in plain Python, with the output.

There are two accounts. The totals account compares count, sum and sum of squares per customer, and the largest amount
if the table has it: a lost and a duplicated row of one customer cancel out in the count, but are still visible in the
other values. The events account compares event ids one by one.

While the jobs run, the output is compared with the beginning of the input: both jobs read their input in the order in
which it was written, so only rows after the last row of the output are in flight.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec


class Totals(msgspec.Struct, frozen=True):
    """The totals of one customer's sales; ``largest`` is None if it is not compared."""

    count: int = 0
    total: int = 0
    squares: int = 0
    largest: int | None = None

    def plus(self, amount: int) -> Totals:
        """Return the totals with one more sale."""
        largest = amount if self.largest is None else max(self.largest, amount)
        return Totals(self.count + 1, self.total + amount, self.squares + amount * amount, largest)

    @property
    def plain(self) -> Totals:
        """Return the totals without the largest amount."""
        return Totals(self.count, self.total, self.squares)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One job's line in the ledger. ``in_flight``: rows that were produced and are not in the output yet; ``examples``:
    a few of the differences.
    """

    name: str
    produced: int
    lost: int
    duplicated: int
    in_flight: int = 0
    examples: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Return whether all rows that are not in flight are in the output exactly once."""
        return self.lost == 0 and self.duplicated == 0

    @property
    def closed(self) -> Account:
        """Return the final account, in which rows that are still in flight count as lost."""
        return msgspec.structs.replace(self, lost=self.lost + self.in_flight, in_flight=0)


_SHOWN = 5


def read_rows(folder: Path) -> Iterator[list[str]]:
    """Yield the rows of all CSV files in ``folder``."""
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            yield from csv.reader(lines)


def totals_of(sales: Iterable[Sequence[str]]) -> dict[str, Totals]:
    """Return the totals per customer from rows of sales (``event_id, customer, amount``)."""
    totals: dict[str, Totals] = {}
    for _event, customer, amount in sales:
        totals[customer] = totals.get(customer, Totals()).plus(int(amount))
    return totals


def expected_totals(sales: Path) -> dict[str, Totals]:
    """Return the totals per customer from all files in ``sales``, without the largest amount."""
    return {customer: each.plain for customer, each in totals_of(read_rows(sales)).items()}


def totals_so_far(name: str, sales: Sequence[Sequence[str]], found: Mapping[str, Totals]) -> Account:
    """Return the account of totals while the job runs: as many of the first sales are compared as the table has
    counted.
    """
    counted = sum(each.count for each in found.values())
    account = compare_totals(name, totals_of(sales[:counted]), found)
    return msgspec.structs.replace(account, produced=len(sales), in_flight=max(0, len(sales) - counted))


def events_so_far(name: str, events: Sequence[str], found: Sequence[str]) -> Account:
    """Return the account of copied events while the job runs: the events up to the last one in the output are
    compared.
    """
    out = set(found)
    reached = next((number for number in range(len(events), 0, -1) if events[number - 1] in out), 0)
    account = compare_events(name, events[:reached], found)
    return msgspec.structs.replace(account, produced=len(events), in_flight=len(events) - reached)


def compare_totals(name: str, expected: Mapping[str, Totals], found: Mapping[str, Totals]) -> Account:
    """Return the account with the lost and duplicated rows; a customer with the right count and wrong sums has one of
    each.
    """
    lost = duplicated = 0
    examples: list[str] = []
    for customer in sorted({*expected, *found}):
        wanted, got = expected.get(customer, Totals()), found.get(customer, Totals())
        wanted = wanted if got.largest is not None else wanted.plain
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
    """Return the account with the event ids that are missing, and those that occur too often in the output or were
    never produced.
    """
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
    largest = "" if totals.largest is None else f", largest {totals.largest}"
    return f"count {totals.count}, sum {totals.total}, squares {totals.squares}{largest}"
