"""``python -m bench.sinks``: rows per second of each kind of sink, against Spark's own writers of the same format.

One session writes the same batches with each way in turn: by default 1,000,000 rows in batches of 100,000, in two
partitions each. A round writes every way once to a new output. One short round before them is not counted. The order of
the ways is reversed in every second round. Reported per way: the median of the rounds' rows per second, and the ratio
of each sink to its peers.

The servers (PostgreSQL and a Kafka broker) run on this machine, so they share its cores with Spark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench.report import write_report
from harness.kafka_broker import KafkaBroker, running_broker
from harness.postgres_server import find_programs, new_database, postgres_server
from streamkeeper import AppendTableSink, DeltaSink, FileSink, KafkaSink, TableSink
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.jvm.delta_commits import commit_create_only
from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.batch_headers import TASK_CLASS
from streamkeeper.sinks.contract import Sink, SinkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Write = Callable[["DataFrame", int], None]
"""Writes a batch with this number."""

_COLUMNS = (
    "id",
    "concat('customer-', id % 5000) AS customer",
    "id * 0.25 AS amount",
    "timestamp_seconds(1790000000 + id) AS at",
    "repeat(hex(id), 6) AS note",
)
_TABLE = "CREATE TABLE {} (id bigint PRIMARY KEY, customer text, amount double precision, at timestamptz, note text)"
_PEERS = {
    "FileSink": ("Parquet",),
    "DeltaSink": ("Delta with txnAppId", "Delta"),
    "TableSink": ("JDBC", "JDBC to a table with the key", "JDBC with reWriteBatchedInserts"),
    "AppendTableSink": ("JDBC", "JDBC with reWriteBatchedInserts"),
    "KafkaSink": ("Kafka",),
    "KafkaSink without headers": ("Kafka",),
}
"""Sink -> the ways of Spark that write the same format."""


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.sinks", description="Rows per second of each kind of sink.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of the names of the ways to measure, with commas")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    programs = find_programs()
    driver = sorted(Path(sys.prefix, "connectors", "jdbc").glob("postgresql-*.jar"))
    if programs is None or not driver:
        raise SystemExit("bench.sinks needs PostgreSQL's programs and the connectors (make connectors)")
    with tempfile.TemporaryDirectory(prefix="streamkeeper-bench-sinks-") as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        for name in ("postgres", "broker"):
            (scratch / name).mkdir()
        with (
            postgres_server(scratch / "postgres", programs) as server,
            running_broker(scratch / "broker") as broker,
            _session(scratch, str(driver[-1])) as spark,
        ):
            bench = _Bench(spark, scratch, new_database(server, "sales"), broker)
            figures = bench.measure(chosen.rows, chosen.batches, chosen.rounds, chosen.only)
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('sinks', figures, into=chosen.out)}")
    return 0


@contextmanager
def _session(scratch: Path, driver: str) -> Iterator[SparkSession]:
    session = start_session(session_conf({"spark.jars": driver}, scratch, "sinks"), {}, scratch, [])
    try:
        commit_create_only(session.spark)
        load_task_class(session.spark, TASK_CLASS)
        # Delta's own writer else refuses a session without its extension.
        session.spark.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
        yield session.spark
    finally:
        session.kill()


class _Bench:
    def __init__(self, spark: SparkSession, scratch: Path, database: str, broker: KafkaBroker) -> None:
        self._spark = spark
        self._scratch = scratch
        self._database = database
        self._broker = broker
        self._ways: dict[str, Callable[[], Write]] = {
            "Parquet": lambda: _spark_s_own("parquet", path=self._directory()),
            "FileSink": lambda: self._sink(FileSink(self._directory())),
            "Delta": lambda: _spark_s_own("delta", path=self._directory()),
            "Delta with txnAppId": self._delta_with_numbers,
            "DeltaSink": lambda: self._sink(DeltaSink(self._directory())),
            "JDBC": lambda: self._jdbc(),
            "JDBC to a table with the key": lambda: self._jdbc(keyed=True),
            "JDBC with reWriteBatchedInserts": lambda: self._jdbc(reWriteBatchedInserts="true"),
            "TableSink": lambda: self._sink(TableSink(self._url, self._name(), key=["id"])),
            "AppendTableSink": lambda: self._sink(AppendTableSink(self._url, self._name())),
            "Kafka": lambda: self._kafka(_spark_s_own("kafka", topic=self._topic(), **self._servers)),
            "KafkaSink": lambda: self._kafka(self._sink(KafkaSink(broker.servers, self._topic()))),
            "KafkaSink without headers": lambda: self._kafka(
                self._sink(KafkaSink(broker.servers, self._topic(), batch_headers=False))
            ),
        }

    def measure(self, rows: int, batches: int, rounds: int, only: str) -> dict[str, Any]:
        size = rows // batches
        input_folder = self._scratch / "input"
        for number in range(batches):
            batch = self._spark.range(number * size, (number + 1) * size, numPartitions=2).selectExpr(*_COLUMNS)
            batch.write.parquet(str(input_folder / str(number)))
        read = [self._spark.read.parquet(str(input_folder / str(number))) for number in range(batches)]
        ways = [name for name in self._ways if any(part in name for part in only.split(","))]
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name in ways if turn % 2 else reversed(ways):
                write, began = self._ways[name](), time.monotonic()
                for number, batch in enumerate(read[:2] if turn == 0 else read):
                    write(batch, number)
                if turn:
                    seconds[name].append(round(time.monotonic() - began, 3))
                    print(f"  round {turn}: {name} {size * batches / seconds[name][-1]:,.0f} rows/s", flush=True)
            shutil.rmtree(self._scratch / "outputs", ignore_errors=True)
        rate = {name: round(size * batches / statistics.median(each)) for name, each in seconds.items()}
        ratios = {
            sink: {peer: round(rate[sink] / rate[peer], 2) for peer in peers if peer in rate}
            for sink, peers in _PEERS.items()
            if sink in rate
        }
        return {
            "rows": size * batches,
            "batches": batches,
            "seconds": seconds,
            "rows_per_s": rate,
            "ratio_to_spark": ratios,
        }

    def _sink(self, sink: Sink) -> Write:
        writer = sink.open(
            SinkContext(
                job="sales",
                query="totals",
                version="v0001",
                epoch=1,
                serving=(OutputSegment("v0001"),),
                installation=uuid4().hex,
                frame=self._spark.range(1).selectExpr(*_COLUMNS),
            )
        )
        writer.raise_fence()
        return writer.write

    def _delta_with_numbers(self) -> Write:
        path, application = self._directory(), self._name()

        def write(batch: DataFrame, number: int) -> None:
            numbered = {"txnAppId": application, "txnVersion": str(number)}
            _spark_s_own("delta", path=path, **numbered)(batch, number)

        return write

    def _jdbc(self, *, keyed: bool = False, **options: str) -> Write:
        import psycopg

        table = self._name()
        if keyed:
            with psycopg.connect(self._database, autocommit=True) as connection:
                connection.execute(_TABLE.format(table).encode())
        url = self._database.replace("postgresql://streamkeeper@", "jdbc:postgresql://")
        named = {"url": url, "user": "streamkeeper", "driver": "org.postgresql.Driver", "dbtable": table}
        return _spark_s_own("jdbc", **named, **options)

    def _kafka(self, write: Write) -> Write:
        return lambda batch, number: write(
            batch.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value"), number
        )

    @property
    def _url(self) -> str:
        return self._database.replace("postgresql://", "postgresql+psycopg://")

    @property
    def _servers(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._broker.servers, "kafka.acks": "all"}

    def _directory(self) -> str:
        return str(self._scratch / "outputs" / self._name())

    def _topic(self) -> str:
        return self._broker.create_topic(partitions=2)

    def _name(self) -> str:
        return f"totals_{uuid4().hex[:12]}"


def _spark_s_own(form: str, **options: str) -> Write:
    return lambda batch, _: batch.write.format(form).options(**options).mode("append").save()


if __name__ == "__main__":
    raise SystemExit(main())
