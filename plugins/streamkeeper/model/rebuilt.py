"""The record of a journal that was lost and made again: what checkpoints, outputs and snapshots still knew of a job."""

from __future__ import annotations

import msgspec


class RebuiltVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version; ``origin``: where it was seen. The other fields as in CheckpointVersion."""

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
    """``output``: what it wrote, empty where nobody knows; ``version``: the one that served, ``versions``: all."""

    output: str
    version: str
    versions: tuple[RebuiltVersion, ...]


class JobRebuilt(msgspec.Struct, frozen=True, kw_only=True, tag="job-rebuilt"):
    """The first entry of a journal that was made again, whole; anywhere else it has no meaning.

    ``at``: UTC, for people; ``proof``: how it is known that no driver of before is left. ``epoch``: no epoch up to it
    is claimed again, by any query; ``newest_release``: no release up to its number is made again, for snapshots name
    releases. ``lost``: what could not be had again, one sentence each.
    """

    requested_by: str
    reason: str
    at: str
    proof: str
    epoch: int
    newest_release: int
    queries: dict[str, RebuiltQuery]
    lost: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """By whom and when, for a person."""
        why = f" ({self.reason})" if self.reason else ""
        return f"rebuilt from checkpoints on {self.at[:16].replace('T', ' ')} UTC, by {self.requested_by}{why}"
