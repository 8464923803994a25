"""The declaration of ``DeltaSink``."""

from __future__ import annotations

from streamkeeper.model.manifests.sink_capabilities import ColumnChange, Numbering, Reconciliation, SinkCapabilities
from streamkeeper.sinks.kinds.sink_kind import SinkKind

DELTA = SinkKind(
    name="delta",
    sink="DeltaSink",
    module="streamkeeper.sinks.delta",
    capabilities=SinkCapabilities(
        of_one_machine=dict.fromkeys(("", "file"), "its directory would be a different one on each node"),
        takes_again="and readers see the batches before them once",
        fences=True,
        knows_batches=True,
        shadows=True,
        numbering=Numbering.KEEP,
        reconciles=Reconciliation.CUT_BACK,
        one_place=True,
        not_from_elsewhere="",
        columns={"": frozenset({ColumnChange.REORDERED, ColumnChange.NULLABLE})},
        placed_by="key",
        complete_replaces=True,
    ),
    schemes=frozenset({"", "file", "s3", "s3a", "hdfs"}),
    place="the path of a DeltaSink",
    connectors="delta",
)
