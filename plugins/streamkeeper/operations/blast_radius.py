"""What going back would write again: batches, and what they read, counted from the checkpoints alone."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.reach import Position, compare, position
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, SnapshotDamaged
from streamkeeper.model.job_state import JobState
from streamkeeper.model.snapshot import series_of_query, snapshot_number
from streamkeeper.model.ways import QueryWay, Way
from streamkeeper.operations.registered import stored_manifests
from streamkeeper.operations.restoring import TAKES
from streamkeeper.operations.sites import Site
from streamkeeper.snapshots.catalogue import Catalogue


def told_replay(site: Site, state: JobState, query: str, way: QueryWay) -> str:
    """One sentence: what is read and written again, and whether the sink takes that."""
    root = Path(site.settings.checkpoints) / state.job / query
    try:
        again = _again(site, state.job, query, root, way)
    except (CheckpointDamaged, CheckpointChanged, SnapshotDamaged) as error:
        again = f"what is read again cannot be counted ({error})"
    sink = stored_manifests(site, state, state.serving_release)[query].sink
    takes = TAKES.get(sink.kind, "and your function gets them again")
    return f"query {query}: {again} into {sink.output}; {takes}"


def _again(site: Site, job: str, query: str, root: Path, way: QueryWay) -> str:
    now = position(root / way.before)
    reach = compare(now, _back_at(site, job, query, root, way))
    if not reach.comparable:
        return f"an unknown number of rows is written again ({reach.why})"
    if reach.equal:
        return "nothing is written again"
    newest = last_committed(root / way.before)
    if way.way is Way.RESTORE and newest is not None and way.batch is not None:
        count = newest - way.batch
        return f"{count} {'batch' if count == 1 else 'batches'} ({reach.lacking}) to be read and written again"
    return f"{reach.lacking} to be read and written again"


def _back_at(site: Site, job: str, query: str, root: Path, way: QueryWay) -> Position:
    """Where the query would go on from."""
    if way.way is Way.RETURN:
        return position(root / way.version)
    catalogue = Catalogue(site.snapshots, series_of_query(job, query))
    snapshot = catalogue.read(snapshot_number(way.snapshot))
    return position(root / way.before, snapshot.batch) if snapshot.version == way.before else Position()
