"""Kafka. A place is a choice of topics: ``subscribe a,b``, ``subscribepattern a.*`` or ``assign {"a": [0]}``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from streamkeeper.model.manifest import Source
from streamkeeper.sources.contract import OptionEffect, PlaceChange, SourceKind, SourcePromise

_BROKERS = "kafka.bootstrap.servers"
_CLIENTS = "kafka."
_TOPICS = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True, kw_only=True, eq=False)
class Kafka(SourceKind):
    """Topics of a cluster of brokers. The location of a source is ``topics@brokers``."""

    def effect_of(self, option: str) -> OptionEffect | None:
        """Options of the clients count as upkeep, except for those that are declared otherwise."""
        return self.option_effects.get(option, OptionEffect.UPKEEP if option.startswith(_CLIENTS) else None)

    def defaults(self, form: str) -> Mapping[str, str]:
        """The same for all formats."""
        return {"includeheaders": "false", "kafka.isolation.level": "read_uncommitted"}

    def location(self, options: Mapping[str, str]) -> str:
        """Return ``topics@brokers``."""
        topics = ", ".join(f"{key} {options[key]}" for key in _TOPICS if key in options)
        if not topics and _BROKERS not in options:
            return super().location(options)
        return f"{topics}@{options.get(_BROKERS, '')}"

    def place(self, source: Source) -> str:
        """Return the topics: the brokers' addresses may change without another cluster."""
        topics, separator, _ = source.location.rpartition("@")
        return topics if separator else source.location

    def place_change(self, before: Source, after: Source) -> PlaceChange:
        """The same topics at another address of the same cluster keep their offsets."""
        was, now = self.place(before), self.place(after)
        if was != now and after.catches_up:
            return PlaceChange.RENAMED
        if was != now and _keeps_topics(was, now):
            return PlaceChange.WIDENED
        return super().place_change(before, after)

    def asks_the_checkpoint(self, before: Source, after: Source) -> bool:
        """Whether the names of the topics leave open if every partition is still read that has been read so far."""
        was, now = self.place(before), self.place(after)
        return _brokers(before) == _brokers(after) and was != now and not _keeps_topics(was, now)

    def fails_on_loss(self, source: Source) -> bool:
        """Unless the option is off that lets Spark fail on data loss."""
        return source.options.get("failondataloss", "true").lower() != "false"


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
    option_risks={
        "failondataloss": (
            "true",
            "records that retention has removed before they were read are skipped without an error",
        ),
    },
    # A consumer could recreate a deleted topic.
    clone_options={"kafka.allow.auto.create.topics": "false"},
    has_identities=True,
)


class KafkaReading(msgspec.Struct, frozen=True, kw_only=True):
    """How a source reads Kafka."""

    clients: dict[str, str]
    """The options of its Kafka clients. They contain secrets and must not be stored."""
    topics: frozenset[str] = frozenset()
    """The topics to which it subscribes by name."""
    pattern: str = ""
    """The regular expression for the names of its topics, or empty."""
    passes_over: bool = False
    """Whether Spark continues with the oldest existing record if the next records are gone."""

    def reads(self, topic: str) -> bool:
        """Whether the source subscribes to a topic."""
        return topic in self.topics or bool(self.pattern and re.fullmatch(self.pattern, topic))


def kafka_reading(options: Mapping[str, str]) -> KafkaReading:
    """Return how a source reads Kafka, from its options. Upper and lower case in the options' names are the same."""
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


def subscribed_topics(named: str) -> frozenset[str] | None:
    """Return the topics of a subscription by list; None for every other form of subscription."""
    way, _, rest = named.partition(" ")
    return frozenset(topic.strip() for topic in rest.split(",")) if way == "subscribe" else None


def reads(named: str, topic: str, partitions: Collection[int] | None = None) -> bool:
    """Whether a source with the place ``named`` certainly reads these partitions of ``topic``.

    If ``partitions`` is None, all partitions that the topic has or will get are meant.
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
    """Whether, by the names of the topics alone, every topic read so far is still read."""
    topics = subscribed_topics(before)
    return topics is not None and all(reads(after, topic) for topic in topics)
