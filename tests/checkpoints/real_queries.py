"""Small streaming queries of every kind that keeps something in a checkpoint, and a way to run one on a directory.

Every batch reads one input file per source. Nothing depends on the time of day, so a batch has the same rows wherever
it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming import StatefulProcessor

from harness.state_layouts import LAYOUTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_STORE = "spark.sql.streaming.stateStore."
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    f"{_STORE}minDeltasForSnapshot": "2",
    f"{_STORE}maintenanceInterval": "200ms",
    f"{_STORE}maintenanceShutdownTimeout": "5s",  # by default minutes, when an upload hangs
    f"{_STORE}maintenanceForceShutdownTimeout": "5s",
}
ROCKSDB = ("rocksdb", "changelog", "format-2")
EVERY_STORE = tuple(LAYOUTS)
NO_STORE = ("hdfs",)

Rows = dict[int, list[tuple[object, ...]]]


class Inputs:
    """Two folders of input files, ``left`` and ``right``, and the streams that read them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = {"left": 0, "right": 0}
        for name in self._count:
            (root / name).mkdir(parents=True)

    def put(self, name: str, count: int) -> None:
        """Add this number of files of four rows each, whose timestamps are a minute apart."""
        for number in range(self._count[name], self._count[name] + count):
            lines = [f"{'abc'[(number + row) % 3]},{number * 10 + row},{number * 60 + row * 7}" for row in range(4)]
            path = self.root / name / f"f{number}.csv"
            path.write_text("\n".join(lines) + "\n")
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        self._count[name] += count


