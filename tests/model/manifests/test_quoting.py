"""Tests that column names in a schema's lines are read back exactly as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkeeper.model.manifests.manifest import columns_of
from streamkeeper.model.manifests.quoting import schema_text

TYPES = ("bigint", "decimal(10,2) not null", "struct<order id:bigint,b:string>", "interval day to second")


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from(TYPES))))
def test_column_names_and_types_survive_the_schema_round_trip(columns: list[tuple[str, str]]) -> None:
    """Any column names and types, including spaces, line breaks, backticks and backslashes, survive the round trip
    through the schema text.
    """
    assert list(columns_of(schema_text(columns))) == columns


def test_only_a_name_that_could_be_misread_is_in_backticks() -> None:
    """Only names that could be misread are quoted in backticks, so that stored manifests stay valid."""
    columns = [("k", "string"), ("count(1)", "bigint"), ("order-id", "int"), ("order id", "int"), ("`", "int")]
    assert schema_text(columns).splitlines() == [
        "k string",
        "count(1) bigint",
        "order-id int",
        "`order id` int",
        "```` int",
    ]


@pytest.mark.parametrize(
    ("line", "name", "kind"),
    [
        ("order id bigint", "order id", "bigint"),
        ("order no bigint not null", "order no", "bigint not null"),
        ("when it was interval day to second", "when it was", "interval day to second"),
        ("price in euro decimal(10,2) not null", "price in euro", "decimal(10,2) not null"),
        ("a struct struct<order id:bigint,b:string>", "a struct", "struct<order id:bigint,b:string>"),
        ("s struct<a b:array<int>> not null", "s", "struct<a b:array<int>> not null"),
        ("t string collate UTF8_LCASE", "t", "string collate UTF8_LCASE"),
        ("sum(x + 1) bigint", "sum(x + 1)", "bigint"),
        ("k", "k", ""),
    ],
)
def test_a_line_of_an_earlier_version_is_read_by_its_type(line: str, name: str, kind: str) -> None:
    """An unquoted line of an earlier version is split at the first position where a complete type begins."""
    assert list(columns_of(line)) == [(name, kind)]
