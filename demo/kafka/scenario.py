"""The demo on Kafka: first releases, a resume and a handoff, a broker that is killed and restarted, a rebuild, and the
ledger.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from demo.acts.stage import Act, Stage
from demo.acts.switching import answer_about_output, rebuild_watched
from demo.deploys import Asked, Deployer, StepReport
from demo.kafka.jobs import EVENT_COUNTS, EVENT_TABLE, JOBS, WITH_LARGEST, form
from demo.playing import from_nothing, play_all, settle, write_report
from demo.recovery import SCHEDULES
from demo.releases import edit
from demo.show import Screen
from demo.topic import BROKER, Topic, produced_events, wait_until_read
from harness.ledger import Account
from harness.places import Places
from harness.topic_ledger import counts_so_far, read_counts, read_sums, read_table, table_so_far
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.transitions import Transition


def run_kafka_demo(places: Places, screen: Screen) -> bool:
    """Run the demo from empty folders; return whether the ledger is clean. All started processes are stopped."""
    with from_nothing(places, screen, {**SCHEDULES, "STREAMKEEPER_BACKUP_SCHEDULE": "never"}) as system:
        screen.tell("starting Airflow, a Kafka broker, and a process that keeps writing events")
        airflow = system.start_airflow()
        topic = Topic.made_for(system)
        topic.start()
        system.wait_for_airflow(airflow)
        screen.tell(f"Airflow is healthy at {airflow.url}, Kafka at {topic.broker.servers}")
        stage = Stage(system, airflow, Deployer(system, airflow, screen.tell), screen.tell)
        acts = play_all(stage, Acts(topic).all(), lambda: draw_up(places), screen)
        screen.tell("no more events; the jobs read what is left")
        topic.stop_feed()
        accounts = settle(system, JOBS, lambda: draw_up(places), screen)
    return write_report(places, acts, accounts, screen)


def draw_up(places: Places) -> list[Account]:
    """Return the current ledger. The output is read before the events, so that every event in the output is already
    recorded.
    """
    counts, rows = read_counts(places.warehouse), read_table(places.warehouse)
    events = produced_events(places)
    return [counts_so_far(EVENT_COUNTS, events, counts), table_so_far(EVENT_TABLE, events, rows)]


@dataclass(frozen=True, slots=True)
class Acts:
    """All acts on the two jobs."""

    topic: Topic

    @property
    def _servers(self) -> str:
        return self.topic.broker.servers

    def all(self) -> tuple[Act, ...]:
        """Return all acts in their order."""
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
                form=form(self._servers, job, per_trigger=2000, reason="first release"),
                way=Transition.START,
            )
            for job in JOBS
        ]
        return stage.deployer.deploy_all(wanted)

    def _resume_and_hand_off(self, stage: Stage) -> list[StepReport]:
        stage.tell("  event_counts: 1000 records per trigger instead of 2000")
        stage.tell("  event_table: the same, and a new checkpoint is asked for")
        resumed = Asked(
            name="event_counts: resume",
            form=form(self._servers, EVENT_COUNTS, per_trigger=1000, reason="a compatible change"),
            verdict=Verdict.RESUME,
            way=Transition.RESUME,
        )
        new = form(self._servers, EVENT_TABLE, per_trigger=1000, reason="a new checkpoint", strategy="handoff")
        handed_off = Asked(name="event_table: handoff", form=new, way=Transition.HANDOFF)
        return stage.deployer.deploy_all([resumed, handed_off])

    def _restart_broker(self, stage: Stage) -> list[StepReport]:
        began = time.monotonic()
        stage.system.stop_process(BROKER, grace_s=0)
        stage.tell("  the broker is dead")
        self.topic.start_broker()
        stage.tell("  the broker is back")
        behind = wait_until_read(stage.places, lambda: draw_up(stage.places), after="the broker's restart")
        wall_s = round(time.monotonic() - began, 1)
        text = f"both jobs have read all {behind} events that were produced until the broker was back"
        stage.tell(f"[green]broker restart[/]: {text} ({wall_s:.0f} s)")
        return [StepReport(name="broker killed and restarted", outcome="came back", wall_s=wall_s, told=text)]

    def _rebuild(self, stage: Stage) -> list[StepReport]:
        stage.tell(f"  {edit(stage.places, WITH_LARGEST)}")
        asked = Asked(
            name="event_counts: rebuild",
            form=form(self._servers, EVENT_COUNTS, per_trigger=2000, reason="one more aggregate"),
            verdict=Verdict.SWITCH,
            way=Transition.REBUILD,
            meanwhile=answer_about_output(stage, "the ledger tells"),
        )
        return [rebuild_watched(stage, asked, lambda: read_sums(stage.places.warehouse))]
