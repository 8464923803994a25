"""The transitions of a query from the current release to the candidate, and back."""

from __future__ import annotations

from enum import Enum

import msgspec


class Way(Enum):
    """How one query changes releases."""

    START = "start"
    """It is new: a checkpoint version of its own, from the beginning of its sources."""
    RESUME = "resume"
    """The same checkpoint version."""
    HANDOFF = "handoff"
    """A new checkpoint version, seeded at the exact offsets at which the old one stopped."""
    REBUILD = "rebuild"
    """A new checkpoint version that has read the sources again, in a dual run."""
    RETURN = "return"
    """An older checkpoint version that was kept; input read since is read again."""
    RESTORE = "restore"
    """A new checkpoint version, restored from a snapshot; input read since is read again."""

    @property
    def switches(self) -> bool:
        """Whether it ends in another checkpoint version than the current one."""
        return self not in (Way.START, Way.RESUME)

    @property
    def replays(self) -> bool:
        """Whether rows that were written once are written again."""
        return self in (Way.RETURN, Way.RESTORE)


class QueryWay(msgspec.Struct, frozen=True, kw_only=True):
    """The transition of one query."""

    way: Way
    """The transition."""
    before: str = ""
    """The checkpoint version that it leaves."""
    version: str = ""
    """The checkpoint version in which it continues."""
    opaque: bool = False
    """Its state's meaning for the candidate is unproven; for a new query: it may be a renamed one."""
    opaque_code: bool = False
    """Code changed whose effect on a rebuilt output is unproven."""
    state_given_up: bool = False
    """Its state is dropped."""
    batch: int | None = None
    """Of a restore: the batch."""
    snapshot: str = ""
    """Of a restore: the snapshot."""
    output_lacks: int | None = None
    """Newest committed batch that its output may lack; None if it lacks none."""
    back: Way | None = None
    """The rollback path if the candidate fails; None with ``no_way_back``."""
    no_way_back: str = ""
    """Why there is no rollback path; empty otherwise."""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the current release's input its shadow has read; ``told``: for a person."""

    holds: bool
    told: str
