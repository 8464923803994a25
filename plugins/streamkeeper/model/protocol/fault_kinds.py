"""The kind of fault behind an error. It is determined once, where the error is raised, and stored next to the error's
text.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.protocol.restart_budgets import Cause


class Fault(Enum):
    """The kind of failure, by the part that failed. Records store the value as text, so that an older reader accepts an
    unknown kind.
    """

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
    """The driver's node lacked a resource and evicted the driver; another node may have enough."""
    UNCLASSIFIED = "unclassified"
    """None of the above: the job's own code, a bad record, or an error that is not listed."""


class Judged(msgspec.Struct, frozen=True):
    """The assessment of an error. ``cause``: what the error means for a restart; ``fault``: the kind of failure."""

    cause: Cause = Cause.FAILURE
    fault: Fault = Fault.UNCLASSIFIED


def read_fault(recorded: str) -> Fault | None:
    """Return the fault that a record stores; None if ``recorded`` is empty, as in records of older versions.

    A kind that only a newer version defines counts as unclassified.
    """
    if not recorded:
        return None
    return next((fault for fault in Fault if fault.value == recorded), Fault.UNCLASSIFIED)
