"""Tests which column the state's meaning gives for a time window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.authoring.definition import Query
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.inspection.windows import window_text
from streamkeeper.sinks.foreach import ForeachBatch
from tests.inspection.queries import nothing

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark


def column_of(kind: str) -> Column:
    """Return an event time that is a plain column, computed from two columns, or parsed."""
    from pyspark.sql import functions as F

    return {
        "plain": F.col("ts"),
        "coalesced": F.coalesce("ts", "ts2"),
        "parsed": F.from_json("value", "r struct<id: int, at: timestamp>").getField("r").getField("at"),
    }[kind]


@pytest.mark.parametrize(
    "lengths", [("10 minutes",), ("10 minutes", "5 minutes"), ()], ids=["tumbling", "sliding", "session"]
)
@pytest.mark.parametrize("kind", ["plain", "coalesced", "parsed"])
def test_a_window_key_contains_the_complete_event_time_expression(
    spark: SparkSession, tmp_path: Path, kind: str, lengths: tuple[str, ...]
) -> None:
    """The meaning of a window key contains the complete expression of the event time, equal to the watermark's
    column.
    """
    from pyspark.sql import functions as F

    stream = spark.readStream.schema("value string, ts timestamp, ts2 timestamp").json(str(tmp_path))
    timed = stream.withColumn("at", column_of(kind)).withWatermark("at", "1 minute")
    window = F.window("at", *lengths) if lengths else F.session_window("at", "5 minutes")
    query = Query("q", timed.groupBy(window).count(), sink=ForeachBatch(nothing), output_mode="append")
    manifest = describe(query, spark, bundle_root=tmp_path)
    [delay] = manifest.delays
    [key] = manifest.operators[0].key_columns
    found = re.findall(r"window\((.*?)(?:, \d+)*; [0-9a-f]{8}\)", key.meaning)
    assert found
    assert set(found) == {delay.column}


def test_quoted_brackets_and_commas_do_not_truncate_the_window_column() -> None:
    """Brackets and commas in a quoted format or default do not truncate the column of a window."""
    column = r'coalesce(source 0.at, totimestamp(source 0.v, "a,(\" b":string))'
    parts = ['"start":string', f"precisetimestampconversion(precisetimestampconversion({column}, fromType=timestamp))"]
    assert window_text(parts).startswith(f"window({column}; ")
