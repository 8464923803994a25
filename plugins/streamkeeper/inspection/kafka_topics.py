"""Finds the records that Kafka no longer has of the topics that a query reads, using the query's own Kafka options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from streamkeeper.checkpoints.source_starts import stands_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import OtherTopic, SourceOutOfReach
from streamkeeper.inspection.plan_sources import readers_in
from streamkeeper.sources.contract import Gap, SourcePosition, recreated
from streamkeeper.sources.kafka import KAFKA, KafkaReading, ReadTopics, kafka_reading

if TYPE_CHECKING:
    from streamkeeper.authoring.definition import Query

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the next offset to read."""

_RECREATED_HINT = "start the job; a person is then asked whether the topic's first records may be skipped"
_PATIENCE_S = 20
_TIMEOUT_S = 15.0
"""How long a call waits for the brokers of a source, if its caller sets no other time."""
_CLIENT = {
    "client.id": "streamkeeper-look",
    # A dead broker among several would otherwise use up the whole time of a call.
    "socket.connection.setup.timeout.ms": "1500",
    "socket.connection.setup.timeout.max.ms": "3000",
}
_PASSING = frozenset({"RetriableException", "TimeoutException"})
"""Classes of errors of Kafka's clients after which the same call may succeed, including a lost connection."""


def kafka_readings(analyzed: Any) -> dict[str, KafkaReading]:
    """Return how each Kafka source reads Kafka, by the source's name in the offset log. Other sources are left out."""
    readers = readers_in(analyzed).items()
    return {name: kafka_reading(options) for name, (form, options) in readers if form.lower() == KAFKA.name}


def missing(query: Query, stands: Mapping[str, SourcePosition], ids: Mapping[str, str]) -> dict[str, list[Gap]]:
    """Return, by source and partition, the records from the given positions on that the topics no longer contain.

    A source without missing records is left out. ``stands``: position by the source's name, of every kind of source;
    ``ids``: topic -> id of the topic to which the offsets belong; a topic with another id contains none of the records.
    Raises SourceOutOfReach if the brokers do not answer.
    """
    needed = _topics_in(stands)
    if not any(needed.values()):
        return {}
    frame: Any = query.df
    readings = kafka_readings(frame._jdf.queryExecution().analyzed())
    found = {}
    for name, positions in needed.items():
        reading = readings.get(name)
        # Topics that the query no longer reads are covered by the rules about sources.
        wanted = {
            topic: partitions for topic, partitions in positions.items() if reading is not None and reading.reads(topic)
        }
        if reading is not None and wanted and (gaps := list(_compare(frame.sparkSession._jvm, reading, wanted, ids))):
            found[name] = gaps
    return found


def topic_ids(query: Query, *, timeout_s: float = _TIMEOUT_S) -> dict[str, str]:
    """Return the id of each Kafka topic that the query reads.

    A topic that was deleted and created anew has another id. Left out are two topics of one name in two clusters,
    topics of brokers that assign no ids (before Kafka 2.8), and topics matched by a pattern that only Java can read.
    Raises SourceOutOfReach if the brokers do not answer. ``timeout_s``: how long to wait for the brokers of each
    source.
    """
    frame: Any = query.df
    found: dict[str, set[str]] = {}
    for reading in kafka_readings(frame._jdf.queryExecution().analyzed()).values():
        with suppress(re.error):
            for topic, identity in _listed(frame.sparkSession._jvm, reading, timeout_s):
                if reading.reads(topic) and identity != _NO_ID:
                    found.setdefault(topic, set()).add(identity)
    return {topic: identities.pop() for topic, identities in sorted(found.items()) if len(identities) == 1}


def of_one_cluster(ids: Mapping[str, str], readings: Iterable[KafkaReading]) -> dict[str, str]:
    """Return the ids of those topics that the query reads from one cluster only. A name that occurs in two clusters
    belongs to two topics with different ids, and is left out.

    ``ids``: topic -> its id; ``readings``: all Kafka sources of the query.
    """
    every = list(readings)

    def servers(topic: str) -> set[str]:
        return {each.clients.get("bootstrap.servers", "") for each in every if _may_read(each, topic)}

    return {topic: identity for topic, identity in ids.items() if len(servers(topic)) <= 1}


def _may_read(reading: KafkaReading, topic: str) -> bool:
    try:
        return reading.reads(topic)
    except re.error:
        return True


