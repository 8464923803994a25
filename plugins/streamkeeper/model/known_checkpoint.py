"""What the records say of a checkpoint version: whoever goes on from it must not find less."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.model.checkpoint_version import CheckpointVersion
from streamkeeper.model.control import DriverStatus


class KnownCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version, ``series`` being ``<job>/<query>``.

    ``query_id``: Spark's id of the query, empty where nobody has recorded it; ``committed``: the newest batch that is
    known to be committed. ``begun``: whether its directory must be there by now.
    """

    series: str
    version: str
    query_id: str = ""
    committed: int | None = None
    begun: bool = False

    @property
    def name(self) -> str:
        """For a person."""
        return f"checkpoint {self.version} of {self.series}"


def known_checkpoint(job: str, version: CheckpointVersion, commits: Mapping[str, int]) -> KnownCheckpoint:
    """From the journal, and what the driver that claimed it last said to have committed (``commits_of`` its status).

    A version that is handed over has its batch on record before its directory is made: until a batch of its own was
    committed the directory may still be missing, and is made again.
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
    """``<query>/<version>`` -> the newest batch that this driver, in any of its generations, said to have committed."""
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
