"""What each kind of output can do: the one place where those look who decide by its description, without its code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from streamkeeper.locations import scheme_of


class Numbering(Enum):
    """How the batches of a checkpoint version are numbered that was handed over from another one."""

    KEEP = "keep"
    """They go on from the old version's numbers: the output knows one row of numbers."""
    REBASE = "rebase"
    """The handed-over batch gets one of the first numbers: the output begins anew with each version."""


class Reconciliation(Enum):
    """What becomes of the batches that an output holds beyond a checkpoint that was restored to an older one."""

    REPLAY = "replay"
    """They come again and change nothing but what they wrote: each row replaces the one with its key."""
    CUT_BACK = "cut-back"
    """Readers do not see them any more; what comes again stands in their place."""
    REFUSE = "refuse"
    """They would be there twice: a person has to say that the output takes that."""


class ColumnChange(Enum):
    """A change of an output's columns."""

    ADDED = "added"
    REMOVED = "removed"
    REORDERED = "reordered"
    RETYPED = "retyped"
    NULLABLE = "nullable"


class SinkCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind of output can do; the defaults are those of one of which nothing is known.

    ``takes_again``: how it takes rows a second time without doubling them, as a clause; empty: it has them twice.
    ``fences``: a writer that was superseded changes nothing, whenever it wakes up.
    ``knows_batches``: it tells its last batch, and leaves one alone that it holds. ``shadows``: it can be written
    beside what serves, unseen, compared with it, and swapped. ``numbering``: of a handed-over version's batches.
    ``reconciles``: what becomes of what it holds beyond a restored checkpoint. ``one_place``: every checkpoint version
    writes into the same place, which has to take the new rows; else each has its own. ``names_place``: its identity is
    the place that it writes to. ``not_from_elsewhere``: why executors on other machines cannot write it, as a clause;
    empty where they can. ``columns``: file format, or ``""`` -> the changes of its columns that it takes.
    ``placed_by``: the option of its description that lists the columns by whose values it finds a row's place; empty:
    none is known to. ``place``: what such a column is called. ``needs_place``: it refuses a row in which one is null.
    ``complete_replaces``: in complete mode each batch replaces all rows.
    """

    takes_again: str = ""
    fences: bool = False
    knows_batches: bool = False
    shadows: bool = False
    numbering: Numbering = Numbering.KEEP
    reconciles: Reconciliation = Reconciliation.REFUSE
    one_place: bool = False
    names_place: bool = True
    not_from_elsewhere: str = "nothing says that it does not take what one writes that outlives its driver"
    columns: Mapping[str, frozenset[ColumnChange]] = {}
    placed_by: str = ""
    place: str = "key"
    needs_place: bool = False
    complete_replaces: bool = False


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
    # A function decides itself, and only its author knows how.
    "foreach": SinkCapabilities(
        names_place=False,
        not_from_elsewhere="nothing keeps an executor that outlives its driver from what its function writes",
        columns={"": _EVERY},
    ),
}


_OF_ONE_MACHINE = "a SQLite database is a file of one machine"


def why_not_from_elsewhere(kind: str, output: str) -> str:
    """Why executors on other machines cannot write an output, as its description has both; empty where they can."""
    if kind == "table" and output.startswith("sqlite:"):
        return _OF_ONE_MACHINE
    return capabilities_of(kind).not_from_elsewhere


def why_not_from_any_node(kind: str, output: str) -> str:
    """Why a driver that may be on another machine each time cannot write an output; empty where it can."""
    if kind == "table" and output.startswith("sqlite:"):
        return _OF_ONE_MACHINE
    if kind == "file" and scheme_of(output) in ("", "file"):
        return "its directory would be another one on each node"
    return ""


def capabilities_of(kind: str) -> SinkCapabilities:
    """Those of a kind, as a manifest names it; of one that is not known, none."""
    return _SINKS.get(kind, _UNKNOWN)
