"""The input of a decision: the recorded job, and the observed drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.control import CommandKind, DriverExit, DriverState, DriverStatus
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.restarts import Cause
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import Reached

FAILURES = 2
"""One failure of a query may be chance. A release whose query fails this many times in a row is broken."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was observed of one instance."""

    liveness: Liveness = Liveness(life=Life.ABSENT, why="never started")
    """Whether the instance is alive, with the evidence."""
    status: DriverStatus | None = None
    """The newest status that it wrote; None if it wrote none."""
    exit: DriverExit | None = None
    """The record of its end; None without a record."""
    described: bool = False
    """Whether the manifests of its queries are in the store."""
    sent: frozenset[CommandKind] = frozenset()
    """The commands that this operation has sent to it."""

    @property
    def life(self) -> Life:
        return self.liveness.life

    @property
    def state(self) -> DriverState | None:
        """The driver's last reported state: from its exit record if there is one, otherwise from its status."""
        if self.exit is not None:
            return self.exit.state
        return self.status.state if self.status is not None else None

    @property
    def error(self) -> str:
        """The last error that the driver reported; empty without an error."""
        if self.exit is not None and self.exit.error:
            return self.exit.error
        return self.status.error if self.status is not None else ""

    @property
    def held_up_by(self) -> str:
        """What the driver waits for, else the last error that it reported; empty if the driver reported neither."""
        return (self.status.waiting if self.status is not None else "") or self.error

    @property
    def gathered(self) -> bool:
        """Whether the driver has gathered the evidence that was requested from it."""
        return self.status is not None and self.status.gathered

    @property
    def broken(self) -> str:
        """The name and error of a query of the driver that fails repeatedly without progress; empty without one."""
        queries = self.status.queries.values() if self.status is not None else ()
        return next((f"query {query.query}: {query.error}" for query in queries if query.failures >= FAILURES), "")

    @property
    def waits(self) -> bool:
        """Whether the driver only waits for a store, sink or source, and continues once that dependency answers."""
        return self.exit is None and self.status is not None and self.status.cause == Cause.DEPENDENCY.value

    @property
    def first_triggers_done(self) -> bool:
        """Whether every query has completed a trigger, with data or without, since the driver's start."""
        if self.state is DriverState.FINISHED:
            return True
        if self.state is not DriverState.SERVING or self.status is None or not self.status.queries:
            return False
        return all(query.triggers > 0 for query in self.status.queries.values())

    @property
    def lag(self) -> dict[str, int]:
        """Query -> number of waiting records, for queries whose sources report that number."""
        queries = self.status.queries.values() if self.status is not None else ()
        return {query.query: query.behind for query in queries if query.behind is not None}

    def triggers_of(self, queries: frozenset[str]) -> int:
        """Return the smallest number of triggers that any of these queries has completed since the driver's start."""
        statuses = self.status.queries if self.status is not None else {}
        return min((statuses[name].triggers if name in statuses else 0 for name in queries), default=0)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input for deciding the next action of an operation."""

    state: JobState
    """The job, as its journal records it."""
    operation: OperationState
    """The operation that is being decided."""
    seen: dict[str, Seen]
    """Instance -> its observation."""
    reached: dict[str, Reached] = {}
    """Query -> how much of the current release's input its shadow has read, while that matters."""
    objection: str = ""
    """Why the recorded approval does not count, while the operation waits for one; empty if it counts."""
    lost_back: dict[str, str] = {}
    """Query -> the rows that its rollback path loses.

    Set once the candidate of a fall-back has ended and until another instance is appointed.
    """
    on: str = ""
    """The name of the present wait; empty outside of one."""
    waited_s: float = 0.0
    """Seconds since the present wait started."""

    def of(self, instance: str) -> Seen:
        return self.seen.get(instance, Seen())
