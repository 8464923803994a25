"""Tests of the servers of ``docker-compose.yml``, started on this machine with the file's own commands and
configuration files.

PostgreSQL and Airflow run with the file's settings in other tests and in the demo; Grafana is not available as a
package.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import kafka_broker, s3_server
from harness.kafka_broker import CONNECTORS, KafkaBroker
from harness.processes import free_ports
from harness.waiting import wait_for
from streamkeeper.system.java import find_java
from tests.deploy.promtool import promtool

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KEYS = {"S3_ACCESS_KEY": "0" * 64, "S3_SECRET_KEY": "1" * 64}
_READY_S = 60.0


def rendered(value: str) -> str:
    """Return a value of the file with its variables filled in."""
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: KEYS[found[1]], value)


def words(command: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """Return a command with its places replaced."""
    return moved("\n".join(command), places).splitlines()


def moved(text: str, places: Mapping[str, str]) -> str:
    """Replace the hosts, ports and folders of containers by those of this machine; each of them has to occur in the
    text.
    """
    for theirs, ours in places.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    return text


@contextmanager
def started(command: Sequence[str], environ: Mapping[str, str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in ``home`` until the body ends, with its output in ``home/log``."""
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(
            list(command), env=dict(environ), cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()  # nothing of it is kept
        process.wait(10)


def passes(test: Sequence[str], process: subprocess.Popen[bytes], log: Path) -> bool:
    """Return whether a health check's command succeeds with this machine's program."""
    assert process.poll() is None, log.read_text()[-2000:]
    program = {"python": sys.executable}.get(test[1], test[1])
    return subprocess.run([program, *test[2:]], capture_output=True, timeout=30, check=False).returncode == 0


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """``promtool`` accepts the Prometheus configuration with its file of rules; negative control: it refuses a
    misspelled option.
    """
    file = tmp_path / "prometheus.yml"
    alerts = {"/etc/prometheus/alerts.yml": str(ROOT / "deploy" / "prometheus-alerts.yml")}
    file.write_text(moved((ROOT / "docker" / "prometheus.yml").read_text(), alerts))
    found = promtool("check", "config", file)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "SUCCESS: 1 rule files found" in found.stdout
    file.write_text(file.read_text().replace("honor_labels", "honour_labels"))
    assert promtool("check", "config", file).returncode != 0, "negative control"


@pytest.mark.s3
def test_s3_accepts_only_requests_with_the_right_keys(tmp_path: Path) -> None:
    """The S3 service with the file's flags and keys accepts requests with the right secret key and refuses a different
    one; creating the bucket twice succeeds.
    """
    try:
        program = s3_server.find_program()
    except SystemExit as missing:
        pytest.skip(str(missing))
    s3, *others = map(str, free_ports(8))
    file = tmp_path / "s3.json"
    file.write_text(rendered(COMPOSE["configs"]["s3-keys"]["content"]))
    places = {"-dir=/data": f"-dir={tmp_path}", "/etc/seaweedfs/s3.json": str(file), "-s3.port=8333": f"-s3.port={s3}"}
    command = words(SERVICES["s3"]["command"], places)
    # Other tests' servers run beside it. Of an option that is given twice the last one counts.
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    command += [f"-{name}={port}" for name, port in zip((*names, "s3.port.grpc"), others, strict=True)]
    command += ["-volume.max=40", "-master.volumeSizeLimitMB=64", "-s3.ip.bind=127.0.0.1"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    assert SERVICES["s3"]["entrypoint"] == [Path(program).name]
    with started([program, *command], environ, tmp_path) as server:
        test = words(SERVICES["s3"]["healthcheck"]["test"], {":8333/": f":{s3}/"})
        wait_for("S3", lambda: passes(test, server, tmp_path / "log"), _READY_S)
        given = {name: rendered(value) for name, value in SERVICES["bucket"]["environment"].items()}
        given["AWS_ENDPOINT_URL"] = moved(given["AWS_ENDPOINT_URL"], {"//s3:8333": f"//127.0.0.1:{s3}"})
        _, script, bucket = SERVICES["bucket"]["command"]
        for _ in range(2):
            subprocess.run([sys.executable, ROOT / script, bucket], env={**environ, **given}, timeout=120, check=True)
        assert _listed(given, bucket) == 200
        assert _listed({**given, "AWS_SECRET_ACCESS_KEY": "2" * 64}, bucket) == 403


def _listed(environ: Mapping[str, str], bucket: str) -> int:
    import boto3
    from botocore.exceptions import ClientError

    client = boto3.client(
        "s3",
        endpoint_url=environ["AWS_ENDPOINT_URL"],
        region_name=environ["AWS_REGION"],
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
    )
    try:
        answer = client.list_objects_v2(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    return int(answer["ResponseMetadata"]["HTTPStatusCode"])


@pytest.mark.kafka
def test_kafka_starts_with_its_configuration_and_receives_the_event_feed(tmp_path: Path) -> None:
    """The broker starts with the file's configuration, and the event feed creates its topic, passes its health check,
    and stops on request with every event delivered.
    """
    if not kafka_broker.has_jars():
        pytest.skip("no Kafka jars (make connectors)")
    port, controller = map(str, free_ports(2))
    file, told = tmp_path / "server.properties", tmp_path / "delivered"
    places = {
        "localhost:9093": f"127.0.0.1:{controller}",
        "0.0.0.0:9092": f"127.0.0.1:{port}",
        "kafka:9092": f"127.0.0.1:{port}",
        "/var/lib/kafka/data": str(tmp_path / "data"),
    }
    file.write_text(moved((ROOT / "docker" / "kafka.properties").read_text(), places))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    java = [find_java(os.environ), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{CONNECTORS / 'broker'}/*"]
    made = [*java, "kafka.tools.StorageTool", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(file)]
    subprocess.run(made, env=environ, capture_output=True, timeout=60, check=True)
    with started([*java, "kafka.Kafka", str(file)], environ, tmp_path) as server:
        broker = KafkaBroker(f"127.0.0.1:{port}")
        kafka_broker.wait_for_broker(broker, tmp_path / "log", lambda: server.poll() is None)
        marked = {"/tmp/delivered": str(told)}
        script, *rest = words(SERVICES["events"]["command"][1:], {**marked, "kafka:9092": broker.servers})
        home = tmp_path / "feed"
        home.mkdir()
        with started([sys.executable, str(ROOT / script), *rest], environ, home) as feed:
            wait_for("an event", told.exists, _READY_S)
            assert passes(words(SERVICES["events"]["healthcheck"]["test"], marked), feed, home / "log")
            feed.terminate()
            feed.wait(_READY_S)
        told_last = (home / "log").read_text().splitlines()[-1]
        delivered = int(told_last.removesuffix(" events delivered"))
        ends = [broker.range_of("events", partition=partition) for partition in (0, 1)]
        assert sum(high - low for low, high in ends) == delivered > 0


@pytest.mark.spark
def test_a_worker_finds_its_master(tmp_path: Path) -> None:
    """A Spark worker registers with its master by the services' own commands, and both pass their health checks."""
    master, worker = SERVICES["spark-master"], SERVICES["spark-worker-1"]
    port, master_page, worker_page = map(str, free_ports(3))
    given = {name: str(value) for name, value in {**worker["environment"], **master["environment"]}.items()}
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    java_home = str(Path(find_java(os.environ)).parents[1])
    environ = (
        kept
        | {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": java_home}
        | {name: value for name, value in given.items() if name.startswith("SPARK_")}
    )
    program = str(Path(sys.executable).parent / master["command"][0])
    homes = [tmp_path / name for name in ("master", "worker")]
    for home in homes:
        home.mkdir()
    of_master = {"spark-master": "127.0.0.1", "7077": port, "8081": master_page}
    of_worker = {"spark-worker-1": "127.0.0.1", "spark-master:7077": f"127.0.0.1:{port}", "8082": worker_page}
    of_worker["/tmp/spark-work"] = str(tmp_path / "work")
    first = [program, *words(master["command"][1:], of_master)]
    second = [program, *words(worker["command"][1:], of_worker)]
    with started(first, environ, homes[0]) as one, started(second, environ, homes[1]) as other:
        test = words(master["healthcheck"]["test"], {":8081/": f":{master_page}/"})
        wait_for("the master's page", lambda: passes(test, one, homes[0] / "log"), _READY_S)

        def registered() -> list[tuple[int, int]]:
            with urllib.request.urlopen(f"http://127.0.0.1:{master_page}/json/", timeout=10) as answer:
                return [(each["cores"], each["memory"]) for each in json.load(answer)["workers"]]

        assert wait_for("the worker", registered, _READY_S) == [(2, 2048)]
        assert passes(words(worker["healthcheck"]["test"], {":8082/": f":{worker_page}/"}), other, homes[1] / "log")
