"""The snapshot for the restore of a damaged query, and the counted data that it reads and writes again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.reach import compare
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, FormatTooNew, NotFound, SnapshotDamaged
from streamkeeper.model.job_state import JobState
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.recovery import QueryLook, Replay
from streamkeeper.model.snapshot import Snapshot, series_of_query, snapshot_name, snapshot_number
from streamkeeper.operations.input_access import unseen_input
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.missing_input import (
    find_missing,
    holds_lists_of,
    last_batches_of,
    not_known,
    positions_since,
)
from streamkeeper.operations.old_input import GoesBack, told_old_input
from streamkeeper.sinks.asking import reconcile
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.verify import verify


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The damaged version that is left behind."""

    query: QueryLook
    """Its observation."""
    manifest: Manifest
    """Its query's manifest."""
    committed: int | None = None
    """Its newest recorded batch; None without one."""
    query_id: str = ""
    """Its recorded query id of Spark."""


def choose_replay(
    site: Installation, state: JobState, left: Left, *, named: str = ""
) -> tuple[Replay | None, str, tuple[str, ...]]:
    """The replay from the chosen snapshot or None, the reason if there is none, and the skipped snapshots with reasons.

    Chooses the newest snapshot that has passed a drill, unless going back that far loses data that a newer one keeps.
    Every object of it is read and compared with its hash. ``left``: the damaged version; ``named``: the only snapshot
    to consider, empty for all.
    """
    catalogue = Catalogue(site.snapshots, series_of_query(state.job, left.query.query))
    numbers = [snapshot_number(named)] if named else list(reversed(catalogue.numbers()))
    spans = last_batches_of(state.spans(left.query.query, left.query.version))
    unseen = unseen_input(site, state, left.query.query)
    newest: Replay | None = None
    drilled: Replay | None = None
    passed: list[str] = []
    for number in numbers:
        try:
            snapshot = catalogue.read(number)
        except (SnapshotDamaged, FormatTooNew, NotFound) as error:
            passed.append(f"snapshot {snapshot_name(number)} cannot be read: {error.message}")
            continue
        verified = catalogue.is_verified(number)
        if newest is not None and not verified:
            continue
        if why_not := _why_not(catalogue, snapshot, left, spans):
            passed.append(f"snapshot {snapshot.name} (batch {snapshot.batch}) cannot be restored: {why_not}")
            continue
        found = _replay(snapshot, left, unseen, verified=verified, parted=not holds_lists_of(spans, snapshot))
        if newest is None:
            newest = found
        if verified:
            drilled = found
            break
    if newest is None:
        return None, _none(named, passed), tuple(passed)
    chosen = newest if drilled is None or (drilled.gone and not newest.gone) else drilled
    for other in (newest, drilled):
        if other is not None and other is not chosen:
            known = "verified" if other.verified else "never drilled"
            told = f"snapshot {other.snapshot} (batch {other.batch}, {known}) is also available: --snapshot selects it"
            passed.insert(0, told)
    return chosen, "", tuple(passed)


def _none(named: str, passed: list[str]) -> str:
    if passed:
        return "; ".join(passed)
    return f"there is no snapshot {named}" if named else "there is no snapshot of it"


def _why_not(catalogue: Catalogue, snapshot: Snapshot, left: Left, spans: Collection[str]) -> str:
    """Why a snapshot cannot be restored, or its output cannot be continued; empty if both are possible."""
    if snapshot.version not in spans:
        return f"the output does not continue the output of {snapshot.version or 'another checkpoint'}"
    query = left.query
    if query.input_gone and (snapshot.version, snapshot.open_batch) == (query.version, query.open_batch):
        take = f"streamkeeper snapshot take {catalogue.series} --without-open-batch takes one without it"
        return f"it contains the plan of batch {snapshot.open_batch}, whose files are missing ({take})"
    if cannot := reconcile(left.manifest.sink, snapshot.version, snapshot.batch).refusal:
        return cannot
    damaged = verify(catalogue, [snapshot.number]).damaged
    return f"{damaged[0].key} is damaged: {damaged[0].why}" if damaged else ""


def _replay(snapshot: Snapshot, left: Left, unseen: Mapping[str, str], *, verified: bool, parted: bool) -> Replay:
    """The data that is read and written again from a snapshot.

    ``snapshot``: the source; ``left``: the damaged version; ``unseen``: scheme -> why files there cannot be checked;
    ``verified``: whether the snapshot has passed a drill; ``parted``: whether the damaged version branched off before
    the snapshot's batch.
    """
    takes = reconcile(left.manifest.sink, snapshot.version, snapshot.batch).takes
    replay = Replay(
        snapshot=snapshot.name, batch=snapshot.batch, taken_at=snapshot.taken_at, verified=verified, takes=takes
    )
    query = left.query
    # A restored version keeps its query's id, batch numbers and file list; a version that was handed over does not.
    if (snapshot.query_id != left.query_id and snapshot.version != query.version) or parted:
        why = f"{query.version} has continued from {snapshot.version} since"
        return msgspec.structs.replace(replay, unknown=why)
    known = [batch for batch in (left.committed, query.committed, query.holds) if batch is not None]
    batches = max(0, max(known, default=-1) - snapshot.batch)
    planned_on = query.planned is not None and query.planned > snapshot.batch and not snapshot.pending
    if not batches and not planned_on and not query.sink_down:
        return msgspec.structs.replace(replay, batches=0)
    tree = tree_at(query.directory)
    try:
        if query.lost:
            raise CheckpointDamaged(query.lost)
        now, then = positions_since(tree, snapshot.offsets)
    except (CheckpointDamaged, CheckpointChanged, NotFound) as error:
        return msgspec.structs.replace(replay, batches=batches, unknown=not_known(left.manifest, error.message).unknown)
    reads, missing = compare(now, then), find_missing(now, then, unseen=unseen)
    lacking = reads.lacking if reads.comparable and not reads.holds else ""
    old = told_old_input(tree, left.manifest, unseen, then=GoesBack(tree, snapshot.offsets))
    return msgspec.structs.replace(
        replay,
        batches=batches,
        reads=f"{lacking}{old}".removeprefix(" and "),
        gone=missing.gone,
        unknown=missing.unknown,
    )
