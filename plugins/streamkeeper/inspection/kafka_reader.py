"""Reads Kafka for a query: which records are missing, which topics were replaced, and how far the query is behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from streamkeeper.checkpoints.trees import Tree
from streamkeeper.inspection import kafka_topics
from streamkeeper.sources.contract import Gap, SourceLook, SourcePosition
from streamkeeper.sources.kafka import Held, KafkaReading, Partition, positions, records_behind, runway_s
from streamkeeper.system import clock

if TYPE_CHECKING:
    from streamkeeper.authoring.definition import Query

_WINDOW = 120
"""The number of checks over which the rate of a topic's deleted records is measured: two hours of checks."""


class KafkaReader:
    """The reader of Kafka's topics for a query, used by code that handles all kinds of sources."""

    def missing(
        self, query: Query, stands: Mapping[str, SourcePosition], ids: Mapping[str, str]
    ) -> dict[str, list[Gap]]:
        """Return, by source and partition, the records from the given positions on that the topics no longer
        contain.
        """
        return kafka_topics.missing(query, stands, ids)

    def identities(self, query: Query, *, timeout_s: float) -> dict[str, str]:
        """Return the id of each Kafka topic that the query reads."""
        return kafka_topics.topic_ids(query, timeout_s=timeout_s)

    def describe_replaced(self, ids: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
        """Return a clause for each topic that was deleted and created anew."""
        return kafka_topics.told_recreated(ids, present)

    def must_be_the_same(self, query: str, ids: Mapping[str, str], present: Mapping[str, str]) -> None:
        """Raise OtherTopic if a topic was deleted and created anew."""
        kafka_topics.must_be_the_same(query, ids, present)

    def reads_all_of(self, query: Query, checkpoint: Tree) -> bool:
        """Whether each Kafka source of the checkpoint still reads all topics that it read at its start."""
        return kafka_topics.reads_all_of(query, checkpoint)

    def watch(self, query: Query, ids: Mapping[str, str], note: Callable[[Mapping[str, str]], None]) -> KafkaWatch:
        """Return an object that monitors the query's topics."""
        return KafkaWatch(query, ids, note)


class KafkaWatch:
    """Monitors the Kafka sources of a query, from one thread."""

    def __init__(self, query: Query, ids: Mapping[str, str], note: Callable[[Mapping[str, str]], None]) -> None:
        """``query``: the query that reads the sources.
        ``ids``: topic -> its id when the query was taken over.
        ``note``: called in each check with the ids of the topics that the check found; not called if the query has
        several Kafka sources.
        """
        self._query, self._ids, self._note = query, ids, note
        self._readings: list[KafkaReading] | None = None
        self._topics: dict[int, _Topics] = {}

    def look(self, number: int, end: str) -> SourceLook:
        """Check a source once, as of its offset ``end``.

        Raises OtherTopic if a topic was deleted and created anew, and SourceOutOfReach if the brokers do not answer.
        """
        needed = positions(end.encode())
        if not needed:
            return SourceLook()
        frame: Any = self._query.df
        if self._readings is None:
            self._readings = list(kafka_topics.kafka_readings(frame._jdf.queryExecution().analyzed()).values())
            self._ids = kafka_topics.of_one_cluster(self._ids, self._readings)
        if number not in self._topics:
            names = {topic for topic, _ in needed}
            reading = next((kept for kept in self._readings if all(map(kept.reads, names))), None)
            if reading is None:
                return SourceLook()
            held = kafka_topics.HeldTopics(frame.sparkSession._jvm, reading)
            # Another source may read a topic of the same name from another cluster.
            note = self._note if len(self._readings) == 1 else None
            self._topics[number] = _Topics(self._query.name, held, self._ids, note)
        return self._topics[number].look(needed)


class _Topics:
    """The offsets of a Kafka source's topics, in this check and in earlier ones."""

    def __init__(
        self,
        query: str,
        held: kafka_topics.HeldTopics,
        ids: Mapping[str, str],
        note: Callable[[Mapping[str, str]], None] | None,
    ) -> None:
        self._query, self._held, self._note = query, held, note
        self._ids = dict(ids)
        """Topic -> its id when the query was taken over, or in the first look that found it."""
        self._seen: deque[Held] = deque(maxlen=_WINDOW)

    def look(self, needed: dict[Partition, int]) -> SourceLook:
        """Check the topics once. Raises OtherTopic if a topic was deleted and created anew since the query was taken
        over.
        """
        ids = self._held.ids(sorted({topic for topic, _ in needed}))
        kafka_topics.must_be_the_same(self._query, self._ids, ids)
        self._ids = ids | self._ids
        if self._note is not None:
            self._note(ids)
        oldest, newest = self._held.ask(needed)
        now = Held(moment=clock.unix(), oldest=oldest, newest=newest)
        self._seen.append(now)
        return SourceLook(lag_records=records_behind(newest, needed), runway_s=runway_s(needed, now, self._seen[0]))
