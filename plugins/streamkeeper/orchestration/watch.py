"""What a waiting task watches: the store alone, for a triggerer may run where no driver's process can be seen.

Acts, and the proof that a process lives or is dead, belong to the task that is woken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.lifecycle.observation import Seen
from streamkeeper.lifecycle.steps import Step
from streamkeeper.model.control import DriverState
from streamkeeper.registry.control import Control

if TYPE_CHECKING:
    from streamkeeper.model.job_state import JobState
    from streamkeeper.registry.journal import Journal
    from streamkeeper.stores.contract import Store

Sight = list[str]
"""What is worth waking a task for, when it differs from before; JSON, for it travels with a deferred task."""


class Watch:
    """Looks at one operation; changes nothing."""

    def __init__(self, store: Store, journal: Journal, job: str, operation: str, step: Step) -> None:
        self._store, self._journal = store, journal
        self._job, self._operation, self._step = job, operation, step

    def look(self) -> Sight:
        """The operation's decided fate and how far its drivers are; raises StoreUnavailable."""
        state = self._journal.state()
        operation = state.operations.get(self._operation)
        if operation is None:
            return []
        outcome = operation.outcome.value if operation.outcome else ""
        fate = [outcome, operation.fall_back, operation.abort]
        return fate + [self._mark(name) for name in _drivers(state, self._operation)]

    def _mark(self, instance: str) -> str:
        control = Control(self._store, self._job, instance)
        seen = Seen(status=control.read_status(), exit=control.read_exit())
        if seen.exit is not None:
            return f"{instance} ended"
        if seen.state is None:
            return ""
        if seen.state.terminal:
            return f"{instance} {seen.state.value}"
        if seen.first_triggers_done:
            return f"{instance} triggered"
        # A candidate leaves its standby while its first commit is awaited: no news then.
        standing_by = seen.state is DriverState.STANDBY and self._step is not Step.FIRST_COMMIT
        return f"{instance} standby" if standing_by else ""


def _drivers(state: JobState, operation: str) -> list[str]:
    return sorted(each.instance for each in state.instances.values() if each.operation == operation)
