"""Starts the servers of a demo on S3 with a Spark cluster or on HDFS with YARN, all in one process, with Airflow, Kafka
and a feed of events.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from demo.acts.stage import Stage
from demo.deploys import Deployer
from demo.playing import from_nothing
from demo.recovery import BY_HAND, RECOVER, WATCH
from demo.show import Screen
from demo.topic import Topic
from harness.forms import CONF, ROLLBACK_DAG
from harness.places import WAREHOUSE_VARIABLE, Places
from harness.processes import StartedProcess, is_running
from harness.remote_servers import Whereabouts
from harness.system import System
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput, StillWaiting
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX

CLUSTER_CONF = {name: value for name, value in CONF.items() if name != "spark.master"} | {
    "spark.executor.memory": "512m"
}
"""The Spark settings of a job on a Spark cluster, whose master the installation sets."""
_SERVERS = "servers"
_START_S = 180.0


@dataclass(frozen=True, slots=True)
class RemoteStage:
    """A running system whose checkpoints and tasks are on servers, and the topic that its job reads."""

    stage: Stage
    topic: Topic
    servers: StartedProcess
    """An ancestor of all processes of the servers."""
    where: Whereabouts
    """The addresses of the servers."""


@contextmanager
def remote_stage(
    places: Places,
    screen: Screen,
    kind: str,
    *,
    starting: str,
    describe: Callable[[Whereabouts], str],
    settings: Mapping[str, str] | None = None,
) -> Iterator[RemoteStage]:
    """Provide a system with new, empty folders; all processes are stopped at the end.

    ``kind``: of the servers, as in ``harness.remote_servers``; ``starting``: the names of all servers, as a list for a
    sentence; ``describe``: returns where the job's data is; ``settings``: settings of the installation, besides those
    of every such demo.
    """
    with from_nothing(places, screen, {**BY_HAND, **(settings or {})}) as system:
        topic = Topic.made_for(system)
        screen.tell(f"starting {starting}")
        servers, where = start_servers(system, kind)
        topic.start()
        screen.tell(describe(where))
        airflow = system.start_airflow()
        system.wait_for_airflow(airflow)
        for dag in (ROLLBACK_DAG, WATCH, RECOVER):
            system.wait_for_dag(airflow, dag)
        screen.tell(f"Airflow is healthy at {airflow.url}, Kafka at {topic.broker.servers}")
        yield RemoteStage(
            Stage(system, airflow, Deployer(system, airflow, screen.tell), screen.tell), topic, servers, where
        )


def start_servers(system: System, kind: str) -> tuple[StartedProcess, Whereabouts]:
    """Start the servers of a kind from ``harness.remote_servers``, and set their addresses in the environment of the
    system.

    Raises InvalidInput if the servers exit, StillWaiting if they do not answer in time.
    """
    file = system.places.root / "servers.json"
    # Do not let the S3 settings of the user's shell leak in.
    for name in [name for name in system.environment if name.startswith("AWS_")]:
        del system.environment[name]
    started = system.start_process(_SERVERS, [sys.executable, "-m", "harness.remote_servers", kind, str(file)])
    if not wait_until(lambda: file.exists() or not is_running(started), timeout_s=_START_S):
        raise StillWaiting(f"the servers do not run after {_START_S:.0f} s", hint=f"see {started.log}")
    if not file.exists():
        last = Path(started.log).read_text(errors="replace").strip().splitlines()[-1:]
        raise InvalidInput(f"the servers ended: {''.join(last) or 'without a word'}", hint=f"see {started.log}")
    where = msgspec.json.decode(file.read_bytes(), type=Whereabouts)
    database = where.database.replace("postgresql://", "postgresql+psycopg://")
    system.environment.update(where.environment | {f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": database})
    return started, where
