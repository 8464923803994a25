"""The demo on S3 and a cluster: deploys, a rebuild, an executor and the driver killed, a rollback, and the ledger."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from psycopg import Connection

from demo.acts.going_back import roll_back
from demo.acts.stage import Act, Stage
from demo.acts.switching import answer_about_output, deploy_watched, rebuild_watched
from demo.deploys import Asked, Deployer, StepReport
from demo.kafka.jobs import EVENT_COUNTS, WITH_LARGEST, form
from demo.killing import serving_driver
from demo.playing import from_nothing, play_all, settle, write_report
from demo.recovery import RECOVER, SCHEDULES, WATCH, kill_and_recover
from demo.releases import edit
from demo.show import Screen
from demo.topic import Topic, produced_events, wait_until_read
from harness.forms import CONF, ROLLBACK_DAG
from harness.ledger import Account
from harness.places import WAREHOUSE_VARIABLE, Places
from harness.processes import StartedProcess, is_running
from harness.remote_servers import Whereabouts, find_programs
from harness.spark_cluster import find_executors
from harness.system import System
from harness.topic_ledger import connect, counts_so_far, read_counts, read_sums
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, InvalidInput, StillWaiting
from streamkeeper.model.finding import Verdict
from streamkeeper.model.settings import SECRET_PREFIX
from streamkeeper.model.ways import Way

_SETTINGS = {
    **SCHEDULES,
    "STREAMKEEPER_BACKUP_SCHEDULE": "never",
    # A recovery is to be seen: a watch that acts would have started the driver before.
    "STREAMKEEPER_WATCH_ACTS": "no",
}
_SERVERS = "servers"
_START_S = 180.0


def run_storage_demo(places: Places, screen: Screen) -> bool:
    """Run it from nothing; whether the ledger is clean. Everything it started is stopped, however it ends.

    Raises NotFound, before anything is started, where the programs of a server are missing.
    """
    find_programs()
    with from_nothing(places, screen, _SETTINGS) as system:
        topic = Topic.made_for(system)
        screen.tell("starting S3, PostgreSQL, a Spark cluster with two workers, and Kafka")
        servers, where = start_servers(system)
        topic.start()
        screen.tell(f"checkpoints: {where.environment['STREAMKEEPER_CHECKPOINTS']}; tasks: {_master(where)}")
        airflow = system.start_airflow()
        system.wait_for_airflow(airflow)
        for dag in (ROLLBACK_DAG, WATCH, RECOVER):
            system.wait_for_dag(airflow, dag)
        screen.tell(f"Airflow is healthy at {airflow.url}, Kafka at {topic.broker.servers}")
        stage = Stage(system, airflow, Deployer(system, airflow, screen.tell), screen.tell)
        with connect(where.database) as database:
            played = Acts(topic, servers, database)
            acts = play_all(stage, played.all(), played.ledger, screen)
            screen.tell("no more events; the job reads what is left")
            topic.stop_feed()
            accounts = settle(system, (EVENT_COUNTS,), played.ledger, screen)
    return write_report(places, acts, accounts, screen)


def start_servers(system: System) -> tuple[StartedProcess, Whereabouts]:
    """Start them and tell the system where they are; raises InvalidInput when they end, StillWaiting when late."""
    file = system.places.root / "servers.json"
    # What somebody's shell says of another S3 is not to reach in.
    for name in [name for name in system.environment if name.startswith("AWS_")]:
        del system.environment[name]
    started = system.start_process(_SERVERS, [sys.executable, "-m", "harness.remote_servers", str(file)])
    if not wait_until(lambda: file.exists() or not is_running(started), timeout_s=_START_S):
        raise StillWaiting(f"the servers do not run after {_START_S:.0f} s", hint=f"see {started.log}")
    if not file.exists():
        last = Path(started.log).read_text(errors="replace").strip().splitlines()[-1:]
        raise InvalidInput(f"the servers ended: {''.join(last) or 'without a word'}", hint=f"see {started.log}")
    where = msgspec.json.decode(file.read_bytes(), type=Whereabouts)
    database = where.database.replace("postgresql://", "postgresql+psycopg://")
    system.environment.update(where.environment | {f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": database})
    return started, where


@dataclass(frozen=True, slots=True)
class Acts:
    """All that is done to the job. ``servers``: below whose process the executors run; ``database``: of its table."""

    topic: Topic
    servers: StartedProcess
    database: Connection

    def ledger(self) -> list[Account]:
        """As it stands: what came out is read first, so that all of it has been written down by then."""
        counts = read_counts(self.database)
        return [counts_so_far(EVENT_COUNTS, produced_events(self.topic.system.places), counts)]

    def all(self) -> tuple[Act, ...]:
        """In their order."""
        return (
            Act("first release", "from the topic's beginning", self._deploy_first),
            Act("resume", "a compatible change, while a reader looks", self._resume),
            Act("rebuild", "one more aggregate: read the topic again, compare, cut over", self._rebuild),
            Act("executor killed", "SIGKILL; the job goes on by itself", self._kill_executor),
            Act("driver killed", "and its supervisor: the watch raises it, a recovery starts it again", self._recover),
            Act("rollback", "to the release before the rebuild", partial(roll_back, job=EVENT_COUNTS)),
        )

    def _form(self, *, per_trigger: int, reason: str) -> dict[str, Any]:
        # The master is the installation's.
        conf = {name: value for name, value in CONF.items() if name != "spark.master"}
        conf["spark.executor.memory"] = "512m"
        return form(self.topic.broker.servers, EVENT_COUNTS, per_trigger=per_trigger, reason=reason, conf=conf)

    @property
    def _read(self) -> Callable[[], Any]:
        return partial(read_sums, self.database)

    def _deploy_first(self, stage: Stage) -> list[StepReport]:
        wanted = self._form(per_trigger=2000, reason="first release")
        return [stage.deployer.deploy(Asked(name=f"{EVENT_COUNTS}: first release", form=wanted, way=Way.START))]

    def _resume(self, stage: Stage) -> list[StepReport]:
        stage.tell("  1000 records per trigger instead of 2000")
        asked = Asked(
            name=f"{EVENT_COUNTS}: resume",
            form=self._form(per_trigger=1000, reason="a compatible change"),
            verdict=Verdict.RESUME,
            way=Way.RESUME,
        )
        return [deploy_watched(stage, asked, self._read)]

    def _rebuild(self, stage: Stage) -> list[StepReport]:
        stage.tell(f"  {edit(stage.places, WITH_LARGEST)}")
        asked = Asked(
            name=f"{EVENT_COUNTS}: rebuild",
            form=self._form(per_trigger=2000, reason="one more aggregate"),
            verdict=Verdict.SWITCH,
            way=Way.REBUILD,
            meanwhile=answer_about_output(stage, "the ledger tells"),
        )
        return [rebuild_watched(stage, asked, self._read)]

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
        told = f"another executor took its place, the driver went on, and all {read} events produced by then came out"
        stage.tell(f"[green]executor killed[/]: {told} ({wall_s:.0f} s)")
        return [StepReport(name="executor killed", outcome="went on", wall_s=wall_s, told=told)]

    def _recover(self, stage: Stage) -> list[StepReport]:
        return kill_and_recover(stage.system, stage.airflow, stage.deployer, stage.tell, EVENT_COUNTS)


def _master(where: Whereabouts) -> str:
    return where.environment["STREAMKEEPER_MASTER"]
