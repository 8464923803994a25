"""Determines the kind of fault of a recorded error. Drivers record the kind; for records of older versions it is
inferred from the error text.

Text is never parsed if the driver has recorded a kind, because a job's own error may contain any words.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from streamkeeper.model.protocol.fault_kinds import Fault, read_fault

_KINDS: tuple[tuple[Fault, str], ...] = (
    (Fault.DISK_FULL, r"No space left on device|disk is full|Disk quota exceeded|database or disk is full"),
    (
        Fault.STORE_LOST,
        r"\bstore \S+: cannot |lost the store|store .*(out of reach|did not answer)|\bthe store does not answer",
    ),
    (Fault.FENCED, r"has been superseded|was superseded|is appointed to job|has taken over from generation"),
    (Fault.OUTPUT_LOST, r"output-lost|\blacks committed batches\b"),
    (Fault.SINK_AHEAD, r"sink-ahead|\bholds batch \d+ of v\d+, (its checkpoint knows|but checkpoint v\d+ has)"),
    (Fault.CHECKPOINT_LOST, r"checkpoint-lost|is not what was recorded|has gone back"),
    (Fault.SOURCE_LOST, r"input-gone|FAILED_READ_FILE\.FILE_NOT_EXIST|no[ -]longer[ -]holds"),
    (
        Fault.OUT_OF_MEMORY,
        r"OutOfMemory|Java heap space|GC overhead|Cannot allocate memory|MemoryError"
        r"|unable to create (new )?native thread|can't start new thread",
    ),
    (
        Fault.CHECKPOINT_DAMAGED,
        r"CANNOT_LOAD_STATE_STORE|STATE_STORE_|STDS_|CheckpointDamaged|INVALID_LOG_VERSION|BATCH_METADATA_NOT_FOUND"
        r"|MISSING_STATE|Incomplete log file|Failed to read log file|state store \S+ cannot be read"
        r"|batch \d+ doesn't exist|(commits|offsets|metadata)\S* (is missing|cannot be read|is empty)"
        r"|Error reading (delta|snapshot|streaming state) file|CHECKPOINT_FILE_CHECKSUM",
    ),
    (Fault.SOURCE_DOWN, "SourceOutOfReach"),
    (
        Fault.SINK_DOWN,
        r"OperationalError|InterfaceError|[Cc]onnection refused|could not connect|server closed the connection"
        r"|could not translate host|terminating connection|connection timeout expired|database is locked",
    ),
)
"""Kind of fault -> the texts that indicate it. The declarations of sources add their own texts."""


def fault_of(recorded: str, text: str, first: Collection[Fault] = ()) -> Fault | None:
    """Return the kind of fault of an error; None if the error is unclassified.

    ``recorded``: the kind that the driver stored; empty if an older version stored none.
    ``text``: the error, read only if ``recorded`` is empty.
    ``first``: kinds that take precedence over all others when ``text`` is read.
    """
    stored = read_fault(recorded)
    if stored is None:
        return find_fault(text, first)
    return None if stored is Fault.UNCLASSIFIED else stored


def find_fault(text: str, first: Collection[Fault] = ()) -> Fault | None:
    """Return the kind of fault that an error text indicates; None for an empty text and for an unknown error.

    ``first``: kinds that take precedence over all others.
    """
    ranked = sorted(_patterns(), key=lambda entry: entry[0] not in first)
    return next((fault for fault, pattern in ranked if text and pattern.search(text)), None)


@cache
def _patterns() -> tuple[tuple[Fault, re.Pattern[str]], ...]:
    # Only now: a job's definition imports the rules of health, and Spark's Python workers import the definition.
    from streamkeeper.sources.known_sources import SOURCE_ERRORS

    of_sources = {
        Fault.SOURCE_LOST: [errors.recorded_lost for errors in SOURCE_ERRORS if errors.recorded_lost],
        Fault.SOURCE_DOWN: [errors.recorded_down for errors in SOURCE_ERRORS if errors.recorded_down],
    }
    return tuple((fault, re.compile("|".join([known, *of_sources.get(fault, ())]))) for fault, known in _KINDS)
