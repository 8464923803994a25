"""Tests of ``docker-compose.yml`` and the image that need no Docker engine."""

from __future__ import annotations

import base64
import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from streamkeeper.model.settings.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
EXAMPLE = (ROOT / "docker" / "env.example").read_text()
OURS = f"streamkeeper:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"

AIRFLOW = {"airflow-init", "api-server", "scheduler", "triggerer", "dag-processor"}
SPARK = {"spark-master", "spark-worker-1", "spark-worker-2"}
STREAMKEEPER = {"drivers", "metrics"}
SERVERS = {"postgres", "warehouse", "s3", "kafka", "prometheus", "grafana"}
THE_EXAMPLE = {"events", "example"}
ONCE = {"airflow-init", "bucket", "example"}
BESIDE_DRIVERS = ("scheduler", "triggerer", "drivers", "metrics")
START_DRIVERS = ("scheduler", "drivers")
PROGRAMS = {
    "postgres": {"pg_isready"},
    "chrislusf/seaweedfs": {"wget"},
    "apache/kafka": {"/opt/kafka/bin/kafka-broker-api-versions.sh"},
    "prom/prometheus": {"wget"},
    "grafana/grafana": {"wget"},
    "streamkeeper": {"airflow", "python", "streamkeeper"},
}
"""The programs that each image contains: PostgreSQL's client, Kafka's scripts, and BusyBox in images of Alpine and
Prometheus.
"""
REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")
OPTIONAL = re.compile(r"\$\{(\w+):-[^}]*\}")
SECRET = re.compile("PASSWORD$|SECRET|FERNET|ACCESS_KEY")

Compose = dict[str, Any]


@pytest.fixture(scope="module")
def compose() -> Compose:
    return yaml.safe_load(TEXT)


@pytest.fixture(scope="module")
def services(compose: Compose) -> dict[str, Compose]:
    return compose["services"]


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "docker" / "Dockerfile").read_text()


def faults(compose: Compose) -> list[str]:
    """Return the violations of the Compose specification's own schema."""
    validator = jsonschema.Draft202012Validator(get_builtin_schema("vendor.compose-spec"))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(compose)]


def mounts(service: Compose) -> Iterator[tuple[str, str]]:
    """Yield the source and target of each volume of a service; for a source with a default, that default."""
    for volume in service.get("volumes", []):
        source, target = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).split(":")[:2]
        yield source, target


def test_the_compose_file_satisfies_the_compose_schema(compose) -> None:
    """The compose file satisfies the schema of the Compose specification: no key is misspelled and no value has a wrong
    type.
    """
    assert faults(compose) == []


def test_a_misspelled_key_is_reported_as_a_schema_violation(compose) -> None:
    """Negative control: a misspelled ``healthcheck`` key is reported as a violation of the schema."""
    broken = deepcopy(compose)
    broken["services"]["kafka"]["helthcheck"] = broken["services"]["kafka"].pop("healthcheck")
    assert any("helthcheck" in each for each in faults(broken))


def test_the_compose_file_defines_exactly_the_expected_services(services) -> None:
    """The compose file defines exactly the expected services: Airflow 3's processes, a Spark cluster, the drivers and
    metrics, the servers, and the example.
    """
    assert set(services) == AIRFLOW | SPARK | STREAMKEEPER | SERVERS | THE_EXAMPLE | {"bucket"}


def test_images_are_pinned(services, dockerfile) -> None:
    """Every image, also the base images of the Dockerfile, has a pinned version, and Streamkeeper's image has the
    project's version.
    """
    images = [service["image"] for service in services.values()]
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert all(re.fullmatch(r"[a-z/]+:v?[0-9][\w.\-]*", image) for image in images), images
    assert {image for image in images if image.startswith("streamkeeper:")} == {OURS}


def test_every_variable_is_in_the_example_and_back(compose) -> None:
    """``docker/env.example`` lists exactly the variables that the compose file reads: required ones without a value,
    optional ones as comments.
    """
    required, optional = set(REQUIRED.findall(TEXT)), set(OPTIONAL.findall(TEXT))
    assert required == set(re.findall(r"^(\w+)=$", EXAMPLE, re.MULTILINE))
    assert optional == set(re.findall(r"^# ([A-Z_]+)=\S+$", EXAMPLE, re.MULTILINE))
    assert required | optional == set(re.findall(r"\$\{(\w+)", TEXT))
    assert not re.search(r"^\w+=.", EXAMPLE, re.MULTILINE), "a value of somebody's"


