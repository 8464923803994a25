"""The evidence about one job that remains after the loss of the store: checkpoints, outputs, snapshots, drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.records.epoch_claim import EpochClaim
from streamkeeper.model.records.output_segments import OutputSegment


class SeenCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of one checkpoint version that still exists."""

    root: str
    """The directory above ``<job>/<query>/<version>``."""
    version: str
    """The version's name."""
    query_id: str = ""
    """Spark's id of the query; empty if unreadable."""
    committed: int | None = None
    """The newest committed batch in the directory; None without one."""
    planned: int | None = None
    """The newest planned batch in the directory; None without one."""


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that an output itself records about its writer, epochs and batches."""

    output: str
    """The output's identity."""
    owner: str
    """``<job>/<query>``."""
    epoch: int
    """The newest epoch that is recorded in this output or in another version's output next to it."""
    claimed: int
    """The newest epoch that is recorded in the output itself."""
    version: str = ""
    """The checkpoint version that wrote the output; empty before its first batch."""
    batch: int | None = None
    """The newest batch in the output; None without one."""
    serving: tuple[OutputSegment, ...] = ()
    """The output's segments in order, if the output records them."""
    versions: tuple[str, ...] = ()
    """All checkpoint versions that the output names."""
    installation: str = ""
    """The installation that wrote the output."""
    server: str = ""
    """The server of a table's URL, as in ``SinkDescription.server``."""


class SeenSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots of a query that still exist."""

    name: str
    """The newest snapshot."""
    version: str
    """The checkpoint version of the newest snapshot."""
    batch: int
    """The batch of the newest snapshot."""
    versions: tuple[str, ...] = ()
    """Every checkpoint version that any snapshot names."""
    newest_release: int = 0
    """The newest release that any snapshot names."""


class SeenDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver of a lost job, as found in its remaining records or processes."""

    instance: str
    """The instance's name."""
    alive: str = ""
    """The driver's processes that exist; empty if none does."""
    epoch: int = 0
    """The newest epoch that the driver claimed; 0 if unknown."""
    release: int = 0
    """The number of the driver's release; 0 if unknown."""
    installation: str = ""
    """The installation that started the driver."""


class LostJob(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was observed of one job."""

    job: str
    """The job's name."""
    journal: str = ""
    """Why a journal must not be rebuilt for the job; empty if the job has no journal yet."""
    checkpoints: dict[str, tuple[SeenCheckpoint, ...]] = {}
    """Query -> its checkpoint versions."""
    claims: dict[str, tuple[EpochClaim, ...]] = {}
    """Query -> the newest claim of each installation, even if the query has no checkpoint."""
    fences: dict[str, tuple[Fence, ...]] = {}
    """Query -> its outputs."""
    snapshots: dict[str, SeenSnapshots] = {}
    """Query -> its snapshots."""
    drivers: tuple[SeenDriver, ...] = ()
    """The drivers of the job."""
    unseen: str = ""
    """Why a driver may be running where it cannot be observed; empty if no such driver is possible."""
    host: str = ""
    """The host on which these observations were made."""

    @property
    def queries(self) -> list[str]:
        """Every query that has a checkpoint or an output, sorted."""
        return sorted({*self.checkpoints, *self.fences})
