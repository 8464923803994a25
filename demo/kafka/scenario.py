"""The demo on Kafka: first releases, a resume and a handoff, a broker that dies, a rebuild, and the ledger."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from demo.acts.stage import Act, Stage
from demo.acts.switching import rebuild_watched
from demo.deploys import Asked, Deployer, StepReport
from demo.kafka.jobs import EVENT_COUNTS, EVENT_TABLE, JOBS, TOPIC, WITH_LARGEST, form
from demo.playing import play_all, settle, write_report
from demo.recovery import SCHEDULES
from demo.releases import edit
from demo.show import Screen
from harness.kafka_broker import KafkaBroker, command_of, make_broker, wait_for_broker
from harness.ledger import Account
from harness.places import Places
from harness.processes import is_running
from harness.system import System
from harness.topic_feed import PARTITIONS, read_events
from harness.topic_ledger import counts_so_far, read_counts, read_sums, read_table, table_so_far
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, StillWaiting
from streamkeeper.model.finding import Verdict
from streamkeeper.model.ways import Way

_BROKER, _FEED = "kafka", "feed"


def run_kafka_demo(places: Places, screen: Screen) -> bool:
    """Run it from nothing; whether the ledger is clean. Everything it started is stopped, however it ends."""
    system = System(places, screen.tell)
    system.environment.update({**SCHEDULES, "STREAMKEEPER_BACKUP_SCHEDULE": "never"})
    system.stop()
    shutil.rmtree(places.root, ignore_errors=True)
    places.prepare()
    try:
        screen.tell("starting Airflow, a Kafka broker, and a process that keeps writing events")
        airflow = system.start_airflow()
        topic = Topic(system, make_broker(_home(places)))
        topic.start()
        system.wait_for_airflow(airflow)
        screen.tell(f"Airflow is healthy at {airflow.url}, Kafka at {topic.broker.servers}")
        stage = Stage(system, airflow, Deployer(system, airflow, screen.tell), screen.tell)
        acts = play_all(stage, topic.acts(), lambda: draw_up(places), screen)
        screen.tell("no more events; the jobs read what is left")
        topic.stop_feed()
        accounts = settle(system, JOBS, lambda: draw_up(places), screen)
    finally:
        system.stop()
    return write_report(places, acts, accounts, screen)


def draw_up(places: Places) -> list[Account]:
    """The ledger as it stands: what came out is read first, so that all of it has been written down by then."""
    counts, rows = read_counts(places.warehouse), read_table(places.warehouse)
    events = read_events(_produced(places))
    return [counts_so_far(EVENT_COUNTS, events, counts), table_so_far(EVENT_TABLE, events, rows)]


@dataclass(frozen=True, slots=True)
class Topic:
    """The broker with its one topic, and who writes to it."""

    system: System
    broker: KafkaBroker

    def start(self) -> None:
        """Start the broker, make the topic, and let events come."""
        self._start_broker()
        self.broker.create_topic(TOPIC, partitions=PARTITIONS)
        file = _produced(self.system.places)
        command = [sys.executable, "-m", "harness.topic_feed", self.broker.servers, TOPIC, str(file)]
        self.system.start_process(_FEED, command)

    def stop_feed(self) -> None:
        """End it once the broker has all events; raises DeployFailed when it has not."""
        self.system.stop_process(_FEED, grace_s=150)
        told = (self.system.places.root / f"{_FEED}.log").read_text().strip()
        produced = len(read_events(_produced(self.system.places)))
        if told.splitlines()[-1:] != [f"{produced} events delivered"]:
            raise DeployFailed(f"{produced} events were written down, and the feed says: {told or 'nothing'}")

    def acts(self) -> tuple[Act, ...]:
        """All that is done to the two jobs."""
        return (
            Act("first releases", "both jobs, from the topic's beginning", self._deploy_first),
            Act("resume and handoff", "one goes on, the other gets a new checkpoint", self._resume_and_hand_off),
            Act("broker restart", "SIGKILL, and started again; the drivers are left alone", self._restart_broker),
            Act("rebuild", "one more aggregate: read the topic again, compare, cut over", self._rebuild),
        )

    def _deploy_first(self, stage: Stage) -> list[StepReport]:
        wanted = [
            Asked(
                name=f"{job}: first release",
                form=form(self.broker.servers, job, per_trigger=2000, reason="first release"),
                way=Way.START,
            )
            for job in JOBS
        ]
        return stage.deployer.deploy_all(wanted)

    def _resume_and_hand_off(self, stage: Stage) -> list[StepReport]:
        stage.tell("  event_counts: 1000 records per trigger instead of 2000")
        stage.tell("  event_table: the same, and a new checkpoint is asked for")
        resumed = Asked(
            name="event_counts: resume",
            form=form(self.broker.servers, EVENT_COUNTS, per_trigger=1000, reason="a compatible change"),
            verdict=Verdict.RESUME,
            way=Way.RESUME,
        )
        new = form(self.broker.servers, EVENT_TABLE, per_trigger=1000, reason="a new checkpoint", strategy="handoff")
        handed_off = Asked(name="event_table: handoff", form=new, way=Way.HANDOFF)
        return stage.deployer.deploy_all([resumed, handed_off])

    def _restart_broker(self, stage: Stage) -> list[StepReport]:
        began = time.monotonic()
        self.system.stop_process(_BROKER, grace_s=0)
        stage.tell("  the broker is dead")
        self._start_broker()
        behind = len(read_events(_produced(stage.places)))
        stage.tell(f"  the broker is back; {behind} events were produced by now")

        def caught_up() -> bool:
            return all(each.produced - each.in_flight >= behind for each in draw_up(stage.places))

        if not wait_until(caught_up, timeout_s=180, poll_s=0.5):
            raise StillWaiting("the jobs have not read on within 180 s of the broker's restart")
        wall_s = round(time.monotonic() - began, 1)
        told = f"both jobs have read all {behind} events that were produced until the broker was back"
        stage.tell(f"[green]broker restart[/]: {told} ({wall_s:.0f} s)")
        return [StepReport(name="broker killed and restarted", outcome="came back", wall_s=wall_s, told=told)]

    def _rebuild(self, stage: Stage) -> list[StepReport]:
        stage.tell(f"  {edit(stage.places, WITH_LARGEST)}")
        asked = Asked(
            name="event_counts: rebuild",
            form=form(self.broker.servers, EVENT_COUNTS, per_trigger=2000, reason="one more aggregate"),
            verdict=Verdict.SWITCH,
            way=Way.REBUILD,
        )
        return [rebuild_watched(stage, asked, lambda: read_sums(stage.places.warehouse))]

    def _start_broker(self) -> None:
        home = _home(self.system.places)
        started = self.system.start_process(_BROKER, command_of(home))
        wait_for_broker(self.broker, Path(started.log), lambda: is_running(started))


def _home(places: Places) -> Path:
    return places.root / "broker"


def _produced(places: Places) -> Path:
    return places.root / "produced.jsonl"