def test_secrets_are_required_and_have_no_default(compose, services) -> None:
    """Every secret in the compose file is a required variable without a default, and no secret is written into the
    file.
    """
    assert not any(SECRET.search(name) for name in OPTIONAL.findall(TEXT))
    places = [service.get("environment", {}) for service in services.values()]
    told = [(name, str(value)) for place in places for name, value in place.items() if SECRET.search(name)]
    assert len(told) > 10
    for name, value in told:
        if not name.endswith("PASSWORDS_FILE"):
            assert REQUIRED.search(value), name
    keys = json.loads(REQUIRED.sub(r"${\1}", compose["configs"]["s3-keys"]["content"]))
    assert [each["credentials"] for each in keys["identities"]] == [
        [{"accessKey": "${S3_ACCESS_KEY}", "secretKey": "${S3_SECRET_KEY}"}]
    ]


def test_make_env_gives_each_secret_a_value_of_its_own(tmp_path: Path) -> None:
    """``make_env.py`` generates a different value for each secret, fit for URLs and for Fernet, in a file that only its
    owner can read, and refuses to overwrite an existing file.
    """
    target = tmp_path / ".env"
    command = [sys.executable, str(ROOT / "docker" / "make_env.py"), str(target)]
    subprocess.run(command, check=True, timeout=60)
    made = dict(re.findall(r"^(\w+)=(.+)$", target.read_text(), re.MULTILINE))
    assert made.keys() - {"STREAMKEEPER_MACHINE_ID"} == set(REQUIRED.findall(TEXT))
    made.pop("STREAMKEEPER_MACHINE_ID", None)
    assert len(set(made.values())) == len(made)
    assert target.stat().st_mode & 0o777 == 0o600
    assert len(base64.urlsafe_b64decode(made.pop("AIRFLOW_FERNET_KEY"))) == 32
    assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in made.values())
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode != 0
    assert "is there already" in again.stderr
    assert made.items() <= dict(re.findall(r"^(\w+)=(.+)$", target.read_text(), re.MULTILINE)).items()


def test_a_machine_without_an_id_gets_a_generated_machine_id_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without an id gets a generated ``build/machine-id`` that stays the same when ``.env`` is made a second
    time; a machine with an id keeps its own.
    """
    made = runpy.run_path(str(ROOT / "docker" / "make_env.py"))
    name_machine = made["name_machine"]
    assert name_machine(tmp_path) == "" or not Path("/etc/machine-id").is_file()
    monkeypatch.setitem(name_machine.__globals__, "MACHINE_ID", tmp_path / "none")
    assert name_machine(tmp_path) == "STREAMKEEPER_MACHINE_ID=./build/machine-id\n"
    id = (tmp_path / "build" / "machine-id").read_text()
    assert re.fullmatch(r"[0-9a-f]{32}\n", id)
    name_machine(tmp_path)
    assert (tmp_path / "build" / "machine-id").read_text() == id


def builders(compose: Compose) -> dict[str, list[str]]:
    """Return image -> the services that build it."""
    found: dict[str, list[str]] = {}
    for name, service in compose["services"].items():
        if "build" in service:
            found.setdefault(service["image"], []).append(name)
    return found


def test_one_service_builds_the_image(compose) -> None:
    """Only ``airflow-init`` builds Streamkeeper's image, because two builds of one tag fail in the containerd image
    store; no service pulls that image.
    """
    assert builders(compose) == {OURS: ["airflow-init"]}
    ours = [service for service in compose["services"].values() if service["image"] == OURS]
    assert len(ours) > 10
    assert {service["pull_policy"] for service in ours} == {"never"}


def test_several_services_that_build_the_image_are_found(compose) -> None:
    """Negative control: with ``build`` in every service, more than ten services are found to build the image."""
    broken = deepcopy(compose)
    for service in broken["services"].values():
        service["build"] = {"context": "."}
    assert len(builders(broken)[OURS]) > 10


def test_every_service_has_a_ceiling(services) -> None:
    """Every service limits its processes, and its memory to more than the heap sizes in its command and its
    environment.
    """
    for name, service in services.items():
        limit = in_mib(re.sub(r"\$\{\w+:-(\w+)\}", r"\1", service["mem_limit"]))
        told = " ".join(map(str, [*service.get("environment", {}).values(), *service.get("command", [])]))
        heaps = [in_mib(each) for each in re.findall(r"(?<![\w.])(?:-Xmx)?(\d+[mg])(?!\w)", told)]
        assert limit >= 512, name
        assert limit > sum(heaps), f"{name}: {heaps}"
        assert service["pids_limit"] >= 1024, name


def in_mib(text: str) -> int:
    return int(text[:-1]) * {"m": 1, "g": 1024}[text[-1]]


def test_data_volumes_are_owned_by_the_user_of_the_image(services, dockerfile) -> None:
    """Every named volume is mounted on a directory that the image creates for its own user, because a directory that
    Docker creates belongs to root.
    """
    assert ("data", "/data") in mounts(services["scheduler"])
    made, owned = re.search(r"mkdir -p (.+?) \\\n.*chown streamkeeper (.+)\n", dockerfile).groups()
    targets = {
        target
        for service in services.values()
        for source, target in mounts(service)
        if service["image"] == OURS and not source.startswith((".", "/"))
    }
    assert targets == {*made.split()} == {*owned.split()}


def test_airflow_has_separate_admin_and_approver_logins(
    services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow has two logins with different passwords, ``admin`` and ``approver``, and the approver has the role
    ``user``, not ``admin``.
    """
    environment = services["airflow-init"]["environment"]
    roles = dict(each.split(":") for each in environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(","))
    assert roles == {"admin": "admin", "approver": "user"}
    for name in environment:
        if name.endswith("_PASSWORD"):
            monkeypatch.setenv(name, f"the one of {name}")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(tmp_path / "passwords.json"))
    runpy.run_path(str(ROOT / "docker" / "write_passwords.py"))
    written = json.loads((tmp_path / "passwords.json").read_text())
    assert written.keys() == roles.keys()
    assert len({*written.values()}) == 2


