"""The declaration of ``AppendTableSink``, which has the same databases and clients as ``TableSink``."""

from __future__ import annotations

from msgspec import structs

from streamkeeper.model.manifests.sink_capabilities import Reconciliation
from streamkeeper.sinks.kinds.sink_kind import SinkKind
from streamkeeper.sinks.kinds.table_kind import TABLE

APPEND_TABLE = SinkKind(
    name="append_table",
    sink="AppendTableSink",
    module="streamkeeper.sinks.append_table",
    capabilities=structs.replace(
        TABLE.capabilities,
        takes_again="and the rows of these batches are deleted from the table first",
        reconciles=Reconciliation.CUT_BACK,
        placed_by="",
        needs_place=False,
        complete_replaces=False,
    ),
    schemes=TABLE.schemes,
    place=TABLE.place,
    task_module=TABLE.task_module,
)
