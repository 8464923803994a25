"""The transitions of a query from the current release to the candidate, and the rollback paths."""

from __future__ import annotations

from enum import Enum

import msgspec


class Transition(Enum):
    """The transition of one query to another release."""

    START = "start"
    """The query is new, and starts in a new checkpoint version at the beginning of its sources."""
    RESUME = "resume"
    """The query resumes in the same checkpoint version."""
    HANDOFF = "handoff"
    """The query continues in a new checkpoint version, at the exact offsets at which the old version stopped."""
    REBUILD = "rebuild"
    """The query continues in a new checkpoint version that has reread the sources in a dual run."""
    RETURN = "return"
    """The query returns to an older checkpoint version that was kept, and rereads later input."""
    RESTORE = "restore"
    """The query continues in a new version that is restored from a snapshot, and rereads later input."""

    @property
    def switches(self) -> bool:
        """Whether the transition leads to a different checkpoint version than the current one."""
        return self not in (Transition.START, Transition.RESUME)

    @property
    def replays(self) -> bool:
        """Whether rows that were already written are written a second time."""
        return self in (Transition.RETURN, Transition.RESTORE)


class QueryTransition(msgspec.Struct, frozen=True, kw_only=True):
    """The transition of one query."""

    way: Transition
    """The transition."""
    before: str = ""
    """The checkpoint version that the query leaves."""
    version: str = ""
    """The checkpoint version in which the query continues."""
    opaque: bool = False
    """Whether a person must approve it: the candidate may misread the state that it continues, a handoff keeps offsets
    or an output that the candidate may use differently, or a new query may be a renamed one.
    """
    opaque_code: bool = False
    """Whether code has changed whose effect on a rebuilt output is unproven."""
    state_given_up: bool = False
    """Whether the query's state is dropped."""
    batch: int | None = None
    """The batch to which a restore goes back; None for other transitions."""
    snapshot: str = ""
    """The snapshot that a restore uses; empty for other transitions."""
    output_lacks: int | None = None
    """The newest committed batch that the output may lack; None if the output lacks none."""
    other_topics: bool = False
    """Whether the query would read a recreated topic at the offsets of the topic that it replaced."""
    approved_topics: dict[str, str] = {}
    """With ``other_topics``: Kafka topic -> its id, of the topics that a person approves; empty if not recorded."""
    back: Transition | None = None
    """The rollback path if the candidate fails; None if ``no_way_back`` says why there is none."""
    no_way_back: str = ""
    """Why there is no rollback path; empty otherwise."""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a rebuild has read all that the current release has read (``holds``), with evidence for a person."""

    holds: bool
    text: str
