"""Makes .venv/spark-classes.jsa, from which a JVM takes Spark's classes ready-made: a session starts in half the time.

It runs the kinds of queries that drivers run, once, and has the JVM keep the classes it came to load (Java's class data
sharing). A JVM that finds it made for other jars or another Java goes on without it. Where none can be made everything
works all the same, only slower.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def main() -> int:
    """Always 0: nothing needs an archive."""
    if len(sys.argv) > 1:
        run_queries(Path(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        draft = Path(folder) / "draft.jsa"
        usual = os.environ.get("JDK_JAVA_OPTIONS", "").replace(f"-XX:SharedArchiveFile={ARCHIVE}", "")  # not its own
        options = f"{QUIET} -XX:ArchiveClassesAtExit={shlex.quote(str(draft))}"
        submit = f"--driver-java-options {shlex.quote(options)} pyspark-shell"
        environ = {**os.environ, "JDK_JAVA_OPTIONS": usual, "PYSPARK_SUBMIT_ARGS": submit}
        command = [sys.executable, __file__, folder]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if done.returncode or not draft.exists():
            sys.stderr.write(f"setup: no archive of Spark's classes, starts stay slow: {done.stderr[-500:]}\n")
            return 0
        draft.rename(ARCHIVE)
    return 0


def run_queries(root: Path) -> None:
    """Files, by a pattern, through Python and state of both kinds, into files and a function; ends with the JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from streamkeeper.jvm.local_files import write_without_processes
    from streamkeeper.registry.environments import installed_jars

    (root / "in").mkdir()
    (root / "in" / "first.csv").write_text("a,1,2026-01-01 00:00:00\nb,2,2026-01-01 00:10:00\n")
    quiet = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    quiet["spark.jars"] = ",".join(installed_jars(""))
    builder = SparkSession.builder.master("local[2]").config(map=quiet)
    spark = builder.getOrCreate()
    write_without_processes(spark)
    process = SparkContext._gateway.proc
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    lines = spark.readStream.schema("key string, value long, at timestamp").csv(str(root / "i*"))
    windows = F.window("at", "5 minutes")
    counts = lines.withWatermark("at", "1 minute").groupBy("key", windows).agg(F.count("*"), F.sum("value"))
    for provider in ("", rocksdb):
        if provider:
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        checkpoint = str(root / f"counts{bool(provider)}")
        for trigger in ({"once": True}, {"availableNow": True}):
            writer = counts.writeStream.foreachBatch(lambda batch, _number: batch.collect()).outputMode("update")
            writer.option("checkpointLocation", checkpoint).trigger(**trigger).start().awaitTermination()
        spark.read.format("statestore").load(checkpoint).collect()
    doubled = lines.withColumn("value", F.udf(lambda value: value * 2, "long")("value"))
    files = doubled.writeStream.format("parquet").option("path", str(root / "out"))
    files.option("checkpointLocation", str(root / "files")).trigger(once=True).start().awaitTermination()
    spark.read.parquet(str(root / "out")).count()
    spark.stop()
    process.stdin.close()
    process.wait(120)


if __name__ == "__main__":
    raise SystemExit(main())
