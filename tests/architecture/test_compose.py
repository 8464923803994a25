"""docker-compose.yml and the image: what can be known without a Docker engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SECRETS = ("POSTGRES_PASSWORD", "STREAMKEEPER_ADMIN_PASSWORD", "AIRFLOW_SECRET_KEY", "AIRFLOW_JWT_SECRET")
AIRFLOW = ("airflow-init", "api-server", "scheduler", "triggerer", "dag-processor")


@pytest.fixture(scope="module")
def compose() -> dict[str, dict[str, dict[str, object]]]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "docker" / "Dockerfile").read_text()


def test_every_airflow_component_is_there(compose) -> None:
    """Airflow 3 needs each of these processes, and a database that takes several writers."""
    assert set(compose["services"]) == {"postgres", "drivers", *AIRFLOW}


def test_images_are_pinned(compose, dockerfile) -> None:
    """What starts tomorrow is what started today."""
    images = [service["image"] for service in compose["services"].values()]
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert all(re.fullmatch(r"[a-z]+:[0-9].*", image) for image in images), images


def test_secrets_are_required_and_have_no_default(compose) -> None:
    """Without its secrets the file does not come up; none of them is written down."""
    text = (ROOT / "docker-compose.yml").read_text()
    example = (ROOT / "docker" / "env.example").read_text()
    for name in (*SECRETS, "AIRFLOW_FERNET_KEY"):
        assert f"${{{name}:?" in text
        assert f"${{{name}:-" not in text
        assert re.search(rf"^{name}=$", example, re.MULTILINE), f"{name} in docker/env.example"
    for service in compose["services"].values():
        for key, value in service["environment"].items():
            if re.search("PASSWORD$|SECRET|FERNET", key):
                assert str(value).startswith("${"), key


def test_depends_on_and_volumes_name_what_exists(compose) -> None:
    """No service waits for one that is not there, and no named volume is undeclared."""
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith((".", "$", "/")) or source in compose["volumes"], volume


def test_whoever_proves_drivers_dead_sees_their_process_ids(compose) -> None:
    """Scheduler (tasks), triggerer (waits) and watch share the host's process ids; ports stay on this machine."""
    for name in ("scheduler", "triggerer", "drivers"):
        service = compose["services"][name]
        assert service["pid"] == "host"
        assert service["hostname"] == "streamkeeper"
        assert "/etc/machine-id:/etc/machine-id:ro" in service["volumes"]
        assert set(compose["services"]["api-server"]["volumes"]) < set(service["volumes"])
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_drivers_have_a_watch_of_their_own(compose) -> None:
    """It waits for no other service and runs nothing but the watch: what it starts outlives every part of Airflow."""
    service = compose["services"]["drivers"]
    assert service["command"] == ["streamkeeper", "watch"]
    assert not service["depends_on"]
    assert service["restart"] == "unless-stopped"
    assert service["volumes"] == compose["services"]["scheduler"]["volumes"]


def test_waits_only_for_services_that_can_answer(compose) -> None:
    """``service_healthy`` needs a health check."""
    for service in compose["services"].values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in compose["services"][name], name


def test_image_installs_by_hash_and_copies_what_exists(dockerfile) -> None:
    """The image holds the locked packages and runs as an ordinary user."""
    assert "--require-hashes -r /opt/streamkeeper/requirements/runtime.txt" in dockerfile
    assert re.search(r"^USER streamkeeper$", dockerfile, re.MULTILINE)
    for line in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists(), source
