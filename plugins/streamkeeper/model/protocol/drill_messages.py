"""Requests to a driver process about a restored checkpoint: a drill, or an export of its state."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.check_messages import JobFile
from streamkeeper.model.redaction import Structure

FORMAT = 1


class DrillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to test whether ``query`` of ``job`` resumes on ``checkpoint``, restored as of ``batch``."""

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
    """The batch that ran; None if there was no input, or if no batch ran."""
    rows: int = 0
    """Input rows of that batch."""
    state_rows: int = 0
    """Rows of state that were read after the batch."""
    stores: int = 0
    """Number of state stores that were read after the batch."""
    seconds: float = 0.0
    """Duration of the drill in the driver, without the driver's start."""
    error_class: Structure = ""
    """Spark's error class, or the exception's; empty when ``ok``."""


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to export the state of ``checkpoint`` after committed ``batch`` as Parquet files.

    ``batch``: by default the checkpoint's last committed batch.

    ``target``: a local directory that must not exist yet.
    """

    checkpoint: str
    batch: int | None = None
    target: str


class ExportedStore(msgspec.Struct, frozen=True, kw_only=True):
    """The exported files of one state store, with their numbers of rows and bytes."""

    operator: int
    """The operator's number."""
    name: str
    """The operator's name in Spark's plan."""
    store: str
    """Spark's name of the store: a side of a join, a state variable, or ``$timers``."""
    rows: int = 0
    """Number of rows."""
    files: int = 0
    """Number of files."""
    bytes: int = 0
    """Size of the files."""
    path: Structure = ""
    """Path of the store's files relative to the export."""
    unsupported: str = ""
    """Why the store could not be exported and has no files; empty if it was exported."""


class StateExport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an export: its ``state.json``."""

    format: int = FORMAT
    """Format version of the record."""
    batch: int
    """The batch after which the state was exported."""
    spark: str
    """The Spark version that wrote the export."""
    stores: tuple[ExportedStore, ...]
    """The exported state stores."""


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The stores and the batch of an export; if it failed, ``error`` has the reason and ``batch`` is None."""

    stores: tuple[ExportedStore, ...] = ()
    batch: int | None = None
    error: str = ""
