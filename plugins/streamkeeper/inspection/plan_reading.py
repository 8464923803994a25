"""Reads from Spark's logical plans, through py4j, the parts that the walked plan does not contain: outputs
and sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamkeeper.inspection.bundled_files import name_bundled_files
from streamkeeper.inspection.canonical_expressions import SessionSettings
from streamkeeper.inspection.lineage import Lineage
from streamkeeper.inspection.normalised import normalised, without_seeds
from streamkeeper.inspection.plan_tree import unnumbered
from streamkeeper.inspection.plan_walker import PlanWalker
from streamkeeper.model.manifests.quoting import schema_text

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_LIMITS = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxMetadataStringLength": "1000000"}

_METHODS: dict[str, frozenset[str]] = {}
"""Class in the JVM -> the names of its public methods, which take tens of milliseconds to list."""


class QueryPlan:
    """The ``analyzed`` and the ``chosen`` plan of one streaming DataFrame before its start. The manifest describes the
    chosen plan.

    The chosen plan is the optimized one, because a filter that is pushed below an aggregation changes the state. Before
    the optimization, the current time is replaced as Spark replaces it for a micro-batch (MicroBatchExecution), but
    without a value. Otherwise the optimizer would write the present time into the plan, and would optimize the plan
    differently from that of a micro-batch.

    ``tree``: every node of the chosen plan with all of its arguments.
    ``reads_bundle``: whether the plan reads files below ``bundle_root`` as static tables. ``tree`` then contains the
    names and contents of these files.
    """

    def __init__(self, spark: SparkSession, df: DataFrame, bundle_root: Path | None = None) -> None:
        self.spark = spark
        self.analyzed: Any = df._jdf.queryExecution().analyzed()
        walker = PlanWalker(spark)
        self.chosen: Any = walker.optimized(self.analyzed)
        self.tree = walker.walk(self.chosen)
        self.reads_bundle = name_bundled_files(self.tree, bundle_root)

    def normalised(self) -> str:
        """Return the whole plan as text, equal for two builds of the same query."""
        return normalised(self.chosen.toString(), self.tree)

    def lineage(self, source_names: list[str | None]) -> Lineage:
        """Return the inputs of each stateful operator of the chosen plan."""
        return Lineage(self.tree, source_names, _session(self.spark))


def _session(spark: SparkSession) -> SessionSettings:
    conf = spark.conf
    return SessionSettings(
        time_zone=str(conf.get("spark.sql.session.timeZone")),
        ansi=_is_on(spark, "spark.sql.ansi.enabled"),
        partial_results=_is_on(spark, "spark.sql.json.enablePartialResults"),
        corrupt_record=str(conf.get("spark.sql.columnNameOfCorruptRecord")),
    )


def _is_on(spark: SparkSession, key: str) -> bool:
    return str(spark.conf.get(key)).lower() == "true"


@contextmanager
def whole_strings(spark: SparkSession) -> Iterator[None]:
    """Let Spark print plans in full within this context; by default it shortens long plans."""
    before = {key: spark.conf.get(key) for key in _LIMITS}
    stored: Any = spark._jsparkSession.conf().getAll()
    explicit = {key for key in _LIMITS if stored.contains(key)}
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
    """Return a Scala collection as a list."""
    iterator = scala.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def class_name(node: Any) -> str:
    """Return the simple name of a node's JVM class."""
    return str(node.getClass().getSimpleName())


def has(node: Any, method: str) -> bool:
    """Whether a JVM object has a public method."""
    name = str(node.getClass().getName())
    if name not in _METHODS:
        _METHODS[name] = frozenset(dir(node))
    return method in _METHODS[name]


def walk(node: Any) -> Iterator[Any]:
    """Yield ``node`` and everything below it: the node first, then its children from left to right."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(items(found.children()))


def bottom_up(node: Any) -> Iterator[Any]:
    """Yield everything below ``node`` from left to right, then ``node``."""
    found: list[Any] = []
    waiting = [node]
    while waiting:
        found.append(waiting.pop())
        waiting += items(found[-1].children())
    yield from reversed(found)


def expressions(node: Any) -> Iterator[Any]:
    """Yield every expression in one plan node, including nested ones and those of its subqueries."""
    for top in items(node.expressions()):
        yield from walk(top)
    for subquery in items(node.subqueries()):
        for inner in walk(subquery):
            yield from expressions(inner)


def columns(attributes: Any) -> tuple[str, ...]:
    """Return the text ``name type`` for each attribute, with ``not null`` where it applies."""
    return tuple(
        column(attribute.name(), attribute.dataType().catalogString(), nullable=attribute.nullable())
        for attribute in items(attributes)
    )


def schema(attributes: Iterable[Any]) -> str:
    """Return the columns of a relation, one per line, with ``not null`` where it applies."""
    return schema_text(
        (
            unnumbered(str(attribute.name())),
            f"{attribute.dataType().catalogString()}{'' if attribute.nullable() else ' not null'}",
        )
        for attribute in attributes
    )


def column(name: str, kind: str, *, nullable: bool) -> str:
    """Return a column as one line, ``name type``, with ``not null`` where it applies."""
    return f"{unnumbered(' '.join(name.split()))} {kind}{'' if nullable else ' not null'}"


def expression(found: Any) -> str:
    """Return an expression as SQL with its type. Random seeds are removed, because every build of a query draws new
    seeds.
    """
    return column(without_seeds(found.sql()), found.dataType().catalogString(), nullable=found.nullable())
