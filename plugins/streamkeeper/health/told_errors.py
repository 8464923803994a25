"""The kind of fault of a recorded error. Drivers store it; for records of older versions it is inferred from the text.

Text is never parsed if the driver has stored a kind, because a job's own error may contain any words.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from streamkeeper.model.protocol.faults import Fault, read_fault
from streamkeeper.sources.known_sources import SOURCE_ERRORS

_RECORDED_LOST = [errors.recorded_lost for errors in SOURCE_ERRORS if errors.recorded_lost]
_RECORDED_DOWN = [errors.recorded_down for errors in SOURCE_ERRORS if errors.recorded_down]
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
    (
        Fault.SOURCE_LOST,
        "|".join([r"input-gone|FAILED_READ_FILE\.FILE_NOT_EXIST|no[ -]longer[ -]holds", *_RECORDED_LOST]),
    ),
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
    (
        Fault.SOURCE_DOWN,
        "|".join(["SourceOutOfReach", *_RECORDED_DOWN]),
    ),
    (
        Fault.SINK_DOWN,
        r"OperationalError|InterfaceError|[Cc]onnection refused|could not connect|server closed the connection"
        r"|could not translate host|terminating connection|connection timeout expired|database is locked",
    ),
)
_PATTERNS = tuple((fault, re.compile(pattern)) for fault, pattern in _KINDS)


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
    ranked = sorted(_PATTERNS, key=lambda entry: entry[0] not in first)
    return next((fault for fault, pattern in ranked if text and pattern.search(text)), None)
