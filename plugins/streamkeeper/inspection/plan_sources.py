"""The streaming sources of a plan, in the order in which a checkpoint's offsets name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.plan_reading import class_name, columns, has, is_secret, items, walk
from streamkeeper.model.manifest import Source

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
"""Options that say how fast a source is read, never what."""

_TOPICS = ("subscribe", "subscribepattern", "assign")
_BROKERS = "kafka.bootstrap.servers"
_UNNAMED = frozenset({"", "Unassigned", "<Unassigned>", "name=<Unassigned>"})


def find_sources(analyzed: Any) -> tuple[Source, ...]:
    """One value per source; a relation that a query reads twice is one source, as it is for Spark."""
    relations: list[Any] = []
    for node in walk(analyzed):
        if class_name(node) in spark_classes.STREAMING_RELATIONS and not any(node.equals(each) for each in relations):
            relations.append(node)
    return tuple(_source(each) for each in relations)


def _source(relation: Any) -> Source:
    if class_name(relation) == spark_classes.V1_RELATION:
        data_source = relation.dataSource()
        name = str(data_source.className())
        options = {str(pair._1()): str(pair._2()) for pair in items(data_source.options())}
        options.setdefault("path", ",".join(str(path) for path in items(data_source.paths())))
    else:
        name = str(relation.sourceName())
        extra = relation.extraOptions()
        options = {str(key): str(extra.get(key)) for key in list(extra.keySet())}
    return describe_source(name, options, "\n".join(columns(relation.output())), _name(relation))


def describe_source(name: str, options: Mapping[str, str], schema: str, given: str | None) -> Source:
    """A source from its format and options; locations and limits are taken out of the options, secrets dropped."""
    lowered = {key.lower(): value for key, value in options.items() if value}
    kind = name.rpartition(".")[2].lower() if name.startswith("org.apache.spark.") else name.lower()
    if kind in spark_classes.FILE_FORMATS:
        kind, lowered["format"] = "file", kind
    location = _location(lowered)
    limits = {key: value for key, value in lowered.items() if key in LIMITS}
    rest = {key: value for key, value in lowered.items() if key not in LIMITS and not is_secret(key)}
    for key in ("path", "paths", _BROKERS, *_TOPICS):
        rest.pop(key, None)
    return Source(kind=kind, location=location, options=rest, limits=limits, schema=schema, name=given)


def _location(options: Mapping[str, str]) -> str:
    """A path, or ``topics@brokers``."""
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
