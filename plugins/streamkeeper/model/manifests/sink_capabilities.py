"""The capabilities that a kind of output can have. Decisions are based on them, without the code of the output."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec


class Numbering(Enum):
    """How the batches of a handed-off checkpoint version are numbered."""

    KEEP = "keep"
    """The numbers of the old version continue, because the output has one sequence of numbers."""
    REBASE = "rebase"
    """The numbers restart, because the output counts per version: the handed-over batch gets one of the first
    numbers.
    """


class Reconciliation(Enum):
    """The treatment of batches in the output that are newer than the batch to which the checkpoint was restored."""

    REPLAY = "replay"
    """The batches are replayed and change only their own rows, because each row replaces the row with the same key."""
    CUT_BACK = "cut-back"
    """Readers no longer see the batches, and replayed batches take their place."""
    REFUSE = "refuse"
    """The output would contain the batches twice, so a person must confirm that the output may have duplicates."""


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
    """How the output avoids duplicates of replayed rows, as a phrase; empty if it would contain these rows twice."""
    receiver: str = "the output"
    """Who receives a replayed batch, as a person would name it."""
    read_once_by: str = ""
    """How a reader can see replayed rows once although the output contains them twice, as a phrase; empty if it
    cannot.
    """
    fences: bool = False
    """Whether the output refuses every write of a superseded writer, whenever that writer resumes."""
    knows_batches: bool = False
    """Whether the output reports its last batch, and skips a batch that it already has."""
    shadows: bool = False
    """Whether the output can be written as a shadow next to the current output, compared with it, and swapped
    with it.
    """
    numbering: Numbering = Numbering.KEEP
    """How the batches of a handed-off version are numbered."""
    reconciles: Reconciliation = Reconciliation.REFUSE
    """How batches in the output are treated that are newer than a restored checkpoint."""
    one_place: bool = False
    """Whether all versions write to the same place, which must accept the new rows; otherwise each version has its own
    place.
    """
    names_place: bool = True
    """Whether the output's identity is the place to which it writes."""
    of_one_machine: Mapping[str, str] = {}
    """URL scheme of the output -> why only one machine can write it, as a phrase; ``""`` is the scheme of a path."""
    read_as: str = ""
    """The kind of streaming source that can read the output and names it by its path; empty without one."""
    log_folder: str = ""
    """The folder of each version, below the output, in which Spark keeps a log that grows; empty if there is no such
    folder.
    """
    result_of: str = "the output keeps one result per group"
    """What happens to an earlier result of a group, as a sentence; empty if only the author of the sink's function can
    tell.
    """
    not_from_elsewhere: str = "nothing proves that it refuses writes of an executor that outlives its driver"
    """Why executors on other machines cannot write the output, as a phrase; empty if they can."""
    columns: Mapping[str, frozenset[ColumnChange]] = {}
    """File format -> the column changes that the output accepts; the key is an empty text for an output without a file
    format.
    """
    placed_by: str = ""
    """Option of the output's description that names the columns that determine a row's place; empty if no
    columns do.
    """
    place: str = "key"
    """The name that users use for such a column."""
    needs_place: bool = False
    """Whether the output refuses a row in which such a column is null."""
    complete_replaces: bool = False
    """Whether each batch in complete mode replaces all rows."""
    placing_columns: tuple[str, ...] = ()
    """The columns that determine a row's place, if their names are fixed and no option names them. An output with such
    names accepts no other columns than those that it knows.
    """
    delivers: bool = False
    """Whether the output passes rows on to readers that take only new ones. Another such output then needs no copy of
    the rows written so far, and several queries may write to the same one.
    """
    approved_options: Mapping[str, str] = {}
    """Option of the output's description -> the effect of another value, as a sentence, for the options whose change a
    person must approve, because readers may have to know of it.
    """
    server_options: tuple[str, ...] = ()
    """The options of the output's description that name its servers, if these are no part of the output's identity.
    Another value may be another address of the same servers.
    """


def needs_no_copy(old: SinkCapabilities, new: SinkCapabilities) -> bool:
    """Whether a query may continue in another output that lacks the rows written so far.

    ``old`` and ``new``: the capabilities of both outputs. A function receives new batches only, so it may continue for
    an output that delivers; whether it may continue for another one, only its author knows.
    """
    return new.delivers or (old.delivers and not new.names_place)
