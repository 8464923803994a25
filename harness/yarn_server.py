"""Runs a real YARN on loopback ports, a ResourceManager and a NodeManager, from the jars that ``make connectors``
downloads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.hadoop_process import HadoopProcesses, has_jars, started
from harness.processes import free_ports
from streamkeeper.errors import NotFound

_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_FIFO = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"


class YarnServer(HadoopProcesses):
    """A running YARN; ``http``: the URL of the ResourceManager's REST API, ``node``: that of the NodeManager's,
    ``http://host:port`` each.

    A node, or an application's master, that sends no report for ``expiry_s`` seconds is given up. ``given``: variables
    that the node passes to containers. ``beside``: the configuration of an HDFS, which clients and containers also
    receive. ``limits_memory``: whether the node kills a container that uses more memory than it was granted.
    """

    def __init__(
        self,
        home: Path,
        given: Mapping[str, str] | None = None,
        *,
        beside: Path | None = None,
        expiry_s: float = 600.0,
        limits_memory: bool = False,
    ) -> None:
        of_node = {"HADOOP_CONF_DIR": str(home / "conf"), "JAVA_HOME": os.environ.get("JAVA_HOME", ""), **(given or {})}
        super().__init__(home, of_node)
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        of_manager = dict(zip(names, free_ports(len(names)), strict=True))
        ports = dict(zip(("address", "localizer.address", "webapp.address"), free_ports(3), strict=True))
        self.http = f"http://127.0.0.1:{of_manager['webapp.address']}"
        self.node = f"http://127.0.0.1:{ports['webapp.address']}"
        for folder in ("local", "containers"):
            (home / folder).mkdir()
        settings = {"yarn.resourcemanager.hostname": "127.0.0.1"}
        settings |= {f"yarn.resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in of_manager.items()}
        settings |= {f"yarn.nodemanager.{name}": f"127.0.0.1:{port}" for name, port in ports.items()}
        settings |= {
            "yarn.resourcemanager.scheduler.class": _FIFO,
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.local-dirs": str(home / "local"),
            "yarn.nodemanager.log-dirs": str(home / "containers"),
            "yarn.nodemanager.resource.memory-mb": "8192",
            "yarn.nodemanager.resource.cpu-vcores": "16",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": str(limits_memory).lower(),
            "yarn.nodemanager.container-monitor.interval-ms": "1000",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.env-whitelist": ",".join(("PATH", *of_node)),
            "yarn.nm.liveness-monitor.expiry-interval-ms": str(int(expiry_s * 1000)),
            "yarn.am.liveness-monitor.expiry-interval-ms": str(int(expiry_s * 1000)),
        }
        self.write("yarn-site.xml", settings)
        if beside is None:
            self.write("core-site.xml", {"hadoop.tmp.dir": str(home / "tmp")})
        else:
            shutil.copytree(beside, self.conf, dirs_exist_ok=True)

    def start(self) -> None:
        """Start both processes, and return once the node accepts containers.

        Raises InvalidInput if one of them has terminated, StillWaiting if the start takes too long.
        """
        for program in (_RESOURCE_MANAGER, NODE_MANAGER):
            self.launch(program)
        self.wait("YARN has no node", self._has_a_node)

    @property
    def node_manager(self) -> int:
        """Return the pid of the NodeManager."""
        return self.process(NODE_MANAGER).pid

    def freeze_node(self) -> None:
        """Suspend the NodeManager; its containers keep running."""
        self.process(NODE_MANAGER).send_signal(signal.SIGSTOP)

    def thaw_node(self) -> None:
        """Resume the suspended NodeManager."""
        self.process(NODE_MANAGER).send_signal(signal.SIGCONT)

    def replace_node(self) -> None:
        """Kill the NodeManager and start a new one, which has no record of the old one's containers."""
        node = self.process(NODE_MANAGER)
        node.kill()
        node.wait(10)
        self.revive_node()
        self.wait("YARN has no node", self._has_a_node)

    def replace_manager(self) -> None:
        """Kill the ResourceManager and start a new one, which has no record of the old one's applications."""
        manager = self.process(_RESOURCE_MANAGER)
        manager.kill()
        manager.wait(10)
        self.launch(_RESOURCE_MANAGER)
        self.wait("YARN has no node", self._has_a_node)

    def revive_node(self) -> None:
        """Restart the NodeManager if it has terminated, as the monitoring of a cluster does."""
        if self.process(NODE_MANAGER).poll() is not None:
            self.launch(NODE_MANAGER)

    def ask(self, path: str) -> Any:
        """Return the response of the ResourceManager's REST API."""
        with urllib.request.urlopen(f"{self.http}/ws/v1/cluster/{path}", timeout=5) as answer:
            return json.load(answer)

    def _has_a_node(self) -> bool:
        try:
            nodes = self.ask("nodes?states=RUNNING")["nodes"]
        except OSError:
            return False
        return bool(nodes)


@contextmanager
def yarn_server(
    home: Path,
    given: Mapping[str, str] | None = None,
    *,
    beside: Path | None = None,
    expiry_s: float = 600.0,
    limits_memory: bool = False,
) -> Iterator[YarnServer]:
    """Run a YARN server in ``home`` while the body runs; all of its files are deleted at the end."""
    if not has_jars():
        raise NotFound("YARN's jars are not there", hint="make connectors")
    with started(YarnServer(home, given, beside=beside, expiry_s=expiry_s, limits_memory=limits_memory)) as server:
        yield server
