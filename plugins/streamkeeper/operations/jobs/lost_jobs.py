"""Detect jobs whose journal is lost. Other records still name such jobs, so a loss does not go unnoticed.

Records of drivers, incidents and carriers are created only after the first entry of a journal. The last index of the
watch contains the number of entries that each journal had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streamkeeper.errors import JournalLost
from streamkeeper.model.watch.fleet_index import JobMemory
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.fleet import read_index
from streamkeeper.registry.jobs import list_job_folders
from streamkeeper.registry.journal import has_journal
from streamkeeper.stores.contract import Store

_FOLDERS = {"control": "records of its drivers", "incidents": "incidents", "carriers": "carriers of its operations"}


def find_lost_jobs(
    installation: Installation, recorded: Collection[str], remembered: Mapping[str, JobMemory]
) -> dict[str, str]:
    """Return each lost job with a sentence that lists the records in which the job is named.

    ``recorded``: jobs with a journal; ``remembered``: job -> the watch's memory of the job in its last index.
    """
    there = {folder: set(list_job_folders(installation.store, f"{folder}/")) for folder in _FOLDERS}
    named = set().union(*there.values()) | {job for job, memory in remembered.items() if _was_seen(memory)}
    found = {
        job: _tell(
            installation.store, job, [folder for folder, jobs in there.items() if job in jobs], remembered.get(job)
        )
        for job in sorted(named - set(recorded))
        # It may have been deployed since the jobs were listed.
        if not has_journal(installation.store, job)
    }
    return {job: reason for job, reason in found.items() if reason}


def find_lost(installation: Installation, job: str) -> str:
    """Return a sentence with the records that name a lost job; empty if its journal exists or the job is unknown."""
    if has_journal(installation.store, job):
        return ""
    index = read_index(installation.store, installation.id)
    row = index.row(job) if index is not None else None
    return _tell(installation.store, job, _FOLDERS, row.memory if row is not None else None)


def must_not_be_lost(installation: Installation, job: str) -> None:
    """Raise JournalLost if a job's journal is lost: a deploy would ignore the job's data and start from scratch."""
    if reason := find_lost(installation, job):
        raise JournalLost(reason, hint=way_out(job))


def way_out(job: str) -> str:
    """Return the remedy for a lost journal, as a hint."""
    return f"put registry/{job} back in the store, or run `streamkeeper registry rebuild {job} --dry-run`"


def _was_seen(memory: JobMemory) -> bool:
    """Whether the last pass read the job's journal. A job that was already lost then is reported as long as a record
    names it.
    """
    return memory.facts is not None and memory.facts.number > 0 and not memory.lost


def _tell(store: Store, job: str, folders: Collection[str], memory: JobMemory | None) -> str:
    if memory is not None and memory.facts is not None and memory.facts.forgotten:
        return ""
    # An empty directory does not name a job.
    kept = [f"{_FOLDERS[folder]} ({folder}/{job})" for folder in folders if any(store.list(f"{folder}/{job}/"))]
    if memory is not None and memory.facts is not None and _was_seen(memory):
        kept.append(f"the last pass of the watch, which read its journal up to entry {memory.facts.number}")
    return (
        f"the journal of job {job} is lost: {store.url} has none, but other records name the job: {'; '.join(kept)}"
        if kept
        else ""
    )
