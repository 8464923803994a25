"""The capabilities of each kind of output: the only source for decisions by its description, without its code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from streamkeeper.locations import scheme_of


class Numbering(Enum):
    """How the batches of a handed-off checkpoint version are numbered."""

    KEEP = "keep"
    """They continue the old version's numbers: the output has one sequence of numbers."""
    REBASE = "rebase"
    """The handed-over batch gets one of the first numbers: the output restarts its numbers with each version."""


class Reconciliation(Enum):
    """The treatment of an output's batches beyond a checkpoint that was restored to an older one."""

    REPLAY = "replay"
    """They are replayed and change only their own rows: each row replaces the one with its key."""
    CUT_BACK = "cut-back"
    """Readers no longer see them; the replayed batches take their place."""
    REFUSE = "refuse"
    """They would be there twice: a person must confirm that the output accepts that."""


class ColumnChange(Enum):
    """A change of an output's columns."""

    ADDED = "added"
    REMOVED = "removed"
    REORDERED = "reordered"
    RETYPED = "retyped"
    NULLABLE = "nullable"


class SinkCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a kind of output; the defaults are those of an unknown kind."""

    takes_again: str = ""
    """How it accepts replayed rows without duplicates, as a clause; empty if it has them twice."""
    fences: bool = False
    """A superseded writer changes nothing, whenever it resumes."""
    knows_batches: bool = False
    """It reports its last batch, and skips a batch that it already has."""
    shadows: bool = False
    """It can be written as a shadow next to the current output, compared with it, and swapped."""
    numbering: Numbering = Numbering.KEEP
    """Numbers of a handed-off version's batches."""
    reconciles: Reconciliation = Reconciliation.REFUSE
    """Treatment of its batches beyond a restored checkpoint."""
    one_place: bool = False
    """Every version writes to the same place, which must accept the new rows; else each to its own."""
    names_place: bool = True
    """Its identity is the place that it writes to."""
    not_from_elsewhere: str = "nothing says that it does not take what one writes that outlives its driver"
    """Why executors on other machines cannot write it, as a clause; empty if they can."""
    columns: Mapping[str, frozenset[ColumnChange]] = {}
    """File format, or ``""`` -> the accepted changes of its columns."""
    placed_by: str = ""
    """Option of its description with the columns that determine a row's place; empty if none."""
    place: str = "key"
    """The name of such a column."""
    needs_place: bool = False
    """It refuses a row in which one is null."""
    complete_replaces: bool = False
    """In complete mode each batch replaces all rows."""


_EVERY = frozenset(ColumnChange)
_BY_NAME = frozenset({ColumnChange.REMOVED, ColumnChange.REORDERED, ColumnChange.NULLABLE})
"""Spark reads Parquet and ORC by the columns of one file, which may lack an added one."""

_UNKNOWN = SinkCapabilities()
_SINKS = {
    "table": SinkCapabilities(
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
    "file": SinkCapabilities(
        takes_again="and readers see the batches before them once",
        fences=True,
        knows_batches=True,
        shadows=True,
        numbering=Numbering.REBASE,
        reconciles=Reconciliation.CUT_BACK,
        not_from_elsewhere="its directory would be one on each machine",
        columns={"json": _EVERY, "orc": _BY_NAME, "parquet": _BY_NAME},
        placed_by="partition_by",
        place="partition",
    ),
    # A function decides by itself, and only its author knows how.
    "foreach": SinkCapabilities(
        names_place=False,
        not_from_elsewhere="nothing keeps an executor that outlives its driver from what its function writes",
        columns={"": _EVERY},
    ),
}


_OF_ONE_MACHINE = "a SQLite database is a file of one machine"


def why_not_from_elsewhere(kind: str, output: str) -> str:
    """Why executors on other machines cannot write an output of this description; empty if they can."""
    if kind == "table" and output.startswith("sqlite:"):
        return _OF_ONE_MACHINE
    return capabilities_of(kind).not_from_elsewhere


def why_not_from_any_node(kind: str, output: str) -> str:
    """Why a driver that may change machines cannot write an output; empty if it can."""
    if kind == "table" and output.startswith("sqlite:"):
        return _OF_ONE_MACHINE
    if kind == "file" and scheme_of(output) in ("", "file"):
        return "its directory would be another one on each node"
    return ""


def capabilities_of(kind: str) -> SinkCapabilities:
    """The capabilities of a kind, as named in a manifest; none for an unknown kind."""
    return _SINKS.get(kind, _UNKNOWN)
