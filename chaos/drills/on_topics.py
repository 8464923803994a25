"""Drills on a topic of a real Kafka broker: records that retention drops while no driver reads are lost, and must be
reported as lost.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.attacks.attack import DEADLINES, Answer
from chaos.broker_bed import TOPIC, BrokerBed, fresh_broker_bed
from chaos.cases import JOB
from chaos.drills.drill import Drill
from chaos.ledger import audited_ids
from harness.ledger import Account, compare_events
from harness.outputs import read_event_ids
from harness.topic_feed import PARTITIONS, Event, read_events
from harness.topic_ledger import counts_so_far, read_counts
from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.source_starts import stands_at
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.operations.deploys.approval import asked_about
from streamkeeper.registry.objects import read_object
from streamkeeper.sources.kafka import ReadTopics

Ranges = dict[int, tuple[int, int]]
"""Maps a partition to its first missing offset and to the first one after the gap."""
_GONE = re.compile(rf"{TOPIC} partition (\d+): offsets (\d+) to (\d+) are gone")
_SLOWLY = {**DEADLINES, "first_commit_s": 240, "probation_s": 240, "approve_s": 240}
_ASKED_S = 180.0


class TopicDrill(Drill):
    """A drill on a topic; ``dropped`` are the unread offsets that were deleted from the topic, ``lost`` those that were
    announced as lost.
    """

    bed: BrokerBed
    calm_s = 240.0
    queries = ("counts", "copies", "audit")
    haste = tuple(word for name, value in _SLOWLY.items() for word in (f"--{name.replace('_', '-')}", str(value)))

    def __init__(self, bed: BrokerBed, seed: int, off: str = "") -> None:
        super().__init__(bed, seed, off)
        self.dropped: Ranges = {}
        self.lost: Ranges = {}
        self._passes_over = False

    def params(self) -> dict[str, object]:
        """Return the params of a new release."""
        self._release += 1
        return {
            "servers": self.bed.broker.client.servers,
            "topic": TOPIC,
            "output": str(self.output),
            "trigger": f"{900 + self._release} milliseconds",
            "passes_over": self._passes_over,
        }

    def accounts(self) -> list[Account]:
        """Return one account per query, over all events that were sent except those announced as lost."""
        events = without(read_events(self.bed.sent), self.lost)
        ids = [each.event_id for each in events]
        return [
            counts_so_far("counts", events, read_counts(self.output / "warehouse.db")).closed,
            compare_events("copies", ids, read_event_ids(self.output / "copies")),
            compare_events("audit", ids, audited_ids(self.output)),
        ]

    def look(self) -> list[str]:
        """Return everything that is wrong, once the broker has all events that were sent."""
        self.bed.stop_producer()
        self.bed.check_delivered()
        return super().look() + self.bed.unclear

    def recover(self, action: str) -> None:
        """Deploy a release that skips the missing offsets, approve the loss that it announces, and deploy the usual
        release.
        """
        self._passes_over = True
        before = set(self.state().operations)
        # The deploy waits for its answer: it is asked from beside it.
        words = ("deploy", JOB, "--params", json.dumps(self.params()), "--reason", "drill", *self.haste)
        program = self.bed.program(*words)
        with subprocess.Popen(
            program, env=self.bed.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as deploy:
            try:
                wait_for("a question", lambda: self._asked(before) or deploy.poll() is not None, timeout_s=_ASKED_S)
                if deploy.poll() is None:
                    self._answer(before)
                out, err = deploy.communicate(timeout=400)
            finally:
                deploy.kill()
        self.must(Answer(program, deploy.returncode, out, err))
        self._passes_over = False
        self.must(self.ask())

    def _asked(self, before: set[str]) -> bool:
        opened = self.state().open_operation
        return opened is not None and opened.operation not in before and asked_about(opened) is not None

    def _answer(self, before: set[str]) -> None:
        opened = self.state().open_operation
        assert opened is not None
        self.must(self.run("question", JOB, opened.operation))
        report = read_object(self.bed.installation.store, JOB, "reports", opened.report, ".json")
        for query, each in from_json(report, Assessment, where="the report").queries.items():
            told = [found.evidence for found in each.findings if found.rule == "source-offsets-passed-over"]
            gone = [tuple(map(int, found)) for found in _GONE.findall("; ".join(told))]
            self.announced += [f"{query}: {TOPIC} {number}: {first} to {last} lost" for number, first, last in gone]
            self.lost = {number: (first, last + 1) for number, first, last in gone}
            if self.lost != self.dropped:
                self.damage.append(f"lost is {self.dropped}, and of {query} it announces {gone}")
        self.must(self.run("approve", JOB, opened.operation, "--reason", "what is lost is lost"))


def without(events: list[Event], lost: Ranges) -> list[Event]:
    """Return the events whose offsets are not lost; events are in the order in which they were sent, which is also the
    order in each partition.
    """
    following = dict.fromkeys(range(PARTITIONS), 0)
    kept = []
    for each in events:
        offset = following[each.partition]
        following[each.partition] += 1
        first, end = lost.get(each.partition, (0, 0))
        if not first <= offset < end:
            kept.append(each)
    return kept


def retention_past(drill: Drill, chance: random.Random) -> None:
    """Delete the next unread records of the topic, and possibly more, while its driver is down; the watch must detect
    it when it starts the driver.
    """
    assert isinstance(drill, TopicDrill)
    drill.kill()
    drill.feed(3.0)
    drill.bed.stop_producer()
    checkpoint = drill.checkpoint("counts")
    (position,) = stands_at(LocalTree(checkpoint), last_committed(LocalTree(checkpoint))).values()
    assert isinstance(position, ReadTopics)
    for partition, following in sorted(position.known[TOPIC].items()):
        _, end = drill.bed.broker.client.range_of(TOPIC, partition=partition)
        oldest = chance.randint(following + 1, end)
        drill.bed.broker.client.delete_records(TOPIC, oldest, partition=partition)
        drill.dropped[partition] = (following, oldest)
    drill.did.append(f"the topic drops {drill.dropped}")
    drill.name_the_cause(("source-offset-lost",))
    drill.diagnose(("source-offset-lost",))
    if "failOnDataLoss=false" not in drill.told[-1]:
        drill.damage.append("the diagnosis does not say how to go on")


@contextmanager
def on_a_topic(root: Path, seed: int, off: str) -> Iterator[Drill]:
    """Provide a drill on an installation that reads a topic of a broker of its own."""
    with fresh_broker_bed(root) as bed:
        yield TopicDrill(bed, seed, off)
