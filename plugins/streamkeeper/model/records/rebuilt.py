"""The record with which a rebuilt journal begins: what checkpoints, outputs and snapshots still show of a job."""

from __future__ import annotations

import msgspec


class RebuiltVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version in a rebuilt journal.

    ``origin`` is where the version was observed; the other fields are as in CheckpointVersion.
    """

    version: str
    origin: str
    root: str = ""
    query_id: str = ""
    committed: int | None = None
    parent: str = ""
    parent_batch: int | None = None
    batch: int | None = None
    installation: str = ""


class RebuiltQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query in a rebuilt journal: its output, empty if unknown, its current version, and all its versions."""

    output: str
    version: str
    versions: tuple[RebuiltVersion, ...]


class JobRebuilt(msgspec.Struct, frozen=True, kw_only=True, tag="job-rebuilt"):
    """The first entry of a rebuilt journal, with everything that was rebuilt. An entry of this kind at any later
    position has no effect.
    """

    requested_by: str
    """The person who requested the rebuild."""
    reason: str
    """The person's reason."""
    at: str
    """Time of the rebuild in UTC, for people."""
    proof: str
    """The evidence that no earlier driver exists any more."""
    epoch: int
    """The newest epoch of any query before the rebuild; later claims are above it."""
    newest_release: int
    """The newest release number before the rebuild. Later releases are above it, because snapshots name releases."""
    queries: dict[str, RebuiltQuery]
    """Query -> its output and checkpoint versions."""
    lost: tuple[str, ...] = ()
    """What could not be rebuilt, one sentence per loss."""

    @property
    def sentence(self) -> str:
        """Who rebuilt the journal, when and why, for a person."""
        why = f" ({self.reason})" if self.reason else ""
        return f"rebuilt from checkpoints on {self.at[:16].replace('T', ' ')} UTC, by {self.requested_by}{why}"
