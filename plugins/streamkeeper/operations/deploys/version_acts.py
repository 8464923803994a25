"""Checkpoint versions of a deploy: recorded before they are filled, and named when they become current."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.trees import NOT_THERE
from streamkeeper.errors import InvalidInput, OperationRefused
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.manifests.release import Release
from streamkeeper.model.names import version_name, version_number
from streamkeeper.model.records.checkpoint_version import topics_at
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    InstanceAppointed,
    Record,
    ShadowAppointed,
)
from streamkeeper.model.records.snapshot import Snapshot, series_of_query, snapshot_number
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.operations.deploys.deaths import must_not_be_shared
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.outdated import must_not_be_outdated
from streamkeeper.operations.jobs.registered import must_be_mine, stored_manifests
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import Show, restore
from streamkeeper.system.crash_points import crash_point


class VersionActs:
    """Creates the checkpoint versions of one operation, and assigns them to instances."""

    def __init__(self, installation: Installation, journal: Journal, job: str, operation: str) -> None:
        self._installation = installation
        self._journal = journal
        self._job = job
        self._operation = operation

    def appoint(self, instance: str, versions: Mapping[str, str]) -> None:
        """Appoint the instance as the only owner of the checkpoints. This appointment is the cutover.

        ``versions``: query -> version; every other query of the instance's release keeps its current version, or gets a
        new one if it has none. Versions without a record are recorded first.
        """
        state = self._journal.state()
        must_not_be_outdated(self._installation, state)
        release = state.releases[state.instances[instance].release]
        chosen = {**{query: self._current(state, query) for query in state.described[release.name]}, **versions}
        chosen = {query: version for query, version in chosen.items() if query in state.described[release.name]}
        for query, version in chosen.items():
            must_be_mine(self._installation, state, query, version)
            self._create(query, version, release, state.operations[self._operation].transitions.get(query))

        def only_heir(now: JobState) -> Record | None:
            operation = now.operations[self._operation]
            if operation.outcome is not None or now.appointed == instance:
                return None
            others = [owner.instance for owner in now.owners if owner.instance != instance]
            if others:
                raise OperationRefused(
                    f"{instance} may not own the checkpoints, because the end of {', '.join(others)} is not proven"
                )
            must_not_be_shared(self._installation, now, chosen)
            return InstanceAppointed(operation=self._operation, instance=instance, versions=chosen)

        self._journal.append(only_heir)

    def shadow(self, instance: str) -> None:
        """Record the new versions of the rebuilt queries, and that the instance may write to them."""
        state = self._journal.state()
        must_not_be_outdated(self._installation, state)
        release = state.releases[state.instances[instance].release]
        for query, way in state.operations[self._operation].rebuilt.items():
            must_be_mine(self._installation, state, query, way.version)
            self._create(query, way.version, release, way)

        def still_wanted(now: JobState) -> Record | None:
            operation = now.operations[self._operation]
            if operation.outcome is not None or operation.fall_back or now.shadow == instance:
                return None
            return ShadowAppointed(operation=self._operation, instance=instance)

        self._journal.append(still_wanted)

    def restore(self, query: str, version: str, snapshot: Snapshot, parent: str) -> None:
        """Create a version from a snapshot; the version continues the output of ``parent``, or none if ``parent`` is
        empty. Idempotent.
        """
        now = self._journal.state()
        source = now.version(query, snapshot.version)
        state_format = source.state_format if source is not None else ""
        created = msgspec.structs.replace(
            created_from(self._installation, now, snapshot, query, version, state_format=state_format),
            parent=parent,
            parent_batch=snapshot.batch if parent else None,
            operation=self._operation,
        )
        must_not_be_outdated(self._installation, self._journal.state())
        crash_point("restore.record.before")
        state = self._once(query, version, created)
        crash_point("restore.record.after")
        if state.version(query, version) is not None:
            fill_version(self._installation, state, query, version, snapshot)

    def parent_of(self, query: str, snapshot: Snapshot) -> str:
        """Return the parent of the version that this operation restores from a snapshot."""
        state = self._journal.state()
        release = state.operations[self._operation].release
        sink = stored_manifests(self._installation, state, release)[query].sink
        if not capabilities_of(sink.kind).delivers:
            return snapshot.version
        return parent_of_restored(self._installation, state, query, snapshot, sink)

    def version_for_fall_back(self, query: str, way: QueryTransition) -> str:
        """Return the version that an automatic rollback of this operation restores.

        If the operation has not recorded such a version yet, return a free name for it. ``way``: the query's
        transition.
        """
        state = self._journal.state()
        mine = [version.version for version in state.versions.get(query, ()) if version.operation == self._operation]
        return next((version for version in mine if version != way.version), "") or free_version(
            self._installation, state, query
        )

    def snapshot_named(self, query: str, name: str) -> Snapshot:
        """Return a snapshot of one of the job's queries; raises NotFound."""
        return Catalogue(self._installation.snapshots, series_of_query(self._job, query)).read(snapshot_number(name))

    @staticmethod
    def _current(state: JobState, query: str) -> str:
        found = state.current_version(query)
        return found.version if found is not None else state.next_version(query)

    def _create(self, query: str, version: str, release: Release, way: QueryTransition | None) -> None:
        handoff = way is not None and way.way is Transition.HANDOFF and way.version == version
        created = CheckpointVersionCreated(
            query=query,
            version=version,
            release=release.name,
            origin=_origin(way) if way is not None and way.version == version else "fresh",
            state_format=release.content.state_format,
            parent=way.before if handoff and way is not None else "",
            serves=False,
            operation=self._operation,
            root=self._installation.settings.checkpoints,
            installation=self._installation.id,
        )
        self._once(query, version, created)

    def _once(self, query: str, version: str, created: CheckpointVersionCreated) -> JobState:
        def missing(state: JobState) -> Record | None:
            over = state.operations[self._operation].outcome is not None
            return None if over or state.version(query, version) is not None else created

        return self._journal.append(missing)


