"""The declaration of ``ForeachBatch``. Its function decides how rows are written, and only its author knows how."""

from __future__ import annotations

from streamkeeper.model.manifests.sink_capabilities import ColumnChange, SinkCapabilities
from streamkeeper.sinks.kinds.sink_kind import SinkKind

FOREACH = SinkKind(
    name="foreach",
    sink="ForeachBatch",
    module="streamkeeper.sinks.foreach",
    capabilities=SinkCapabilities(
        receiver="your function",
        result_of="",
        names_place=False,
        not_from_elsewhere="nothing prevents its function from writing in an executor that outlives its driver",
        columns={"": frozenset(ColumnChange)},
    ),
)
