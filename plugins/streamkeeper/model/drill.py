"""Requests to a driver process about a restored checkpoint: a drill, or an export of its state."""

from __future__ import annotations

import msgspec

from streamkeeper.model.check import JobFile
from streamkeeper.model.redaction import Structure

FORMAT = 1


class DrillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Does ``query`` of ``job`` resume from ``checkpoint``, restored as of committed ``batch``?"""

    job: JobFile
    """The job's file."""
    query: str
    """The query to run."""
    checkpoint: str
    """A scratch directory; the drill writes into it."""
    batch: int
    """The committed batch of the restored checkpoint."""
    timeout_s: float = 300.0
    """Seconds for one batch."""


class DrillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a drill."""

    ok: bool
    """Whether the query resumed."""
    message: str
    """The result, in one sentence."""
    batch: int | None = None
    """The batch that ran; None if there was no input, or if it never ran."""
    rows: int = 0
    """Input rows of that batch."""
    state_rows: int = 0
    """Rows of the state that were read after it."""
    stores: int = 0
    """State stores that were read after it."""
    seconds: float = 0.0
    """Duration in the driver, without its start."""
    error_class: Structure = ""
    """Spark's error class, or the exception's; empty when ``ok``."""


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Export the state of ``checkpoint`` after committed ``batch``, by default its last one, as Parquet files.

    ``target``: a local directory that must not exist yet.
    """

    checkpoint: str
    batch: int | None = None
    target: str


class ExportedStore(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one state store."""

    operator: int
    """The operator's number."""
    name: str
    """The operator's name in Spark's plan."""
    store: str
    """Spark's name of the store: a join's side, a state variable, or ``$timers``."""
    rows: int = 0
    """Number of rows."""
    files: int = 0
    """Number of files."""
    bytes: int = 0
    """Size of the files."""
    path: Structure = ""
    """Path relative to the export."""
    unsupported: str = ""
    """Why it could not be written; then there are no files."""


class StateExport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an export: its ``state.json``."""

    format: int = FORMAT
    """Format version of the record."""
    batch: int
    """The batch whose state it is."""
    spark: str
    """The Spark version that wrote it."""
    stores: tuple[ExportedStore, ...]
    """Its state stores."""


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The export, or why there is none: ``error``, and ``batch`` None."""

    stores: tuple[ExportedStore, ...] = ()
    batch: int | None = None
    error: str = ""
