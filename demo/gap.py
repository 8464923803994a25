"""The gap in the output at a handover, from the moments at which the commits of both drivers were written."""

from __future__ import annotations

import datetime
from pathlib import Path

from streamkeeper.model.journal import InstanceEnded
from streamkeeper.registry.journal import Journal


def handover_gap_s(journal: Journal, operation: str, checkpoints: Path, job: str) -> float | None:
    """From the old driver's last commit to the new one's first, the longest of the job's queries.

    Both drivers wrote on this machine, so one clock tells both; None when the operation relieved no driver.
    """
    ended = [
        datetime.datetime.fromisoformat(entry.at).timestamp()
        for entry in journal.entries()
        if isinstance(entry.record, InstanceEnded)
        and entry.record.operation == operation
        and not entry.record.instance.startswith(operation)
    ]
    if not ended:
        return None
    state = journal.state()
    gaps: list[float] = []
    for query in state.versions:
        version = state.current_version(query)
        if version is not None:
            gap = gap_around(checkpoints / job / query / version.version / "commits", ended[0])
            gaps += [] if gap is None else [gap]
    return max(gaps, default=None)


def gap_around(commits: Path, moment: float) -> float | None:
    """Seconds between the last commit before ``moment`` and the first after it; None when one of them is missing."""
    written = [entry.stat().st_mtime for entry in commits.iterdir() if entry.name.isdecimal()]
    before = max((each for each in written if each <= moment), default=None)
    after = min((each for each in written if each > moment), default=None)
    return None if before is None or after is None else after - before
