"""The ledger: what went in, by plain Python over the input files, against what came out.

Two accounts. The totals account compares count, sum and sum of squares per customer, and the largest where the table
has it: a lost and a doubled row of one customer that cancel out in the count still show in the others. The events
account compares event ids one by one.

While jobs run, what came out is held against the beginning of what went in: both read their input in the order in
which it was written, so that only rows after the last one that came out are in flight.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec


class Totals(msgspec.Struct, frozen=True):
    """Of one customer's sales; ``largest``: None where it is not asked for."""

    count: int = 0
    total: int = 0
    squares: int = 0
    largest: int | None = None

    def plus(self, amount: int) -> Totals:
        """With one more sale."""
        largest = amount if self.largest is None else max(self.largest, amount)
        return Totals(self.count + 1, self.total + amount, self.squares + amount * amount, largest)

    @property
    def plain(self) -> Totals:
        """Without the largest."""
        return Totals(self.count, self.total, self.squares)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One job's line in the ledger; ``in_flight``: produced, and not out yet; ``examples``: a few of what differs."""

    name: str
    produced: int
    lost: int
    duplicated: int
    in_flight: int = 0
    examples: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everything that is not in flight came out exactly once."""
        return self.lost == 0 and self.duplicated == 0

    @property
    def closed(self) -> Account:
        """At the end: what has not come out by now is lost."""
        return msgspec.structs.replace(self, lost=self.lost + self.in_flight, in_flight=0)


_SHOWN = 5


def read_rows(folder: Path) -> Iterator[list[str]]:
    """The rows of every CSV file in ``folder``."""
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            yield from csv.reader(lines)


def totals_of(sales: Iterable[Sequence[str]]) -> dict[str, Totals]:
    """Per customer, from rows of sales (``event_id, customer, amount``)."""
    totals: dict[str, Totals] = {}
    for _event, customer, amount in sales:
        totals[customer] = totals.get(customer, Totals()).plus(int(amount))
    return totals


def expected_totals(sales: Path) -> dict[str, Totals]:
    """Per customer, from all files in ``sales``; without the largest."""
    return {customer: each.plain for customer, each in totals_of(read_rows(sales)).items()}


def totals_so_far(name: str, sales: Sequence[Sequence[str]], found: Mapping[str, Totals]) -> Account:
    """The account of totals that are being added up: as many of the first sales as the table counts."""
    counted = sum(each.count for each in found.values())
    account = compare_totals(name, totals_of(sales[:counted]), found)
    return msgspec.structs.replace(account, produced=len(sales), in_flight=max(0, len(sales) - counted))


def events_so_far(name: str, events: Sequence[str], found: Sequence[str]) -> Account:
    """The account of events that are being copied: all up to the last one that came out."""
    out = set(found)
    reached = next((number for number in range(len(events), 0, -1) if events[number - 1] in out), 0)
    account = compare_events(name, events[:reached], found)
    return msgspec.structs.replace(account, produced=len(events), in_flight=len(events) - reached)


def compare_totals(name: str, expected: Mapping[str, Totals], found: Mapping[str, Totals]) -> Account:
    """Rows missing and rows too many; a customer whose count is right but whose sums are not has one of each."""
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
    largest = "" if totals.largest is None else f", largest {totals.largest}"
    return f"count {totals.count}, sum {totals.total}, squares {totals.squares}{largest}"
