"""What a decision rests on: the job as it is recorded, and what can be seen of the drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.control import CommandKind, DriverExit, DriverState, DriverStatus
from streamkeeper.model.job_state import JobState
from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.model.operation import OperationState
from streamkeeper.model.restarts import Cause
from streamkeeper.model.ways import Reached

FAILURES = 2
"""A query may fail once by chance: a release whose query fails so many times in a row is broken."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen of one instance; ``sent``: the commands this operation has sent it."""

    liveness: Liveness = Liveness(life=Life.ABSENT, why="never started")
    status: DriverStatus | None = None
    exit: DriverExit | None = None
    described: bool = False
    sent: frozenset[CommandKind] = frozenset()

    @property
    def life(self) -> Life:
        return self.liveness.life

    @property
    def state(self) -> DriverState | None:
        """Its last word: from its exit if there is one, else from its status."""
        if self.exit is not None:
            return self.exit.state
        return self.status.state if self.status is not None else None

    @property
    def error(self) -> str:
        """The last error it told, if any."""
        if self.exit is not None and self.exit.error:
            return self.exit.error
        return self.status.error if self.status is not None else ""

    @property
    def held_up_by(self) -> str:
        """What it waits for, else the last error it told; empty where it told neither."""
        return (self.status.waiting if self.status is not None else "") or self.error

    @property
    def gathered(self) -> bool:
        """Whether the evidence that it was asked for is there."""
        return self.status is not None and self.status.gathered

    @property
    def broken(self) -> str:
        """Why it will not hold: a query that fails again and again without progress; empty otherwise."""
        told = self.status.queries.values() if self.status is not None else ()
        return next((f"query {query.query}: {query.error}" for query in told if query.failures >= FAILURES), "")

    @property
    def waits(self) -> bool:
        """Whether it goes on by itself once a store, sink or source answers."""
        return self.exit is None and self.status is not None and self.status.cause == Cause.DEPENDENCY.value

    @property
    def first_triggers_done(self) -> bool:
        """Whether every query has completed a trigger, with data or without, in this life of the driver."""
        if self.state is DriverState.FINISHED:
            return True
        if self.state is not DriverState.SERVING or self.status is None or not self.status.queries:
            return False
        return all(query.triggers > 0 for query in self.status.queries.values())

    @property
    def lag(self) -> dict[str, int]:
        """Query -> how many records wait to be read, where its sources report it."""
        told = self.status.queries.values() if self.status is not None else ()
        return {query.query: query.behind for query in told if query.behind is not None}

    def triggers_of(self, queries: frozenset[str]) -> int:
        """How many triggers each of these queries has completed at least, in this life of the driver."""
        told = self.status.queries if self.status is not None else {}
        return min((told[name].triggers if name in told else 0 for name in queries), default=0)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """All a decision rests on. ``on``: what the operation waits for just now, ``waited_s``: for how long.

    ``reached``: query -> how much of what serves its shadow has read, while that matters. ``objection``: why the
    approval that is recorded does not count, while the operation waits for one. ``lost_back``: query -> how its way
    back loses rows, once the candidate of a fall-back has ended and until another instance is appointed.
    """

    state: JobState
    operation: OperationState
    seen: dict[str, Seen]
    reached: dict[str, Reached] = {}
    objection: str = ""
    lost_back: dict[str, str] = {}
    on: str = ""
    waited_s: float = 0.0

    def of(self, instance: str) -> Seen:
        return self.seen.get(instance, Seen())
