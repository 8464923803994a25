"""A pipeline on Kafka: how its topics are read, and the edits that a reader of topics can have. Pure.

``texts`` of such a pipeline may also name one entry of each of TOPICS, STARTS, VALUES and COLUMNS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from conformance.fuzz.stages import IN_ORDER, STATEFUL, Grouped
from conformance.matrix.data import KAFKA

if TYPE_CHECKING:
    from conformance.fuzz.pipeline import Pipeline

_BASES = 6
_A_TRIGGER = 22
"""Rows per batch: two batches before the change and two after it."""

TOPICS = {
    "": '.option("subscribe", {source})',
    "topic-by-pattern": '.option("subscribePattern", {source} + ".*")',
    "topic-assigned": """.option("assign", f'{{"{{source}}": [0]}}')""",
}
STARTS = {
    "": '.option("startingOffsets", "earliest")',
    "start-spelled-out": """.option("startingOffsets", f'{{"{{source}}": {{"0": 0}}}}')""",
    "start-latest": '.option("startingOffsets", "latest")',
}
VALUES = {
    "": 'F.col("value").cast("string")',
    "value-in-sql": 'F.expr("cast(value as string)")',
    "value-by-function": 'F.expr("string(value)")',
    "value-of-stream": 'stream["value"].astype("string")',
}
COLUMNS = {
    "": "",
    "key-beside": ', F.col("key").cast("string").alias("message_key")',
    "timestamp-beside": ', "timestamp"',
    "place-beside": ', "partition", "offset"',
}
WAYS = frozenset(way for ways in (TOPICS, STARTS, VALUES, COLUMNS) for way in ways if way)
"""Every variant of reading topics that a pipeline's ``texts`` may name."""
_SPELLED = (("failOnDataLoss", "true"), ("includeHeaders", "false"), ("kafka.isolation.level", "read_uncommitted"))
_UPKEEP = (
    ("failOnDataLoss", "false"),
    ("groupIdPrefix", "readers"),
    ("kafka.max.partition.fetch.bytes", "2097152"),
    ("kafkaConsumer.pollTimeoutMs", "60000"),
)
_BY_ORDER = (*IN_ORDER, "total", "mean")
"""Aggregates that depend on the order of rows, including sums of fractions."""


def is_on_kafka(seed: str) -> bool:
    """Return whether the pipeline of a seed reads topics; the rest of it is drawn as if it read files."""
    return Random(f"kafka {seed}").randrange(_BASES) == 0


def draw_texts(seed: str) -> tuple[str, ...]:
    """Draw how the topics are named in the reader."""
    return ("topic-by-pattern",) if Random(f"topics {seed}").randrange(4) == 0 else ()


def reader_of(pipeline: Pipeline) -> str:
    """Return the reader in the words of a job file; ``{source}`` is the param with the topic's name."""
    limit = f'.option("maxOffsetsPerTrigger", {_A_TRIGGER * pipeline.limit})'
    options = f"{_one_of(TOPICS, pipeline)}{_one_of(STARTS, pipeline)}{limit}{pipeline.read}"
    servers = '.option("kafka.bootstrap.servers", params["servers"])'
    return f'spark.readStream.format("kafka"){servers}{options}.load()'


def rows_of(pipeline: Pipeline) -> str:
    """Return the expression that parses the fields of the messages' JSON."""
    row = f'F.from_json({_one_of(VALUES, pipeline)}, SCHEMA).alias("row")'
    return f'stream.select({row}{_one_of(COLUMNS, pipeline)}).select("row.*")'


def kafka_edits(pipeline: Pipeline) -> Iterator[tuple[str, str, Pipeline]]:
    """Yield kind, label and result of each edit of the reader; nothing if no topic is read."""
    if pipeline.form != KAFKA:
        return
    for kind, ways in (("topic", TOPICS), ("value-cast", VALUES), ("column-beside", COLUMNS)):
        for way in ways:
            name = way or "topic-subscribed" if kind == "topic" else kind
            yield name, "equivalent", _written(pipeline, ways, way)
    yield "start-spelled-out", "equivalent", _written(pipeline, STARTS, "start-spelled-out")
    # From scratch, nothing that was there before would be read; on a checkpoint it is not asked.
    yield "start-latest", "from-now-on", _written(pipeline, STARTS, "start-latest")
    for option in _SPELLED:
        yield "option-spelled-out", "equivalent", _with_option(pipeline, *option)
    for option in _UPKEEP:
        yield "consumer-option", "equivalent", _with_option(pipeline, *option)
    yield "headers-read", "equivalent", _with_option(pipeline, "includeHeaders", "true")
    yield "committed-only", "changing", _with_option(pipeline, "kafka.isolation.level", "read_committed")
    label = "from-now-on" if _needs_order(pipeline) else "equivalent"
    yield "min-partitions", label, _with_option(pipeline, "minPartitions", "3")


def _one_of(ways: Mapping[str, str], pipeline: Pipeline) -> str:
    return ways[next((each for each in pipeline.texts if each in ways), "")]


def _written(pipeline: Pipeline, ways: Mapping[str, str], way: str) -> Pipeline:
    others = tuple(each for each in pipeline.texts if each not in ways)
    return replace(pipeline, texts=(*others, way) if way else others)


def _with_option(pipeline: Pipeline, name: str, value: str) -> Pipeline:
    return replace(pipeline, read=f'{pipeline.read}.option("{name}", "{value}")')


def _needs_order(pipeline: Pipeline) -> bool:
    """Return whether the result may depend on the order of the rows in a batch."""
    keeping = [each for each in pipeline.stages if isinstance(each, STATEFUL)]
    folded = [each for each in keeping if isinstance(each, Grouped) and not each.session]
    return folded != keeping or any(fold.function in _BY_ORDER for each in folded for fold in each.folds)
