"""KafkaSink: at-least-once writes to a Kafka topic, with Spark's own Kafka writer.

Kafka cannot refuse the records of a superseded driver, and does not know batches. A batch that was running when its
driver ended is therefore sent a second time. Each record names its batch and its attempt in its headers, so that a
reader can drop the records that a replay has replaced (``batch_headers``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from streamkeeper.errors import InvalidInput
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.secret_names import masked, names_secret
from streamkeeper.sinks.batch_headers import HEADERS, with_batch_headers
from streamkeeper.sinks.contract import Sink, SinkContext, SinkWriter, WriterRole, compute
from streamkeeper.sinks.kafka_topic import must_have_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["KafkaSink", "KafkaSinkWriter"]

_OPTIONS = "kafka."
_SERVERS = "kafka.bootstrap.servers"
_SERVER = re.compile(r"\s*[^\s,@/]+:\d+\s*")
_TOPIC = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}")
_BYTES = ("string", "binary")
_COLUMNS = {"value": _BYTES, "key": _BYTES, "partition": ("int",), "headers": (HEADERS,)}
"""Column -> the types that Spark's Kafka writer accepts."""
_DEFAULTS = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
_REFUSED = {
    _SERVERS: "name the brokers in servers",
    "kafka.key.serializer": "Spark's writer serializes keys itself: compute the bytes in the column key",
    "kafka.value.serializer": "Spark's writer serializes values itself: compute the bytes in the column value",
    "kafka.transactional.id": "Spark's writer uses no transactions: remove the option",
}
"""Option -> the remedy. The options of a partitioner are refused as well: the column ``partition`` replaces them, whose
changes are reported.
"""


@dataclass(frozen=True, slots=True)
class KafkaSink(Sink):
    """Sends each row as a record to one topic, at least once.

    The query must have the column ``value`` (string or binary), and may have ``key`` (string or binary), ``partition``
    (int) and ``headers`` (array of structs of ``key`` string and ``value`` binary).
    """

    kind: ClassVar[str] = "kafka"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append", "update", "complete"})

    servers: str
    """The brokers, as ``host:port`` with commas between them."""
    topic: str
    """The topic, which must exist."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of Kafka's producer with the prefix ``kafka.``; preferably ``secret://`` params for secrets."""
    batch_headers: bool = True
    """Whether each record names its batch in its headers, so that readers can use ``newest_attempts``."""

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not _TOPIC.fullmatch(self.topic):
            raise InvalidInput(
                f"topic name {self.topic!r} is not allowed", hint="use at most 249 letters, digits, '.', '_' and '-'"
            )
        if not isinstance(self.servers, str) or not all(map(_SERVER.fullmatch, self.servers.split(","))):
            # The text may contain a password.
            raise InvalidInput(
                f"topic {self.topic}: servers is not a list of brokers",
                hint='use servers="host1:9092,host2:9092", without a scheme, user or password',
            )
        if not isinstance(self.batch_headers, bool):
            raise InvalidInput(
                f"topic {self.topic}: batch_headers is {self.batch_headers!r}", hint="use batch_headers=False or True"
            )
        if not isinstance(self.options, Mapping):
            raise InvalidInput(
                f"topic {self.topic}: options is not a dict of option names and texts",
                hint='use options={"kafka.compression.type": "lz4"}',
            )
        options: dict[str, str] = {}
        for option, value in self.options.items():
            name = _check_option(self.topic, option, value)
            if name in options:
                raise InvalidInput(f"topic {self.topic}: option {name} is given twice", hint="remove one of them")
            options[name] = value
        object.__setattr__(self, "options", MappingProxyType(options))

    def describe(self) -> SinkDescription:
        """Return the sink's description, without secrets. The sink is identified by its topic.

        As for a topic that is read, the brokers' address is no part of the identity, because it may change although the
        cluster stays the same.
        """
        shown = {name: masked(value) for name, value in sorted(self.options.items()) if not names_secret(name)}
        options = {"servers": masked(self.servers), "batch_headers": str(self.batch_headers).lower(), **shown}
        return SinkDescription(kind=self.kind, output=self.topic, options=options)

    def overlaps(self, other: Sink) -> bool:
        """Return False, because several queries may send records to one topic."""
        return False

    def open(self, context: SinkContext) -> KafkaSinkWriter:
        """Return a writer for one epoch; it connects when it writes its first batch."""
        return KafkaSinkWriter(self, context)

    def rehearse(self, batch: DataFrame) -> None:
        """Check the batch's columns and the topic, and compute the batch without sending it."""
        check_columns(self.topic, batch.schema)
        self.must_have_topic(batch)
        compute(batch)

    def must_have_topic(self, batch: DataFrame, *, known: bool = False) -> None:
        """Raise InvalidInput if the producer refuses its options or the topic does not exist, OutputOutOfReach if the
        brokers do not answer. ``known``: as in ``kafka_topic.must_have_topic``.
        """
        every = self.writer_options.items()
        options = {name.removeprefix(_OPTIONS): value for name, value in every if name.startswith(_OPTIONS)}
        must_have_topic(batch.sparkSession, self.servers, self.topic, options, known=known)

    @property
    def writer_options(self) -> dict[str, str]:
        """The options of Spark's Kafka writer, which may contain secrets."""
        return {**_DEFAULTS, **self.options, _SERVERS: self.servers, "topic": self.topic}


