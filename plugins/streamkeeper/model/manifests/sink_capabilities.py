"""The capabilities that a kind of output can have. Decisions are made from them, without the code of the output."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec


class Numbering(Enum):
    """How the batches of a handed-off checkpoint version are numbered."""

    KEEP = "keep"
    """The numbers of the old version continue, because the output has one sequence of numbers."""
    REBASE = "rebase"
    """The numbers start again, because the output counts per version: the handed-over batch gets one of the first."""


class Reconciliation(Enum):
    """The treatment of batches in the output that are newer than the batch to which the checkpoint was restored."""

    REPLAY = "replay"
    """The batches are replayed and change only their own rows, because each row replaces the row with its key."""
    CUT_BACK = "cut-back"
    """Readers no longer see the batches, and replayed batches take their place."""
    REFUSE = "refuse"
    """The output would contain the batches twice, so that a person must confirm that the output may have duplicates."""


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
    """How the output avoids duplicates of replayed rows, as a phrase; empty if it would have these rows twice."""
    receiver: str = "the output"
    """Who receives a replayed batch, as a person would name it."""
    fences: bool = False
    """Whether the output refuses every write of a superseded writer, whenever that writer resumes."""
    knows_batches: bool = False
    """Whether the output reports its last batch, and skips a batch that it already has."""
    shadows: bool = False
    """Whether the output can be written as a shadow beside the current output, compared with it, and swapped."""
    numbering: Numbering = Numbering.KEEP
    """How the batches of a handed-off version are numbered."""
    reconciles: Reconciliation = Reconciliation.REFUSE
    """How batches in the output are treated that are newer than a restored checkpoint."""
    one_place: bool = False
    """Whether all versions write to the same place, which must accept the new rows; otherwise each has its own."""
    names_place: bool = True
    """Whether the output's identity is the place that it writes to."""
    of_one_machine: Mapping[str, str] = {}
    """URL scheme of the output -> why only one machine can write it, as a phrase; ``""`` is the scheme of a path."""
    read_as: str = ""
    """The kind of streaming source that can read the output; empty if none can."""
    log_folder: str = ""
    """The folder of each version, below the output, in which Spark keeps a log that grows; empty without one."""
    result_of: str = "the output keeps one result per group"
    """What becomes of an earlier result of a group, as a sentence; empty if only the function's author knows."""
    not_from_elsewhere: str = "nothing proves that it refuses writes of an executor that outlives its driver"
    """Why executors on other machines cannot write the output, as a phrase; empty if they can."""
    columns: Mapping[str, frozenset[ColumnChange]] = {}
    """File format, or ``""`` without one -> the changes of its columns that the output accepts."""
    placed_by: str = ""
    """Option of the output's description with the columns that determine a row's place; empty if none do."""
    place: str = "key"
    """The name that users have for such a column."""
    needs_place: bool = False
    """Whether the output refuses a row in which such a column is null."""
    complete_replaces: bool = False
    """Whether each batch in complete mode replaces all rows."""
