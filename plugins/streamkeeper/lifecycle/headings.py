"""The section of docs/operations/runbook.md for each diagnosis."""

from __future__ import annotations

from streamkeeper.model.requests.diagnosis import Problem

HEADING_OF = {
    Problem.STORE_OUT_OF_REACH: "The store is down",
    Problem.NOT_DEPLOYED: "Nothing serves",
    Problem.OPERATION_OPEN: "An operation is open",
    Problem.DRIVER_UNREACHABLE: "Nothing serves",
    Problem.JOURNAL_LOST: "The journal of a job is lost",
    Problem.JOURNAL_OUTDATED: "An older copy of the store was put back",
    Problem.DISK_FULL: "The disk is full",
    Problem.CHECKPOINT_LOST: "A checkpoint is lost or damaged beyond repair",
    Problem.CHECKPOINT_DAMAGED: "A checkpoint may be damaged",
    Problem.SINK_AHEAD: "The sink is ahead of its checkpoint",
    Problem.OUTPUT_LOST: "An output is missing or an older copy",
    Problem.OWNER_UNPROVEN: "A driver's machine is gone",
    Problem.INPUT_GONE: "Files of the open batch are gone",
    Problem.SOURCE_OFFSET_LOST: "The source has dropped what comes next",
    Problem.SINK_DOWN: "A sink or a source does not answer",
    Problem.STOPPED: "Nothing serves",
    Problem.MACHINE_REBOOTED: "The machine was rebooted",
    Problem.DRIVER_FROZEN: "The heartbeat does not grow",
    Problem.OUT_OF_MEMORY: "The driver runs out of memory",
    Problem.BATCH_FAILS: "A record fails its batch every time",
    Problem.DRIVER_FAILED: "The driver restarts again and again",
    Problem.DRIVER_KILLED: "Nothing serves",
    Problem.DRIVER_STARTING: "A standby takes long to be ready",
    Problem.NOTHING_WRONG: "",
}
HEADINGS = frozenset(filter(None, HEADING_OF.values()))
"""The headings of docs/operations/runbook.md to which a diagnosis refers."""
