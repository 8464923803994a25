"""The declaration of ``KafkaSink``. Its jars are those of the source of the same name, which every driver gets."""

from __future__ import annotations

from streamkeeper.model.manifests.sink_capabilities import ColumnChange, SinkCapabilities
from streamkeeper.sinks.kinds.sink_kind import SinkKind

KAFKA = SinkKind(
    name="kafka",
    sink="KafkaSink",
    module="streamkeeper.sinks.kafka",
    capabilities=SinkCapabilities(
        receiver="the topic",
        read_once_by="with batch_headers, a reader that uses newest_attempts sees them once",
        result_of="the topic gets each result of a group as a record of its own",
        not_from_elsewhere="nothing prevents an executor that outlives its driver from sending records",
        columns={"": frozenset(ColumnChange)},
        placing_columns=("key", "partition"),
        delivers=True,
        server_options=("servers",),
        approved_options={
            "servers": "batches would be sent to the new servers; if these are of another cluster, its topic lacks the"
            " rows written so far",
            "batch_headers": "readers that use newest_attempts could not drop a batch that was sent before the change"
            " and is sent again after it",
        },
    ),
    task_class="TaskAttempt",
    format_columns=("headers", "key", "partition", "topic"),
)
