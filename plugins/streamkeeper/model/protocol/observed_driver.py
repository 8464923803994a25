"""The observation of one driver instance: whether it is alive, its last report, its exit record, and its orders."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.driver_messages import CommandKind, DriverExit, DriverState, DriverStatus
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.restart_budgets import Cause

FAILURES = 2
"""The number of consecutive failures of a query after which its release counts as broken; a single failure may be
chance.
"""


class ObservedDriver(msgspec.Struct, frozen=True, kw_only=True):
    """The observation of one instance. Every decision about a driver takes this value."""

    liveness: Liveness | None = None
    """Whether the instance is alive, with the evidence; None if it was not observed."""
    status: DriverStatus | None = None
    """The newest status that it wrote; None if it wrote none."""
    exit: DriverExit | None = None
    """The instance's exit record; None if there is none."""
    described: bool = False
    """Whether the manifests of its queries are in the store; False if this was not read."""
    sent: frozenset[CommandKind] = frozenset()
    """The commands that were sent to it; empty if they were not read."""

    @property
    def life(self) -> Life | None:
        """Whether the instance is alive; None if it was not observed."""
        return self.liveness.life if self.liveness is not None else None

    @property
    def why(self) -> str:
        """The evidence for ``life``; empty if the instance was not observed."""
        return self.liveness.why if self.liveness is not None else ""

    @property
    def terminated(self) -> bool:
        """Whether it is proven that no process of the instance exists."""
        return self.life in (Life.DEAD, Life.ABSENT)

    @property
    def frozen(self) -> bool:
        """Whether a process of the living instance is stopped."""
        return self.liveness is not None and self.liveness.frozen

    @property
    def halted(self) -> bool:
        """Whether stopped processes of the living instance keep it from finishing a batch."""
        return self.liveness is not None and self.liveness.halted

    @property
    def rebooted(self) -> bool:
        """Whether the instance terminated because its machine was rebooted."""
        return self.liveness is not None and self.liveness.rebooted

    @property
    def ended_by(self) -> Fault | None:
        """The fault that terminated the instance; None if its runner cannot determine the fault."""
        return self.liveness.fault if self.liveness is not None else None

    @property
    def state(self) -> DriverState | None:
        """The driver's last reported state: from its exit record if there is one, otherwise from its status."""
        report = self.exit or self.status
        return report.state if report is not None else None

    @property
    def by_signal(self) -> bool:
        """Whether a signal stopped the driver's supervisor."""
        return self.exit is not None and self.exit.by_signal

    @property
    def error(self) -> str:
        """The last error that the driver reported; empty without an error."""
        if self.exit is not None and self.exit.error:
            return self.exit.error
        return self.status.error if self.status is not None else ""

    @property
    def fault(self) -> str:
        """The stored kind of fault of ``error``; empty if an older version stored no kind."""
        if self.exit is not None and self.exit.error:
            return self.exit.fault
        return self.status.fault if self.status is not None else ""

    @property
    def cause(self) -> str:
        """The recorded cause of the driver's termination or restart; empty if no cause is recorded."""
        report = self.exit or self.status
        return report.cause if report is not None else ""

    @property
    def waiting(self) -> str:
        """What the driver waits for, according to its status; empty if it waits for nothing."""
        return self.status.waiting if self.status is not None else ""

    @property
    def reported(self) -> str:
        """The last error that the driver reported, else what it waits for; empty if the driver reported neither."""
        return self.error or self.waiting

    @property
    def held_up_by(self) -> str:
        """What the driver waits for, else the last error that it reported; empty if the driver reported neither."""
        return self.waiting or self.error

    @property
    def query_errors(self) -> tuple[str, ...]:
        """The errors of the driver's queries according to its status, one sentence each, sorted by the queries'
        names.
        """
        queries = self.status.queries if self.status is not None else {}
        return tuple(f"query {name}: {query.error}" for name, query in sorted(queries.items()) if query.error)

    @property
    def gathered(self) -> bool:
        """Whether the driver has gathered the evidence that was requested from it."""
        return self.status is not None and self.status.gathered

    @property
    def broken(self) -> str:
        """The name and error of one of the driver's queries that fails repeatedly without progress; empty if none
        does.
        """
        queries = self.status.queries.values() if self.status is not None else ()
        return next((f"query {query.query}: {query.error}" for query in queries if query.failures >= FAILURES), "")

    @property
    def waits(self) -> bool:
        """Whether the driver only waits for a store, sink or source, and continues once that dependency answers."""
        return self.exit is None and self.status is not None and self.status.cause == Cause.DEPENDENCY.value

    def waits_because(self, cause: Cause) -> str:
        """Return what the driver waits for if ``cause`` is the reason for the wait; otherwise empty."""
        return self.waiting if self.status is not None and self.status.cause == cause.value else ""

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


NEVER_STARTED = ObservedDriver(liveness=Liveness(life=Life.ABSENT, why="never started"))
"""The observation of an instance that has no record."""
