"""Stateful queries of every operator, the settings of every state layout, and the state that they must hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from harness.state_layouts import LAYOUTS
from tests.inspection.queries import read, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def session_with(spark: SparkSession, layout: str) -> SparkSession:
    """Return a session that stores state in the given layout."""
    session = spark.newSession()
    for key, value in LAYOUTS[layout].items():
        session.conf.set(key, value)
    return session


def rows_of(folder: Path, first: int = 0, last: int = 99) -> list[dict[str, Any]]:
    """Return the rows of input files ``first`` to ``last``, read without Spark."""
    files = sorted(folder.glob("*.json"))[first : last + 1]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def sums_of(rows: list[dict[str, Any]], column: str = "x") -> dict[str, int]:
    """Return the sum per key."""
    return {key: sum(row[column] for row in rows if row["k"] == key) for key in {row["k"] for row in rows}}


def contents(folder: Path) -> dict[str, str]:
    """Return every entry below a folder, each file with the hash of its bytes."""
    found = sorted(folder.rglob("*"))
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else "" for each in found}


def run(df: DataFrame, checkpoint: Path, mode: str, **trigger: bool) -> None:
    """Run the query without an output."""
    writer = df.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).format("noop")
    assert writer.trigger(**(trigger or {"availableNow": True})).start().awaitTermination(120)


def deduplicated(spark: SparkSession, folder: Path) -> DataFrame:
    return read(spark, folder).dropDuplicates(["k", "x"])


def deduplicated_totals(spark: SparkSession, folder: Path) -> DataFrame:
    return totals(deduplicated(spark, folder))


def two_sums(spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F

    return read(spark, folder).groupBy("k").agg(F.sum("x"), F.sum("y"))


def grand_total(spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F

    return read(spark, folder).agg(F.sum("x"))


def limited(spark: SparkSession, folder: Path) -> DataFrame:
    return read(spark, folder).limit(7)


def joined(spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F

    left = read(spark, folder).withWatermark("ts", "1 day").alias("l")
    right = read(spark, folder).filter("x > 3").withWatermark("ts", "1 day").alias("r")
    return left.join(right, F.expr("l.k = r.k and l.x = r.x and l.ts = r.ts"), "left").select("l.k", "r.x")


def sessions(spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F

    marked = read(spark, folder).withWatermark("ts", "1 day")
    return marked.groupBy(F.session_window("ts", "30 seconds"), "k").agg(F.count("*"))


def counted(spark: SparkSession, folder: Path) -> DataFrame:
    grouped = read(spark, folder).groupBy("k")
    return grouped.applyInPandasWithState(_count, "k string, n long", "n long", "update", "NoTimeout")


def processed(spark: SparkSession, folder: Path) -> DataFrame:
    return (
        read(spark, folder)
        .groupBy("k")
        .transformWithStateInPandas(
            statefulProcessor=Remember(),
            outputStructType="k string, n long",
            outputMode="update",
            timeMode="ProcessingTime",
        )
    )


def _count(key: tuple[str], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    seen = (state.get[0] if state.exists else 0) + sum(len(each) for each in frames)
    state.update((seen,))
    yield pd.DataFrame({"k": [key[0]], "n": [seen]})


class Remember(StatefulProcessor):
    """Stateful processor that keeps each key's number of rows, its values in a list and their frequencies in a map, and
    sets a timer.
    """

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n long")
        self.seen = handle.getListState("seen", "x long")
        self.often = handle.getMapState("often", "x long", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        values = [value for frame in rows for value in frame["x"].tolist()]
        for value in values:
            before = self.often.getValue((value,))[0] if self.often.containsKey((value,)) else 0
            self.often.updateValue((value,), (before + 1,))
            self.seen.appendValue((value,))
        before = self.total.get()[0] if self.total.exists() else 0
        self.total.update((before + len(values),))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_600_000)
        yield pd.DataFrame({"k": [key[0]], "n": [before + len(values)]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        pass
