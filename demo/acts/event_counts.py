"""The acts on the one job of the demos whose broker, table and checkpoints are on servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from psycopg import Connection

from demo.acts.going_back import roll_back
from demo.acts.stage import Act, Stage
from demo.acts.switching import answer_about_output, deploy_watched, rebuild_watched
from demo.deploys import Asked, StepReport
from demo.kafka.jobs import EVENT_COUNTS, WITH_LARGEST, form
from demo.releases import edit
from demo.topic import Topic, produced_events
from harness.ledger import Account
from harness.topic_ledger import counts_so_far, read_counts, read_sums
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.transitions import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCountActs:
    """The acts on the job ``event_counts``. ``database`` contains the job's table, ``conf`` holds the Spark settings of
    all its releases, and the acts in ``between`` are played before the rollback.
    """

    topic: Topic
    database: Connection
    conf: dict[str, str]
    between: tuple[Act, ...] = field(default=())

    def ledger(self) -> list[Account]:
        """Return the current ledger. The output is read before the events, so that every event in the output is already
        recorded.
        """
        counts = read_counts(self.database)
        return [counts_so_far(EVENT_COUNTS, produced_events(self.topic.system.places), counts)]

    def all(self) -> tuple[Act, ...]:
        """Return all acts in their order."""
        return (
            Act("first release", "from the topic's beginning", self._deploy_first),
            Act("resume", "a compatible change, while a reader looks", self._resume),
            Act("rebuild", "one more aggregate: read the topic again, compare, cut over", self._rebuild),
            *self.between,
            Act("rollback", "to the release before the rebuild", partial(roll_back, job=EVENT_COUNTS)),
        )

    def _form(self, *, per_trigger: int, reason: str) -> dict[str, Any]:
        servers = self.topic.broker.servers
        return form(servers, EVENT_COUNTS, per_trigger=per_trigger, reason=reason, conf=self.conf)

    @property
    def _read(self) -> Callable[[], Any]:
        return partial(read_sums, self.database)

    def _deploy_first(self, stage: Stage) -> list[StepReport]:
        wanted = self._form(per_trigger=2000, reason="first release")
        return [stage.deployer.deploy(Asked(name=f"{EVENT_COUNTS}: first release", form=wanted, way=Transition.START))]

    def _resume(self, stage: Stage) -> list[StepReport]:
        stage.tell("  1000 records per trigger instead of 2000")
        asked = Asked(
            name=f"{EVENT_COUNTS}: resume",
            form=self._form(per_trigger=1000, reason="a compatible change"),
            verdict=Verdict.RESUME,
            way=Transition.RESUME,
        )
        return [deploy_watched(stage, asked, self._read)]

    def _rebuild(self, stage: Stage) -> list[StepReport]:
        stage.tell(f"  {edit(stage.places, WITH_LARGEST)}")
        asked = Asked(
            name=f"{EVENT_COUNTS}: rebuild",
            form=self._form(per_trigger=2000, reason="one more aggregate"),
            verdict=Verdict.SWITCH,
            way=Transition.REBUILD,
            meanwhile=answer_about_output(stage, "the ledger tells"),
        )
        return [rebuild_watched(stage, asked, self._read)]