def must_be_the_same(query: str, offsets_of: Mapping[str, str], ids: Mapping[str, str]) -> None:
    """Raise OtherTopic if a topic was deleted and created anew since the query read it.

    ``query``: the query, for the error; ``offsets_of``: topic -> id of the topic to which the checkpoint's offsets
    belong; ``ids``: topic -> its id now.
    """
    if others := recreated(offsets_of, ids):
        raise OtherTopic(f"query {query} cannot continue: {_told_recreated(others[0])}", hint=_RECREATED_HINT)


def told_recreated(offsets_of: Mapping[str, str], ids: Mapping[str, str]) -> list[str]:
    """Return a clause for each topic that was deleted and created anew, as determined by ``recreated``."""
    return list(map(_told_recreated, recreated(offsets_of, ids)))


def reads_all_of(query: Query, checkpoint: Tree) -> bool:
    """Whether the query has all Kafka sources of the checkpoint, and each source still reads all topics that it read at
    its start.
    """
    began = _topics_in(stands_at(checkpoint.fresh(), None))
    frame: Any = query.df
    readings = kafka_readings(frame._jdf.queryExecution().analyzed()) if began else {}
    return all(name in readings and all(map(readings[name].reads, topics)) for name, topics in began.items())


class HeldTopics:
    """A client for the topics of one Kafka source that stays open between calls. Use each client from one
    thread only.
    """

    def __init__(self, jvm: Any, reading: KafkaReading) -> None:
        self._jvm = jvm
        self._reading = reading
        self._admin: Any = None
        self._asked: frozenset[tuple[str, int]] = frozenset()
        self._requests: tuple[Any, Any] | None = None

    def ask(self, partitions: Iterable[tuple[str, int]]) -> tuple[dict[tuple[str, int], int], ...]:
        """Return two mappings by partition: one to the oldest offset that the partition still contains, one to the
        partition's next offset.

        Raises SourceOutOfReach if the brokers do not answer.
        """
        from py4j.protocol import Py4JJavaError

        wanted = frozenset(partitions)
        try:
            if self._admin is None:
                self._admin = _client(self._jvm, self._reading)
            if wanted != self._asked or self._requests is None:
                self._requests, self._asked = self._ask_for(wanted), wanted
            return tuple(self._offsets(request) for request in self._requests)
        except Py4JJavaError as error:
            self.close()
            raise _no_answer(self._reading, error) from error

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return topic -> its id. Raises SourceOutOfReach if the brokers do not answer."""
        from py4j.protocol import Py4JJavaError

        try:
            if self._admin is None:
                self._admin = _client(self._jvm, self._reading)
            found = {topic: _describe(self._jvm, self._admin, topic) for topic in topics}
        except Py4JJavaError as error:
            self.close()
            raise _no_answer(self._reading, error) from error
        return {
            topic: topic_state[1]
            for topic, topic_state in found.items()
            if topic_state is not None and topic_state[1] != _NO_ID
        }

    def close(self) -> None:
        """Close the client. An open client logs several lines per second while the brokers do not answer."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _ask_for(self, wanted: Iterable[tuple[str, int]]) -> tuple[Any, Any]:
        keys = [self._jvm.org.apache.kafka.common.TopicPartition(topic, number) for topic, number in wanted]
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        oldest, newest = spec.earliest(), spec.latest()
        return _map(self._jvm, dict.fromkeys(keys, oldest)), _map(self._jvm, dict.fromkeys(keys, newest))

    def _offsets(self, request: Any) -> dict[tuple[str, int], int]:
        # Read as one text: a topic may have hundreds of partitions, and asking the JVM for each value would be slow.
        text = str(_answer(self._jvm, self._admin.listOffsets(request).all()).toString())
        return {(topic, int(number)): int(offset) for topic, number, offset in _LISTED.findall(text)}


_NO_ID = "A" * 22
"""The id that all topics have on a broker that assigns no ids."""
_TOPIC = re.compile(r"\(name=([\w.-]+), topicId=([\w-]+), internal=")
_LISTED = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")


def _topics_in(positions: Mapping[str, SourcePosition]) -> dict[str, Positions]:
    return {name: position.known for name, position in positions.items() if isinstance(position, ReadTopics)}


def _compare(jvm: Any, reading: KafkaReading, needed: Positions, ids: Mapping[str, str]) -> Iterator[Gap]:
    with _admin(jvm, reading) as admin:
        yield from _gaps(jvm, admin, needed, ids, passes_over=reading.passes_over)


