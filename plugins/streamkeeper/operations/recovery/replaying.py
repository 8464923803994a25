"""Choose the snapshot from which a damaged query is restored, and count the data that is read and written again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.reach import compare
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, FormatTooNew, NotFound, SnapshotDamaged
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.snapshot import Snapshot, series_of_query, snapshot_name, snapshot_number
from streamkeeper.model.requests.diagnosis import QueryLook, Replay
from streamkeeper.operations.deploys.version_acts import parent_of_restored
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.missing_input import (
    find_missing,
    holds_lists_of,
    last_batches_of,
    not_known,
    positions_since,
)
from streamkeeper.operations.jobs.old_input import GoesBack, told_old_input
from streamkeeper.operations.jobs.outputs import why_not_cut_back
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.verify import verify


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The damaged checkpoint version that the query leaves."""

    query: QueryLook
    """The observation of the damaged version."""
    manifest: Manifest
    """The manifest of its query."""
    committed: int | None = None
    """The newest recorded batch of the version; None without one."""
    query_id: str = ""
    """Spark's query id as recorded for the version."""


def choose_replay(
    installation: Installation, state: JobState, left: Left, *, named: str = ""
) -> tuple[Replay | None, str, tuple[str, ...]]:
    """Choose a snapshot. Return its replay, the reason if there is none, and sentences about the other snapshots.

    The replay is None if no snapshot can be restored; otherwise the reason is empty.

    The newest restorable snapshot that has passed a drill is chosen. The newest restorable snapshot is chosen instead
    if no such snapshot has passed a drill, if the drilled one loses data that the newest keeps, or if the newest is a
    complete copy of an undamaged checkpoint that only a driver with an unproven end may still write. Every object of
    the chosen snapshot is read and compared with its hash.

    ``left``: the damaged version; ``named``: the only snapshot to consider, empty to consider all.
    """
    catalogue = Catalogue(installation.snapshots, series_of_query(state.job, left.query.query))
    numbers = [snapshot_number(named)] if named else list(reversed(catalogue.numbers()))
    last_batches = last_batches_of(state.segments(left.query.query, left.query.version))
    unseen = unseen_input(installation, state, left.query.query)
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
        if why_not := _why_not(installation, state, catalogue, snapshot, left, last_batches):
            passed.append(f"snapshot {snapshot.name} (batch {snapshot.batch}) cannot be restored: {why_not}")
            continue
        found = _replay(snapshot, left, unseen, verified=verified, parted=not holds_lists_of(last_batches, snapshot))
        # The lookup of the parent reads the journal, and the price of a restore needs it only for such an output.
        if capabilities_of(left.manifest.sink.kind).read_once_by:
            linked = parent_of_restored(installation, state, left.query.query, snapshot, left.manifest.sink)
            found = msgspec.structs.replace(found, linked=bool(linked))
        if newest is None:
            newest = found
        if verified:
            drilled = found
            break
    if newest is None:
        return None, _none(named, passed), tuple(passed)
    loses, copies = drilled is not None and drilled.gone and not newest.gone, _is_copy(newest, left.query)
    chosen = newest if drilled is None or loses or copies else drilled
    for other in (newest, drilled):
        if other is not None and other is not chosen:
            known = "verified" if other.verified else "not verified by a drill"
            also = "is also available; use `--snapshot` to select it"
            text = f"snapshot {other.snapshot} (batch {other.batch}, {known}) {also}"
            passed.insert(0, text)
    return chosen, "", tuple(passed)


def _is_copy(replay: Replay, query: QueryLook) -> bool:
    """Whether a snapshot is a complete copy of an undamaged checkpoint that the last driver may still write. For such a
    copy, the drill of an older snapshot proves no more, and its restore would only reread and rewrite data.
    """
    harmed = query.lost or query.harmed or query.ahead or query.output_lost
    return bool(query.unproven) and not harmed and replay.batches == 0 and not replay.unknown


def _none(named: str, passed: list[str]) -> str:
    if passed:
        return "; ".join(passed)
    return f"there is no snapshot {named}" if named else "there is no snapshot of the query"


def _why_not(
    installation: Installation,
    state: JobState,
    catalogue: Catalogue,
    snapshot: Snapshot,
    left: Left,
    versions: Collection[str],
) -> str:
    """Return why a snapshot cannot be restored or its output cannot be continued; empty if both are possible."""
    if snapshot.version not in versions:
        return f"the output does not continue the output of {snapshot.version or 'another checkpoint'}"
    query = left.query
    if query.input_gone and (snapshot.version, snapshot.open_batch) == (query.version, query.open_batch):
        take = f"run `streamkeeper snapshot take {catalogue.series} --without-open-batch` for one without that plan"
        return f"it contains the plan of batch {snapshot.open_batch}, whose files are missing ({take})"
    # An output that does not answer would be asked again for each snapshot. The restore asks it once more.
    if not query.sink_down and (
        cannot := why_not_cut_back(
            installation, state, state.serving_release, query.query, left.manifest.sink, snapshot
        )
    ):
        return cannot
    damaged = verify(catalogue, [snapshot.number]).damaged
    return f"{damaged[0].key} is damaged: {damaged[0].why}" if damaged else ""


def _replay(snapshot: Snapshot, left: Left, unseen: Mapping[str, str], *, verified: bool, parted: bool) -> Replay:
    """Return the data that is read and written again after a restore of a snapshot.

    ``snapshot``: the source; ``left``: the damaged version; ``unseen``: scheme -> why files there cannot be checked;
    ``verified``: whether the snapshot has passed a drill; ``parted``: whether the damaged version branched off before
    the snapshot's batch.
    """
    takes = capabilities_of(left.manifest.sink.kind).takes_again
    replay = Replay(
        snapshot=snapshot.name, batch=snapshot.batch, taken_at=snapshot.taken_at, verified=verified, takes=takes
    )
    query = left.query
    # A restored version keeps the query id, batch numbers and file list; a version that was handed over does not.
    if (snapshot.query_id != left.query_id and snapshot.version != query.version) or parted:
        why = f"since then, {query.version} has continued from {snapshot.version}"
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
        gone=missing.missing,
        unknown=missing.unknown,
    )
