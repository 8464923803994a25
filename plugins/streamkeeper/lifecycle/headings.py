"""The section of docs/operations/runbook.md for each diagnosis."""

from __future__ import annotations

from streamkeeper.model.requests.recovery import Cause

HEADING_OF = {
    Cause.STORE_OUT_OF_REACH: "The store is down",
    Cause.NOT_DEPLOYED: "Nothing serves",
    Cause.OPERATION_OPEN: "An operation is open",
    Cause.DRIVER_UNREACHABLE: "Nothing serves",
    Cause.JOURNAL_LOST: "The journal of a job is lost",
    Cause.JOURNAL_OUTDATED: "An older copy of the store was put back",
    Cause.DISK_FULL: "The disk is full",
    Cause.CHECKPOINT_LOST: "A checkpoint is lost or damaged beyond repair",
    Cause.CHECKPOINT_DAMAGED: "A checkpoint may be damaged",
    Cause.SINK_AHEAD: "The sink is ahead of its checkpoint",
    Cause.OUTPUT_LOST: "An output is missing or an older copy",
    Cause.OWNER_UNPROVEN: "A driver's machine is gone",
    Cause.INPUT_GONE: "Files of the open batch are gone",
    Cause.SOURCE_OFFSET_LOST: "The source has dropped what comes next",
    Cause.SINK_DOWN: "A sink or a source does not answer",
    Cause.STOPPED: "Nothing serves",
    Cause.MACHINE_REBOOTED: "The machine was rebooted",
    Cause.DRIVER_FROZEN: "The heartbeat does not grow",
    Cause.OUT_OF_MEMORY: "The driver runs out of memory",
    Cause.BATCH_FAILS: "A record fails its batch every time",
    Cause.DRIVER_FAILED: "The driver restarts again and again",
    Cause.DRIVER_KILLED: "Nothing serves",
    Cause.DRIVER_STARTING: "A standby takes long to be ready",
    Cause.NOTHING_WRONG: "",
}
HEADINGS = frozenset(filter(None, HEADING_OF.values()))
"""Headings of docs/operations/runbook.md that a diagnosis refers to."""
