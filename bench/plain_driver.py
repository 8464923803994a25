"""The driver of the plain side: the same query and sink writer under spark-submit, stopped by SIGTERM.

``spark-submit plain_driver.py JOB_FILE CHECKPOINT PARAMS FOLDER`` runs without standby, gate and store; FOLDER is for
scratch files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from streamkeeper.authoring.definition import load_job, validate_params
from streamkeeper.driver.session import session_conf
from streamkeeper.sinks.contract import SinkContext


def main() -> None:
    """Run the query until SIGTERM, then stop it and exit."""
    file, checkpoint, params = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    builder = SparkSession.builder
    master = os.environ.get("STREAMKEEPER_MASTER", "")
    conf = session_conf({}, Path(sys.argv[4]) / "scratch", "plain", master=master)
    if master:
        conf |= {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    if "CONTAINER_ID" in os.environ or "SPARK_DRIVER_BIND_ADDRESS" in os.environ:
        # YARN's, or submitted to Kubernetes: who submitted it has said so.
        conf = {key: value for key, value in conf.items() if not key.startswith(("spark.master", "spark.driver."))}
    # Plain paths are this disk's, whatever the cluster's configuration says.
    conf["spark.hadoop.fs.defaultFS"] = "file:///"
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    job = load_job(file.parent, file.name, file.stem)
    (query,) = job.build(spark, validate_params(job.params, params))
    context = SinkContext(job=file.stem, query=query.name, version="v0001", epoch=1, output_mode=query.output_mode)
    writer = query.sink.open(context)
    writer.raise_fence()
    stream = query.df.writeStream.foreachBatch(writer.write).outputMode(query.output_mode)
    running = stream.option("checkpointLocation", checkpoint).trigger(processingTime=query.trigger).start()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: asked.set())
    while running.isActive and not asked.wait(0.02):
        pass
    running.stop()
    spark.stop()


main()