class Streams:
    """The inputs as a session reads them: ``k string, v int, at timestamp``."""

    def __init__(self, session: SparkSession, inputs: Inputs, *, named: bool) -> None:
        self._session = session
        self._inputs = inputs
        self._named = named

    @property
    def left(self) -> DataFrame:
        return self._read("left")

    @property
    def right(self) -> DataFrame:
        return self._read("right")

    def _read(self, name: str) -> DataFrame:
        reader = self._session.readStream.schema("k string, v int, seconds long").option("maxFilesPerTrigger", 1)
        if self._named:
            reader = reader.name(name)
        rows = reader.csv(str(self._inputs.root / name))
        return rows.selectExpr("k", "v", "timestamp_seconds(seconds) AS at")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A query to run.

    ``steps``: files put into left and right before each start; the last start is the one to compare. ``stores``: the
    kinds of state with which it runs by default; ``all_stores``: those with which it can run. ``by_batch``: whether
    each batch always has the same rows, otherwise only all batches together do. ``again``: the newest batch is rerun,
    instead of continuing from an older one.
    """

    name: str
    frame: Callable[[Streams], Any]
    mode: str = "append"
    stores: tuple[str, ...]
    all_stores: tuple[str, ...] = EVERY_STORE
    conf: dict[str, str] = {}
    named: bool = False
    steps: tuple[tuple[int, int], ...] = ((5, 5), (1, 1))
    by_batch: bool = True
    again: bool = False


def total(streams: Streams) -> Any:
    return streams.left.groupBy("k").agg({"v": "sum"})


def windows(streams: Streams) -> Any:
    from pyspark.sql.functions import window

    return streams.left.withWatermark("at", "10 seconds").groupBy(window("at", "1 minute"), "k").count()


def sessions(streams: Streams) -> Any:
    from pyspark.sql.functions import session_window

    return streams.left.withWatermark("at", "10 seconds").groupBy(session_window("at", "15 seconds"), "k").count()


def joined(how: str) -> Callable[[Streams], Any]:
    def frame(streams: Streams) -> Any:
        from pyspark.sql.functions import expr

        left = streams.left.withWatermark("at", "10 seconds").alias("l")
        right = streams.right.withWatermark("at", "10 seconds").alias("r")
        near = "l.k = r.k AND r.at BETWEEN l.at - INTERVAL 65 SECONDS AND l.at + INTERVAL 5 SECONDS AND r.v % 4 > 0"
        return left.join(right, expr(near), how).selectExpr("l.k", "l.v", "r.v AS other")

    return frame


def joined_then_counted(streams: Streams) -> Any:
    """Two stateful operators, one of them with several stores."""
    from pyspark.sql.functions import expr, window

    left = streams.left.withWatermark("at", "10 seconds").alias("l")
    right = streams.right.withWatermark("at", "10 seconds").alias("r")
    rows = left.join(right, expr("l.k = r.k AND l.at = r.at")).select("l.at", "l.k")
    return rows.groupBy(window("at", "1 minute"), "k").count()


def once(streams: Streams) -> Any:
    return streams.left.dropDuplicates(["k"])


def once_within(streams: Streams) -> Any:
    return streams.left.withWatermark("at", "70 seconds").dropDuplicatesWithinWatermark(["k"])


def first_rows(streams: Streams) -> Any:
    return streams.left.limit(18)


def twice(streams: Streams) -> Any:
    rows = streams.left
    return rows.union(rows)


def both(streams: Streams) -> Any:
    return streams.left.union(streams.right)


def both_counted(streams: Streams) -> Any:
    return both(streams).groupBy("k").count()


def kept_by_function(streams: Streams) -> Any:
    rows = streams.left.groupBy("k")
    return rows.applyInPandasWithState(_keep, "k string, n long", "n long", "update", "NoTimeout")


def kept_by_processor(streams: Streams) -> Any:
    rows = streams.left.withWatermark("at", "10 seconds").groupBy("k")
    return rows.transformWithStateInPandas(Kept(), "k string, told string, n long", "Update", "EventTime")


def _keep(key: tuple[str], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    count = state.get[0] if state.exists else 0
    count += sum(int(frame.v.sum()) for frame in frames)
    state.update((count,))
    yield pd.DataFrame({"k": [key[0]], "n": [count]})


class Kept(StatefulProcessor):
    """A processor with a value, a list, a map, and one timer per file."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sum = handle.getValueState("sum", "n long")
        self._seen = handle.getListState("seen", "v int")
        self._best = handle.getMapState("best", "parity string", "v int")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        count = self._sum.get()[0] if self._sum.exists() else 0
        for frame in rows:
            for value in map(int, frame.v):
                count += value
                parity = ("even",) if value % 2 == 0 else ("odd",)
                if not self._best.containsKey(parity) or self._best.getValue(parity)[0] < value:
                    self._best.updateValue(parity, (value,))
                self._seen.appendValue((value,))
            self._handle.registerTimer(int(frame["at"].max().timestamp() * 1000) + 5_000)
        self._sum.update((count,))
        best = sum(value[0] for value in self._best.values())
        told = [("sum", count), ("seen", len(list(self._seen.get()))), ("best", best)]
        yield pd.DataFrame({"k": [key[0]] * 3, "told": [each[0] for each in told], "n": [each[1] for each in told]})

    def handleExpiredTimer(self, key: tuple[str], timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        import pandas as pd

        at = expiredTimerInfo.getExpiryTimeInMs() // 1000
        yield pd.DataFrame({"k": [key[0]], "told": [f"timer {at}"], "n": [self._sum.get()[0]]})

    def close(self) -> None:
        pass


_NAMED = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""For cases where the number of partitions does not matter: each partition costs a store of every kind in every batch.
"""
_NO_DATA = {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}

_TWO = {_JOIN_FORMAT: "2"}
_THREE = {_JOIN_FORMAT: "3"}

CASES = (
    Case(name="total", frame=total, mode="update", stores=EVERY_STORE),
    Case(name="total-again", frame=total, mode="update", stores=("format-2",), conf=ONE_PARTITION, again=True),
    Case(name="windows", frame=windows, stores=("hdfs",), conf=ONE_PARTITION),
    Case(
        name="windows-with-empty-batches",
        frame=windows,
        stores=("format-2",),
        conf=_NO_DATA | ONE_PARTITION,
        by_batch=False,
    ),
    Case(name="sessions", frame=sessions, stores=("changelog",), conf={"spark.sql.shuffle.partitions": "3"}),
    Case(name="join-2", frame=joined("left"), stores=("hdfs", "format-2"), conf=_TWO),
    Case(name="join-2-again", frame=joined("left"), stores=("changelog",), conf=_TWO | ONE_PARTITION, again=True),
    Case(name="join-3", frame=joined("full"), stores=("format-2",), all_stores=ROCKSDB, conf=_THREE | ONE_PARTITION),
    Case(name="join-then-windows", frame=joined_then_counted, stores=("rocksdb",), conf=_TWO | ONE_PARTITION),
    Case(name="once", frame=once, stores=("rocksdb",), conf=ONE_PARTITION),
    Case(name="once-within", frame=once_within, stores=("format-2",), conf=ONE_PARTITION),
    Case(name="limit", frame=first_rows, stores=("hdfs",), conf=ONE_PARTITION),
    Case(name="function", frame=kept_by_function, mode="update", stores=("changelog",), conf=ONE_PARTITION),
    Case(
        name="processor",
        frame=kept_by_processor,
        mode="update",
        stores=("rocksdb", "format-2"),
        all_stores=ROCKSDB,
        conf=ONE_PARTITION,
        steps=((3, 0), (2, 0), (1, 0)),
    ),
    Case(
        name="processor-again",
        frame=kept_by_processor,
        mode="update",
        stores=("changelog",),
        all_stores=ROCKSDB,
        conf=ONE_PARTITION,
        again=True,
    ),
    Case(name="twice", frame=twice, stores=NO_STORE, all_stores=NO_STORE),
    Case(name="uneven", frame=both, stores=NO_STORE, all_stores=NO_STORE, steps=((3, 1), (2, 2), (1, 1))),
    Case(
        name="named", frame=both_counted, mode="update", stores=("format-2",), conf=_NAMED | ONE_PARTITION, named=True
    ),
)


class Started:
    """A query on a checkpoint; ``rows`` maps each batch to its sorted rows as they reach the sink."""

    def __init__(
        self, spark: SparkSession, case: Case, store: str, inputs: Inputs, checkpoint: Path, output: Path | None = None
    ) -> None:
        session = spark.newSession()
        for key, value in {**CONF, **LAYOUTS[store], **case.conf}.items():
            session.conf.set(key, value)
        frame = case.frame(Streams(session, inputs, named=case.named))
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).outputMode(case.mode)
        writer = writer.foreachBatch(self._take) if output is None else writer.format("csv").option("path", str(output))
        self.rows: Rows = {}
        self.error = ""
        self._query: StreamingQuery | None = None
        try:
            self._query = writer.trigger(availableNow=True).start()
        except (PySparkException, Py4JJavaError) as error:
            self.error = str(error)

    def finish(self) -> Started:
        """Wait until the query has read all input or has failed."""
        if self._query is not None:
            try:
                assert self._query.awaitTermination(180), "the query does not end"
            except StreamingQueryException as error:
                self.error = str(error)
        return self

    @property
    def batches(self) -> list[int]:
        """The batches that the query ran, in order."""
        return [each["batchId"] for each in self._query.recentProgress] if self._query else []

    def _take(self, rows: Any, batch: int) -> None:
        self.rows[batch] = sorted((tuple(row) for row in rows.collect()), key=repr)
