"""What kind of fault an error tells of: read from the one line that a driver left, by conditions and our own sentences.

A driver's errors reach the watch as text, also those of releases that are long built; the first kind that fits counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum


class Fault(Enum):
    """What has failed, as far as an error's text tells."""

    STORE_LOST = "store-lost"
    SINK_AHEAD = "sink-ahead"
    CHECKPOINT_LOST = "checkpoint-lost"
    SOURCE_LOST = "source-lost"
    DISK_FULL = "disk-full"
    OUT_OF_MEMORY = "out-of-memory"
    CHECKPOINT_DAMAGED = "checkpoint-damaged"
    SOURCE_DOWN = "source-down"
    SINK_DOWN = "sink-down"
    FENCED = "fenced"


_KINDS: tuple[tuple[Fault, str], ...] = (
    (Fault.DISK_FULL, r"No space left on device|disk is full|Disk quota exceeded|database or disk is full"),
    (
        Fault.STORE_LOST,
        r"\bstore \S+: cannot |lost the store|store .*(out of reach|did not answer)|\bthe store does not answer",
    ),
    (Fault.FENCED, r"has been superseded|was superseded|is appointed to job|has taken over from generation"),
    (Fault.SINK_AHEAD, r"sink-ahead|\bholds batch \d+ of v\d+, its checkpoint knows"),
    (Fault.CHECKPOINT_LOST, r"checkpoint-lost|is not what was recorded|has gone back"),
    (
        Fault.SOURCE_LOST,
        r"KAFKA_DATA_LOSS|[Ss]ome data may have been lost|[Cc]annot fetch offset|OffsetOutOfRange|topic-short"
        r"|input-gone|FAILED_READ_FILE\.FILE_NOT_EXIST|no[ -]longer[ -]holds|offset was changed from",
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
        r"TimeoutException: .*(node assignment|describeTopics|listOffsets|listTopics|fetch)|No resolvable bootstrap"
        r"|bootstrap broker .* disconnected|SourceOutOfReach|Topic .* not present in metadata",
    ),
    (
        Fault.SINK_DOWN,
        r"OperationalError|InterfaceError|[Cc]onnection refused|could not connect|server closed the connection"
        r"|could not translate host|terminating connection|connection timeout expired|database is locked",
    ),
)
_PATTERNS = tuple((fault, re.compile(pattern)) for fault, pattern in _KINDS)


def find_fault(text: str, first: Collection[Fault] = ()) -> Fault | None:
    """The kind of fault that the text tells of; None for an empty text and for what nobody has listed.

    ``first``: kinds that are looked for before all others.
    """
    ranked = sorted(_PATTERNS, key=lambda entry: entry[0] not in first)
    return next((fault for fault, pattern in ranked if text and pattern.search(text)), None)
