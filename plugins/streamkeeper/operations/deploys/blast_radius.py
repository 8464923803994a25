"""The cost of a rollback: the batches to replay and their input, counted from the checkpoints and the output."""

from __future__ import annotations

from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.reach import Position, compare, missing_since, position
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound, SnapshotDamaged
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.records.checkpoint_version import lineage_of
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.snapshot import series_of_query, snapshot_number
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.operations.deploys.questions import told_way_back
from streamkeeper.operations.deploys.version_acts import parent_of_restored
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.old_input import GoesBack, told_old_input
from streamkeeper.operations.jobs.operation_record import OperationRecord
from streamkeeper.operations.jobs.outputs import ask, takes_again
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.snapshots.catalogue import Catalogue


def told_replay(installation: Installation, state: JobState, query: str, way: QueryTransition) -> str:
    """Return one sentence: the data that is read and written again, and how the sink handles repeated rows."""
    try:
        again = _again(installation, state, query, way)
    except (CheckpointDamaged, CheckpointChanged, SnapshotDamaged, NotFound) as error:
        again = f"the input to read again cannot be counted ({error})"
    sink = stored_manifests(installation, state, state.serving_release)[query].sink
    beyond = _beyond_the_checkpoint(installation, state, query, way)
    replayed = (
        f"{again} into {sink.output}" if again else "" if beyond else f"no rows are written again into {sink.output}"
    )
    can = capabilities_of(sink.kind)
    once = bool(can.read_once_by) and _replaces(installation, state, query, way, sink)
    again = "; ".join(filter(None, (replayed, beyond)))
    return f"query {query}: {again}{';' if can.takes_again else ','} {takes_again(sink.kind, read_once=once)}"


def told_going_back(installation: Installation, record: OperationRecord) -> dict[str, str]:
    """Return query -> the data that a rollback to the previous release would read and write again now.

    Empty unless the operation replaced another release, the operation's release is still current, and this release
    still runs on the checkpoint versions that the operation chose. Starts no process; reads checkpoints and outputs.
    Raises StoreUnavailable.
    """
    state, operation = record.state, record.operation
    served_on = state.served.get(state.serving_release, {})
    serves = operation.outcome is Outcome.SUCCEEDED and operation.release == state.serving_release
    stands = all(way.version == served_on.get(query) for query, way in operation.transitions.items())
    if not (serves and stands and record.before):
        return {}
    sentences = {
        query: _going_back(installation, record, query, way) for query, way in sorted(operation.transitions.items())
    }
    return {query: sentence for query, sentence in sentences.items() if sentence}


def _going_back(installation: Installation, record: OperationRecord, query: str, way: QueryTransition) -> str:
    state, operation = record.state, record.operation
    match way.back:
        case Transition.RETURN:
            back = QueryTransition(way=Transition.RETURN, before=way.version, version=way.before)
        case Transition.RESTORE:
            name = operation.cutover_snapshots.taken.get(query, "")
            if not name:
                return f"query {query}: there is no snapshot of its last batch before the cutover"
            batch = operation.last_batches.get(query)
            back = QueryTransition(way=Transition.RESTORE, before=way.version, batch=batch, snapshot=name)
        case _:
            return "" if way.way is Transition.START else f"query {query}: {told_way_back(way, record.before)}"
    return told_replay(installation, state, query, back)


def _replaces(
    installation: Installation, state: JobState, query: str, way: QueryTransition, sink: SinkDescription
) -> bool:
    """Whether the records that a rollback sends name the version that it leaves, so that readers can drop those of
    this version. False if the snapshot cannot be read.
    """
    then = way.version
    if way.way is Transition.RESTORE:
        catalogue = Catalogue(installation.snapshots, series_of_query(state.job, query))
        try:
            snapshot = catalogue.read(snapshot_number(way.snapshot))
        except (SnapshotDamaged, NotFound):
            return False
        then = parent_of_restored(installation, state, query, snapshot, sink)
    versions = state.versions.get(query, ())
    return bool(then) and lineage_of(versions, then)[0].version == lineage_of(versions, way.before)[0].version


def _again(installation: Installation, state: JobState, query: str, way: QueryTransition) -> str:
    """Return a phrase about the data that is read and written a second time, according to the checkpoints.

    Empty if the current position and the position of the rollback are equal.
    """
    before = installation.checkpoint(state, query, way.before)
    now, (then, goes_back) = position(before.fresh()), _back_at(installation, state, query, way)
    reach = compare(now, then)
    if not reach.comparable:
        return f"an unknown number of rows is written again ({reach.why})"
    if reach.equal:
        return ""
    unseen = unseen_input(installation, state, query)
    files = missing_since(now, then, unseen=unseen)
    clauses = (clause("of these files") for clause in (files.gone_clause, files.unchecked_clause))
    missing = "".join(f"; {each}" for each in clauses if each)
    manifest = stored_manifests(installation, state, state.serving_release)[query]
    reads = f"{reach.lacking}{told_old_input(before, manifest, unseen, then=goes_back)}"
    newest = last_committed(before.fresh())
    if way.way is Transition.RESTORE and newest is not None and way.batch is not None:
        count = newest - way.batch
        return f"{count} {'batch' if count == 1 else 'batches'} ({reads}) to be read and written again{missing}"
    return f"{reads} to be read and written again{missing}"


def _beyond_the_checkpoint(installation: Installation, state: JobState, query: str, way: QueryTransition) -> str:
    """Return a clause about batches in the output that the checkpoint has not committed; empty if the output has no
    such batches.
    """
    sink = stored_manifests(installation, state, state.serving_release)[query].sink
    holds = ask(installation, state, state.serving_release, query, sink, way.before)
    if holds.unknown:
        return (
            f"it is unknown which batches beyond its checkpoint {sink.output} contains and receives again"
            f" ({holds.unknown})"
        )
    newest = last_committed(installation.checkpoint(state, query, way.before))
    if holds.batch is None or (newest is not None and holds.batch <= newest):
        return ""
    committed = "no batch is" if newest is None else f"only batch {newest} is"
    return f"{sink.output} contains batch {holds.batch}, but {committed} committed; later ones are written again, too"


def _back_at(
    installation: Installation, state: JobState, query: str, way: QueryTransition
) -> tuple[Position, GoesBack | None]:
    """Return the position from which the query would continue, with its file lists; the lists are None if that position
    is the beginning.
    """
    before = installation.checkpoint(state, query, way.before)
    if way.way is Transition.RETURN:
        kept = installation.checkpoint(state, query, way.version)
        newest = last_committed(kept.fresh())
        ends = read_offsets(kept.fresh(), newest).ends if newest is not None else {}
        return position(kept), GoesBack(kept, ends)
    catalogue = Catalogue(installation.snapshots, series_of_query(state.job, query))
    snapshot = catalogue.read(snapshot_number(way.snapshot))
    if snapshot.version != way.before:
        return Position(), None
    return position(before, snapshot.batch), GoesBack(before, snapshot.offsets)
