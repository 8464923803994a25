"""Builds a job's queries in a real session: each query is checked at the moment it is yielded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.authoring.definition import JobDefinition, Param, Query
from streamkeeper.errors import InvalidInput, JobUnusable, Unsupported
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.foreach import ForeachBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def nothing(batch: object, context: object) -> None:
    """A sink function that does nothing."""


def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema("a string").csv(str(tmp_path))


def build(spark: SparkSession, function: Callable[..., Any], params: dict | None = None) -> list[Query]:
    job = JobDefinition(name="sales", params={"n": Param(int, default=1)}, function=function)
    return list(job.build(spark, params or {}))


def test_each_query_gets_the_confs_that_were_set_when_it_was_yielded(spark: SparkSession, tmp_path: Path) -> None:
    """Each query is passed on before the job's function continues, so the session's confs are the ones that the job set
    for that query.
    """

    def job(spark: SparkSession, params: Any) -> Iterable[Query]:
        for name, zone in (("one", "UTC"), ("two", "Europe/Berlin")):
            spark.conf.set("spark.sql.session.timeZone", zone)
            yield Query(name, stream(spark, tmp_path), sink=ForeachBatch(nothing))

    zones = []
    for _ in JobDefinition(name="sales", params={}, function=job).build(spark, {}):
        zones.append(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert zones == ["UTC", "Europe/Berlin"]


def test_params_are_read_only(spark: SparkSession) -> None:
    """A job that changes its params fails with a TypeError."""

    def job(spark: SparkSession, params: Any) -> Iterable[Query]:
        params["n"] = 2
        yield from ()

    with pytest.raises(JobUnusable, match="TypeError"):
        build(spark, job)


def test_yielded_queries_that_cannot_run_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Everything that a job yields and that cannot run, such as a batch frame, a duplicate name or an unknown sink, is
    refused with a one-line message for that fault.
    """
    frame = stream(spark, tmp_path)
    sink = ForeachBatch(nothing)
    faults: list[tuple[list[object], type[Exception], str]] = [
        ([], JobUnusable, "yields no query"),
        (["text"], JobUnusable, "yields str, not Query"),
        ([Query("q", frame, sink=sink), Query("q", frame, sink=sink)], JobUnusable, "two queries named q"),
        ([Query("Q", frame, sink=sink)], InvalidInput, "query name 'Q' is not allowed"),
        ([Query("q", spark.range(1), sink=sink)], JobUnusable, "is not streaming"),
        ([Query("q", "text", sink=sink)], JobUnusable, "str is not a DataFrame"),  # type: ignore[arg-type]
        ([Query("q", frame, sink=print)], Unsupported, "unknown sink.*use TableSink, .* or ForeachBatch"),  # type: ignore[arg-type]
        ([Query("q", frame, sink=FileSink("/o"), output_mode="complete")], Unsupported, "does not take output mode"),
        ([Query("q", frame, sink=sink, trigger="once")], Unsupported, "trigger once"),
        (
            [Query("q", frame, sink=FileSink("/o")), Query("r", frame, sink=FileSink("/o/"))],
            JobUnusable,
            "write to the same output",
        ),
    ]
    for queries, error, told in faults:
        with pytest.raises(error, match=told) as raised:
            build(spark, lambda _spark, _params, queries=queries: queries)
        assert "\n" not in str(raised.value)


def test_wrong_params_do_not_reach_the_job(spark: SparkSession) -> None:
    """Invalid params are refused before the job's function is called."""
    with pytest.raises(InvalidInput, match="job sales: param n is 'x', not a int"):
        build(spark, lambda *_: pytest.fail("called"), {"n": "x"})


def test_checkpoint_set_in_the_session_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A job that sets a checkpoint location in the session's confs is refused, because that is a second checkpoint."""

    def job(spark: SparkSession, params: Any) -> Iterable[Query]:
        spark.conf.set("spark.sql.streaming.checkpoint" + "Location", str(tmp_path))
        yield Query("q", stream(spark, tmp_path), sink=ForeachBatch(nothing))

    try:
        with pytest.raises(JobUnusable, match="second checkpoint"):
            build(spark, job)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_a_state_format_that_is_set_in_the_session_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A job whose code changes a conf of the state format in the session is refused, even if no description of its
    queries mentions that conf.
    """
    key = "spark.sql.streaming.stateStore.encodingFormat"

    def job(spark: SparkSession, params: Any) -> Iterable[Query]:
        spark.conf.set(key, "avro")
        yield Query("q", stream(spark, tmp_path), sink=ForeachBatch(nothing))

    try:
        with pytest.raises(JobUnusable, match=f"code sets {key}"):
            build(spark, job)
    finally:
        spark.conf.unset(key)
