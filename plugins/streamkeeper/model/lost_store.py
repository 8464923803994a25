"""The remaining evidence about one job after the loss of the store: checkpoints, outputs, snapshots, drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.epoch_claim import EpochClaim
from streamkeeper.model.serving import Span


class SeenCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of one checkpoint version."""

    root: str
    """The directory above ``<job>/<query>/<version>``."""
    version: str
    """The version's name."""
    query_id: str = ""
    """Spark's id of the query; empty if unreadable."""
    committed: int | None = None
    """Its newest committed batch."""
    planned: int | None = None
    """Its newest planned batch."""


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """One output, according to its own record of its writers."""

    output: str
    """The output's identity."""
    owner: str
    """``<job>/<query>``."""
    epoch: int
    """The newest epoch that the output, or a version next to it, has recorded."""
    claimed: int
    """The newest epoch of the output itself."""
    version: str = ""
    """The checkpoint version that wrote it; empty before its first batch."""
    batch: int | None = None
    """Its newest batch."""
    serving: tuple[Span, ...] = ()
    """Its segments in order, if it records them."""
    versions: tuple[str, ...] = ()
    """All checkpoint versions that it names."""
    installation: str = ""
    """The installation that wrote it."""
    server: str = ""
    """As in a ``SinkDescription``."""


class SeenSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots."""

    name: str
    """The newest snapshot."""
    version: str
    """Its checkpoint version."""
    batch: int
    """Its batch."""
    versions: tuple[str, ...] = ()
    """Every checkpoint version that any snapshot names."""
    newest_release: int = 0
    """The newest release that any snapshot names."""


class SeenDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver, according to the remains of its records, or its processes."""

    instance: str
    """The instance's name."""
    alive: str = ""
    """Its processes; empty for none."""
    epoch: int = 0
    """Its newest epoch."""
    release: int = 0
    """Its release's number."""
    installation: str = ""
    """The installation that started it."""


class LostJob(msgspec.Struct, frozen=True, kw_only=True):
    """All observations of one job, by query."""

    job: str
    """The job's name."""
    journal: str = ""
    """Why no journal must be made; empty if there is none yet."""
    checkpoints: dict[str, tuple[SeenCheckpoint, ...]] = {}
    """Query -> its checkpoint versions."""
    claims: dict[str, tuple[EpochClaim, ...]] = {}
    """Query -> the newest claim of each installation, also for queries without a checkpoint."""
    fences: dict[str, tuple[Fence, ...]] = {}
    """Query -> its outputs."""
    snapshots: dict[str, SeenSnapshots] = {}
    """Query -> its snapshots."""
    drivers: tuple[SeenDriver, ...] = ()
    """The drivers."""
    unseen: str = ""
    """Why a driver could run where it cannot be observed; empty if none can."""
    host: str = ""
    """The observing host."""

    @property
    def queries(self) -> list[str]:
        """Every query with an existing checkpoint or output."""
        return sorted({*self.checkpoints, *self.fences})
