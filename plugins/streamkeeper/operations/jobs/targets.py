"""Targets of backups: the checkpoints of deployed queries, and any other directory that a user names."""

from __future__ import annotations

import msgspec

from streamkeeper.checkpoints.identity import must_be_there
from streamkeeper.checkpoints.opening import open_tree, tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, JournalOutdated, NotFound, WrongMachine
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint
from streamkeeper.model.records.snapshot import series_of_checkpoint, series_of_query
from streamkeeper.operations.jobs.forgetting import is_forgotten
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job, recorded_jobs
from streamkeeper.operations.jobs.outdated import must_not_be_outdated_as_far_as_seen
from streamkeeper.operations.jobs.placement import find_disk, other_disk
from streamkeeper.operations.jobs.registered import known_version, must_be_mine
from streamkeeper.snapshots.anchor import query_id_of
from streamkeeper.snapshots.capture import Origin


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint and the series of its snapshots."""

    series: str
    """The series of its snapshots."""
    location: str
    """The directory of the checkpoint."""
    origin: Origin
    """The checkpoint version and the release that are recorded in the snapshots."""
    job: str = ""
    """The job; empty for an adopted checkpoint, which was never deployed from here."""
    query: str = ""
    """The query; empty for an adopted checkpoint."""
    known: KnownCheckpoint | None = None
    """The recorded facts of a deployed checkpoint."""
    elsewhere: WrongMachine | None = None
    """The error if the checkpoint is on the disk of another machine; else None."""
    outdated: JournalOutdated | None = None
    """The error if the job's journal is older than the written data; else None."""

    def open(self) -> Tree:
        """Return the directory of the checkpoint.

        If the directory is missing, raises CheckpointDamaged for a deployed query, NotFound for an adopted checkpoint.
        Raises CheckpointLost if the directory does not match its record, WrongMachine if it is on another machine's
        disk, and JournalOutdated if the job's journal is older than the written data.
        """
        if self.outdated is not None:
            raise self.outdated
        if self.elsewhere is not None:
            raise self.elsewhere
        if self.known is not None:
            must_be_there(tree_at(self.location), self.known)
        try:
            return open_tree(self.location)
        except NotFound:
            if not self.job:
                raise
            raise CheckpointDamaged(
                f"checkpoint {self.origin.version} of {self.series} is missing, or has no commit yet: {self.location}",
                hint="if the checkpoint never had a commit, wait for the first one. If it had commits, run"
                f" `streamkeeper snapshot restore {self.series}`",
            ) from None


def adopted_target(location: str) -> Target:
    """Return the target of a checkpoint that was never deployed from here; raises NotFound or CheckpointDamaged."""
    return Target(series=series_of_checkpoint(query_id_of(open_tree(location))), location=location, origin=Origin())


def query_target(installation: Installation, job: str, query: str) -> Target:
    """Return the target of a deployed query's current checkpoint version; raises NotFound."""
    return _current_target(installation, read_job(installation, job), query)


def target_left(installation: Installation, state: JobState, query: str, operation: str) -> Target:
    """Return the target of the checkpoint version that was current before the operation. Raises NotFound.

    The operation may leave this version or continue in it. Call this before the operation's release is promoted:
    the snapshots of the target record the current release, and until then that is the old release.
    """
    known = state.operations.get(operation)
    way = known.transitions.get(query) if known is not None else None
    left = state.version(query, way.before) if way is not None and way.before else None
    return (
        _made_of(installation, state, left, state.serving_release)
        if left
        else _current_target(installation, state, query)
    )


def all_targets(installation: Installation, *, job: str = "") -> list[Target]:
    """Return the targets of all deployed queries with a checkpoint, in order; raises NotFound.

    ``job``: only the queries of this job; empty for all jobs. Forgotten jobs are omitted, but ``query_target`` still
    finds their queries.
    """
    states = [read_job(installation, name) for name in ([job] if job else recorded_jobs(installation))]
    wanted = [state for state in states if not is_forgotten(state)]
    found = (_target(installation, state, query) for state in wanted for query in sorted(state.versions))
    return [state for state in found if state is not None]


def _current_target(installation: Installation, state: JobState, query: str) -> Target:
    target = _target(installation, state, query)
    if target is None:
        known = ", ".join(sorted(state.versions))
        hint = f"name one of its queries: {known}" if known else "deploy the job first"
        raise NotFound(f"job {state.job} has no checkpoint of a query {query}", hint=hint)
    return target


def _target(installation: Installation, state: JobState, query: str) -> Target | None:
    version = state.current_version(query)
    if version is None:
        return None
    # A release is running from its appointment on, which precedes its promotion.
    appointed = state.instances.get(state.appointed)
    return _made_of(installation, state, version, appointed.release if appointed is not None else state.serving_release)


def _made_of(installation: Installation, state: JobState, version: CheckpointVersion, release: str) -> Target:
    query = version.query
    must_be_mine(installation, state, query, version.version)
    tree = installation.checkpoint(state, query, version.version)
    host = find_disk(installation, state.job, version, tree)
    return Target(
        series=series_of_query(state.job, query),
        location=tree.spark_path,
        known=known_version(installation, state, query, version.version),
        # The current release of a version may be later than the one that created it.
        origin=Origin(version=version.version, release=release or version.release),
        job=state.job,
        query=query,
        elsewhere=other_disk(state.job, version, tree, host) if host else None,
        outdated=_outdated(installation, state),
    )


def _outdated(installation: Installation, state: JobState) -> JournalOutdated | None:
    """Return the error of an outdated journal, else None. A checkpoint that does not answer causes no error here, but
    does when it is opened.
    """
    try:
        must_not_be_outdated_as_far_as_seen(installation, state)
    except JournalOutdated as error:
        return error
    return None
