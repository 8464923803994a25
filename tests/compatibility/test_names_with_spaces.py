"""Tests of columns whose names contain spaces or hyphens: they are distinguished, and found in the state's
expressions.
"""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest, StateColumn
from tests.compatibility.manifests import STATEFUL, STATELESS, changed, with_operator, with_source

ZONE = "spark.sql.session.timeZone"


def rules(old: Manifest, new: Manifest) -> set[str]:
    return {each.rule for each in find_changes(old, new)}


def test_two_names_that_begin_alike_are_two_columns() -> None:
    """Two column names that begin with the same word are two columns, and a changed type or a removed column is
    reported.
    """
    before = with_source(STATELESS, schema="`order id` bigint\n`order no` bigint")
    assert rules(before, with_source(before, schema="`order id` string\n`order no` bigint")) >= {
        "source-column-widened"
    }
    assert rules(before, with_source(before, schema="`order id` int\n`order no` bigint")) == {
        "source-column-type-changed"
    }
    assert rules(before, with_source(before, schema="`order no` bigint")) == {"source-columns-removed"}


def test_an_earlier_manifest_with_unquoted_names_equals_the_current_one() -> None:
    """A manifest of an earlier version, with names not in backticks, equals today's manifest of the same columns."""
    before = changed(with_source(STATELESS, schema="order id bigint\nk string"), output_schema="order id bigint")
    after = changed(with_source(STATELESS, schema="`order id` bigint\nk string"), output_schema="`order id` bigint")
    assert find_changes(before, after) == ()
    assert rules(before, with_source(after, schema="`order id` int\nk string")) == {"source-column-type-changed"}


@pytest.mark.parametrize("name", ["order id", "order-id"])
def test_a_column_with_a_space_or_hyphen_is_found_in_the_state(name: str) -> None:
    """A column with a space or a hyphen is found in the state: a changed type is reported, and a changed time zone
    switches if the state contains a time from it.
    """
    shown = f"`{name}`" if " " in name else name
    by_name = with_operator(
        with_source(STATEFUL, schema=f"{shown} int\nx bigint"),
        key_columns=(StateColumn(meaning=f'source 0."{name}"', type="integer"),),
    )
    assert "source-column-type-changed" in rules(by_name, with_source(by_name, schema=f"{shown} bigint\nx bigint"))
    timed = with_source(by_name, schema=f"{shown} timestamp\nx bigint")
    moved = changed(timed, confs={**timed.confs, ZONE: "Asia/Tokyo"})
    assert verdict_of(find_changes(timed, moved)) is Verdict.SWITCH
    unused = with_source(STATEFUL, schema=f"{shown} timestamp\nk string\nx bigint")
    assert verdict_of(find_changes(unused, changed(unused, confs={**unused.confs, ZONE: "Asia/Tokyo"}))) is (
        Verdict.RESUME
    )
