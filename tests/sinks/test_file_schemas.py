"""Tests, without a Spark session, the recorded schemas of a version's files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructType

from streamkeeper.sinks.file_schemas import FileSchema, joined_schema, read_options, written_schema

LONGS = StructType().add("n", LongType())


def recorded(*columns: tuple[str, DataType | str], partition_by: tuple[str, ...] = (), zone: str = "UTC") -> FileSchema:
    schema = StructType()
    for name, kind in columns:
        schema = schema.add(name, kind)
    return written_schema(schema, partition_by, batch=3, epoch=2, time_zone=zone)


def names(text: str) -> list[str]:
    return [field["name"] for field in json.loads(text)["fields"]]


def test_columns_in_files_and_columns_in_folder_names_are_recorded_apart() -> None:
    """Columns in files and columns in folder names are recorded in two schemas, each in the order of the batch."""
    found = recorded(
        ("day", "date"), ("id", "string"), ("hour", "integer"), ("n", "long"), partition_by=("hour", "day")
    )
    assert (names(found.schema), names(found.partitions)) == (["id", "n"], ["day", "hour"])
    assert (found.batch, found.epoch, found.time_zone) == (3, 2, "UTC")


@pytest.mark.parametrize("zones", [["Europe/Vienna"], ["UTC", "Asia/Tokyo", "Europe/Vienna"]])
def test_folder_names_are_read_in_the_newest_time_zone(zones: list[str]) -> None:
    """Folder names are read in the time zone of the newest recorded schema."""
    found = [recorded(("n", "long"), zone=zone) for zone in zones]
    assert read_options("parquet", found)["timeZone"] == "Europe/Vienna"


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (LongType(), LongType(), "long"),
        ("integer", "long", "long"),
        ("long", "integer", "long"),
        ("long", "double", "string"),
        (LONGS, "string", "string"),
        ("string", LONGS, "string"),
        (LONGS, ArrayType(LongType()), "string"),
        (
            ArrayType(StringType()),
            ArrayType(LongType()),
            {"type": "array", "elementType": "string", "containsNull": True},
        ),
        (
            MapType(StringType(), LongType()),
            MapType(StringType(), StringType()),
            {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
        ),
    ],
)
def test_a_column_with_two_types_gets_one_that_can_represent_both(
    one: DataType | str, other: DataType | str, joined: Any
) -> None:
    """A column that was written with two types is read as the wider one, part by part for lists and maps, and otherwise
    as a string.
    """
    found = joined_schema([recorded(("c", one)), recorded(("c", other))])
    assert [(field["name"], field["type"]) for field in found["fields"]] == [("c", joined)]


def test_the_joined_schema_has_the_columns_of_every_recorded_schema_once() -> None:
    """The joined schema contains the columns of every recorded schema, and the fields of every struct, once."""
    wider = StructType().add("n", LongType()).add("m", StringType())
    found = joined_schema([recorded(("a", "string"), ("s", LONGS)), recorded(("s", wider), ("b", "integer"))])
    assert [field["name"] for field in found["fields"]] == ["a", "s", "b"]
    assert [field["name"] for field in found["fields"][1]["type"]["fields"]] == ["n", "m"]
