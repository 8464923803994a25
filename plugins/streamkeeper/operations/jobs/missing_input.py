"""Find missing input of a replay: one check for recoveries, restores, rollbacks and automatic rollbacks.

Spark does not notice that its source no longer lists a file, so a replay without that file silently loses its rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.positions import Position, PositionHistory, position, until_unchanged
from streamkeeper.checkpoints.reach import missing_since
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import (
    CheckpointChanged,
    CheckpointDamaged,
    FormatTooNew,
    NotFound,
    OperationRefused,
    SnapshotDamaged,
)
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.snapshot import Snapshot, series_of_query, snapshot_number
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import find_foreign, find_version_loss, known_version, stored_manifests
from streamkeeper.sinks.contract import OutputAnswer
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.sources.known_sources import source_of

_UNREADABLE = (CheckpointDamaged, CheckpointChanged, FormatTooNew, NotFound, SnapshotDamaged)


class MissingInput(msgspec.Struct, frozen=True, kw_only=True):
    """The missing input of a replay, as two phrases.

    ``missing``: the missing files among those that would be reread, followed by the files that could not be checked;
    empty if no file is recorded as missing. ``unknown``: the files that could not be checked; empty if there are none,
    or if ``missing`` is not empty.
    """

    missing: str = ""
    unknown: str = ""

    @property
    def loss(self) -> str:
        """Return the loss as a predicate, such as ``loses rows: 2 of 3 files …``; empty if both phrases are empty."""
        if self.missing:
            return f"loses rows: {self.missing}"
        return f"may lose rows: {self.unknown}" if self.unknown else ""


def find_missing(now: Position, then: Position, *, unseen: Mapping[str, str]) -> MissingInput:
    """Find missing files among those that a query read between two positions; ``unseen``: as in ``look_for_files``."""
    files = missing_since(now, then, unseen=unseen)
    missing, unchecked = (
        clause("files that were read since") for clause in (files.gone_clause, files.unchecked_clause)
    )
    return MissingInput(
        missing="; ".join(filter(None, (missing, unchecked))) if missing else "", unknown="" if missing else unchecked
    )


def not_known(manifest: Manifest, why: str) -> MissingInput:
    """Return the result for a query whose read files cannot be determined; ``why``: the reason.

    The result is that input may be missing. Only if the reader of every source itself fails on missing input, the
    result is that no input is missing.
    """
    if all(source_of(source.kind).fails_on_loss(source) for source in manifest.sources):
        return MissingInput()
    return MissingInput(unknown=f"the files, and whether they still exist, are unknown ({why})")


def newest_position(tree: Tree) -> Position:
    """Return the position after the newest planned batch, which the output may contain. Raises CheckpointDamaged."""

    def look() -> Position:
        history, batch = _newest(tree)
        return history.position(batch)

    return until_unchanged(look)


def positions_since(tree: Tree, ends: Mapping[str, str]) -> tuple[Position, Position]:
    """Return two positions: the one after the newest planned batch, and the one at ``ends``, a snapshot's end offsets.

    Both positions are from one read of the file lists. The snapshot's plan is not used, because the plan may be
    damaged. Raises CheckpointDamaged.
    """

    def look() -> tuple[Position, Position]:
        history, batch = _newest(tree)
        return history.position(batch), history.position_of(ends)

    return until_unchanged(look)


def holds_lists_of(segments: Mapping[str, int | None], snapshot: Snapshot) -> bool:
    """Whether a checkpoint lists as read all files that the snapshot lists as read.

    This is the case if the checkpoint contains the batches of the snapshot's version up to the snapshot's batch.

    ``segments``: the checkpoint's own version, and each version that it continues -> last batch taken from this
    version, None for all batches.
    """
    if snapshot.version not in segments:
        return False
    last = segments[snapshot.version]
    return last is None or snapshot.batch <= last


def last_batches_of(segments: tuple[OutputSegment, ...]) -> dict[str, int | None]:
    """Return version -> last batch, in the form of the argument ``segments`` of ``holds_lists_of``."""
    return {segment.version: segment.last for segment in segments}


def missing_for_restore(
    installation: Installation, state: JobState, query: str, snapshot: Snapshot, manifest: Manifest, holds: OutputAnswer
) -> MissingInput:
    """Return the input that a restore of the snapshot would lose.

    ``installation``: the installation; ``state``: the job's state; ``query`` and ``snapshot``: what to restore;
    ``manifest``: the manifest of the release that read the input; ``holds``: the batches that the snapshot's checkpoint
    version wrote and that the output still contains.
    """
    current = state.current_version(query)
    if current is None or find_foreign(installation, state, query, current.version):
        # Rows that another installation has written do not belong to this one.
        return MissingInput()
    tree, lost = (
        installation.checkpoint(state, query, current.version),
        find_version_loss(installation, state, query, current.version),
    )
    try:
        if lost:
            raise CheckpointDamaged(lost)
        now, then = _since_snapshot(installation, state, query, snapshot, current.version)
    except _UNREADABLE as error:
        recorded = known_version(installation, state, query, current.version).committed
        committed = [
            batch
            for batch in (recorded, None if lost else last_committed(tree.fresh()), holds.batch)
            if batch is not None
        ]
        carried_on = _carries_on(installation, state, query, snapshot, current.version)
        if carried_on and max(committed, default=-1) <= snapshot.batch and not holds.down:
            return MissingInput()
        return not_known(manifest, error.message)
    return find_missing(now, then, unseen=unseen_input(installation, state, query))


def missing_for_way(
    installation: Installation, state: JobState, query: str, way: QueryTransition, manifest: Manifest
) -> MissingInput:
    """Return the input that ``way.before`` has read and that the transition, a RETURN or a RESTORE, would lose.

    ``installation``: the installation; ``state``: the job's state; ``query`` and ``way``: the transition; ``manifest``:
    from the release that read the input.
    """
    try:
        if not _has_read(installation, state, query, way.before):
            return MissingInput()
        if way.way is Transition.RETURN:
            now = newest_position(installation.checkpoint(state, query, way.before))
            then = position(installation.checkpoint(state, query, way.version))
        else:
            now, then = _since_snapshot(
                installation, state, query, _snapshot(installation, state, query, way.snapshot), way.before
            )
    except _UNREADABLE as error:
        return not_known(manifest, error.message)
    return find_missing(now, then, unseen=unseen_input(installation, state, query))


def must_still_be_there(installation: Installation, state: JobState, operation: OperationState) -> None:
    """Raise OperationRefused if files that a restore or a rollback would reread were deleted after the operation was
    opened.

    The job reads until its driver has terminated, and its cleaner or a person may delete files that the job has read.
    Call this only after all drivers have terminated. A loss that a person has accepted does not raise the error.
    """
    recover = operation.request.recovery
    accepted = recover.losses if recover is not None else ()
    back = {
        query: way
        for query, way in sorted(operation.transitions.items())
        if way.way in (Transition.RETURN, Transition.RESTORE)
        and not operation.request.accept_loss
        and query not in accepted
    }
    manifests = stored_manifests(installation, state, operation.release) if back else {}
    for query, way in back.items():
        if missing := missing_for_way(installation, state, query, way, manifests[query]).missing:
            raise OperationRefused(
                f"query {query} would lose rows, because files were deleted since this was checked: {missing}",
                hint="put the files back, or request the operation again and accept the loss",
            )


def missing_to_fall_back(installation: Installation, state: JobState, operation: OperationState) -> dict[str, str]:
    """Return query -> the loss that a rollback would cause, for queries that lose or may lose rows.

    Each value is a predicate, such as ``going back to v0001 loses rows: …``. Call this only after the candidate has
    terminated, because the candidate reads input until then.
    """
    found: dict[str, str] = {}
    manifests = stored_manifests(installation, state, operation.release)
    for query, way in operation.transitions.items():
        match way.back:
            case Transition.RETURN:
                back = QueryTransition(way=Transition.RETURN, before=way.version, version=way.before)
                missing = missing_for_way(installation, state, query, back, manifests[query])
            case Transition.RESTORE:
                missing = _missing_since_cutover(installation, state, operation, query, manifests[query])
            case _:
                continue
        if missing.loss:
            found[query] = f"going back to {way.before} {missing.loss}"
    return found


def _missing_since_cutover(
    installation: Installation, state: JobState, operation: OperationState, query: str, manifest: Manifest
) -> MissingInput:
    """Return the input that a rollback to the last batch before the cutover would lose.

    The release before and after the cutover share the checkpoint version. ``installation``: the installation;
    ``state``: the job's state; ``operation``: the deploy; ``query``: the query; ``manifest``: the candidate's manifest.
    """
    version, batch = operation.transitions[query].version, operation.last_batches.get(query)
    name = operation.cutover_snapshots.taken.get(query, "")
    tree = installation.checkpoint(state, query, version)
    try:
        if not _has_read(installation, state, query, version):
            return MissingInput()
        if name:
            now, then = positions_since(tree, _snapshot(installation, state, query, name).offsets)
        else:
            now, then = newest_position(tree), position(tree, batch) if batch is not None else Position()
    except _UNREADABLE as error:
        return not_known(manifest, error.message)
    return find_missing(now, then, unseen=unseen_input(installation, state, query))


def _has_read(installation: Installation, state: JobState, query: str, version: str) -> bool:
    """Whether a version has ever planned a batch. Raises CheckpointDamaged for a lost version."""
    if lost := find_version_loss(installation, state, query, version):
        raise CheckpointDamaged(lost)
    return last_planned(installation.checkpoint(state, query, version).fresh()) is not None


def _since_snapshot(
    installation: Installation, state: JobState, query: str, snapshot: Snapshot, current: str
) -> tuple[Position, Position]:
    """Return the positions of the current version and of the snapshot. The snapshot's position comes from the current
    version's file lists if that version continues the snapshot's batch, else from the snapshot's own version.

    ``installation``, ``state`` and ``query``: of which job and query; ``current``: the version that is left.

    A version that was handed over, or that branched off earlier, numbers its file lists from the beginning.
    """
    tree = installation.checkpoint(state, query, current)
    if _carries_on(installation, state, query, snapshot, current):
        return positions_since(tree, snapshot.offsets)
    now = newest_position(tree)
    if state.version(query, snapshot.version) is None:
        version = snapshot.version or "the checkpoint version of the snapshot"
        raise CheckpointDamaged(
            f"the journal does not record {version}, so the files that this version has read are unknown"
        )
    if lost := find_version_loss(installation, state, query, snapshot.version):
        raise CheckpointDamaged(lost)
    own = installation.checkpoint(state, query, snapshot.version)
    return now, until_unchanged(lambda: _newest(own)[0].position_of(snapshot.offsets))


def _carries_on(installation: Installation, state: JobState, query: str, snapshot: Snapshot, version: str) -> bool:
    """Whether a version's own file lists contain the snapshot's batch, under the same number.

    ``installation``, ``state`` and ``query``: of which job and query.
    """
    last_batches = last_batches_of(state.segments(query, version))
    same = (
        snapshot.version == version or snapshot.query_id == known_version(installation, state, query, version).query_id
    )
    return same and holds_lists_of(last_batches, snapshot)


def _snapshot(installation: Installation, state: JobState, query: str, name: str) -> Snapshot:
    return Catalogue(installation.snapshots, series_of_query(state.job, query)).read(snapshot_number(name))


def _newest(tree: Tree) -> tuple[PositionHistory, int]:
    """Return the file lists up to the newest planned batch, and the number of that batch."""
    seen = tree.fresh()
    newest = last_planned(seen)
    if newest is None:
        raise CheckpointDamaged(f"{tree} contains no planned batch")
    return PositionHistory(seen, [newest]), newest
