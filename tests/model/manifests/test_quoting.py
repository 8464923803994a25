"""Names of columns in a schema's lines: each name there is comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkeeper.model.manifests.manifest import columns_of
from streamkeeper.model.manifests.quoting import schema_text

TYPES = ("bigint", "decimal(10,2) not null", "struct<order id:bigint,b:string>", "interval day to second")


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from(TYPES))))
def test_every_name_comes_back_as_it_was(columns: list[tuple[str, str]]) -> None:
    """Spaces, line breaks, backticks and backslashes among them; no two schemas share a text."""
    assert list(columns_of(schema_text(columns))) == columns


def test_only_a_name_that_could_be_misread_is_in_backticks() -> None:
    """Names without spaces are written as ever, so that stored manifests stay what they are."""
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
    """No type starts in the middle of another one, so that the first that fits is the whole of it."""
    assert list(columns_of(line)) == [(name, kind)]
