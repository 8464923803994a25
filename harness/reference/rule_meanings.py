"""Describes in one line when each health rule raises its problem; a test compares the names with the rules."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "store-out-of-reach": "the watch or the job's driver cannot reach the store",
    "journal-lost": "the job's journal is gone, and other records name the job: of its drivers, incidents or"
    " operations, or the last index of the watch",
    "journal-unreadable": "an entry of the job's journal cannot be read",
    "journal-outdated": "the journal is older than what was written to the job's checkpoints or outputs",
    "disk-full": "the driver ended, or waits, because the disk or another resource of the machine is used up",
    "out-of-memory": "the driver ran out of memory",
    "checkpoint-missing": "a current checkpoint version is missing, empty, or not the recorded one",
    "checkpoint-damaged": "a checkpoint that no driver uses has damage that makes a start unsafe, or a driver could not"
    " read its checkpoint",
    "sink-ahead": "the output contains batches that its checkpoint has not planned",
    "output-lost": "the output lacks batches that its checkpoint has committed",
    "sink-down": "a sink, or another dependency of the job, does not answer",
    "source-down": "a source does not answer",
    "source-offset-lost": "a source no longer has the data that the query reads next",
    "input-gone": "files of a batch that was planned and not committed are gone, and no driver is running",
    "not-looked": "a part of the job could not be checked",
    "driver-dead": "the driver should run and has provably terminated",
    "machine-rebooted": "the driver should run, and its machine has rebooted since it was started",
    "driver-fenced": "the driver ended because another one was appointed, and no driver is running",
    "driver-refused": "the driver ended with an error that a restart cannot fix",
    "driver-unknown": "whether the driver is running cannot be determined from the watch's machine",
    "driver-lost": "as `driver-unknown`, and the driver has not reported for the threshold; if the job sets"
    " `lag-seconds` and not this rule, for that threshold",
    "operation-stuck": "an operation that is still carried out has drained or is replacing the driver, and no driver"
    " has reported for the threshold",
    "owner-unproven": "the driver's termination was stated by a person, so no driver may continue in its checkpoint",
    "crash-loop": "the driver restarted this often in ten minutes, or has used all of its restarts",
    "restarts": "the driver restarted this often in an hour",
    "heartbeat-lost": "the driver is running and has not reported for the threshold",
    "frozen": "processes of the driver are stopped (SIGSTOP), and it has not reported for the threshold",
    "frozen-in-part": "processes of the driver have been stopped for the threshold, and it still reports",
    "stalled": "a batch has been open for this many usual batches, or no trigger has completed for this many usual"
    " batches or trigger intervals, whichever are longer; in both cases at least a minute",
    "scheduling-delay": "the last batch started late by the threshold",
    "batch-longer-than-trigger": "the usual batch takes longer than this many trigger intervals",
    "lag-seconds": "the query is behind its sources by the threshold",
    "lag-growing": "what waits at the sources has not shrunk for the threshold, and has grown by more than a tenth",
    "checkpoint-write-slow": "in three batches in a row, writing the checkpoint took this share of the batch and at"
    " least one second",
    "checkpoint-growing": "the checkpoint grew by this factor in an hour, and has at least 256 MiB",
    "state-memory-forecast": "the state uses this much memory, or will within a day at the rate of its recorded"
    " history",
    "state-repaired": "Spark itself repaired this many state stores; the damage is unknown",
    "input-too-old": "this many input files are older than `maxFileAge` allows, or have a name that is not UTF-8: Spark"
    " never reads them",
    "runway-short": "a source drops the data that the query reads next within the threshold",
    "backup-late": "the oldest batch without a snapshot was committed longer ago than the threshold",
    "none-verified": "no snapshot has passed a drill for the threshold",
    "prune-stopped": "the last prune failed for the job, or none has run for the threshold",
    "operation-open": "an operation's process or DAG run has ended before the operation, or the operation has been open"
    " for the threshold",
    "approval-waiting": "an operation waits for a person's answer and has been open for the threshold",
    "recovery-waiting": "a recovery has waited for a person's answer for the threshold",
    "release-differs": "another release was requested than the current one, or another one is running",
}
"""When each rule is raised, in Markdown, by the rule's name."""
