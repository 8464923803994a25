"""The demo on YARN and HDFS: deploys, a rebuild, a killed NodeManager, a rollback, and the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import psutil

from demo.acts.event_counts import EventCountActs
from demo.acts.stage import Act, Stage
from demo.deploys import StepReport
from demo.kafka.jobs import EVENT_COUNTS
from demo.killing import serving_driver
from demo.playing import write_report
from demo.recovery import recover_dead
from demo.remote import remote_stage
from demo.show import Screen
from harness.forms import CONF
from harness.hadoop_process import has_jars
from harness.places import Places
from harness.processes import StartedProcess
from harness.remote_servers import YARN, find_database
from harness.topic_ledger import connect, read_counts, read_sums
from harness.waiting import wait_until
from harness.yarn_server import NODE_MANAGER
from streamkeeper.errors import DeployFailed, NotFound, StillWaiting
from streamkeeper.model.protocol.liveness import Life

_GIVEN_UP_S = 120.0


def run_cluster_demo(places: Places, screen: Screen) -> bool:
    """Run the demo from empty folders; return whether the ledger is clean. All started processes are stopped.

    Raises NotFound, before anything is started, if the programs of a server are missing.
    """
    find_database()
    if not has_jars():
        raise NotFound("Hadoop's jars are not there", hint="make connectors")
    with (
        remote_stage(
            places,
            screen,
            YARN,
            starting="HDFS, YARN, PostgreSQL and Kafka",
            describe=lambda where: (
                f"checkpoints: {where.environment['STREAMKEEPER_CHECKPOINTS']}; drivers: YARN's containers"
            ),
            settings={"STREAMKEEPER_STORE": str(places.home / "store")},
        ) as remote,
        connect(remote.where.database) as database,
    ):
        played = EventCountActs(
            topic=remote.topic,
            conf=dict(CONF),
            counts=partial(read_counts, database),
            sums=partial(read_sums, database),
        )
        wanted = (*played.begin, Node(remote.servers).act, played.rollback)
        acts, accounts = played.play(remote.stage, wanted, screen)
    return write_report(places, acts, accounts, screen)


@dataclass(frozen=True, slots=True)
class Node:
    """The only node of the cluster. Its NodeManager is a descendant of the servers' process."""

    servers: StartedProcess

    @property
    def act(self) -> Act:
        """Return the act that kills the NodeManager, waits until YARN has given up the driver, and recovers the job."""
        return Act("node killed", "its own process: YARN gives the driver up, a recovery starts it again", self._kill)

    def _kill(self, stage: Stage) -> list[StepReport]:
        installation, instance = stage.system.installation, serving_driver(stage.system, EVENT_COUNTS).instance
        for process in psutil.Process(self.servers.pid).children(recursive=True):
            if NODE_MANAGER in process.cmdline():
                process.kill()
                stage.tell(
                    f"  kill -9 {process.pid}: the NodeManager; its container, the driver of {instance}, goes on"
                )
                break
        else:
            raise DeployFailed("YARN has no NodeManager to kill")
        if not wait_until(
            lambda: installation.runner.observe(EVENT_COUNTS, instance).life is Life.DEAD, timeout_s=_GIVEN_UP_S
        ):
            raise StillWaiting(f"{instance} has not ended within {_GIVEN_UP_S:.0f} s of its node's end")
        stage.tell(f"  {installation.runner.observe(EVENT_COUNTS, instance).why}")
        return recover_dead(
            stage.system, stage.airflow, stage.deployer, stage.tell, EVENT_COUNTS, reason="YARN gave it up"
        )
