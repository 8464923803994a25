"""The servers of a job of which only the driver runs on this machine: S3 or HDFS for its checkpoints, PostgreSQL,
executors.

``python -m harness.remote_servers KIND FILE`` runs them until SIGTERM: KIND is ``s3`` (with a Spark cluster) or
``yarn`` (with HDFS). Their addresses are written to ``FILE`` once all of them answer.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from harness import postgres_server
from harness.hdfs_server import HdfsServer, hdfs_server
from harness.kafka_broker import CONNECTORS
from harness.kubernetes_node import KubernetesNode, kubernetes_node
from harness.places import WAREHOUSE_VARIABLE
from harness.reviving import revived
from harness.s3_server import FIRST_BUCKET, S3Server, find_program, s3_server
from harness.spark_cluster import SparkCluster, spark_cluster
from harness.variables import set_variables
from harness.yarn_server import YarnServer, yarn_server
from streamkeeper.errors import NotFound
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX
from streamkeeper.system.private_files import write_file

S3, YARN = "s3", "yarn"
_ON_S3 = f"s3a://{FIRST_BUCKET}/checkpoints"


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of the servers. ``environment``: the variables that operations and drivers need to reach the
    checkpoints and the executors; ``database``: a libpq URL.
    """

    environment: dict[str, str]
    database: str


@dataclass(frozen=True, slots=True)
class RemoteServers:
    """The running servers: S3, a Spark cluster and PostgreSQL."""

    s3: S3Server
    cluster: SparkCluster
    database: str

    @property
    def whereabouts(self) -> Whereabouts:
        """Return the addresses of the servers."""
        environment = {
            **self.s3.environment,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "STREAMKEEPER_CHECKPOINTS": _ON_S3,
            "STREAMKEEPER_MASTER": self.cluster.master,
        }
        return Whereabouts(environment=environment, database=self.database)


@dataclass(frozen=True, slots=True)
class HdfsServers:
    """The running servers: HDFS, a Spark cluster and PostgreSQL."""

    hdfs: HdfsServer
    cluster: SparkCluster
    database: str

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that operations and drivers need to reach the servers."""
        return {**self.hdfs.environment, "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class YarnServers:
    """The running servers: HDFS, YARN and PostgreSQL. YARN's containers have the address of the database in their
    environment.
    """

    hdfs: HdfsServer
    yarn: YarnServer
    database: str

    @property
    def whereabouts(self) -> Whereabouts:
        """Return the addresses of the servers."""
        environment = {
            **self.yarn.environment,
            "STREAMKEEPER_CHECKPOINTS": f"{self.hdfs.url}/checkpoints",
            "STREAMKEEPER_DRIVERS": YARN,
        }
        return Whereabouts(environment=environment, database=self.database)


def find_database() -> Path:
    """Return the folder of PostgreSQL's programs; raises NotFound if they are missing."""
    programs = postgres_server.find_programs()
    if programs is None:
        raise NotFound("there are no PostgreSQL server programs", hint="Debian: apt-get install postgresql")
    return programs


def find_programs() -> Path:
    """Return the folder of PostgreSQL's programs; raises NotFound if the programs of PostgreSQL or S3 are missing."""
    programs = find_database()
    try:
        find_program()
    except SystemExit as missing:
        raise NotFound(str(missing), hint="make setup") from None
    if not any((CONNECTORS / "s3a").glob("*.jar")):
        raise NotFound("s3a's jars are not there", hint="make connectors")
    return programs


@contextmanager
def s3_and_database() -> Iterator[tuple[S3Server, str]]:
    """Provide S3 and the libpq URL of PostgreSQL; both are stopped and removed at the end. Raises NotFound if programs
    are missing.
    """
    programs = find_programs()
    with (
        _home() as home,
        s3_server(home / "s3", volume_mb=64, volumes=40) as s3,
        postgres_server.postgres_server(home / "postgres", programs) as database,
    ):
        yield s3, database


@contextmanager
def remote_servers() -> Iterator[RemoteServers]:
    """Provide S3, PostgreSQL and a Spark cluster with two workers; all are stopped and removed at the end. Raises
    NotFound if programs are missing.
    """
    with s3_and_database() as (s3, database), _home() as home, spark_cluster(home / "cluster") as cluster:
        yield RemoteServers(s3, cluster, database)


@contextmanager
def hdfs_and_database() -> Iterator[tuple[HdfsServer, str]]:
    """Provide HDFS and the libpq URL of PostgreSQL; both are stopped and removed at the end. Raises NotFound if
    programs are missing.
    """
    programs = find_database()
    with (
        _home() as home,
        hdfs_server(home / "hdfs") as hdfs,
        postgres_server.postgres_server(home / "postgres", programs) as database,
    ):
        yield hdfs, database


@contextmanager
def yarn_servers() -> Iterator[YarnServers]:
    """Provide HDFS, PostgreSQL and YARN; all are stopped and removed at the end. Raises NotFound if programs are
    missing.
    """
    with hdfs_and_database() as (hdfs, database), _home() as home:
        known = database.replace("postgresql://", "postgresql+psycopg://")
        given = {"SPARK_LOCAL_IP": "127.0.0.1", f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": known}
        with yarn_server(home / "yarn", given, beside=hdfs.conf) as yarn:
            yield YarnServers(hdfs, yarn, database)


@dataclass(frozen=True, slots=True)
class PodServers:
    """The running servers, and a template whose pods can reach them and share a folder of this machine."""

    node: KubernetesNode
    s3: S3Server
    database: str
    template: Path

    @property
    def checkpoints(self) -> str:
        """Return the location of the checkpoints, in the existing S3 bucket."""
        return _ON_S3

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that operations need to reach the servers, with the rights of deploy/kubernetes."""
        return {**self.s3.environment, **self.node.environment, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def pod_servers(shared: Path) -> Iterator[PodServers]:
    """Provide Kubernetes with one node, S3 and PostgreSQL; all are stopped and removed at the end. Raises NotFound if
    programs are missing. ``shared`` is the folder that the pods see at the same path.
    """
    with s3_and_database() as (s3, database), _home() as home, kubernetes_node(home / "node") as node:
        with set_variables(s3.environment):
            template = node.template_on_host(home / "driver-pod.yaml", shared)
        yield PodServers(node, s3, database, template)


@contextmanager
def hdfs_servers(*, workers: int = 2) -> Iterator[HdfsServers]:
    """Provide HDFS, PostgreSQL and a Spark cluster; all are stopped and removed at the end. Raises NotFound if programs
    are missing.
    """
    with (
        hdfs_and_database() as (hdfs, database),
        _home() as home,
        spark_cluster(home / "cluster", workers=workers) as cluster,
    ):
        yield HdfsServers(hdfs, cluster, database)


@contextmanager
def _home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-remote-"))
    # PostgreSQL's own user goes through here.
    home.chmod(0o755)
    (home / "postgres").mkdir()
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main(kind: str, file: Path) -> None:
    """Run the servers until SIGTERM; further SIGTERMs are ignored during the cleanup."""

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    with _opened(kind) as servers, _watched(servers):
        draft = file.with_suffix(".new")
        write_file(draft, msgspec.json.encode(servers.whereabouts))
        os.replace(draft, file)
        while True:
            signal.pause()


def _watched(servers: RemoteServers | YarnServers) -> AbstractContextManager[None]:
    return revived(servers.yarn.revive_node) if isinstance(servers, YarnServers) else nullcontext()


def _opened(kind: str) -> AbstractContextManager[RemoteServers | YarnServers]:
    return yarn_servers() if kind == YARN else remote_servers()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
