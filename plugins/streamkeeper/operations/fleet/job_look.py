"""Compose the input of the health rules from an observed job, and the facts that the next pass remembers."""

from __future__ import annotations

from msgspec.structs import replace

from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.watch.fleet_index import JobMemory, PruneRecord
from streamkeeper.model.watch.health import BackupLook, JobLook
from streamkeeper.operations.backups.snapshot_ages import backup_look
from streamkeeper.operations.fleet.fleet_look import WatchedJob
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.fleet import read_prune

FORGET_S = 3600.0
"""Age in seconds beyond which restarts and actions are dropped from the memory."""


def compose_look(
    installation: Installation, seen: WatchedJob, now: float, prune: PruneRecord | None
) -> tuple[JobLook, JobMemory]:
    """Return the health rules' input for one job, and the memory for the next pass. ``now``: seconds since 1970."""
    memory = _remember(seen, now)
    facts = seen.facts
    if seen.lost:
        return JobLook(job=seen.job, now=now, lost=seen.lost, unlooked={"journal": seen.lost}), memory
    if facts is None or facts.forgotten:
        unlooked = dict(seen.unlooked) if facts is None or seen.unreadable else {}
        return JobLook(job=seen.job, now=now, unreadable=seen.unreadable, unlooked=unlooked), memory
    look = JobLook(
        job=seen.job,
        now=now,
        facts=facts,
        driver=seen.driver,
        frozen_s=now - memory.frozen_at if memory.frozen_at else 0.0,
        silent_s=max(0.0, now - memory.beat_at),
        restarts_s=tuple(now - moment for moment in memory.restarts),
        owned=not seen.abandoned,
        asked=seen.asked,
        checkpoints=seen.checkpoints,
        backups=_backups(seen, now),
        objective_s=installation.settings.objective_s,
        prune_age_s=now - prune.at if prune is not None else None,
        prune_failed=_unpruned(seen.job, prune),
        history=seen.history,
        outdated=seen.outdated,
        unreadable=seen.unreadable,
        unlooked=dict(seen.unlooked),
    )
    return look, memory


def find_prune(installation: Installation) -> PruneRecord | None:
    """Return the last full prune; None if there was none or the store of the snapshots cannot be read."""
    try:
        return read_prune(installation.snapshots)
    except StreamkeeperError:
        return None


def _remember(seen: WatchedJob, now: float) -> JobMemory:
    """Return the memory for the next pass, with the new times of the last heartbeat and of the restarts."""
    before = seen.memory
    restarts = tuple(moment for moment in before.restarts if now - moment <= FORGET_S)
    acts = {
        act: tuple(moment for moment in moments if now - moment <= FORGET_S) for act, moments in before.acts.items()
    }
    status = seen.driver.status
    beat, beat_at = before.beat, before.beat_at
    if status is not None:
        beat = (status.instance, status.generation, status.beat)
        if beat != before.beat:
            beat_at = now
        if status.instance == before.beat[0] and status.generation > before.beat[1]:
            restarts += (now,) * (status.generation - before.beat[1])
    elif seen.instance != before.beat[0]:
        beat, beat_at = (seen.instance, 0, 0), now
    facts = seen.facts if seen.facts is not None else before.facts
    frozen_at = (before.frozen_at or now) if seen.driver.frozen else 0.0
    elsewhere_at = (before.elsewhere_at or now) if seen.elsewhere else 0.0
    return replace(
        before,
        facts=facts,
        lost=bool(seen.lost),
        beat=beat,
        beat_at=beat_at,
        frozen_at=frozen_at,
        elsewhere_at=elsewhere_at,
        restarts=restarts,
        acts=acts,
    )


def _backups(seen: WatchedJob, now: float) -> dict[str, BackupLook]:
    versions = seen.facts.versions if seen.facts is not None else {}
    return {query: backup_look(snapshot, now) for query, snapshot in seen.memory.snapshots.items() if query in versions}


def _unpruned(job: str, prune: PruneRecord | None) -> str:
    """Return the first failure of the last prune that is about this job; empty without one."""
    failed = prune.failed if prune is not None else ()
    return next(
        (failure for failure in failed if failure.startswith((f"{job}:", f"{job}/")) or f"/{job}/" in failure), ""
    )
