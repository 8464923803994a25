"""The recorded facts about a checkpoint version, which a driver compares with the directory before it resumes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.model.records.checkpoint_version import CheckpointVersion


class KnownCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded facts about one checkpoint version."""

    series: str
    """``<job>/<query>``."""
    version: str
    """The version's name."""
    query_id: str = ""
    """Spark's id of the query; empty if not recorded."""
    committed: int | None = None
    """The newest batch that is recorded as committed; None if no batch is."""
    begun: bool = False
    """Whether the version's directory must exist."""

    @property
    def name(self) -> str:
        """The name of the version for a person."""
        return f"checkpoint {self.version} of {self.series}"


def known_checkpoint(job: str, version: CheckpointVersion, commits: Mapping[str, int]) -> KnownCheckpoint:
    """Return the recorded facts about a version of a job's query.

    ``version`` comes from the journal. ``commits``: the result of ``commits_of`` for the status of the driver that
    last claimed the version.

    A handoff is recorded before the directory of the new version is created. Until that version has committed a batch
    of its own, the directory may be missing and can be created again.
    """
    reported = commits.get(commit_key(version.query, version.version))
    committed = max((batch for batch in (version.committed, reported) if batch is not None), default=None)
    seeded = version.batch is not None
    begun = committed is not None or (bool(version.query_id) and not seeded)
    if seeded and version.start_offsets is None and version.batch is not None:
        begun = committed is not None and committed > version.batch
    return KnownCheckpoint(
        series=f"{job}/{version.query}",
        version=version.version,
        query_id=version.query_id,
        committed=committed,
        begun=begun,
    )


def commits_of(status: DriverStatus | None) -> dict[str, int]:
    """Return the newest committed batches that a driver reported, as ``<query>/<version>`` -> batch.

    Commits of earlier generations of the driver count too. Empty if ``status`` is None.
    """
    if status is None:
        return {}
    commits = dict(status.commits)
    for query in status.queries.values():
        if query.committed is not None:
            key = commit_key(query.query, query.version)
            commits[key] = max(query.committed, commits.get(key, query.committed))
    return commits


def commit_key(query: str, version: str) -> str:
    """Return ``<query>/<version>``, the key of ``DriverStatus.commits``."""
    return f"{query}/{version}"
