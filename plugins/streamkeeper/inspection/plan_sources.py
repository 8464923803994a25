"""Finds the streaming sources of a plan, in the order in which a checkpoint's offsets list them."""

from __future__ import annotations

from typing import Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.plan_reading import class_name, has, items, schema, walk
from streamkeeper.jvm.values import read_map
from streamkeeper.model.manifests.manifest import Source
from streamkeeper.sources.known_sources import describe_source

_UNNAMED = frozenset({"", "Unassigned", "<Unassigned>", "name=<Unassigned>"})


def find_sources(analyzed: Any) -> tuple[Source, ...]:
    """Return the sources of an analyzed plan. As in Spark, a relation that the plan reads twice counts as one
    source.
    """
    relations: list[Any] = []
    for node in walk(analyzed):
        if class_name(node) in spark_classes.STREAMING_RELATIONS and not any(
            node.equals(relation) for relation in relations
        ):
            relations.append(node)
    return tuple(_source(relation) for relation in relations)


def readers_in(analyzed: Any) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the format and the options of each reader, by the source's name in the offset log.

    The options contain secrets and must not be stored.
    """
    relations = [node for node in walk(analyzed) if class_name(node) in spark_classes.STREAMING_RELATIONS]
    return {_name(relation) or str(number): _read(relation) for number, relation in enumerate(relations)}


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
    return str(relation.sourceName()), {str(key): str(value) for key, value in read_map(extra).items()}


def _name(relation: Any) -> str | None:
    if not has(relation, "sourceIdentifyingName"):
        return None
    name = str(relation.sourceIdentifyingName().toString())
    return None if name in _UNNAMED else name
