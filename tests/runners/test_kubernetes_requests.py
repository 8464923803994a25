"""Tests which requests the runner sends to an API server and which it does not, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import TemporaryError
from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.model.runner_kinds.kubernetes_kind import Pod
from streamkeeper.runners.kubernetes_api import KubernetesApi
from streamkeeper.runners.kubernetes_pod import KubernetesRunner
from streamkeeper.runners.pod_template import FINALIZER, INSTALLATION, INSTANCE
from streamkeeper.runners.pod_template import JOB as OF_JOB
from tests.runners.cluster_server import ClusterServer, cluster_server, kubeconfig
from tests.runners.launching import JOB, Place

PODS, SECRETS = "/api/v1/namespaces/streaming/pods", "/api/v1/namespaces/streaming/secrets"
RUNS: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED = {"terminated": {"exitCode": 137, "reason": "Error", "containerID": "containerd://1"}}


@pytest.fixture
def cluster() -> Iterator[ClusterServer]:
    with cluster_server() as running:
        yield running


@pytest.mark.parametrize("certified", [True, False])
def test_a_client_certificate_of_the_configuration_is_sent(
    tmp_path: Path, cluster: ClusterServer, certified: bool
) -> None:
    """The client certificate of the configured user is sent to the API server, and a user without one sends none."""
    variables = kubeconfig(tmp_path, cluster.url)
    files = {"client-certificate": tmp_path / "client.crt", "client-key": tmp_path / "client.key"}
    config = json.loads((tmp_path / "config").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1"
    for name, file in files.items():
        file.write_text("-----BEGIN")
        if certified:
            config["users"][0]["user"][name] = str(file)
            config["users"][0]["user"].pop("token", None)
    (tmp_path / "config").write_text(json.dumps(config))
    wanted = tuple(map(str, files.values())) if certified else None
    assert KubernetesApi(variables)._client._session.cert == wanted


def test_releasing_an_instance_without_a_pod_sends_no_request(tmp_path: Path, cluster: ClusterServer) -> None:
    """Releasing the resources of an instance whose launch was interrupted before its pod was recorded sends no
    request.
    """
    place = Place(tmp_path)
    place.control().write_launch(place.spec())
    KubernetesRunner(place.store, place.settings, kubeconfig(tmp_path, cluster.url)).release_resources(
        JOB, "one", with_log=True
    )
    assert cluster.asked == []


def claimed(folder: Path, cluster: ClusterServer, state: dict[str, Any]) -> KubernetesRunner:
    """Return a runner with an instance that a pod has claimed and whose container has this state."""
    place = Place(folder)
    control = place.control()
    control.write_launch(place.spec())
    control.write_place(Pod(instance="one", cluster=cluster.url, namespace="streaming", name="sales-1"))
    control.write_process(
        ProcessRecord(instance="one", generation=1, machine="m", host="h", pid=1, started=2, container="u1")
    )
    metadata = {
        "name": "sales-1",
        "namespace": "streaming",
        "uid": "u1",
        "annotations": {OF_JOB: JOB, INSTANCE: "one", INSTALLATION: ""},
        "finalizers": ["example.com/other", FINALIZER],
    }
    told = [{"name": "driver", "state": state, "ready": True}]
    pod = {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"containerStatuses": told}}
    cluster.answers |= {
        f"GET {PODS}/sales-1": pod,
        f"PATCH {PODS}/sales-1": pod,
        f"DELETE {PODS}/sales-1": {},
        f"DELETE {SECRETS}/sales-1": {},
    }
    return KubernetesRunner(place.store, place.settings, kubeconfig(folder, cluster.url))


@pytest.mark.parametrize("with_log", [False, True])
def test_the_finalizer_and_secret_of_a_running_driver_are_kept(
    tmp_path: Path, cluster: ClusterServer, with_log: bool
) -> None:
    """Releasing the resources of a running driver changes neither its pod's finalizer nor its Secret, and a request to
    remove its log as well is an error.
    """
    runner = claimed(tmp_path, cluster, RUNS)
    if with_log:
        with pytest.raises(TemporaryError, match="is not proven to have ended: its records and log are kept"):
            runner.release_resources(JOB, "one", with_log=True)
    else:
        runner.release_resources(JOB, "one")
    assert cluster.asked == [f"GET {PODS}/sales-1"]


def test_the_finalizer_and_secret_of_a_terminated_driver_are_removed(tmp_path: Path, cluster: ClusterServer) -> None:
    """Control: for a terminated driver, the Secret and only the runner's own finalizer are removed, and the pod with
    its log is deleted only on request.
    """
    runner = claimed(tmp_path, cluster, ENDED)
    runner.release_resources(JOB, "one")
    released = [f"GET {PODS}/sales-1", f"DELETE {SECRETS}/sales-1", f"PATCH {PODS}/sales-1"]
    assert cluster.asked == released
    assert cluster.bodies[-1] == {"metadata": {"uid": "u1", "finalizers": ["example.com/other"]}}
    runner.release_resources(JOB, "one", with_log=True)
    assert cluster.asked == [*released, *released, f"DELETE {PODS}/sales-1"]


@pytest.mark.parametrize("answer", [b"<html>a proxy's page</html>", b"", b'{"metadata": 7}'])
def test_an_answer_that_is_no_pod_is_an_error_to_retry(tmp_path: Path, cluster: ClusterServer, answer: bytes) -> None:
    """A response that is not a pod is a temporary error, and not taken for a missing pod."""
    cluster.answers[f"GET {PODS}/sales-1"] = answer
    api = KubernetesApi(kubeconfig(tmp_path, cluster.url))
    with pytest.raises(TemporaryError, match="^the answer of Kubernetes at .* cannot be read: "):
        api.find_pod("streaming", "sales-1")
    assert api.find_pod("streaming", "sales-2") is None
