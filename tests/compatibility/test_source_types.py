"""Tests of a source column that is read with a changed type: the effect depends on both types and on the format."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.source_types import effect_of_type
from tests.compatibility.manifests import SOURCE, changed

STORES = "Spark would reject or misread state that stores the column with the old type"


def effect(kind: str, before: str, after: str, **options: str) -> str:
    """Return the effect for a file source of this format."""
    return effect_of_type(changed(SOURCE, options={"format": kind, **options}), before, after)


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "orc"])
@pytest.mark.parametrize(("before", "after"), [("int", "bigint"), ("smallint", "int"), ("int", "double")])
def test_a_wider_type_reads_every_value(kind: str, before: str, after: str) -> None:
    """A wider type reads every value in JSON, CSV, Parquet and ORC, and the effect states this with the risk for stored
    state.
    """
    assert effect(kind, before, after) == f"every value would be read as before, in the wider type {after}; {STORES}"


def test_text_that_does_not_fit_becomes_null_unless_the_mode_says_otherwise() -> None:
    """A value that does not fit the new type becomes null, except that FAILFAST stops the query and DROPMALFORMED drops
    the row; any value can be read as text.
    """
    told = "a value that cannot be read as int would become null without an error"
    assert effect("json", "bigint", "int") == effect("csv", "string", "int") == told
    assert effect("json", "bigint", "int", mode="FAILFAST").startswith("the query would stop at the first value")
    assert effect("csv", "bigint", "int", mode="dropMalformed").startswith("a row with a value that cannot be read")
    assert effect("csv", "bigint", "string") == f"every value would be read as its text; {STORES}"
    assert effect("orc", "bigint", "int") == effect("orc", "bigint", "int", mode="FAILFAST") == told


def test_parquet_wraps_small_numbers_and_stops_at_others() -> None:
    """Parquet misreads an int as tinyint, and stops the query at other types that do not fit."""
    assert effect("parquet", "int", "tinyint").startswith("a value that does not fit tinyint would be read as another")
    assert effect("parquet", "bigint", "int").startswith("the query would stop at the first file that stores bigint")
    assert effect("parquet", "int", "string").startswith("the query would stop at the first file that stores int")


def test_a_format_that_was_not_measured_has_no_specific_effect() -> None:
    """A format that was not measured has no specific effect, and a long type is not repeated in the effect."""
    assert effect("avro", "int", "bigint") == ""
    long = "struct<" + ", ".join(f"field_{number}: string" for number in range(9)) + ">"
    assert effect("json", "string", long) == (
        "a value that cannot be read as the new type would become null without an error"
    )
    assert effect("json", "int not null", "int").startswith("the same values would be read")