def free_version(installation: Installation, state: JobState, query: str) -> str:
    """Return the name of a checkpoint version that was never recorded and that has no directory.

    A new version must not continue from a directory that is not recorded.
    """
    root, name = installation.new_checkpoints(state.job, query), state.next_version(query)
    while tree_at(f"{root.spark_path}/{name}").absence() != NOT_THERE:
        name = version_name(version_number(name) + 1)
    return name


def continues_output(
    installation: Installation, state: JobState, query: str, snapshot: Snapshot, sink: SinkDescription
) -> bool:
    """Whether the output of the snapshot's version is the current output.

    ``installation``, ``state`` and ``query``: of which job and query; ``snapshot``: the one to restore; ``sink``: the
    current output.
    """
    if not snapshot.version or snapshot.release not in state.described:
        return False
    written = stored_manifests(installation, state, snapshot.release).get(query)
    return written is not None and (written.sink.kind, written.sink.output) == (sink.kind, sink.output)


def parent_of_restored(
    installation: Installation, state: JobState, query: str, snapshot: Snapshot, sink: SinkDescription
) -> str:
    """Return the version that a restored version continues: the snapshot's own; empty without one.

    An output that delivers rows contains those of every version, and its readers learn only from the parent which of
    them are replaced. So the parent is recorded also if the snapshot's version wrote to another output, if it is a
    version of this query. The other arguments are those of ``continues_output``.
    """
    if continues_output(installation, state, query, snapshot, sink):
        return snapshot.version
    known = state.version(query, snapshot.version)
    mine = known is not None and known.query_id == snapshot.query_id
    return snapshot.version if mine and capabilities_of(sink.kind).delivers else ""


def created_from(
    installation: Installation, state: JobState, snapshot: Snapshot, query: str, version: str, *, state_format: str
) -> CheckpointVersionCreated:
    """Return the record of a version that is restored from a snapshot. The version has no parent and is not current
    yet.

    ``installation``: the installation; ``state``: of the job; ``snapshot``: the source; ``query`` and ``version``: of
    the new version; ``state_format``: the format of the version's state.
    """
    return CheckpointVersionCreated(
        query=query,
        version=version,
        release=snapshot.release,
        origin=f"snapshot {snapshot.name} of {snapshot.version or 'elsewhere'} at batch {snapshot.batch}",
        state_format=state_format,
        serves=False,
        root=installation.settings.checkpoints,
        query_id=snapshot.query_id,
        committed=snapshot.batch,
        installation=installation.id,
        topics=topics_at(state.versions.get(query, ()), snapshot.version, snapshot.batch),
    )


def fill_version(
    installation: Installation,
    state: JobState,
    query: str,
    version: str,
    snapshot: Snapshot,
    *,
    catalogue: Catalogue | None = None,
    show: Show | None = None,
) -> None:
    """Write a recorded version from its snapshot, unless its files exist or a driver has opened it. Idempotent.

    ``installation``: the installation; ``state``: the job's state; ``query`` and ``version``: what to fill;
    ``snapshot``: the source;
    ``catalogue``: where the snapshot is read, None for the installation's own; ``show``: called with the progress.

    The version was recorded under a name that had no directory. So files under that name were restored from the same
    snapshot, perhaps by another process, and may be in use. They are never removed; a partial restore is continued.
    """
    recorded, target = state.version(query, version), installation.checkpoint(state, query, version)
    if recorded is None or recorded.claimed_by or is_published(target):
        return
    try:
        restore(catalogue or Catalogue(installation.snapshots, snapshot.series), snapshot, target, show=show)
    except InvalidInput:
        if not is_published(target):
            raise


def _origin(way: QueryTransition) -> str:
    match way.way:
        case Transition.HANDOFF:
            return f"handoff from {way.before}"
        case Transition.REBUILD:
            return f"rebuild beside {way.before}"
        case _:
            return "fresh"
