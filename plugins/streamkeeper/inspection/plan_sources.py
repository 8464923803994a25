"""Finds the streaming sources of a plan, in the order in which a checkpoint's offsets list them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.plan_reading import class_name, has, items, schema, walk
from streamkeeper.model.manifest import Source
from streamkeeper.model.secret_names import is_secret

LIMITS = frozenset(
    {
        "maxbytespertrigger",
        "maxfilespertrigger",
        "maxoffsetspertrigger",
        "maxtriggerdelay",
        "minoffsetspertrigger",
        "minpartitions",
        "maxrecordsperpartition",
        "rowspersecond",
        "rowsperbatch",
        "rampuptime",
        "numpartitions",
        "maxcachedfiles",
        "discardcachedinputratio",
        "maxrowspertrigger",
    }
)
"""Options that limit how fast a source is read, and do not affect what is read."""

_TOPICS = ("subscribe", "subscribepattern", "assign")
_BROKERS = "kafka.bootstrap.servers"
_CLIENTS = "kafka."
_PLACES = ("path", "paths", _BROKERS, *_TOPICS)
_UNNAMED = frozenset({"", "Unassigned", "<Unassigned>", "name=<Unassigned>"})


def find_sources(analyzed: Any) -> tuple[Source, ...]:
    """Return the sources of an analyzed plan. As in Spark, a relation that the plan reads twice is one source."""
    relations: list[Any] = []
    for node in walk(analyzed):
        if class_name(node) in spark_classes.STREAMING_RELATIONS and not any(
            node.equals(relation) for relation in relations
        ):
            relations.append(node)
    return tuple(_source(relation) for relation in relations)


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


def kafka_readings(analyzed: Any) -> dict[str, KafkaReading]:
    """Return how each Kafka source reads Kafka, by the source's name in the offset log. Other sources are left out."""
    relations = [node for node in walk(analyzed) if class_name(node) in spark_classes.STREAMING_RELATIONS]
    found = {}
    for position, relation in enumerate(relations):
        kind, options = _read(relation)
        if kind.lower() == "kafka":
            found[_name(relation) or str(position)] = kafka_reading(options)
    return found


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


def _source(relation: Any) -> Source:
    name, options = _read(relation)
    return describe_source(name, options, schema(items(relation.output())), _name(relation))


def _read(relation: Any) -> tuple[str, dict[str, str]]:
    """Return the format and the options of a relation."""
    if class_name(relation) == spark_classes.V1_RELATION:
        data_source = relation.dataSource()
        options = {str(pair._1()): str(pair._2()) for pair in items(data_source.options())}
        options.setdefault("path", ",".join(str(path) for path in items(data_source.paths())))
        return str(data_source.className()), options
    extra = relation.extraOptions()
    return str(relation.sourceName()), {str(key): str(extra.get(key)) for key in list(extra.keySet())}


def describe_source(name: str, options: Mapping[str, str], schema: str, given: str | None) -> Source:
    """Return a source from its format and options. Its ``options`` contain no locations, limits or secrets.

    ``name``: the name or class of the format.
    ``schema``: the columns, one per line.
    ``given``: the name of a named source; None otherwise.
    """
    lowered = {key.lower(): value for key, value in options.items() if value or key.lower() not in _PLACES}
    kind = name.rpartition(".")[2].lower() if name.startswith("org.apache.spark.") else name.lower()
    if kind in spark_classes.FILE_FORMATS:
        kind, lowered["format"] = "file", kind
    location = _location(lowered)
    limits = {key: value for key, value in lowered.items() if key in LIMITS}
    rest = {key: value for key, value in lowered.items() if key not in LIMITS and not is_secret(key)}
    for key in _PLACES:
        rest.pop(key, None)
    return Source(kind=kind, location=location, options=rest, limits=limits, schema=schema, name=given)


def _location(options: Mapping[str, str]) -> str:
    """Return the location of a source: a path, or ``topics@brokers``."""
    topics = ", ".join(f"{key} {options[key]}" for key in _TOPICS if key in options)
    if topics or _BROKERS in options:
        return f"{topics}@{options.get(_BROKERS, '')}"
    path = options.get("path", "")
    scheme, separator, rest = path.partition(":")
    if separator and scheme == "file":
        path = "/" + rest.lstrip("/")
    return path.rstrip("/") or path


def _name(relation: Any) -> str | None:
    if not has(relation, "sourceIdentifyingName"):
        return None
    name = str(relation.sourceIdentifyingName().toString())
    return None if name in _UNNAMED else name
