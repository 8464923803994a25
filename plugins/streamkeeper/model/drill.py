"""What a driver process is asked about a restored checkpoint: a drill of it, an export of its state."""

from __future__ import annotations

import msgspec

from streamkeeper.model.check import JobFile
from streamkeeper.model.redaction import Structure

FORMAT = 1


class DrillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Does ``query`` of ``job`` go on from ``checkpoint``, restored as of committed ``batch``?

    ``checkpoint``: a scratch directory, which the drill writes into; ``timeout_s`` is one batch's.
    """

    job: JobFile
    query: str
    checkpoint: str
    batch: int
    timeout_s: float = 300.0


class DrillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a drill went, in one sentence.

    ``batch``: the one that ran, of ``rows`` input rows; None when there was nothing to read, or it never ran.
    ``stores`` and ``state_rows``: what was read of the state after it. ``seconds``: what the driver took, without its
    start. ``error_class``: Spark's, or the exception's; empty when ``ok``.
    """

    ok: bool
    message: str
    batch: int | None = None
    rows: int = 0
    state_rows: int = 0
    stores: int = 0
    seconds: float = 0.0
    error_class: Structure = ""


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of ``checkpoint`` after committed ``batch``, its last one by default, as Parquet files.

    ``target``: a local directory that must not be there yet.
    """

    checkpoint: str
    batch: int | None = None
    target: str


class ExportedStore(msgspec.Struct, frozen=True, kw_only=True):
    """One state store's rows. ``name``: the operator's in Spark's plan; ``path``: relative to the export.

    ``store``: Spark's name for it, a join's side, a state variable, or ``$timers``. ``unsupported``: why it could not
    be written, and then there are no files.
    """

    operator: int
    name: str
    store: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    path: Structure = ""
    unsupported: str = ""


class StateExport(msgspec.Struct, frozen=True, kw_only=True):
    """What an export holds: its ``state.json``. ``spark``: the version that wrote it."""

    format: int = FORMAT
    batch: int
    spark: str
    stores: tuple[ExportedStore, ...]


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported, or why nothing was: ``error``, and ``batch`` None."""

    stores: tuple[ExportedStore, ...] = ()
    batch: int | None = None
    error: str = ""
