"""Tests of the demo's sampler, which reads the serving table and reports totals that decrease or disappear."""

from __future__ import annotations

import pytest

from demo.sampler import Sampler, Samples
from harness.ledger import Totals

BEFORE = {"c1": Totals(2, 30, 500), "c2": Totals(1, 7, 49)}


def _seen(*readings: dict[str, Totals]) -> Samples:
    samples = Samples()
    for number, each in enumerate(readings):
        samples.note(10.0 + number / 10, each)
    return samples


def test_growing_totals_are_fine() -> None:
    """Growing totals, a new customer and a new column are not reported as errors."""
    after = {"c1": Totals(3, 35, 525, 20), "c2": Totals(1, 7, 49, 7), "c3": Totals(1, 1, 1, 1)}
    samples = _seen(BEFORE, after, after)
    assert samples.wrong == []
    assert samples.count == 3
    assert samples.per_second == pytest.approx(10)
    assert samples.longest_still_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    "after",
    [{}, {"c1": Totals(2, 30, 500)}, {**BEFORE, "c1": Totals(1, 10, 100)}, {**BEFORE, "c2": Totals(1, 6, 36)}],
    ids=["the table is missing", "a customer is missing", "a count goes back", "a sum goes back"],
)
def test_a_missing_table_or_decreased_total_is_reported(after: dict[str, Totals]) -> None:
    """A missing table, a missing customer or a decreased total is reported, even if the next reading is correct."""
    samples = _seen(BEFORE, after, BEFORE)
    assert len(samples.wrong) == 1
    assert "wrong" in samples.sentence


def test_the_longest_pause_between_readings_is_measured() -> None:
    """The longest pause between two readings is measured, because an error during a pause would not be seen."""
    samples = Samples()
    for at in (0.0, 0.1, 2.1):
        samples.note(at, BEFORE)
    assert samples.longest_pause_s == pytest.approx(2.0)
    assert samples.longest_still_s == pytest.approx(2.1)


def test_an_exception_while_reading_is_recorded_as_a_table_error() -> None:
    """An exception while reading is recorded as an error of the table."""
    readings = iter([BEFORE, BEFORE])
    with Sampler(lambda: next(readings), every_s=0.001) as sampler:
        while not sampler.samples.wrong:
            pass
    assert sampler.samples.count == 2
    assert "StopIteration" in sampler.samples.wrong[0]
