"""The recorded facts about a checkpoint version: a driver that resumes from it must find no less."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.model.checkpoint_version import CheckpointVersion
from streamkeeper.model.control import DriverStatus


class KnownCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version."""

    series: str
    """``<job>/<query>``."""
    version: str
    """The version's name."""
    query_id: str = ""
    """Spark's id of the query; empty if not recorded."""
    committed: int | None = None
    """The newest batch that is known to be committed; None for none."""
    begun: bool = False
    """Whether its directory must exist."""

    @property
    def name(self) -> str:
        """Its name for a person."""
        return f"checkpoint {self.version} of {self.series}"


def known_checkpoint(job: str, version: CheckpointVersion, commits: Mapping[str, int]) -> KnownCheckpoint:
    """From the journal, and the commits that its last claiming driver reported (``commits_of`` its status).

    The batch of a handed-off version is recorded before its directory is created. Until a batch of its own was
    committed, the directory may still be missing, and is then created again.
    """
    told = commits.get(commit_key(version.query, version.version))
    committed = max((batch for batch in (version.committed, told) if batch is not None), default=None)
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
    """``<query>/<version>`` -> the newest batch that this driver reported as committed, in any of its generations."""
    if status is None:
        return {}
    commits = dict(status.commits)
    for query in status.queries.values():
        if query.committed is not None:
            key = commit_key(query.query, query.version)
            commits[key] = max(query.committed, commits.get(key, query.committed))
    return commits


def commit_key(query: str, version: str) -> str:
    """``<query>/<version>``: a key of ``DriverStatus.commits``."""
    return f"{query}/{version}"
