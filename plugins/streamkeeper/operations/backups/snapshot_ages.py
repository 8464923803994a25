"""The ages of a query's snapshots, which are read from the store every few minutes and remembered in between."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime

from msgspec.structs import replace

from streamkeeper.model.records.known_checkpoint import KnownCheckpoint
from streamkeeper.model.watch.fleet_index import SnapshotFacts
from streamkeeper.model.watch.health import BackupLook
from streamkeeper.model.watch.watched_facts import JobFacts
from streamkeeper.operations.backups.backup import find_lateness
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import Target
from streamkeeper.snapshots.capture import Origin
from streamkeeper.snapshots.catalogue import Catalogue

LOOK_EVERY_S = 600.0


def look_at_snapshots(
    installation: Installation,
    known: KnownCheckpoint,
    location: str,
    facts: JobFacts,
    query: str,
    before: SnapshotFacts | None,
    now: float,
) -> SnapshotFacts:
    """Return the facts about a query's snapshots.

    Until ``before.due_at``, these are the remembered facts ``before``. Afterwards they are read from the store. The
    first ``due_at`` of each series is spread over ``LOOK_EVERY_S``, so that no pass reads all snapshots.

    ``installation``: the installation; ``known`` and ``location``: the current checkpoint version and its directory;
    ``facts``: of the job; ``query``: its name; ``before``: the remembered facts; ``now``: seconds since 1970.

    Raises CheckpointDamaged, CheckpointChanged, SnapshotDamaged, StoreUnavailable.
    """
    if before is not None and now < before.due_at:
        return before
    found = newest_snapshots(Catalogue(installation.snapshots, known.series), before)
    target = Target(
        series=known.series,
        location=location,
        known=known,
        origin=Origin(version=known.version, release=facts.serving_release),
        job=known.series.partition("/")[0],
        query=query,
    )
    newest = found if found.number else None
    lateness = find_lateness(target, newest, now=datetime.fromtimestamp(now, UTC))
    turn_s = zlib.crc32(known.series.encode()) % LOOK_EVERY_S if before is None else LOOK_EVERY_S
    return replace(found, looked_at=now, due_at=now + turn_s, lacks_s=lateness.late_s if lateness is not None else None)


def backup_look(facts: SnapshotFacts, now: float) -> BackupLook:
    """Return the ages that the snapshots have at ``now``, in the form that the health rules use."""
    lacks_s = facts.lacks_s + now - facts.looked_at if facts.lacks_s else facts.lacks_s
    return BackupLook(
        age_s=now - facts.taken_at if facts.taken_at is not None else None,
        verified_age_s=now - facts.verified_at if facts.verified_at is not None else None,
        lacks_s=lacks_s,
        oldest_age_s=now - facts.oldest_at if facts.oldest_at is not None else None,
    )


def newest_snapshots(catalogue: Catalogue, before: SnapshotFacts | None) -> SnapshotFacts:
    """Return the facts about the newest snapshot and about the newest verified snapshot.

    If no snapshot is verified, the result also contains the time of the oldest snapshot.

    ``before``: the facts from an earlier call. For a snapshot in these facts, only new drills are read.
    """
    found = replace(before, oldest_at=None) if before is not None else SnapshotFacts(looked_at=0.0)
    numbers = catalogue.numbers()
    if not numbers:
        return SnapshotFacts(looked_at=0.0)
    if numbers[-1] != found.number:
        newest = catalogue.read(numbers[-1])
        found = replace(
            found,
            number=newest.number,
            version=newest.version,
            batch=newest.batch,
            query_id=newest.query_id,
            checkpoint=newest.checkpoint,
            taken_at=_moment(newest.taken_at),
        )
    if found.verified not in numbers:
        found = replace(found, verified=0, verified_at=None)
    drilled = [number for number in catalogue.drilled() if number > found.verified and number in numbers]
    verified = next((number for number in reversed(drilled) if catalogue.is_verified(number)), 0)
    if verified:
        verified_at = found.taken_at if verified == found.number else _moment(catalogue.read(verified).taken_at)
        return replace(found, verified=verified, verified_at=verified_at)
    if not found.verified:
        return replace(found, oldest_at=_moment(catalogue.read(numbers[0]).taken_at))
    return found


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