@contextmanager
def _admin(jvm: Any, reading: KafkaReading, timeout_s: float = _TIMEOUT_S) -> Iterator[Any]:
    """Yield a client for the topics of a source. Raises SourceOutOfReach if the brokers do not answer."""
    from py4j.protocol import Py4JJavaError

    try:
        admin = _client(jvm, reading, timeout_s)
        try:
            yield admin
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(1))
    except Py4JJavaError as error:
        raise _no_answer(reading, error) from error


def _client(jvm: Any, reading: KafkaReading, timeout_s: float = _TIMEOUT_S) -> Any:
    whole_ms, each_ms = str(int(1000 * timeout_s)), str(int(min(10_000, 1000 * timeout_s)))
    options = {**reading.clients, **_CLIENT, "default.api.timeout.ms": whole_ms, "request.timeout.ms": each_ms}
    return jvm.org.apache.kafka.clients.admin.AdminClient.create(_map(jvm, options))


def _no_answer(reading: KafkaReading, error: Any) -> SourceOutOfReach:
    kinds, kind = [], _cause(error).getClass()
    while kind is not None:
        kinds.append(kind.getSimpleName())
        kind = kind.getSuperclass()
    return SourceOutOfReach(
        f"Kafka at {reading.clients.get('bootstrap.servers', '')} does not answer: {_told(error)}",
        passing=not _PASSING.isdisjoint(kinds),
        kind=KAFKA.name,
    )


def _gaps(jvm: Any, admin: Any, needed: Positions, ids: Mapping[str, str], *, passes_over: bool) -> Iterator[Gap]:
    there: list[tuple[str, int, int]] = []
    for topic, partitions in sorted(needed.items()):
        described = _describe(jvm, admin, topic)
        if described is None:
            yield Gap(f"topic {topic} does not exist")
            continue
        count, identity = described
        if identity != _NO_ID and recreated(ids, {topic: identity}):
            yield Gap(_told_recreated(topic), again=True)
        for partition, offset in sorted(partitions.items()):
            if partition < count:
                there.append((topic, partition, offset))
            else:
                yield Gap(f"{topic} has no partition {partition}")
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    oldest = _offsets(jvm, admin, there, spec.earliest())
    newest = _offsets(jvm, admin, there, spec.latest())
    for (topic, partition, offset), first, end in zip(there, oldest, newest, strict=True):
        if first > offset:
            sentence = f"{topic} partition {partition}: offsets {offset} to {first - 1} are gone"
            yield Gap(sentence, dropped=True, passed_over=passes_over)
        elif end < offset:
            yield Gap(f"{topic} partition {partition}: it ends at {end}, before {offset}: the topic was recreated")


def _told_recreated(topic: str) -> str:
    return f"topic {topic} was deleted and created again, so the checkpoint's offsets do not belong to its records"


def _listed(jvm: Any, reading: KafkaReading, timeout_s: float) -> list[tuple[str, str]]:
    """Return name and id of every topic that the source's user may see."""
    with _admin(jvm, reading, timeout_s) as admin:
        # Read as one text: asking the JVM for each of a thousand topics would be slow.
        return _TOPIC.findall(str(_answer(jvm, admin.listTopics().listings()).toString()))


def _describe(jvm: Any, admin: Any, topic: str) -> tuple[int, str] | None:
    """Return the number of partitions of a topic, and its id; None if the topic does not exist."""
    from py4j.protocol import Py4JJavaError

    try:
        asked = admin.describeTopics(_list(jvm, [topic])).topicNameValues().get(topic)
        described = _answer(jvm, asked)
        return int(described.partitions().size()), str(described.topicId().toString())
    except Py4JJavaError as error:
        if _cause(error).getClass().getSimpleName() == "UnknownTopicOrPartitionException":
            return None
        raise


def _offsets(jvm: Any, admin: Any, there: list[tuple[str, int, int]], spec: Any) -> list[int]:
    if not there:
        return []
    keys = [jvm.org.apache.kafka.common.TopicPartition(topic, partition) for topic, partition, _ in there]
    found = admin.listOffsets(_map(jvm, dict.fromkeys(keys, spec)))
    return [int(_answer(jvm, found.partitionResult(key)).offset()) for key in keys]


def _answer(jvm: Any, future: Any) -> Any:
    return future.get(_PATIENCE_S, jvm.java.util.concurrent.TimeUnit.SECONDS)


def _cause(error: Any) -> Any:
    raised = error.java_exception
    return raised.getCause() or raised


def _told(error: Any) -> str:
    cause = _cause(error)
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"


def _map(jvm: Any, values: Mapping[Any, Any]) -> Any:
    found = jvm.java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found


def _list(jvm: Any, values: list[str]) -> Any:
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found
