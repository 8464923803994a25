"""The demo on S3 and a Spark cluster: deploys, a rebuild, a killed executor, a killed driver, a rollback, and the
ledger.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from demo.acts.event_counts import EventCountActs
from demo.acts.stage import Act, Stage
from demo.deploys import StepReport
from demo.kafka.jobs import EVENT_COUNTS
from demo.killing import serving_driver
from demo.playing import Ledger, write_report
from demo.recovery import kill_and_recover
from demo.remote import CLUSTER_CONF, remote_stage
from demo.show import Screen
from demo.topic import wait_until_read
from harness.places import Places
from harness.processes import StartedProcess
from harness.remote_servers import S3, find_programs
from harness.spark_cluster import find_executors
from harness.topic_ledger import connect, read_counts, read_sums
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, StillWaiting


def run_storage_demo(places: Places, screen: Screen) -> bool:
    """Run the demo from empty folders; return whether the ledger is clean. All started processes are stopped.

    Raises NotFound, before anything is started, if the programs of a server are missing.
    """
    find_programs()
    with (
        remote_stage(
            places,
            screen,
            S3,
            starting="S3, PostgreSQL, a Spark cluster with two workers, and Kafka",
            describe=lambda where: (
                f"checkpoints: {where.environment['STREAMKEEPER_CHECKPOINTS']};"
                f" tasks: {where.environment['STREAMKEEPER_MASTER']}"
            ),
        ) as remote,
        connect(remote.where.database) as database,
    ):
        played = EventCountActs(
            topic=remote.topic,
            conf=CLUSTER_CONF,
            counts=partial(read_counts, database),
            sums=partial(read_sums, database),
        )
        wanted = (*played.begin, *Deaths(remote.servers, played.ledger).all(), played.rollback)
        acts, accounts = played.play(remote.stage, wanted, screen)
    return write_report(places, acts, accounts, screen)


@dataclass(frozen=True, slots=True)
class Deaths:
    """The acts that kill processes. ``servers`` is an ancestor of the executors, ``ledger`` returns the current
    accounts.
    """

    servers: StartedProcess
    ledger: Ledger

    def all(self) -> tuple[Act, ...]:
        """Return all acts in their order."""
        return (
            Act("executor killed", "SIGKILL; the job goes on by itself", self._kill_executor),
            Act("driver killed", "and its supervisor: the watch raises it, a recovery starts it again", self._recover),
        )

    def _kill_executor(self, stage: Stage) -> list[StepReport]:
        began, before = time.monotonic(), serving_driver(stage.system, EVENT_COUNTS)
        executors = find_executors(self.servers.pid)
        if not executors:
            raise DeployFailed(f"{EVENT_COUNTS} has no executor to kill")
        victim = executors[0]
        for member in (victim, *victim.children(recursive=True)):
            member.kill()
        stage.tell(f"  kill -9 {victim.pid}: one of {len(executors)} executors, with its Python workers")

        def replaced() -> bool:
            others = {executor.pid for executor in find_executors(self.servers.pid)}
            return len(others - {victim.pid}) >= len(executors)

        if not wait_until(replaced, timeout_s=120):
            raise StillWaiting("the cluster has started no other executor within 120 s")
        read = wait_until_read(stage.places, self.ledger, after="the executor's end")
        now = serving_driver(stage.system, EVENT_COUNTS)
        if (now.instance, now.generation) != (before.instance, before.generation):
            raise DeployFailed(f"{before.instance} was to go on as it was, and is generation {now.generation}")
        wall_s = round(time.monotonic() - began, 1)
        text = f"another executor took its place, the driver went on, and all {read} events produced by then came out"
        stage.tell(f"[green]executor killed[/]: {text} ({wall_s:.0f} s)")
        return [StepReport(name="executor killed", outcome="went on", wall_s=wall_s, told=text)]

    def _recover(self, stage: Stage) -> list[StepReport]:
        return kill_and_recover(stage.system, stage.airflow, stage.deployer, stage.tell, EVENT_COUNTS)
