"""What kind of fault an error is: decided once, where the error is raised, and stored beside its text."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    """What has failed. Records store the value as text: an older reader accepts a kind that it does not know."""

    STORE_LOST = "store-lost"
    SINK_AHEAD = "sink-ahead"
    OUTPUT_LOST = "output-lost"
    CHECKPOINT_LOST = "checkpoint-lost"
    SOURCE_LOST = "source-lost"
    DISK_FULL = "disk-full"
    OUT_OF_MEMORY = "out-of-memory"
    CHECKPOINT_DAMAGED = "checkpoint-damaged"
    SOURCE_DOWN = "source-down"
    SINK_DOWN = "sink-down"
    FENCED = "fenced"
    EVICTED = "evicted"
    """Its node had too little of something and ended it; another node may have more."""
    UNCLASSIFIED = "unclassified"
    """None of the above: the job's own code, a bad record, or something that nobody has listed."""


def read_fault(recorded: str) -> Fault | None:
    """The stored kind; None where the record has none, as those of older versions.

    A kind that only a newer version knows counts as unclassified: its text is not parsed.
    """
    if not recorded:
        return None
    return next((fault for fault in Fault if fault.value == recorded), Fault.UNCLASSIFIED)
