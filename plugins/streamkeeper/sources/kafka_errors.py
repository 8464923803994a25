"""The signs in errors of Kafka's clients, and of Spark's reader and writer of Kafka."""

from __future__ import annotations

import re

from streamkeeper.sources.source_errors import SourceErrors

KAFKA_ERRORS = SourceErrors(
    lost_conditions=("KAFKA_DATA_LOSS",),
    lost_classes=frozenset({"OffsetOutOfRangeException"}),
    lost_text=re.compile(r"[Ss]ome data may have been (lost|missed)|[Cc]annot fetch offset|offset was changed from"),
    reader_frames=("org.apache.spark.sql.kafka010.",),
    writer_frames=re.compile(r"org\.apache\.(spark\.sql\.kafka010\.(producer\.|\w*Writ)|kafka\.clients\.producer\.)"),
    writer_text=re.compile(r"^Topic \S+ not present in metadata|^Expiring \d+ record"),
    client_classes=("org.apache.kafka.",),
    unreachable_classes=frozenset(
        {
            # Those of Python's clients, which a user's function may use.
            *("NoBrokersAvailable", "KafkaConnectionError", "KafkaTimeoutError"),
            *("NetworkException", "BrokerNotAvailableException", "LeaderNotAvailableException"),
            "org.apache.kafka.common.errors.TimeoutException",
        }
    ),
    unreachable_text="No resolvable bootstrap",
    # A row names a partition that the topic does not have.
    refused_text=re.compile(r"^Partition \d+ of topic \S+ with partition count"),
    recorded_lost=r"KAFKA_DATA_LOSS|[Ss]ome data may have been lost|[Cc]annot fetch offset|OffsetOutOfRange|topic-short"
    r"|offset was changed from",
    recorded_down=r"TimeoutException: .*(node assignment|describeTopics|listOffsets|listTopics|fetch)"
    r"|No resolvable bootstrap|bootstrap broker .* disconnected|Topic .* not present in metadata",
)
