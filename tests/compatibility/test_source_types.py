"""A column of a source that is read as another type: the effect depends on both types and on the format."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.source_types import effect_of_type
from tests.compatibility.manifests import SOURCE, changed

STORES = "Spark would reject or misread state that stores the column with the old type"


def effect(kind: str, before: str, after: str, **options: str) -> str:
    """The effect for a file source of a format."""
    return effect_of_type(changed(SOURCE, options={"format": kind, **options}), before, after)


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "orc"])
@pytest.mark.parametrize(("before", "after"), [("int", "bigint"), ("smallint", "int"), ("int", "double")])
def test_a_wider_type_reads_every_value(kind: str, before: str, after: str) -> None:
    """Measured in each format: no value becomes null, and the batch succeeds."""
    assert effect(kind, before, after) == f"every value would be read as before, in the wider type {after}; {STORES}"


def test_text_that_does_not_fit_becomes_null_unless_the_mode_says_otherwise() -> None:
    """A number too large for its column, a text as a number; every value has a text."""
    told = "a value that cannot be read as int would become null without an error"
    assert effect("json", "bigint", "int") == effect("csv", "string", "int") == told
    assert effect("json", "bigint", "int", mode="FAILFAST").startswith("the query would stop at the first value")
    assert effect("csv", "bigint", "int", mode="dropMalformed").startswith("a row with a value that cannot be read")
    assert effect("csv", "bigint", "string") == f"every value would be read as its text; {STORES}"
    assert effect("orc", "bigint", "int") == effect("orc", "bigint", "int", mode="FAILFAST") == told


def test_parquet_wraps_small_numbers_and_stops_at_others() -> None:
    """Parquet stores tinyint, smallint and int alike; a bigint as an int is an error."""
    assert effect("parquet", "int", "tinyint").startswith("a value that does not fit tinyint would be read as another")
    assert effect("parquet", "bigint", "int").startswith("the query would stop at the first file that stores bigint")
    assert effect("parquet", "int", "string").startswith("the query would stop at the first file that stores int")


def test_nothing_is_stated_of_a_format_that_was_not_measured() -> None:
    """Then the rule's general sentence applies; a long type is not repeated."""
    assert effect("avro", "int", "bigint") == ""
    long = "struct<" + ", ".join(f"field_{number}: string" for number in range(9)) + ">"
    assert effect("json", "string", long) == (
        "a value that cannot be read as the new type would become null without an error"
    )
    assert effect("json", "int not null", "int").startswith("the same values would be read")
