"""Runs one job through every lifecycle operation with its drivers in pods and its checkpoints on S3; every row once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kubernetes_node import NAMESPACE, ROOT, KubernetesNode, lone_node
from harness.postgres_server import new_database
from harness.waiting import wait_for
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES, POD_TEMPLATE, Pod
from streamkeeper.registry.driver_control import Control
from tests.integration.remote_house import ROWS, Contained, hand_off, has_all_rows, live_a_life, opened, told_at_dry_run
from tests.integration.test_lives import ON_S3
from tests.servers import skip_without_kubernetes

pytestmark = [pytest.mark.spark, pytest.mark.kubernetes, pytest.mark.timeout(1500)]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesNode]:
    """A Kubernetes node with the permissions of ``deploy/kubernetes``, configured through ``KUBECONFIG``."""
    skip_without_kubernetes()
    with lone_node() as running:
        monkeypatch.setenv("KUBECONFIG", running.environment["KUBECONFIG"])
        yield running


@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.parametrize("checkpoints", [ON_S3], indirect=True)
def test_a_job_with_drivers_in_pods_passes_every_operation(
    tmp_path: Path, checkpoints: str, node: KubernetesNode, postgres_server: str
) -> None:
    """A job passes through every operation from the first release to a handoff with each driver in a pod of its own;
    afterwards no Secret is left, and no pod of an ended driver has a finalizer.
    """
    database = new_database(postgres_server, f"t{os.urandom(4).hex()}")
    pods = str(node.template_on_host(tmp_path / "driver-pod.yaml", tmp_path))
    house = Contained(tmp_path, checkpoints, database, drivers=KUBERNETES, variables={POD_TEMPLATE: pods})
    with opened(house):
        live_a_life(house)
        hand_off(house)
        drain_a_node(house, node)
        kept = 0
        for job in house.jobs:
            for instance in house.installation.journal(job, "test").state().instances.values():
                control = Control(house.installation.store, job, instance.instance)
                launch, pod = control.read_launch(), control.read_place(Pod)
                assert launch is not None
                assert launch.runner == KUBERNETES
                assert pod is not None
                # What was killed has gone with its finalizer.
                if found := node.read("pod", pod.name):
                    assert found["metadata"]["annotations"]["streamkeeper.io/instance"] == instance.instance
                    assert ("finalizers" in found["metadata"]) == (not instance.ended)
                    kept += instance.ended
        assert kept > 3
        assert node.kubectl("get", "secrets", "-n", NAMESPACE, "-o", "name") == ""


def drain_a_node(house: Contained, node: KubernetesNode) -> None:
    """Delete a pod as a node drain does: its driver stops between two batches, and a restart continues the job without
    loss.
    """
    serving = house.installation.journal(ROWS, "test").state().serving_instance
    control = Control(house.installation.store, ROWS, serving)
    pod = control.read_place(Pod)
    assert pod is not None
    node.kubectl("delete", "pod", pod.name, "-n", NAMESPACE, "--wait=false")
    last = wait_for("the supervisor's last word", control.read_exit, 120)
    assert last.error == "terminated by signal 15, between two batches"
    house.must("start", ROWS, "--reason", "its node was drained")
    house.add(("g", 11))
    wait_for("the rows after the drain", lambda: has_all_rows(house), house.patience_s)


@pytest.mark.parametrize("named", [False, True], ids=["named by nobody", "of which nobody answers"])
def test_a_dry_run_reports_an_unavailable_kubernetes_cluster(tmp_path: Path, named: bool) -> None:
    """A dry run reports a Kubernetes cluster that is not configured or does not answer, before anything is recorded."""
    file, pods = tmp_path / "kubeconfig", ROOT / "deploy" / "kubernetes" / "driver-pod.yaml"
    if named:
        file.write_text(
            """{apiVersion: v1, kind: Config, current-context: one,
            clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: one, user: {token: x}}],
            contexts: [{name: one, context: {cluster: one, user: one}}]}"""
        )
    changed = {"STREAMKEEPER_DRIVERS": "kubernetes", "STREAMKEEPER_POD_TEMPLATE": str(pods)}
    changed |= {"STREAMKEEPER_STORE": str(tmp_path / "store"), "KUBECONFIG": str(file)}
    told = told_at_dry_run(tmp_path, "s3a://nothing/cp", changed)
    expected = "Kubernetes at https://127.0.0.1:1 does not answer" if named else "no Kubernetes cluster is configured"
    assert expected in told
