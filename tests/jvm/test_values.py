"""Tests that values of Spark's JVM are read completely, and without the exceptions that make PySpark slow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.jvm.batch_files import check_batch
from streamkeeper.jvm.values import read_list, read_map, session_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("value", ["", "a -> b, c=d\nsecond line \u00e9", "with\x00the separator"])
def test_the_confs_are_those_that_spark_returns(spark: SparkSession, value: str) -> None:
    """The confs of a session are Spark's own, whatever a value contains."""
    session = spark.newSession()
    session.conf.set("acme.value", value)
    found = session_confs(session)
    assert found["acme.value"] == value
    assert found == dict(session.conf.getAll)


def test_the_confs_are_those_that_spark_returns_if_keys_and_values_contain_the_separator(spark: SparkSession) -> None:
    """The confs are Spark's own even if keys and values contain the separator equally often."""
    session = spark.newSession()
    session.conf.set("acme.\x00key", "with\x00the separator")
    assert session_confs(session) == dict(session.conf.getAll)


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The Java exceptions that PySpark has compared with its own errors."""
    from pyspark.errors.exceptions import captured

    compared: list[Any] = []
    convert = captured.convert_exception
    monkeypatch.setattr(captured, "convert_exception", lambda error: compared.append(error) or convert(error))
    return compared


def test_reading_a_collection_meets_no_java_exception(spark: SparkSession, errors: list[Any]) -> None:
    """A Java list and a Java map are read without a Java exception; as a control, a loop over the same list meets
    one.
    """
    jvm: Any = spark._jvm
    java, named = jvm.java.util.ArrayList(), jvm.java.util.HashMap()
    java.add("a")
    java.add(2)
    named.put("k", "v")
    assert read_list(java) == ["a", 2]
    assert read_map(named) == {"k": "v"}
    assert errors == []
    assert list(java) == ["a", 2]
    assert errors


def test_the_check_of_a_batch_meets_no_java_exception(spark: SparkSession, tmp_path: Path, errors: list[Any]) -> None:
    """The check of a batch's files, which delays every batch, costs no Java exception."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"k": "a"}))
    met: list[int] = []

    def write(batch: Any, number: int) -> None:
        before = len(errors)
        check_batch(batch, number)
        met.append(len(errors) - before)

    frame = spark.readStream.schema("k string").json(str(tmp_path / "in"))
    stream = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.foreachBatch(write).start().awaitTermination()
    assert met == [0]
