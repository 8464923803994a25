"""Tests of intervals in different units: equal if they are added to a time, and different elsewhere."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.normal_expressions import in_one_unit

ANY = "interval day to second"


@pytest.mark.parametrize(
    ("meaning", "told"),
    [
        (
            "max(timestampaddinterval(source 0.ts, 720000000:interval minute, in session))",
            f"max(timestampaddinterval(source 0.ts, 720000000:{ANY}, in session))",
        ),
        (
            "timestampaddinterval(timestampaddinterval(a, -5:interval hour to second), 7:interval day)",
            f"timestampaddinterval(timestampaddinterval(a, -5:{ANY}), 7:{ANY})",
        ),
        (
            'lessthan(source 0."t, (s", timestampaddinterval(source 1.ts, 5:interval second))',
            f'lessthan(source 0."t, (s", timestampaddinterval(source 1.ts, 5:{ANY}))',
        ),
    ],
)
def test_an_interval_added_to_a_time_is_compared_without_its_unit(meaning: str, told: str) -> None:
    """An interval that is added to a time loses its unit in the compared text, also in nested calls and beside quoted
    names with brackets and commas.
    """
    assert in_one_unit(meaning) == told


@pytest.mark.parametrize(
    "meaning",
    [
        "max(720000000:interval minute)",
        "multiplydtinterval(720000000:interval minute, source 0.x)",
        "timestampaddinterval(source 0.ts, multiplydtinterval(720000000:interval minute, source 0.x), in session)",
        "timestampaddyminterval(source 0.ts, 1:interval month)",
        "timestampaddinterval(source 0.ts, 12 minutes:interval)",
        'equalto(source 0.k, "timestampaddinterval(a, 5:interval second)":string)',
        "long(0a; source 0.ts)",
    ],
)
def test_an_interval_used_as_a_value_keeps_its_unit(meaning: str) -> None:
    """An interval that is a value, is computed with or is part of a string keeps its unit."""
    assert in_one_unit(meaning) == meaning