class KafkaSinkWriter(SinkWriter):
    """Sends one query's batches under one epoch; keeps no record of them."""

    def __init__(self, sink: KafkaSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._writes = 0
        self._found = False

    def raise_fence(self) -> None:
        """Do nothing, because a topic accepts the records of every writer."""

    def last_batch(self) -> int | None:
        """Return None, because a topic does not know the batches of its records."""
        return None

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Send the batch; a shadow only computes it, because readers would see its records.

        A write that fails may have sent a part of the batch.
        """
        check_columns(self._sink.topic, batch.schema)
        if self._context.role is WriterRole.SHADOW:
            compute(batch)
            return
        if not self._found:
            self._sink.must_have_topic(batch, known=self._writes > 0)
        # After an error the topic may be missing: the next write looks again, because a producer may create it.
        self._found = False
        records = batch
        if self._sink.batch_headers:
            records = with_batch_headers(batch, self._context, batch_id, self._writes)
        self._writes += 1
        send(records, self._sink.writer_options)
        self._found = True

    def close(self) -> None:
        """Do nothing: Spark keeps the producers."""


def send(records: DataFrame, options: Mapping[str, str]) -> None:
    """Send the rows with Spark's Kafka writer, and return when the brokers have acknowledged all of them."""
    records.write.format("kafka").options(**options).mode("append").save()


def check_columns(topic: str, schema: StructType) -> None:
    """Raise InvalidInput when the columns are not those of a record.

    Spark's own writer ignores other columns, and sends each row to the topic that a column ``topic`` names.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    if "topic" in kinds:
        raise InvalidInput(
            f"topic {topic}: the query has a column topic, but a KafkaSink writes to one topic",
            hint="remove the column, and yield a query for each topic",
        )
    if other := [name for name in schema.names if name not in _COLUMNS]:
        raise InvalidInput(
            f"topic {topic}: a record has no place for column {other[0]}",
            hint=f"remove {other[0]}, or put it into value, for example with to_json(struct(*))",
        )
    if "value" not in kinds:
        raise InvalidInput(
            f"topic {topic}: the query has no column value",
            hint="select the content of each record as value, for example with to_json(struct(*))",
        )
    if len(kinds) < len(schema.names):
        twice = next(name for name in kinds if schema.names.count(name) > 1)
        raise InvalidInput(f"topic {topic}: the query has two columns {twice}", hint="remove one of them")
    for name, kind in kinds.items():
        if kind not in _COLUMNS[name]:
            raise InvalidInput(
                f"topic {topic}: column {name} is {kind}, which Spark's Kafka writer does not accept",
                hint=f"cast it to {' or '.join(_COLUMNS[name])}",
            )


def _check_option(topic: str, option: object, value: object) -> str:
    """Return the option's name in small letters, which is how Spark reads it.

    Raises InvalidInput for an option that is not one of Kafka's producer, or that the sink decides itself.
    """
    if not isinstance(option, str):
        raise InvalidInput(
            f"topic {topic}: the name of an option is of type {type(option).__name__}",
            hint='use texts as names, such as "kafka.compression.type"',
        )
    name = option.lower()
    if not name.startswith(_OPTIONS):
        raise InvalidInput(
            f"topic {topic}: option {option} is not one of Kafka's producer",
            hint=f"use {_OPTIONS}{option} for an option of the producer, or remove it",
        )
    if name in _REFUSED:
        raise InvalidInput(f"topic {topic}: option {option} is refused", hint=_REFUSED[name])
    if name.startswith("kafka.partitioner."):
        raise InvalidInput(
            f"topic {topic}: option {option} is refused",
            hint="compute the partition of each record in the column partition",
        )
    if not isinstance(value, str):
        raise InvalidInput(
            f"topic {topic}: the value of option {option} is of type {type(value).__name__}",
            hint='write it as a text, such as "5"',
        )
    if (name, value.lower()) == ("kafka.enable.idempotence", "false") or (
        name == "kafka.acks" and value.lower() not in ("all", "-1")
    ):
        raise InvalidInput(
            f"topic {topic}: with {option}={value}, Kafka could lose or reorder records that count as written",
            hint=f"remove the option; its default is {_DEFAULTS[name]}",
        )
    return name
