"""The declaration of ``TableSink``."""

from __future__ import annotations

from streamkeeper.model.sink_capabilities import ColumnChange, Numbering, Reconciliation, SinkCapabilities
from streamkeeper.sinks.kinds.sink_kind import SinkKind

TABLE = SinkKind(
    name="table",
    sink="TableSink",
    module="streamkeeper.sinks.table",
    capabilities=SinkCapabilities(
        of_one_machine={"sqlite": "a SQLite database is a file of one machine"},
        takes_again="each row replaces the one with its key",
        fences=True,
        knows_batches=True,
        shadows=True,
        numbering=Numbering.KEEP,
        reconciles=Reconciliation.REPLAY,
        one_place=True,
        not_from_elsewhere="",
        columns={"": frozenset({ColumnChange.REORDERED, ColumnChange.NULLABLE})},
        placed_by="key",
        needs_place=True,
        complete_replaces=True,
    ),
    schemes=frozenset({"postgresql", "sqlite"}),
    place="the URL (or secret://… reference) of a table's database",
    task_module="streamkeeper.sinks.staging",
)
