"""Tests that Spark's own option classes treat an explicitly set default like an unset option."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.sources.file_options import DEFAULTS, STREAM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CASES = [(form, key) for form, options in DEFAULTS.items() for key in options]
NOT_READ = ("InWrite", "FlagInWrite", "hashCode", "toString", "logName", "apply")
SIMPLE = ("String", "boolean", "int", "long", "double", "char", "Option", "Locale", "ParseMode", "ZoneId")
PATTERN = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"


def options(spark: SparkSession, form: str, given: dict[str, str]) -> Any:
    jvm: Any = spark._jvm
    filled = {"rowTag": "row", **given} if form == "xml" else given
    entries = jvm.java.util.HashMap()
    for key, value in filled.items():
        entries.put(key, value)
    scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(entries)
    catalyst = jvm.org.apache.spark.sql.catalyst
    match form:
        case "csv":
            return catalyst.csv.CSVOptions(scala, True, "UTC", "_corrupt_record")
        case "json":
            return catalyst.json.JSONOptionsInRead(scala, "UTC", "_corrupt_record")
        case "xml":
            return catalyst.xml.XmlOptions(scala, "UTC", "_corrupt_record", True)
        case "parquet":
            session: Any = spark._jsparkSession
            parquet = jvm.org.apache.spark.sql.execution.datasources.parquet
            return parquet.ParquetOptions(scala, session.sessionState().conf())
        case "stream":
            return jvm.org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions(scala)
        case _:
            return jvm.org.apache.spark.sql.execution.datasources.text.TextOptions(scala)


def readings(chosen: Any) -> dict[str, str]:
    """Return every value that an option class computes for reading."""
    own = [each for each in chosen.getClass().getMethods() if is_reading(each)]
    return {str(each.getName()): str(each.invoke(chosen, None)) for each in own}


def is_reading(method: Any) -> bool:
    name, kind = str(method.getName()), str(method.getReturnType().getSimpleName())
    own = str(method.getDeclaringClass().getName()).startswith("org.apache.spark.sql")
    simple = kind in SIMPLE or name == "unescapedQuoteHandling"
    return own and simple and not method.getParameterCount() and "$" not in name and not name.endswith(NOT_READ)


@pytest.mark.parametrize(("form", "key"), CASES)
def test_an_explicit_default_equals_an_unset_option_for_each_file_format(
    spark: SparkSession, form: str, key: str
) -> None:
    """For each file format, the option class computes the same values with an explicitly set default as without it."""
    spelled = options(spark, form, {key: DEFAULTS[form][key]})
    assert readings(spelled) == readings(options(spark, form, {}))


@pytest.mark.parametrize("key", STREAM)
def test_an_explicit_default_equals_an_unset_option_of_a_file_stream(spark: SparkSession, key: str) -> None:
    """The options of a file stream have the same values with an explicitly set default as without it."""
    assert readings(options(spark, "stream", {key: STREAM[key]})) == readings(options(spark, "stream", {}))


def test_a_value_other_than_the_default_changes_the_computed_options(spark: SparkSession) -> None:
    """A value that is not the default changes the computed values, so the comparison distinguishes options."""
    for form, key, value in (("csv", "sep", ";"), ("json", "mode", "FAILFAST"), ("xml", "valueTag", "v")):
        assert readings(options(spark, form, {key: value})) != readings(options(spark, form, {}))


def test_the_documented_time_pattern_reads_less_than_no_pattern(spark: SparkSession, tmp_path: Path) -> None:
    """The documented ``timestampFormat`` parses fewer timestamps than an unset one, so no time format counts as a
    default.
    """
    texts = ["2026-01-01T10:00:00.000Z", "2026-01-01 10:00:00", "2026-01-01T10:00:00.123456Z", "2026-01-01"]
    (tmp_path / "in.json").write_text("".join(f'{{"t": "{each}"}}\n' for each in texts))
    reader = spark.read.schema("t timestamp")
    unset = [row.t for row in reader.json(str(tmp_path)).collect()]
    spelled = [row.t for row in reader.option("timestampFormat", PATTERN).json(str(tmp_path)).collect()]
    assert all(isinstance(each, datetime.datetime) for each in unset)
    assert spelled[0] == unset[0]
    assert None in spelled[1:]
