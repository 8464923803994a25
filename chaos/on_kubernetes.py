"""Switches of a job whose drivers are Kubernetes pods, with checkpoints on S3 and both tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from chaos.on_nodes import NodeStage
from chaos.switch_runs import JOBS
from harness.bed import fresh_bed
from harness.kubernetes_node import KubernetesNode
from harness.remote_servers import pod_servers
from harness.reviving import revived
from harness.variables import set_variables
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES


def _processes_of(node: KubernetesNode) -> list[tuple[str, psutil.Process]]:
    """Return the kubelet and the shims of its containers."""
    shims = [("shim", psutil.Process(pid)) for pid in node.shims()]
    return [*shims, ("kubelet", psutil.Process(node.kubelet))]


@contextmanager
def on_kubernetes(root: Path) -> Iterator[NodeStage]:
    """Open a stage on a fresh installation with new servers: S3, PostgreSQL and a node, whose pods mount the
    installation's folder.
    """
    with (
        pod_servers(root.absolute()) as servers,
        set_variables(servers.environment),
        fresh_bed(root, JOBS, servers.checkpoints, drivers=KUBERNETES, pod_template=str(servers.template)) as bed,
        revived(servers.node.revive_kubelet),
    ):
        yield NodeStage(bed, servers.database, partial(_processes_of, servers.node))
