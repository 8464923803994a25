"""What the places beside a lost store know of one job: its checkpoints, outputs, snapshots, and drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.epoch_claim import EpochClaim
from streamkeeper.model.serving import Span


class SeenCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version's directory. ``root``: below which ``<job>/<query>/<version>`` lies; ``query_id``: empty
    where it cannot be read; ``committed`` and ``planned``: its newest batches."""

    root: str
    version: str
    query_id: str = ""
    committed: int | None = None
    planned: int | None = None


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """One output, by its own record of who writes it.

    ``owner``: ``<job>/<query>``; ``epoch``: the newest that it, or a version beside it, has seen; ``claimed``: the
    newest of its own. ``version``: the checkpoint version that it holds, empty before its first batch; ``batch``: its
    newest batch. ``serving``: what it consists of where it tells, in order; ``versions``: all that it names.
    ``server``: as in a ``SinkDescription``.
    """

    output: str
    owner: str
    epoch: int
    claimed: int
    version: str = ""
    batch: int | None = None
    serving: tuple[Span, ...] = ()
    versions: tuple[str, ...] = ()
    installation: str = ""
    server: str = ""


class SeenSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """A query's snapshots: the newest one, and every checkpoint version and the newest release that any names."""

    name: str
    version: str
    batch: int
    versions: tuple[str, ...] = ()
    newest_release: int = 0


class SeenDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver, by what is left of its records, or by its processes. ``alive``: which they are, empty for none."""

    instance: str
    alive: str = ""
    epoch: int = 0
    release: int = 0
    installation: str = ""


class LostJob(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was seen of one job, by query.

    ``claims``: the newest of each installation, beside the checkpoints, also of queries without one. ``journal``: why
    there is no journal to be made, empty where there is none yet; ``unseen``: why a driver could be somewhere that
    cannot be looked at, empty where none can; ``host``: where was looked.
    """

    job: str
    journal: str = ""
    checkpoints: dict[str, tuple[SeenCheckpoint, ...]] = {}
    claims: dict[str, tuple[EpochClaim, ...]] = {}
    fences: dict[str, tuple[Fence, ...]] = {}
    snapshots: dict[str, SeenSnapshots] = {}
    drivers: tuple[SeenDriver, ...] = ()
    unseen: str = ""
    host: str = ""

    @property
    def queries(self) -> list[str]:
        """Every query of which a checkpoint or an output is there."""
        return sorted({*self.checkpoints, *self.fences})
