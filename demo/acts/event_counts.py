"""The acts on the one job of the demos whose broker, table and checkpoints are on servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from demo.acts.going_back import roll_back
from demo.acts.stage import Act, ActReport, Stage
from demo.acts.switching import answer_about_output, deploy_watched, rebuild_watched
from demo.deploys import Asked, StepReport
from demo.kafka.jobs import EVENT_COUNTS, WITH_LARGEST, form
from demo.playing import play_all, settle
from demo.releases import Edit, edit
from demo.sampler import Read
from demo.show import Screen
from demo.topic import Topic, produced_events
from harness.ledger import Account
from harness.topic_ledger import Counts, counts_so_far
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.transitions import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCountActs:
    """The acts on the job ``event_counts``."""

    topic: Topic
    conf: dict[str, str]
    """The Spark settings of all releases."""
    counts: Callable[[], Counts]
    """Reads the job's table."""
    sums: Read
    """Reads the table summed by customer, so often that a reader can poll it."""
    params: dict[str, str] = field(default_factory=dict)
    """Params of all releases, besides those of every form."""
    per_trigger: int = 2000
    """The most records per batch; the resume halves it."""
    larger: Edit = WITH_LARGEST
    """The edit that needs a rebuild."""

    def ledger(self) -> list[Account]:
        """Return the current ledger. The output is read before the events, so that every event in the output is already
        recorded.
        """
        counts = self.counts()
        return [counts_so_far(EVENT_COUNTS, produced_events(self.topic.system.places), counts)]

    @property
    def begin(self) -> tuple[Act, ...]:
        """The first acts, in their order."""
        return (
            Act("first release", "from the topic's beginning", self._deploy_first),
            Act("resume", "a compatible change, while a reader looks", self._resume),
            Act("rebuild", "one more aggregate: read the topic again, compare, cut over", self._rebuild),
        )

    def play(self, stage: Stage, acts: Sequence[Act], screen: Screen) -> tuple[list[ActReport], list[Account]]:
        """Play the acts, then stop the feed and the job; return the reports of the acts and the final accounts."""
        reports = play_all(stage, acts, self.ledger, screen)
        screen.tell("no more events; the job reads what is left")
        self.topic.stop_feed()
        return reports, settle(stage.system, (EVENT_COUNTS,), self.ledger, screen)

    @property
    def rollback(self) -> Act:
        """The act that goes back to the release before the rebuild."""
        return Act("rollback", "to the release before the rebuild", partial(roll_back, job=EVENT_COUNTS))

    def form(self, *, reason: str, per_trigger: int = 0) -> dict[str, Any]:
        """Return the values of the trigger form for a deploy. ``per_trigger``: 0 for that of the other releases."""
        servers, most = self.topic.broker.servers, per_trigger or self.per_trigger
        filled = form(servers, EVENT_COUNTS, per_trigger=most, reason=reason, conf=self.conf)
        return {**filled, "params": {**filled["params"], **self.params}}

    def _deploy_first(self, stage: Stage) -> list[StepReport]:
        wanted = self.form(reason="first release")
        return [stage.deployer.deploy(Asked(name=f"{EVENT_COUNTS}: first release", form=wanted, way=Transition.START))]

    def _resume(self, stage: Stage) -> list[StepReport]:
        most = self.per_trigger // 2
        stage.tell(f"  {most} records per trigger instead of {self.per_trigger}")
        asked = Asked(
            name=f"{EVENT_COUNTS}: resume",
            form=self.form(per_trigger=most, reason="a compatible change"),
            verdict=Verdict.RESUME,
            way=Transition.RESUME,
        )
        return [deploy_watched(stage, asked, self.sums)]

    def _rebuild(self, stage: Stage) -> list[StepReport]:
        stage.tell(f"  {edit(stage.places, self.larger)}")
        asked = Asked(
            name=f"{EVENT_COUNTS}: rebuild",
            form=self.form(reason="one more aggregate"),
            verdict=Verdict.SWITCH,
            way=Transition.REBUILD,
            meanwhile=answer_about_output(stage, "the ledger tells"),
        )
        return [rebuild_watched(stage, asked, self.sums)]
