"""Reading Spark's logical plans through py4j: the only module that knows how a plan is walked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamkeeper.inspection import spark_classes
from streamkeeper.inspection.lineage import Lineage
from streamkeeper.inspection.normalised import normalised, structure_digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LIMITS = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxMetadataStringLength": "1000000"}


class QueryPlan:
    """The plans of one un-started streaming DataFrame: as ``analyzed``, and in the form that is described (``chosen``).

    That is the optimized one, because a filter pushed below an aggregation changes what its state means. Only where
    the query asks for the present time it is the analyzed one: the optimizer would write the moment into it.
    """

    def __init__(self, spark: SparkSession, df: DataFrame) -> None:
        self.spark = spark
        self.analyzed: Any = df._jdf.queryExecution().analyzed()
        self._notes: tuple[str, ...] = ()
        names = {class_name(each) for node in walk(self.analyzed) for each in expressions(node)}
        if names & spark_classes.CURRENT_TIME:
            self.chosen: Any = self.analyzed
            # Nothing shows here what will be pushed below an operator, so any change counts for every operator.
            self._notes = (f"whole query {structure_digest(self.analyzed.toJSON())}",)
        else:
            session: Any = spark._jsparkSession
            self.chosen = session.sessionState().optimizer().execute(self.analyzed)

    def normalised(self, node: Any) -> str:
        """``node`` and everything below it; equal for two builds of the same query."""
        return normalised(node.toString(), node.toJSON(), (*self._notes, *static_relations(node)))

    def lineage(self, source_names: list[str | None]) -> Lineage:
        """What reaches each stateful operator of the chosen plan."""
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        return Lineage(json.loads(self.chosen.toJSON()), self.chosen.toString(), source_names, zone)


_SECRET_WORDS = ("credential", "jaas", "keystore", "password", "secret", "token", "truststore")


@contextmanager
def whole_strings(spark: SparkSession) -> Iterator[None]:
    """Plans are printed whole meanwhile: Spark cuts long ones by default."""
    before = {key: spark.conf.get(key) for key in _LIMITS}
    explicit = _LIMITS.keys() & spark.conf.getAll.keys()
    for key, value in _LIMITS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if key in explicit:
                spark.conf.set(key, str(value))
            else:
                spark.conf.unset(key)


def items(scala: Any) -> list[Any]:
    """A Scala collection as a list."""
    iterator = scala.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def class_name(node: Any) -> str:
    """The simple name of a node's JVM class."""
    return str(node.getClass().getSimpleName())


def has(node: Any, method: str) -> bool:
    """Whether a JVM object has a public method."""
    return any(each.getName() == method for each in node.getClass().getMethods())


def walk(node: Any) -> Iterator[Any]:
    """``node`` and everything below it, the node first, children left to right."""
    yield node
    for child in items(node.children()):
        yield from walk(child)


def bottom_up(node: Any) -> Iterator[Any]:
    """Everything below ``node``, left to right, then ``node``."""
    for child in items(node.children()):
        yield from bottom_up(child)
    yield node


def expressions(node: Any) -> Iterator[Any]:
    """Every expression inside one plan node, nested ones and those of its subqueries included."""
    for top in items(node.expressions()):
        yield from walk(top)
    for subquery in items(node.subqueries()):
        for inner in walk(subquery):
            yield from expressions(inner)


def columns(attributes: Any) -> tuple[str, ...]:
    """``name type`` per attribute, with ``not null`` where it holds."""
    return tuple(
        column(each.name(), each.dataType().catalogString(), nullable=each.nullable()) for each in items(attributes)
    )


def column(name: str, kind: str, *, nullable: bool) -> str:
    """One column as one line."""
    return f"{' '.join(name.split())} {kind}{'' if nullable else ' not null'}"


def expression(found: Any) -> str:
    """An expression as SQL, with its type."""
    return column(found.sql(), found.dataType().catalogString(), nullable=found.nullable())


def static_relations(node: Any) -> tuple[str, ...]:
    """Where the static tables below ``node`` are read from: Spark prints their columns only."""
    found = []
    for each in walk(node):
        if class_name(each) == spark_classes.STATIC_FILES and not each.isStreaming():
            relation = each.relation()
            if has(relation, "location"):
                paths = ", ".join(str(path) for path in items(relation.location().rootPaths()))
                found.append(f"static {relation.fileFormat().toString()} {paths} {_options(relation)}")
            else:
                found.append(f"static {relation.toString()}")
    return tuple(found)


def _options(relation: Any) -> str:
    pairs = [(str(pair._1()), str(pair._2())) for pair in items(relation.options())]
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs) if key != "path" and not is_secret(key))


def is_secret(key: str) -> bool:
    """Whether an option's value must never be written down."""
    return any(word in key.lower() for word in _SECRET_WORDS)
