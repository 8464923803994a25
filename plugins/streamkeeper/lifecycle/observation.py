"""What a decision rests on: the job as it is recorded, and what can be seen of the drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.control import CommandKind, DriverExit, DriverState, DriverStatus
from streamkeeper.model.job_state import JobState, OperationState
from streamkeeper.model.liveness import Life, Liveness


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
    def first_triggers_done(self) -> bool:
        """Whether every query has completed a trigger, with data or without, in this life of the driver."""
        if self.state is DriverState.FINISHED:
            return True
        if self.state is not DriverState.SERVING or self.status is None or not self.status.queries:
            return False
        return all(query.triggers > 0 for query in self.status.queries.values())


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """All a decision rests on. ``on``: what the operation waits for just now, ``waited_s``: for how long."""

    state: JobState
    operation: OperationState
    seen: dict[str, Seen]
    on: str = ""
    waited_s: float = 0.0

    def of(self, instance: str) -> Seen:
        return self.seen.get(instance, Seen())