def test_volumes_configs_and_mounted_files_exist(compose, services) -> None:
    """Every named volume and config is both declared and used, and every mounted file exists in the repository."""
    named, configs = set(), set()
    for name, service in services.items():
        configs |= {each["source"] for each in service.get("configs", [])}
        for source, _ in mounts(service):
            if not source.startswith((".", "/")):
                named.add(source)
            elif source.startswith("./"):
                assert (ROOT / source).exists(), f"{name}: {source}"
    assert named == set(compose["volumes"])
    assert configs == set(compose["configs"])


def test_services_wait_only_for_conditions_that_can_be_met(services) -> None:
    """Services wait only for existing services: for health only if the other has a health check, for completion only if
    the other runs once.
    """
    for name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            match wait["condition"]:
                case "service_healthy":
                    assert "healthcheck" in services[other], f"{name} waits for {other}"
                case "service_completed_successfully":
                    assert services[other]["restart"] == "no", f"{name} waits for {other}"
                case condition:
                    pytest.fail(f"{name}: {condition}")


def test_service_dependencies_have_no_cycle(services) -> None:
    """The dependencies between services have no cycle: removing services that wait for no other, repeatedly, leaves
    none.
    """
    left = {name: set(service.get("depends_on", {})) for name, service in services.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}


def test_long_running_services_restart_and_have_a_health_check(services) -> None:
    """Every long-running service restarts and has a health check by a program that its image contains; a service that
    runs once has neither.
    """
    for name, service in services.items():
        if name in ONCE:
            assert (service["restart"], service.get("healthcheck")) == ("no", None), name
            continue
        assert service["restart"] == "unless-stopped", name
        kind, program, *_ = service["healthcheck"]["test"]
        assert kind == "CMD"
        assert program in PROGRAMS[service["image"].partition(":")[0]], f"{name}: {program}"


def test_ports_stay_on_this_machine(services) -> None:
    """Only the four services with a user interface publish ports, each a different one on 127.0.0.1."""
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports.keys() == {"api-server", "spark-master", "prometheus", "grafana"}
    found = [re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-(\d+)\}:(\d+)", port) for each in ports.values() for port in each]
    assert all(found), ports
    assert len({each[1] for each in found if each}) == len(found)


def test_services_that_check_drivers_share_the_host_process_ids(services) -> None:
    """The services that start or check drivers share the host's process ids, its machine id and one host name; no other
    service does.
    """
    for name in BESIDE_DRIVERS:
        service = services[name]
        assert service["pid"] == "host"
        assert service["hostname"] == "streamkeeper"
        assert ("/etc/machine-id", "/etc/machine-id") in mounts(service)
        assert set(services["api-server"]["volumes"]) < set(service["volumes"])
    assert {name for name, service in services.items() if "pid" in service} == set(BESIDE_DRIVERS)


def test_the_drivers_service_runs_its_own_watch_without_airflow(services) -> None:
    """The ``drivers`` service runs only the watch and depends on no other service, so the drivers it starts outlive
    every part of Airflow.

    Airflow's own watch only reports by default: a driver that it started would stop together with Airflow.
    """
    service = services["drivers"]
    assert service["command"] == ["streamkeeper", "watch"]
    assert not service["depends_on"]
    assert service["volumes"] == services["scheduler"]["volumes"]
    assert services["scheduler"]["environment"]["STREAMKEEPER_WATCH_ACTS"] == "${STREAMKEEPER_WATCH_ACTS:-no}"


def test_executors_find_drivers_by_their_services_names(services) -> None:
    """Executors reach a driver by the name of its service, because several containers share the host name."""
    for name in START_DRIVERS:
        assert services[name]["environment"]["SPARK_LOCAL_HOSTNAME"] == name


