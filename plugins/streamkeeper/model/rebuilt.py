"""The record of a rebuilt journal: the remaining evidence about a job in checkpoints, outputs and snapshots."""

from __future__ import annotations

import msgspec


class RebuiltVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version; ``origin``: where it was observed. The other fields as in CheckpointVersion."""

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
    """``output``: the output that it wrote, empty if unknown; ``version``: the current one, ``versions``: all."""

    output: str
    version: str
    versions: tuple[RebuiltVersion, ...]


class JobRebuilt(msgspec.Struct, frozen=True, kw_only=True, tag="job-rebuilt"):
    """The first entry of a rebuilt journal, complete; elsewhere it has no meaning."""

    requested_by: str
    """The person who requested the rebuild."""
    reason: str
    """The person's reason."""
    at: str
    """UTC, for people."""
    proof: str
    """How it is known that no earlier driver is left."""
    epoch: int
    """No query claims an epoch up to this one again."""
    newest_release: int
    """No release is created with a number up to this one, because snapshots name releases."""
    queries: dict[str, RebuiltQuery]
    """Query -> its output and checkpoint versions."""
    lost: tuple[str, ...] = ()
    """The losses, one sentence each."""

    @property
    def sentence(self) -> str:
        """Who rebuilt it and when, for a person."""
        why = f" ({self.reason})" if self.reason else ""
        return f"rebuilt from checkpoints on {self.at[:16].replace('T', ' ')} UTC, by {self.requested_by}{why}"
