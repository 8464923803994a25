"""Switches of a job whose drivers are YARN containers, with checkpoints in HDFS and both tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from chaos.on_nodes import NodeStage
from chaos.switch_runs import JOBS
from harness.bed import fresh_bed
from harness.remote_servers import hdfs_and_database
from harness.reviving import revived
from harness.variables import set_variables
from harness.yarn_server import YarnServer, yarn_server
from streamkeeper.model.runner_kinds.yarn_kind import YARN

_GIVEN_UP_S = 60.0


def _processes_of(yarn: YarnServer) -> list[tuple[str, psutil.Process]]:
    """Return the NodeManager and the application masters, which report to YARN that an application lives."""
    masters = [each for each in psutil.process_iter(["cmdline"]) if _tells_yarn(each, yarn.home)]
    return [*(("application master", each) for each in masters), ("node manager", psutil.Process(yarn.node_manager))]


def _tells_yarn(process: psutil.Process, home: Path) -> bool:
    """Return whether the process is an application master of this cluster."""
    words = process.info["cmdline"] or []
    return any(word.endswith("ApplicationMaster.java") for word in words) and any(str(home) in word for word in words)


@contextmanager
def on_yarn(root: Path) -> Iterator[NodeStage]:
    """Open a stage on a fresh installation with new servers: HDFS, PostgreSQL and YARN, whose containers are below the
    installation.
    """
    local = {"SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        hdfs_and_database() as (hdfs, database),
        fresh_bed(root, JOBS, f"{hdfs.url}/checkpoints", drivers=YARN) as bed,
        yarn_server(bed.root / "yarn", local, beside=hdfs.conf, expiry_s=_GIVEN_UP_S) as yarn,
        set_variables({**yarn.environment, **local}),
        revived(yarn.revive_node),
    ):
        yield NodeStage(bed, database, partial(_processes_of, yarn))
