"""The ways by which a query gets from the serving release to the candidate, and back."""

from __future__ import annotations

from enum import Enum

import msgspec


class Way(Enum):
    """How one query goes on."""

    START = "start"
    """It is new: in a checkpoint version of its own, from the beginning of its sources."""
    RESUME = "resume"
    """In the same checkpoint version."""
    HANDOFF = "handoff"
    """In a new checkpoint version, seeded at the exact offsets at which the old one stopped."""
    REBUILD = "rebuild"
    """In a new checkpoint version that has read the sources again, in a dual run."""
    RETURN = "return"
    """In an older checkpoint version that was kept; what was read since is read again."""
    RESTORE = "restore"
    """In a new checkpoint version, restored from a snapshot; what was read since is read again."""

    @property
    def switches(self) -> bool:
        """Whether it ends in another checkpoint version than the one that serves."""
        return self not in (Way.START, Way.RESUME)

    @property
    def replays(self) -> bool:
        """Whether rows that were written once are written again."""
        return self in (Way.RETURN, Way.RESTORE)


class QueryWay(msgspec.Struct, frozen=True, kw_only=True):
    """The way of one query. ``before`` and ``version``: the checkpoint version it leaves, and the one it goes on in.

    ``opaque``: nothing proves that its state means the same to the candidate, or of one that starts that it is new;
    ``batch`` and ``snapshot``: of a restore; ``opaque_code``: whether code changed of which nothing proves what it
    means to an output that is rebuilt; ``output_lacks``: newest committed batch that its output may lack, None where it
    lacks none; ``back``: the way back should the candidate not hold, None with ``no_way_back`` where there is none.
    """

    way: Way
    before: str = ""
    version: str = ""
    opaque: bool = False
    opaque_code: bool = False
    state_given_up: bool = False
    batch: int | None = None
    snapshot: str = ""
    output_lacks: int | None = None
    back: Way | None = None
    no_way_back: str = ""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what the serving release has read its shadow has read too; ``told``: for a person."""

    holds: bool
    told: str
