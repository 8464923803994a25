"""A standalone Spark cluster on the loopback interface: a master and its workers, from the jars inside pyspark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from harness.processes import free_ports
from harness.waiting import wait_for
from streamkeeper.system.java import find_java

_READY_S = 60.0
_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class SparkCluster:
    """A standalone cluster; ``master``: its URL. Every worker has two cores and memory for two executors of 512 MiB."""

    def __init__(self, home: Path) -> None:
        self._home, self._pyspark = home, Path(pyspark.__file__).parent
        port, self._pages = free_ports(2)
        self.master = f"spark://127.0.0.1:{port}"
        self._port = port
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        """Start the master and this many workers, and return once all of them have registered."""
        places = ("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._pages))
        self._launch("master", "org.apache.spark.deploy.master.Master", *places)
        for number in range(workers):
            room = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "2", "--memory", "1100m")
            work = ("--work-dir", str(self._home / f"worker-{number}"))
            kind = "org.apache.spark.deploy.worker.Worker"
            self._launch(f"worker-{number}", kind, *room, *work, self.master)
        wait_for("the workers", lambda: self._registered() == workers, _READY_S)

    def _launch(self, name: str, kind: str, *words: str) -> None:
        kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "HOME", "JDK_JAVA_OPTIONS") if key in os.environ}
        environ = kept | {
            "SPARK_HOME": str(self._pyspark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",
        }
        java = find_java(os.environ)
        with open(self._home / f"{name}.log", "wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [java, *_JVM, *_OPENED, "-cp", f"{self._pyspark}/jars/*", kind, *words],
                    env=environ,
                    cwd=self._home,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _registered(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._pages}/json/", timeout=10) as answer:
                return len(json.load(answer)["workers"])
        except (urllib.error.URLError, json.JSONDecodeError):
            # Its page answers before that part of it does.
            return 0

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of all running executors, of every application."""
        return [executor for worker in self.processes[1:] for executor in find_executors(worker.pid)]

    def strike(self, blow: str) -> int:
        """Apply ``kill``, ``suspend`` or ``resume`` to all executors and their Python workers, and return how many
        executors were affected.
        """
        struck = 0
        for executor in self.executors():
            with suppress(psutil.NoSuchProcess):
                for member in (executor, *executor.children(recursive=True)):
                    getattr(member, blow)()
                struck += 1
        return struck

    def close(self) -> None:
        """Kill everything at once, including executors and their Python workers."""
        trees = []
        for process in self.processes:
            with suppress(psutil.NoSuchProcess):
                parent = psutil.Process(process.pid)
                trees += [parent, *parent.children(recursive=True)]
        for member in trees:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        for process in self.processes:
            process.wait(10)


def find_executors(above: int) -> list[psutil.Process]:
    """Return the JVMs of the executors that run below the process ``above``."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(above).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                    found.append(child)
    return found


_OPENED = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.nio", "java.util", "sun.nio.ch")
    ),
)


@contextmanager
def spark_cluster(home: Path, *, workers: int = 2) -> Iterator[SparkCluster]:
    """Run a cluster with its files in ``home``; stop it and delete ``home`` at the end."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    cluster = SparkCluster(home)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(home, ignore_errors=True)
