"""Checks a KafkaSink before its first write, with Kafka's own clients in Spark's JVM: the producer's options, and
whether the topic exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import InvalidInput, OutputOutOfReach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 20
_CLIENT = {
    "client.id": "streamkeeper-topic",
    "default.api.timeout.ms": "15000",
    "request.timeout.ms": "10000",
    # A dead broker among several would otherwise use up the whole time of the call.
    "socket.connection.setup.timeout.ms": "1500",
    "socket.connection.setup.timeout.max.ms": "3000",
}
_OF_ANY_CLIENT = ("sasl.", "security.", "ssl.")
"""How the options start that a producer and a client for administration share."""
_SERIALIZERS = dict.fromkeys(
    ("key.serializer", "value.serializer"), "org.apache.kafka.common.serialization.ByteArraySerializer"
)
"""Those of Spark's writer, without which the options are not complete."""
_PASSING = frozenset({"RetriableException", "TimeoutException"})
_UNRESOLVED = "No resolvable bootstrap"
_LOGIN = "JAAS"


def must_have_topic(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, str], *, known: bool = False
) -> None:
    """Raise InvalidInput if the producer refuses its options, or the topic does not exist or may not be described.
    Raise OutputOutOfReach if the brokers do not answer.

    ``known``: whether this process has found the topic before. Its absence then counts as an output that does not
    answer, because a broker that has just started may not know its topics yet.

    ``options``: the producer's options without the prefix ``kafka.``; for the request, those that concern security are
    used.

    A producer's write to a missing topic creates the topic if the brokers allow it, with their default number of
    partitions and their default retention. This request creates nothing.
    """
    session: Any = spark
    jvm = session._jvm
    clients = jvm.org.apache.kafka.clients.admin.AdminClient
    if "JavaClass" not in type(clients).__name__:
        raise InvalidInput(
            "a KafkaSink needs Kafka's jars",
            hint="fetch them with `make connectors`, or set STREAMKEEPER_JARS to a directory that contains them",
        )
    _must_take_options(jvm, topic, options)
    settings = jvm.java.util.HashMap()
    shared = {name: value for name, value in options.items() if name.startswith(_OF_ANY_CLIENT)}
    for name, value in {**_CLIENT, **shared, "bootstrap.servers": servers}.items():
        settings.put(name, value)
    names = jvm.java.util.ArrayList()
    names.add(topic)
    try:
        admin = clients.create(settings)
        try:
            asked = admin.describeTopics(names).allTopicNames()
            asked.get(_PATIENCE_S, jvm.java.util.concurrent.TimeUnit.SECONDS)
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(1))
    except Exception as error:
        raised = getattr(error, "java_exception", None)
        if raised is None:
            raise
        # Without the cause: its classes are those of a source that does not answer, too.
        raise _refusal(raised.getCause() or raised, servers, topic, known=known) from None


def _must_take_options(jvm: Any, topic: str, options: Mapping[str, str]) -> None:
    """Raise InvalidInput if Kafka's producer refuses an option's value. Connects to nothing."""
    settings = jvm.java.util.HashMap()
    for name, value in {**options, **_SERIALIZERS}.items():
        settings.put(name, value)
    try:
        jvm.org.apache.kafka.clients.producer.ProducerConfig(settings)
    except Exception as error:
        raised = getattr(error, "java_exception", None)
        if raised is None:
            raise
        raise InvalidInput(
            f"topic {topic}: Kafka's producer refuses an option: {raised.getMessage()}",
            hint="correct the options of the KafkaSink",
        ) from None


def _refusal(cause: Any, servers: str, topic: str, *, known: bool) -> InvalidInput | OutputOutOfReach:
    kinds, kind = [], cause.getClass()
    while kind is not None:
        kinds.append(str(kind.getSimpleName()))
        kind = kind.getSuperclass()
    if kinds[0] == "UnknownTopicOrPartitionException":
        if known:
            return OutputOutOfReach(
                f"topic {topic} no longer exists at {servers}",
                hint="create the topic again, with the partitions and the retention that its readers need",
            )
        return InvalidInput(
            f"topic {topic} does not exist at {servers}",
            hint="create the topic with the partitions and the retention that its readers need, or correct its name",
        )
    message = str(cause.getMessage() or "")
    if not _PASSING.isdisjoint(kinds) or _UNRESOLVED in message:
        return OutputOutOfReach(
            f"Kafka at {servers} does not answer: {kinds[0]}: {message}",
            hint="start the brokers, or correct the servers of the KafkaSink",
        )
    while cause.getCause() is not None:
        cause = cause.getCause()
    inner = str(cause.getMessage() or "")
    if _LOGIN in inner:
        # Kafka's text may contain a part of the password.
        return InvalidInput(
            f"topic {topic}: Kafka cannot read kafka.sasl.jaas.config",
            hint="put the password in double quotes, escape the quotes inside it, and end the entry with a semicolon",
        )
    return InvalidInput(
        f"topic {topic} at {servers} cannot be described: {cause.getClass().getSimpleName()}: {inner}",
        hint="correct the security options of the KafkaSink, or give its user the rights to describe and write the"
        " topic",
    )
