"""One case of a switch, a handoff, a rollback or a resume during which the Kafka broker or another process is killed or
frozen.
"""

from __future__ import annotations

import random
import signal
import threading
from functools import partial
from pathlib import Path

import msgspec

from chaos.broker_bed import TOPIC, BrokerBed
from chaos.cases import CaseResult, signal_somebody
from chaos.ledger import audited_ids
from chaos.scenarios import Ask, Scenario
from chaos.striking import names_of, running_after
from chaos.switching import SwitchStage
from chaos.watching import Watch, sum_in_file
from harness.ledger import Account, compare_events
from harness.outputs import read_event_ids
from harness.topic_feed import read_events
from harness.topic_ledger import counts_so_far, read_counts
from streamkeeper.model.records.step import Step

AWAY_S = (2.0, 20.0)
LONG_AWAY_S = (8.0, 20.0)
"""Seconds for which the broker is down at a named step: long enough to affect whatever runs there."""


class HandOff(Ask, frozen=True, kw_only=True):
    """A deploy in which only ``copies`` changes, which has no state."""

    @property
    def sentence(self) -> str:
        return "deploy (handoff)"


class BrokerResult(CaseResult, frozen=True, kw_only=True):
    """The result of a case; ``told`` contains the final sentence of each of its operations."""

    told: list[str]


class BrokerStage(SwitchStage):
    """An installation that reads a topic of a broker which goes down and comes back."""

    bed: BrokerBed
    calm_s = 240.0
    scenarios = {
        "switch": Scenario(ask=Ask(reshape=True)),
        "handoff": Scenario(ask=HandOff()),
        "return": Scenario(ask=Ask(rollback=True), before=Ask(reshape=True)),
        "resume": Scenario(ask=Ask()),
    }
    drawn = tuple(scenarios)
    haste = ("--drain-s", "20", "--first-commit-s", "240", "--probation-batches", "4", "--probation-s", "240")
    patience = ("--catch-up-s", "400", "--approve-s", "240")

    def play(self, case: str) -> BrokerResult:
        """Run ``broker/kill@STEP+freeze@STEP…`` or ``seed:N``."""
        self.start()
        before = len(self.state().operations)
        self.bed.unclear.clear()
        result = super().play(case)
        told = [each.sentence for each in list(self.state().operations.values())[before:]]
        fields = msgspec.structs.asdict(result)
        return BrokerResult(**{**fields, "damage": [*result.damage, *self.bed.unclear], "told": told})

    def look(self) -> list[str]:
        """Return everything that is wrong once the outputs have had time to catch up; raises RuntimeError when the
        broker is not back.
        """
        self.bed.stop_producer()
        self.bed.check_delivered()
        return super().look()

    def accounts(self) -> list[Account]:
        """Return one account per query, over all events that were sent."""
        return read_topic_accounts(self.bed.sent, self.output)

    def _watch(self) -> Watch:
        return Watch(partial(sum_in_file, self.output / "warehouse.db", "event_counts", "events"))

    def _params_of(self, ask: Ask) -> dict[str, object]:
        now = self.state()
        serving = now.releases[now.serving_release].content.params if now.serving_release else {}
        return {
            "servers": self.bed.broker.client.servers,
            "topic": TOPIC,
            "output": str(self.output),
            "trigger": self.next_trigger(),
            "shape": int(serving.get("shape", 0) or 0) + ask.reshape,
            "layout": int(serving.get("layout", 0) or 0) + (ask.reshape or isinstance(ask, HandOff)),
        }

    def _act(self, case: str) -> tuple[list[str], list[str]]:
        if case.startswith("seed:"):
            return self._at_random_in(int(case.removeprefix("seed:")), "")
        return self._at_steps(names_of(case), self._end_broker)

    def _end_broker(self, name: str) -> bool:
        how, _, step = name.removeprefix("broker/").partition("@")
        # A candidate asks the broker nothing until it is described; it rehearses then.
        if step == Step.STANDBY.label and not self._is_described():
            return False
        self._take_away(how, random.Random(name).uniform(*LONG_AWAY_S), step)
        return True

    def _kill_around_in(
        self, chance: random.Random, hits: list[str], over: threading.Event, most: int, within_s: float
    ) -> None:
        """Strike at random times only: the loss of a broker may do harm in any step."""
        before = len(self.state().operations)
        for number in range(chance.randint(1, 3)):
            if over.wait(chance.uniform(0.5, 20.0)):
                return
            broker, how, away_s = chance.random() < 0.5, chance.choice(["kill", "freeze"]), chance.uniform(*AWAY_S)
            if broker or number == 0:
                running = running_after(self.state(), before)
                at = running.label if running is not None else "no step"
                hits.append(f"broker/{how}@{at}")
                self._take_away(how, away_s, at)
            else:
                sent = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
                signal_somebody(chance, self._victims(), sent, chance.uniform(1.0, 8.0), hits)

    def _take_away(self, how: str, away_s: float, at: str) -> None:
        """Take the broker down for this many seconds; it answers when this returns."""
        print(f"    broker/{how}@{at} for {away_s:.0f} s", flush=True)
        if how == "kill":
            self.bed.broker.die_for(away_s)
        else:
            self.bed.broker.freeze_for(away_s)

    def _is_described(self) -> bool:
        state = self.state()
        operation = state.open_operation
        return operation is not None and operation.release in state.described


def read_topic_accounts(sent: Path, output: Path) -> list[Account]:
    """Return one account per query, over all events that were sent."""
    events = read_events(sent)
    ids = [each.event_id for each in events]
    return [
        counts_so_far("counts", events, read_counts(output / "warehouse.db")).closed,
        compare_events("copies", ids, read_event_ids(output / "copies")),
        compare_events("audit", ids, audited_ids(output)),
    ]
