"""Tests, without a cluster, which requests the YARN runner sends to a ResourceManager and which it does not."""

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
    """Return a runner with one submitted instance whose application has this state; ``container`` is the one of its
    attempt, empty without an attempt.
    """
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
    """A driver is killed by a signal to its container and not by killing its application, because the exit code that
    proves the end would then not arrive.
    """
    runner = submitted(place, cluster, "RUNNING")
    place.control().write_process(CLAIM)
    runner.kill(JOB, "one")
    assert cluster.asked == [
        f"GET {API}/apps/{APPLICATION}",
        f"GET {API}/apps/{APPLICATION}/appattempts",
        f"POST {API}/containers/{CONTAINER}/signal/FORCEFUL_SHUTDOWN",
    ]


def test_an_application_that_has_ended_gets_no_signal(place: Place, cluster: ClusterServer) -> None:
    """Killing a driver whose application has already finished sends no signal and does not query its attempts, because
    the NodeManager stops the container.
    """
    runner = submitted(place, cluster, "KILLED")
    place.control().write_process(CLAIM)
    runner.kill(JOB, "one")
    assert cluster.asked == [f"GET {API}/apps/{APPLICATION}"]


@pytest.mark.parametrize(("container", "claims", "life"), [("", 0, Life.DEAD), ("", 1, Life.UNKNOWN)])
def test_a_failed_application_without_a_container_is_dead_unless_it_was_claimed(
    place: Place, cluster: ClusterServer, container: str, claims: int, life: Life
) -> None:
    """A failed application without a container and without a claim never ran: it is dead, and the first line of the
    diagnostics is the reason. A claim shows that a container ran, so it is unknown.
    """
    runner = submitted(place, cluster, "FAILED", container)
    for _ in range(claims):
        place.control().write_process(CLAIM)
    seen = runner.observe(JOB, "one")
    assert seen.life is life, seen.why
    if life is Life.DEAD:
        assert seen.why == f"{APPLICATION} is FAILED and had no container: no room"


@pytest.mark.parametrize("character", ['"', "`", "$", "\\", "\n"])
def test_a_setting_with_a_shell_character_is_refused_before_the_submission(
    place: Place, cluster: ClusterServer, character: str
) -> None:
    """A setting with a character that a NodeManager's shell would interpret is refused by the name of its variable
    before anything is submitted; without that character the application is submitted.
    """
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


def test_an_error_keeps_the_capital_letters_of_the_configured_url() -> None:
    """An error names the ResourceManager by the configured URL even if its host has capital letters, which HTTP
    requests turn into lower case.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://LocalHost:{probe.getsockname()[1]}"
    with pytest.raises(TemporaryError, match=f"ResourceManager {url}"):
        ResourceManager(url, "ada").must_answer()
