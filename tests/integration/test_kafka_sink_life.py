"""Tests a job that sends to a real Kafka topic through a kill, a takeover and a handoff of real drivers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.kafka_broker import KafkaBroker
from harness.waiting import wait_for
from streamkeeper import newest_attempts
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from tests.driver.driver_house import DriverHouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.storage, pytest.mark.kafka, pytest.mark.timeout(900)]

SENDS = """
import time

from pyspark.sql import functions as F
from streamkeeper import KafkaSink, Param, Query, streaming_job


@F.udf("string", useArrow=False)
def slowly(text):
    time.sleep(0.05)
    return text


@streaming_job(name="sends", params={name: Param(str) for name in ("input", "servers", "topic")})
def sends(spark, params):
    sales = spark.readStream.schema("event_id string, customer string, amount long")
    sales = sales.option("maxFilesPerTrigger", 1).csv(params["input"]).repartition(6)
    records = sales.select(F.col("customer").alias("key"), slowly("event_id").alias("value"))
    yield Query("sends", records, sink=KafkaSink(params["servers"], params["topic"]), trigger="200 milliseconds")
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "sends.py").write_text(SENDS)
    house = DriverHouse(tmp_path, "sends", jobs_root=jobs)
    yield house
    house.close()


def test_each_row_counts_once_after_a_kill_within_a_batch_and_a_handoff(
    house: DriverHouse, kafka: KafkaBroker, spark: SparkSession
) -> None:
    """A driver is killed while it sends a batch, a second driver resumes, and a third one continues in a new checkpoint
    version. For a reader that uses ``newest_attempts``, each row counts once. Negative control: without the filter,
    some rows are there twice.
    """
    topic = kafka.create_topic()
    params = {"input": str(house.input), "servers": kafka.servers, "topic": topic}

    def sent() -> int:
        return kafka.range_of(topic)[1]

    # Each batch has six tasks, which run one after the other, so that it is sent in six parts.
    for _ in range(2):
        house.add([("a", number) for number in range(300)])
    first = house.launch("first", params=params)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", first, "sends")
    wait_for("the middle of the second batch", lambda: sent() >= 400)
    for process in [*psutil.Process(first.pid).children(recursive=True), psutil.Process(first.pid)]:
        process.kill()
    first.wait()
    before = sent()
    assert 400 <= before < 600

    second = house.launch("second", params=params)
    house.wait_state("second", DriverState.STANDBY)
    house.go("second", second, "sends")
    wait_for("all batches", lambda: sent() >= before + 300)
    house.send("second", second, CommandKind.DRAIN)
    assert house.wait_exit(second, 120) == ExitCode.DRAINED

    house.create("sends", "v0002", parent="v0001")
    house.add([("b", number) for number in range(50)])
    third = house.launch("third", params=params)
    house.wait_state("third", DriverState.STANDBY)
    house.switch("third", third, {"sends": "v0002"})
    wait_for("the batch of the new version", lambda: sent() >= before + 350)
    house.send("third", third, CommandKind.DRAIN)
    assert house.wait_exit(third, 120) == ExitCode.DRAINED

    options = {"kafka.bootstrap.servers": kafka.servers, "subscribe": topic, "includeHeaders": "true"}
    records = spark.read.format("kafka").options(**options).load()
    rows = sorted(bytes(row.value).decode() for row in newest_attempts(records).select("value").collect())
    assert rows == sorted(
        [f"f{file}e{number}" for file in (1, 2) for number in range(300)] + [f"f3e{number}" for number in range(50)]
    )
    assert sent() == before + 350 > 650