def test_all_services_share_the_settings_of_one_installation(services) -> None:
    """All services that command, watch or show the installation have the same settings, and ``read_settings`` accepts
    them.
    """
    settings = []
    for name in sorted((AIRFLOW | STREAMKEEPER) - {"airflow-init"}):
        environment = {
            key: re.sub(r"\$\{\w+:[-?]([^}]*)\}", "", str(value))
            for key, value in services[name]["environment"].items()
        }
        kept = {key: value for key, value in environment.items() if key.startswith("STREAMKEEPER_")}
        settings.append(read_settings(kept))
    assert len(set(map(repr, settings))) == 1
    assert settings[0].master == f"spark://{port_of(services['spark-master'])}"
    assert settings[0].checkpoints == f"s3a://{services['bucket']['command'][-1]}/checkpoints"


def port_of(master: Compose) -> str:
    words = master["command"]
    return f"{words[words.index('--host') + 1]}:{words[words.index('--port') + 1]}"


def test_spark_workers_run_the_driver_image_with_s3_keys(services) -> None:
    """Spark workers run the drivers' image, have the S3 keys to write state, and are reachable by their services'
    names.
    """
    keys = {name: value for name, value in services["scheduler"]["environment"].items() if name.startswith("AWS_")}
    for name in SPARK - {"spark-master"}:
        worker = services[name]
        assert worker["image"] == services["scheduler"]["image"]
        assert keys.items() <= worker["environment"].items()
        assert worker["command"][worker["command"].index("--host") + 1] == name
        assert worker["command"][-1] == f"spark://{port_of(services['spark-master'])}"


def test_the_example_deploy_matches_its_job_and_its_feed(services) -> None:
    """The example deploy passes only params that its job declares, names a secret that is defined, and reads the topic
    that the feed writes.
    """
    deploy = runpy.run_path(str(ROOT / "docker" / "deploy_example.py"))
    *_, servers, topic = services["example"]["command"]
    assert services["events"]["command"][2:4] == [servers, topic]
    form = deploy["make_form"](servers, topic)
    job = (ROOT / "jobs" / f"{form['job']}.py").read_text()
    declared = set(re.findall(r'^        "(\w+)": Param\(', job, re.MULTILINE))
    needed = set(re.findall(r'^        "(\w+)": Param\((?!.*default=)', job, re.MULTILINE))
    assert needed <= form["params"].keys() <= declared
    assert "STREAMKEEPER_SECRET_WAREHOUSE" in services["scheduler"]["environment"]
    assert form["params"]["warehouse"] == "secret://env/WAREHOUSE"


def test_prometheus_scrapes_metrics_and_grafana_queries_prometheus(services) -> None:
    """Prometheus scrapes the metrics service and Grafana queries Prometheus by matching names and ports, and the
    dashboard and alerts are mounted where the configuration expects them.
    """
    asked = yaml.safe_load((ROOT / "docker" / "prometheus.yml").read_text())
    (fleet,) = [each for each in asked["scrape_configs"] if each["job_name"] == "streamkeeper"]
    port = services["metrics"]["command"][-1].rpartition(":")[2]
    assert fleet["static_configs"] == [{"targets": [f"metrics:{port}"]}]
    # Its label `job` is a streaming job's, by which alerts and dashboard ask.
    assert fleet["honor_labels"] is True
    alerts = dict(mounts(services["prometheus"]))["./deploy/prometheus-alerts.yml"]
    assert asked["rule_files"] == [alerts]

    (source,) = yaml.safe_load((ROOT / "docker/grafana/datasources.yml").read_text())["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "http://prometheus:9090", True)
    (provider,) = yaml.safe_load((ROOT / "docker/grafana/dashboards.yml").read_text())["providers"]
    dashboard = dict(mounts(services["grafana"]))["./deploy/grafana-dashboard.json"]
    assert Path(dashboard).parent == Path(provider["options"]["path"])
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard


def test_the_image_installs_by_hash_and_contains_the_scripts_it_runs(services, dockerfile) -> None:
    """The image installs locked packages by hash, contains the connector jars and every script that a service runs, and
    runs as an ordinary user.
    """
    assert dockerfile.count("--require-hashes") == 2
    assert "--require-hashes -r /opt/streamkeeper/requirements/runtime.txt" in dockerfile
    assert "scripts/connectors" in dockerfile
    assert re.search(r"^USER streamkeeper$", dockerfile, re.MULTILINE)
    copied = [source for line in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE) for source in line.split()]
    kept = [line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(Path(source).match(each) for each in kept), f".dockerignore keeps {source} out"
    run = {word for service in services.values() for word in re.findall(r"docker/\w+\.py", str(service.get("command")))}
    assert run
    assert run <= set(copied)
