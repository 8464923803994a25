"""Kafka. A place is a choice of topics: ``subscribe a,b``, ``subscribepattern a.*`` or ``assign {"a": [0]}``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from streamkeeper.model.coding import decoder_of, json_object, parse_json
from streamkeeper.model.manifests.manifest import Source
from streamkeeper.sources.contract import (
    OptionEffect,
    PlaceChange,
    SourceKind,
    SourcePosition,
    SourcePromise,
    SourceReach,
    count,
)
from streamkeeper.sources.kafka_errors import KAFKA_ERRORS
from streamkeeper.sources.option_sentences import KAFKA_OPTIONS

_BROKERS = "kafka.bootstrap.servers"
_CLIENTS = "kafka."
_START = b"\0v1\n"
_MOST_PARTITIONS = 3
_LISTED = "assign"
"""The option that lists single partitions; the other options select topics with all their partitions."""
_TOPICS = ("subscribe", "subscribepattern", _LISTED)

STEADY_S = 600.0
"""Seconds over which a source's deletions are averaged at least, because Kafka deletes one segment at a time."""

Partition = tuple[str, int]
"""Topic and partition number."""
Partitions = dict[str, dict[str, int]]
"""Topic -> partition -> offset."""


class ReadTopics(SourcePosition, frozen=True, tag="kafka"):
    """The next offset of each partition of a Kafka source. ``starts``: the offsets at which the source started; empty
    if the checkpoint does not record them.
    """

    offsets: Partitions
    starts: Partitions = {}

    @property
    def form(self) -> str:
        """The same text for all topics."""
        return "Kafka"

    @property
    def known(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> offset, without the offsets -1 and -2, which mean the newest and the oldest offset at
        the time of reading.
        """
        return {
            topic: {int(partition): offset for partition, offset in partitions.items() if offset >= 0}
            for topic, partitions in self.offsets.items()
        }

    @property
    def places(self) -> frozenset[str]:
        """The topics that have an offset of their own."""
        return frozenset(topic for topic, partitions in self.known.items() if partitions)

    def beginning(self) -> SourcePosition | None:
        """Return a position without a partition."""
        return ReadTopics({})

    def is_same(self, other: SourcePosition) -> bool:
        """Whether the offsets are equal, regardless of where the source started."""
        return isinstance(other, ReadTopics) and self.offsets == other.offsets

    def compare(self, source: str, new: SourcePosition) -> SourceReach | None:
        """Compare the offsets of each partition."""
        assert isinstance(new, ReadTopics)
        missing = ahead = total = 0
        texts = []
        for topic, partitions in self.offsets.items():
            to_go = reached = 0
            for partition, end in partitions.items():
                began = _at(new.starts, topic, partition, _at(self.starts, topic, partition, 0))
                offset = _at(new.offsets, topic, partition, min(began, end))
                to_go += max(0, end - offset)
                ahead += max(0, offset - end)
                total += max(0, end - min(began, offset))
                reached += offset >= end
            missing += to_go
            rest = f", {count(to_go, 'records')} to go" if to_go else ""
            texts.append(f"topic {topic}: {reached} of {count(len(partitions), 'partitions')}{rest}")
        for topic, partitions in new.offsets.items():
            fresh = partitions.keys() - self.offsets.get(topic, {}).keys()
            ahead += sum(max(0, partitions[partition] - _at(new.starts, topic, partition, 0)) for partition in fresh)
        line = "; ".join(texts) or f"source {source}: no offsets were read"
        return SourceReach(source=source, unit="records", missing=missing, ahead=ahead, total=total, text=line)

    def before(self, end: SourcePosition) -> SourcePosition:
        """Return, for each partition from which the batch that ends at ``end`` reads a record, the first offset."""
        ends = end.known if isinstance(end, ReadTopics) else {}
        found = {}
        for topic, partitions in self.known.items():
            there = ends.get(topic, {})
            read = {
                str(partition): offset
                for partition, offset in partitions.items()
                if offset < there.get(partition, offset)
            }
            if read:
                found[topic] = read
        return ReadTopics(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kafka(SourceKind):
    """Topics of a cluster of brokers. The location of a source is ``topics@brokers``."""

    def effect_of(self, option: str) -> OptionEffect | None:
        """Return what a change of this option affects. An option of Kafka's clients counts as upkeep unless it is
        declared otherwise.
        """
        return self.option_effects.get(option, OptionEffect.UPKEEP if option.startswith(_CLIENTS) else None)

    def defaults(self, form: str) -> Mapping[str, str]:
        """Return the same defaults for all formats."""
        return {"includeheaders": "false", "kafka.isolation.level": "read_uncommitted"}

    def location(self, options: Mapping[str, str]) -> str:
        """Return ``topics@brokers``."""
        topics = ", ".join(f"{key} {options[key]}" for key in _TOPICS if key in options)
        if not topics and _BROKERS not in options:
            return super().location(options)
        return f"{topics}@{options.get(_BROKERS, '')}"

    def place(self, source: Source) -> str:
        """Return only the topics, because the brokers' addresses may change although the cluster stays the same."""
        topics, separator, _ = source.location.rpartition("@")
        return topics if separator else source.location

    def place_change(self, before: Source, after: Source) -> PlaceChange:
        """Compare the places. The same topics at another address of the same cluster keep their offsets."""
        was, now = self.place(before), self.place(after)
        if was != now and after.catches_up:
            return PlaceChange.FIXED if now.startswith(_LISTED) else PlaceChange.RENAMED
        if was != now and _keeps_topics(was, now):
            return PlaceChange.WIDENED
        return super().place_change(before, after)

    def asks_the_checkpoint(self, before: Source, after: Source) -> bool:
        """Whether the brokers are the same, and the names of the topics do not show that every topic read so far is
        still read.
        """
        was, now = self.place(before), self.place(after)
        return _brokers(before) == _brokers(after) and was != now and not _keeps_topics(was, now)

    def fails_on_loss(self, source: Source) -> bool:
        """Whether the option ``failOnDataLoss``, which makes Spark fail when data is lost, is on."""
        return source.options.get("failondataloss", "true").lower() != "false"

    def has_offset(self, offset: str) -> bool:
        """Whether the offset is a mapping of topics to positions in partitions."""
        return self.offset_line(offset) is not None

    def offset_line(self, offset: str) -> str | None:
        """Return an offset in the form of ``startingOffsets``.

        Spark's offsets are exclusive ends: topic -> partition -> the next offset to read.
        """
        found = json_object(offset)
        if not found or not all(
            isinstance(partitions, dict) and partitions and _are_positions(partitions) for partitions in found.values()
        ):
            return None
        return json.dumps(found, separators=(",", ":"))

    def position(self, offset: str, start: str | None) -> SourcePosition:
        """Return the offsets of all partitions."""
        return ReadTopics(parse_json(offset), parse_json(start) if start else {})

    def position_key(self, offset: str) -> str:
        """Return the offsets with sorted topics and partitions."""
        return json.dumps(parse_json(offset), sort_keys=True)

    def start_in(self, content: bytes) -> str | None:
        """Decode the file of Spark's ``KafkaSourceInitialOffsetWriter``."""
        if not content.startswith(_START):
            return None
        try:
            return self.offset_line(content[len(_START) :].decode())
        except UnicodeDecodeError:
            return None

    def start_content(self, offset: str) -> bytes:
        """Encode the file of Spark's ``KafkaSourceInitialOffsetWriter``."""
        return _START + offset.encode()

    def reads_on(self, position: SourcePosition, place: str) -> bool:
        """Whether the subscription ``place`` covers every partition for which the position has an offset."""
        known = position.known if isinstance(position, ReadTopics) else {}
        return bool(known) and all(reads(place, topic, set(partitions)) for topic, partitions in known.items())

    def lag(self, end: bytes, newest: bytes) -> int | None:
        """Return the number of records after the batch, summed over the partitions of its end offset."""
        try:
            ends, there = _POSITIONS.decode(end), _POSITIONS.decode(newest)
        except msgspec.DecodeError:
            return None
        lag = 0
        for topic, partitions in ends.items():
            known = there.get(topic, {})
            lag += sum(max(0, known.get(number, offset) - offset) for number, offset in partitions.items())
        return lag

    def describe_input(self, start: str | None, end: str) -> str:
        """Return text such as ``events/0 from offset 5 to 9``; Spark's end offsets are exclusive."""
        begun = parse_json(start) if start is not None and self.has_offset(start) else {}
        ranges = []
        for topic, partitions in parse_json(end).items():
            for partition, next_offset in partitions.items():
                first = begun.get(topic, {}).get(partition)
                if first != next_offset:
                    since = "" if first is None else f" from offset {first}"
                    ranges.append(f"{topic}/{partition}{since} to {next_offset - 1}")
        more = f" and {len(ranges) - _MOST_PARTITIONS} more" if len(ranges) > _MOST_PARTITIONS else ""
        return ", ".join(ranges[:_MOST_PARTITIONS]) + more


KAFKA = Kafka(
    name="kafka",
    promise=SourcePromise(
        kind="kafka", replays=True, holds_until="retention or compaction removes the offsets, or the topic is deleted"
    ),
    of_spark=True,
    connectors="kafka",
    connectors_hint="fetch Kafka's jars with `make connectors`, or set STREAMKEEPER_JARS to a directory that contains"
    " them",
    place_options=frozenset({_BROKERS, *_TOPICS}),
    limits=frozenset(
        {"maxoffsetspertrigger", "maxrecordsperpartition", "maxtriggerdelay", "minoffsetspertrigger", "minpartitions"}
    ),
    option_effects={
        "endingoffsets": OptionEffect.START,
        "startingoffsets": OptionEffect.START,
        "startingoffsetsbytimestamp": OptionEffect.START,
        "startingtimestamp": OptionEffect.START,
        "failondataloss": OptionEffect.UPKEEP,
        "fetchoffset.numretries": OptionEffect.UPKEEP,
        "fetchoffset.retryintervalms": OptionEffect.UPKEEP,
        "groupidprefix": OptionEffect.UPKEEP,
        # It adds a column, which the rules about columns report.
        "includeheaders": OptionEffect.UPKEEP,
        "kafkaconsumer.polltimeoutms": OptionEffect.UPKEEP,
        "kafka.isolation.level": OptionEffect.ROWS,
    },
    option_sentences=KAFKA_OPTIONS,
    option_risks={
        "failondataloss": (
            "true",
            "records that retention has removed before they were read are skipped without an error",
        ),
    },
    # A consumer could recreate a deleted topic.
    clone_options={"kafka.allow.auto.create.topics": "false"},
    # The deprecated fetching of offsets would join the group of `kafka.group.id`, and take partitions from the query.
    clone_confs={"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false"},
    has_identities=True,
    errors=KAFKA_ERRORS,
    lag_metric="maxOffsetsBehindLatest",
)

_POSITIONS = decoder_of(dict[str, dict[str, int]])


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's offsets at the moment ``moment``: per partition, its oldest offset and the offset of its next record."""

    moment: float
    oldest: dict[Partition, int]
    newest: dict[Partition, int]


class KafkaReading(msgspec.Struct, frozen=True, kw_only=True):
    """The topics and client options with which a source reads Kafka."""

    clients: dict[str, str]
    """The options of its Kafka clients. They contain secrets and must not be stored."""
    topics: frozenset[str] = frozenset()
    """The topics to which it subscribes by name."""
    pattern: str = ""
    """The regular expression for the names of its topics, or empty."""
    passes_over: bool = False
    """Whether Spark continues with the oldest existing record if the next records are missing."""

    def reads(self, topic: str) -> bool:
        """Whether the source subscribes to a topic."""
        return topic in self.topics or bool(self.pattern and re.fullmatch(self.pattern, topic))


def kafka_reading(options: Mapping[str, str]) -> KafkaReading:
    """Return how a source reads Kafka, from its options. The case of the options' names does not matter."""
    lowered = {key.lower(): value for key, value in options.items()}
    assigned = json.loads(lowered.get("assign", "{}"))
    listed = [topic.strip() for topic in lowered.get("subscribe", "").split(",") if topic.strip()]
    clients = {key[len(_CLIENTS) :]: value for key, value in options.items() if key.lower().startswith(_CLIENTS)}
    pattern = lowered.get("subscribepattern", "")
    return KafkaReading(
        clients=clients,
        topics=frozenset([*listed, *assigned]),
        pattern=pattern,
        passes_over=lowered.get("failondataloss", "true").strip().lower() == "false",
    )


def positions(offset: bytes) -> dict[Partition, int] | None:
    """Decode the offset of a Kafka source into partition -> offset; None for another kind of source."""
    try:
        topics = _POSITIONS.decode(offset)
    except msgspec.DecodeError:
        return None
    return {
        (topic, int(number)): offset for topic, partitions in topics.items() for number, offset in partitions.items()
    }


def records_behind(newest: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return the number of records from ``end`` to ``newest``, summed over the partitions of ``end``."""
    return sum(max(0, newest[partition] - offset) for partition, offset in end.items() if partition in newest)


def runway_s(needed: Mapping[Partition, int], now: Held, before: Held) -> float | None:
    """Return the seconds until the first of Kafka's partitions drops its next unread offset.

    ``needed``: partition -> its next unread offset; ``now`` and ``before``: Kafka's offsets now and earlier.

    The estimate assumes that partitions drop offsets as fast as they did since ``before``. Returns 0 if a partition has
    already dropped its next unread offset, None if no partition with unread data drops data.
    """
    found = []
    for partition, offset in needed.items():
        oldest, newest = now.oldest.get(partition), now.newest.get(partition)
        if oldest is None or newest is None:
            continue
        dropped = oldest - before.oldest.get(partition, oldest)
        if oldest > offset:
            found.append(0.0)
        elif newest > offset and dropped > 0:
            found.append((offset - oldest) * max(now.moment - before.moment, STEADY_S) / dropped)
    return min(found, default=None)


def subscribed_topics(named: str) -> frozenset[str] | None:
    """Return the topics of a subscription by list; None for every other form of subscription."""
    way, _, rest = named.partition(" ")
    return frozenset(topic.strip() for topic in rest.split(",")) if way == "subscribe" else None


def reads(named: str, topic: str, partitions: Collection[int] | None = None) -> bool:
    """Whether a source with the place ``named`` certainly reads these partitions of ``topic``.

    If ``partitions`` is None, the answer is about all partitions that the topic has or will get.
    """
    way, _, rest = named.partition(" ")
    try:
        match way:
            case "subscribe":
                return topic in (subscribed_topics(named) or ())
            case "subscribepattern":
                return re.fullmatch(rest, topic) is not None
            case "assign":
                return partitions is not None and set(partitions) <= set(json.loads(rest).get(topic, ()))
            case _:
                return False
    except (ValueError, re.error):
        return False


def _brokers(source: Source) -> str:
    return source.location.rpartition("@")[2]


def _keeps_topics(before: str, after: str) -> bool:
    """Whether the names of the topics show, without further information, that every topic read so far is still read."""
    topics = subscribed_topics(before)
    return topics is not None and all(reads(after, topic) for topic in topics)


def _are_positions(partitions: dict[str, object]) -> bool:
    return all(name.isdecimal() and type(offset) is int for name, offset in partitions.items())


def _at(offsets: Partitions, topic: str, partition: str, otherwise: int) -> int:
    return offsets.get(topic, {}).get(partition, otherwise)
