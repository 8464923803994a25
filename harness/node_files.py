"""The configuration files of the local Kubernetes node: its pods' network, containerd and the kubelet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.node_images import PAUSE


def bridged(name: str, net: str, addresses: Path) -> dict[str, Any]:
    """Return the CNI configuration of a network on the bridge ``name``, whose addresses begin with ``net``."""
    network = {
        "type": "bridge",
        "bridge": name,
        "isDefaultGateway": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": str(addresses),
            "ranges": [[{"subnet": f"{net}.0/24", "rangeStart": f"{net}.10", "gateway": f"{net}.1"}]],
        },
    }
    return {"cniVersion": "0.4.0", "name": name, "plugins": [network]}


def containerd_toml(home: Path, socket: Path) -> str:
    """Return containerd's configuration, which keeps all of its files below ``home``."""
    # Root without CAP_SYS_RESOURCE cannot lower what the kernel scores a process by.
    return f"""version = 2
root = "{home}/containerd"
state = "{home}/run"
oom_score = 0
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{home}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def kubelet_configuration(
    name: str, address: str, ports: tuple[int, int], socket: Path, authority: Path
) -> dict[str, Any]:
    """Return the kubelet's configuration. ``ports``: its own port and that of its health check; ``authority``: the
    certificate authority that it trusts.
    """
    port, health = ports
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {"x509": {"clientCAFile": str(authority)}},
        "authorization": {"mode": "AlwaysAllow"},
        "port": port,
        "healthzPort": health,
        "readOnlyPort": 0,
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs",
        # A kubelet ends whatever it finds in its own group and does not know: another one's pods.
        "cgroupRoot": f"/{name}",
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # The packet filter is the machine's, and may be another kubelet's.
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "100Mi"}
        | dict.fromkeys(("nodefs.available", "imagefs.available", "nodefs.inodesFree"), "0%"),
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "/etc/resolv.conf",
        "nodeStatusUpdateFrequency": "4s",
    }
