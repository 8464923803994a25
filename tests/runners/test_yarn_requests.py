"""What the runner asks of a ResourceManager, and what it does not; without a cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput, TemporaryError
from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.model.runner_kinds.yarn_kind import Application
from streamkeeper.runners.contract import Life
from streamkeeper.runners.yarn_application import YarnRunner
from streamkeeper.runners.yarn_rest import ResourceManager
from tests.runners.cluster_server import ClusterServer, cluster_server
from tests.runners.launching import JOB, Place

API = "/ws/v1/cluster"
APPLICATION, ATTEMPT, CONTAINER = "application_1_0001", "appattempt_1_0001_000001", "container_1_0001_01_000001"
CLAIM = ProcessRecord(instance="one", generation=1, machine="m", host="h", pid=1, started=2)


@pytest.fixture
def cluster() -> Iterator[ClusterServer]:
    with cluster_server() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def submitted(place: Place, cluster: ClusterServer, state: str, container: str = CONTAINER) -> YarnRunner:
    """An instance whose application has this state; ``container``: of its attempt, empty without an attempt."""
    control = place.control()
    control.write_launch(place.spec())
    control.write_place(Application(instance="one", cluster=cluster.url, id=APPLICATION))
    attempts = [{"appAttemptId": ATTEMPT, "startTime": 1, "containerId": container}] if container else []
    cluster.answers |= {
        f"GET {API}/apps/{APPLICATION}": {"app": {"id": APPLICATION, "state": state, "diagnostics": "no room\nat all"}},
        f"GET {API}/apps/{APPLICATION}/appattempts": {"appAttempts": {"appAttempt": attempts}},
        f"POST {API}/containers/{CONTAINER}/signal/FORCEFUL_SHUTDOWN": {},
    }
    return YarnRunner(place.store, place.settings, {})


def test_a_driver_is_killed_by_a_signal_to_its_container(place: Place, cluster: ClusterServer) -> None:
    """The application itself is not killed: the exit code, which proves the end, would no longer arrive."""
    runner = submitted(place, cluster, "RUNNING")
    place.control().write_process(CLAIM)
    runner.kill(JOB, "one")
    assert cluster.asked == [
        f"GET {API}/apps/{APPLICATION}",
        f"GET {API}/apps/{APPLICATION}/appattempts",
        f"POST {API}/containers/{CONTAINER}/signal/FORCEFUL_SHUTDOWN",
    ]


def test_an_application_that_has_ended_gets_no_signal(place: Place, cluster: ClusterServer) -> None:
    """Its container is its NodeManager's to end, and is not asked for."""
    runner = submitted(place, cluster, "KILLED")
    place.control().write_process(CLAIM)
    runner.kill(JOB, "one")
    assert cluster.asked == [f"GET {API}/apps/{APPLICATION}"]


@pytest.mark.parametrize(("container", "claims", "life"), [("", 0, Life.DEAD), ("", 1, Life.UNKNOWN)])
def test_an_application_without_a_container_has_ended_if_no_supervisor_has_claimed(
    place: Place, cluster: ClusterServer, container: str, claims: int, life: Life
) -> None:
    """Nothing ever ran for it, and the first line of the reason is told; a claim shows that a container has run."""
    runner = submitted(place, cluster, "FAILED", container)
    for _ in range(claims):
        place.control().write_process(CLAIM)
    seen = runner.observe(JOB, "one")
    assert seen.life is life, seen.why
    if life is Life.DEAD:
        assert seen.why == f"{APPLICATION} is FAILED and had no container: no room"


@pytest.mark.parametrize("character", ['"', "`", "$", "\\", "\n"])
def test_a_value_that_a_nodes_shell_would_change_is_refused_before_anything_is_submitted(
    place: Place, cluster: ClusterServer, character: str
) -> None:
    """The variable is named; without the character the application is submitted."""
    cluster.answers |= {
        f"POST {API}/apps/new-application": {"application-id": APPLICATION},
        f"POST {API}/apps": {},
    }
    conf = place.folder / "conf"
    conf.mkdir()
    address = cluster.url.removeprefix("http://")
    name = "yarn.resourcemanager.webapp.address"
    (conf / "yarn-site.xml").write_text(
        f"<configuration><property><name>{name}</name><value>{address}</value></property></configuration>"
    )
    environ = {"HADOOP_CONF_DIR": str(conf), "HADOOP_USER_NAME": "ada"}
    odd = replace(place.settings, jars=f"/jars{character}x")
    with pytest.raises(InvalidInput, match="(?s)STREAMKEEPER_JARS=.*: a NodeManager's shell would change the value"):
        YarnRunner(place.store, odd, environ).launch(place.spec(), {})
    assert f"POST {API}/apps" not in cluster.asked
    YarnRunner(place.store, place.settings, environ).launch(place.spec(), {})
    assert cluster.asked[-1] == f"POST {API}/apps"
    assert cluster.bodies[-1]["application-id"] == APPLICATION


def test_a_server_is_named_whatever_the_case_of_its_host() -> None:
    """Requests have their host in lower case; a host of the Hadoop configuration may have capital letters."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://LocalHost:{probe.getsockname()[1]}"
    with pytest.raises(TemporaryError, match=f"ResourceManager {url}"):
        ResourceManager(url, "ada").must_answer()
