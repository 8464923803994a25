"""The declaration of ``FileSink``."""

from __future__ import annotations

from streamkeeper.model.manifests.sink_capabilities import ColumnChange, Numbering, Reconciliation, SinkCapabilities
from streamkeeper.sinks.kinds.sink_kind import SinkKind

_BY_NAME = frozenset({ColumnChange.REMOVED, ColumnChange.REORDERED, ColumnChange.NULLABLE})
"""The column changes that Parquet and ORC accept. An added column is not accepted, because Spark reads all files by the
columns of one file, which may lack the added column.
"""

FILE = SinkKind(
    name="file",
    sink="FileSink",
    module="streamkeeper.sinks.file",
    capabilities=SinkCapabilities(
        of_one_machine=dict.fromkeys(("", "file"), "its directory would be a different one on each node"),
        read_as="file",
        log_folder="_spark_metadata",
        takes_again="and readers see the batches before them once",
        fences=True,
        knows_batches=True,
        shadows=True,
        numbering=Numbering.REBASE,
        reconciles=Reconciliation.CUT_BACK,
        not_from_elsewhere="",
        columns={"json": frozenset(ColumnChange), "orc": _BY_NAME, "parquet": _BY_NAME},
        placed_by="partition_by",
        place="partition",
    ),
    schemes=frozenset({"", "file", "s3", "s3a", "hdfs"}),
    place="the path of a FileSink",
)
