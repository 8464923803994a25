"""Streaming queries over small JSON files; every call builds a new query."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.authoring.definition import Query
from streamkeeper.sinks.foreach import ForeachBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k string, k2 string, x long, y long, ts timestamp"


def write_files(folder: Path, count: int, *, keys: int = 5, rows: int = 20, first: int = 0) -> None:
    """Write ``count`` files in a defined order; file ``i`` holds rows ``x = i, i + 1, …``."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        path = folder / f"f{number:04d}.json"
        lines = [
            json.dumps(
                {
                    "k": f"k{row % keys}",
                    "k2": f"j{row % 2}",
                    "x": number + row,
                    "y": row,
                    "ts": f"2026-01-01T00:{row % 60:02d}:00",
                }
            )
            for row in range(rows)
        ]
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + number,) * 2)


def read(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    """Return a stream of the files, one file per batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.json(str(folder))


def nothing(batch: DataFrame, context: object) -> None:
    """A sink function that writes nothing."""


def query(df: DataFrame, **changes: Any) -> Query:
    """Return a query in update mode with a sink that writes nothing."""
    return Query("totals", df, **{"sink": ForeachBatch(nothing), "output_mode": "update", **changes})


def totals(stream: DataFrame) -> DataFrame:
    """Return the deployed query of most tests: one sum per key."""
    from pyspark.sql import functions as F

    return stream.groupBy("k").agg(F.sum("x").alias("s"))


def run_to_end(df: DataFrame, checkpoint: Path, *, mode: str = "update") -> dict[int, list[tuple[Any, ...]]]:
    """Run the query over all available input and return each batch's sorted rows by batch number."""
    seen: dict[int, list[tuple[Any, ...]]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        seen[number] = sorted(tuple(row) for row in batch.collect())

    writer = df.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    running = writer.trigger(availableNow=True).foreachBatch(keep).start()
    assert running.awaitTermination(120)
    return seen


def varied(spark: SparkSession, folder: Path) -> dict[str, Callable[[], DataFrame]]:
    """Return queries of every kind whose manifest must be the same each time it is built."""
    from pyspark.sql import functions as F

    def stream() -> DataFrame:
        return read(spark, folder)

    def with_udf() -> DataFrame:
        scale = {"a", "b", "c", "d", "e"}
        return stream().withColumn("x", F.udf(lambda x: x + len(scale), "long")("x")).groupBy("k").agg(F.max("x"))

    def window() -> DataFrame:
        marked = stream().withWatermark("ts", "10 minutes")
        return (
            marked.groupBy(F.window("ts", "10 minutes"), "k").agg(F.sum("x").alias("s")).filter("s > 3 and k <> '#12'")
        )

    def join() -> DataFrame:
        left = stream().withWatermark("ts", "1 minute").alias("l")
        right = stream().withWatermark("ts", "2 minutes").alias("r")
        condition = "l.k = r.k and l.ts >= r.ts and l.x > r.x and r.y > 4 and l.y < 9"
        return left.join(right, F.expr(condition), "left").select("l.k", F.col("r.x").alias("y"))

    def static() -> DataFrame:
        rows = spark.createDataFrame([("k1", 1), ("k2", 2)], "k string, z int")
        return stream().join(rows, "k").groupBy("k").agg(F.sum("z"))

    def of_the_moment() -> DataFrame:
        timed = stream().dropDuplicates(["k"]).withColumn("n", F.current_timestamp()).withColumn("r", F.rand())
        return timed.withColumn("u", F.expr("uuid()")).withColumn("t", F.transform(F.array("x"), lambda v: v + 1))

    def of_chance() -> DataFrame:
        return stream().groupBy("k").agg(F.sum("x").alias("s")).withColumn("luck", F.rand())

    def twice() -> DataFrame:
        one = stream()
        return one.union(one).union(stream())

    def rate() -> DataFrame:
        return spark.readStream.format("rate").option("rowsPerSecond", 3).load().filter(F.col("value") > 3)

    def sql() -> DataFrame:
        stream().createOrReplaceTempView("sales")
        return spark.sql(
            "with w as (select * from sales where x > 1) "
            "select k, count(distinct x) c, max(x) filter (where x > 3) m from w group by k having count(*) > 1"
        )

    def mapped() -> DataFrame:
        return stream().mapInPandas(lambda frames: frames, SCHEMA)

    builders = (with_udf, window, join, static, of_the_moment, of_chance, twice, rate, sql, mapped)
    return {build.__name__: build for build in builders}
