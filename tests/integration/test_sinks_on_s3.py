"""Tests of two jobs with checkpoints in a bucket through a few operations: one writes a topic to a table, and one
copies files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.bed import Bed
from harness.kafka_broker import KafkaBroker
from harness.ledger import compare_events, read_rows
from harness.outputs import read_event_ids
from harness.places import ROOT
from harness.producer import EVENTS, write_whole
from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.registry.driver_control import Control
from tests.integration.test_kafka_life import counted, events, expected

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(600)]
HASTE = ("--probation-batches", "0", "--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1")


class JobOnS3:
    """An installation with checkpoints in a bucket that runs one job."""

    def __init__(self, bed: Bed, job: str) -> None:
        self.bed, self.job = bed, job

    def run(self, verb: str, *words: str) -> None:
        """Run a command for the job and require that it succeeds."""
        done = self.bed.command(verb, self.job, "--reason", "a test", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def deploy(self, params: dict[str, object], *words: str) -> None:
        self.run("deploy", "--params", json.dumps(params), *HASTE, *words)

    def kill_driver(self) -> None:
        """Kill the driver's Python process and JVM with SIGKILL, and wait until the supervisor has restarted them."""
        instance = self.bed.installation.journal(self.job, "test").state().serving_instance
        control = Control(self.bed.installation.store, self.job, instance)
        for process in list(self.bed.processes()):
            # Some go with one that was killed before them.
            with suppress(psutil.NoSuchProcess):
                if not any("supervisor" in word for word in process.cmdline()):
                    process.kill()

        def serves_again() -> bool:
            status = control.read_status()
            return status is not None and (status.generation, status.state) == (2, DriverState.SERVING)

        wait_for("the driver to be started again", serves_again, timeout_s=120)


@pytest.fixture
def job_on_s3(tmp_path: Path, s3_url: str) -> Iterator[Callable[[str], JobOnS3]]:
    """Creates the installation for a job; it is closed after the test."""
    beds: list[Bed] = []

    def begin(job: str) -> JobOnS3:
        checkpoints = f"{s3_url.replace('s3://', 's3a://')}/checkpoints"
        beds.append(Bed(tmp_path, [ROOT / f"jobs/{job}.py"], checkpoints))
        return JobOnS3(beds[-1], job)

    yield begin
    for bed in beds:
        bed.close()


@pytest.mark.kafka
def test_a_job_from_a_topic_to_a_table_counts_every_event_once(
    job_on_s3: Callable[[str], JobOnS3], kafka: KafkaBroker, tmp_path: Path
) -> None:
    """A job from a topic to a table is deployed, killed and restarted, and rebuilt from the offsets at which the first
    checkpoint began; every event is counted once.
    """
    job, topic, warehouse = job_on_s3("event_counts"), kafka.create_topic(partitions=2), tmp_path / "warehouse.db"
    given = events(0, 60)
    kafka.produce(topic, given[:40])
    kafka.produce(topic, given[40:], partition=1)
    params = {"servers": kafka.servers, "topic": topic, "warehouse": f"sqlite:///{warehouse}"}
    job.deploy({**params, "trigger": "100 milliseconds"})
    wait_for("the first counts", lambda: counted(warehouse) == expected(given))

    job.kill_driver()
    given += (more := events(60, 40))
    kafka.produce(topic, more)
    wait_for("the counts of the driver that was started again", lambda: counted(warehouse) == expected(given))

    job.deploy({**params, "trigger": "110 milliseconds"}, "--strategy", "rebuild")
    given += (more := events(100, 40))
    kafka.produce(topic, more, partition=1)
    wait_for("the rebuilt counts", lambda: counted(warehouse) == expected(given))


def test_a_job_that_copies_files_copies_every_event_once(job_on_s3: Callable[[str], JobOnS3], tmp_path: Path) -> None:
    """A job that copies files is deployed, killed and restarted, deployed as a second release and rolled back; the
    copies contain every event once.
    """
    job = job_on_s3("event_copy")
    folder, output = job.bed.input / EVENTS, tmp_path / "copies"
    numbers = iter(range(100))

    def add() -> None:
        number = next(numbers)
        write_whole(folder, f"{number:06d}.csv", [(f"e{number}-{row}", "ada", "sale", row) for row in range(3)])

    def copied() -> bool:
        return compare_events("copies", [row[0] for row in read_rows(folder)], read_event_ids(output)).clean

    params = {"input": str(folder), "output": str(output)}
    add()
    job.deploy({**params, "trigger": "100 milliseconds"})
    wait_for("the first copies", copied)

    job.kill_driver()
    add()
    wait_for("the copies of the driver that was started again", copied)

    job.deploy({**params, "trigger": "110 milliseconds"})
    add()
    wait_for("the copies of the second release", copied)
    job.run("rollback", "--probation-batches", "0")
    add()
    wait_for("the copies after the rollback", copied)
