"""The declaration of ``TableSink``, whose client is SQLAlchemy with the drivers of PostgreSQL and SQLite."""

from __future__ import annotations

from streamkeeper.model.manifests.sink_capabilities import ColumnChange, Numbering, Reconciliation, SinkCapabilities
from streamkeeper.model.protocol.fault_kinds import Fault, Judged
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.sinks.kinds.sink_kind import ClientError, SinkKind

_DATABASE = "OperationalError"
"""The name of the error that PostgreSQL's and SQLite's clients raise if a request is valid but the database cannot
serve it now.
"""
_DATABASE_AWAY = ("08", "53", "57P", "58")
"""SQLSTATEs of a lost connection, a lack of server resources, a server's shutdown or start, and errors of its disk."""
_ASKED_IN_VAIN = ("25", "40", "55", "57014")
"""SQLSTATEs of a transaction that a reachable server rejected, rolled back or cancelled, such as after a conflict with
another transaction; a retry may succeed.
"""
_SQLITE_AWAY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PROTOCOL")
_SQLITE_FULL = "SQLITE_FULL"
_DATABASE_TOLD = ("connection", "server", "unable to open database file", "database is locked", "disk I/O error")
"""Parts of an OperationalError's text, used for an error of a Python worker, of which only the text is available."""


def judge_database(error: ClientError) -> Judged | None:
    """Judge a PostgreSQL error by its SQLSTATE, and a SQLite error by its result code. The client wraps the error that
    has the code.
    """
    sqlite = str(getattr(error.error, "sqlite_errorname", "") or "")
    if sqlite.startswith(_SQLITE_FULL):
        return Judged(Cause.CAPACITY, Fault.DISK_FULL)
    if _DATABASE not in error.names:
        return None
    away = Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    if error.error is None:
        return away if any(words in error.message for words in _DATABASE_TOLD) else None
    if sqlite:
        return away if sqlite.startswith(_SQLITE_AWAY) else Judged()
    if hasattr(error.error, "sqlstate"):
        state = str(error.error.sqlstate or "")
        # None: the server was never reached.
        reached = bool(state) and (state.startswith(_ASKED_IN_VAIN) or not state.startswith(_DATABASE_AWAY))
        return Judged() if reached else away
    return None


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
    judge=judge_database,
    cause_attribute="orig",
)
