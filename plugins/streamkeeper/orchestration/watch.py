"""Observes the state that a deferred task waits on, which is read only from the store.

A triggerer may run on a machine from which drivers cannot be observed. The resumed task therefore takes all actions,
and proves whether a process is alive or has terminated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.model.protocol.driver_messages import DriverState, QueryStatus
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.records.step import Step
from streamkeeper.registry.driver_control import Control

if TYPE_CHECKING:
    from streamkeeper.model.records.job_state import JobState
    from streamkeeper.model.records.operation import OperationState
    from streamkeeper.registry.journal import Journal
    from streamkeeper.stores.contract import Store

Sight = list[str]
"""The state whose change resumes a task. It is JSON, because it is stored with the deferred task."""

NEAR = "has read all there is"
"""The mark of a shadow that may have caught up; the resumed task then reads the checkpoints to decide."""


class OperationWatch:
    """Observes one operation and the drivers that it started; changes nothing."""

    def __init__(self, store: Store, journal: Journal, job: str, operation: str, step: Step) -> None:
        self._store, self._journal = store, journal
        self._job, self._operation, self._step = job, operation, step

    def look(self) -> Sight:
        """Return the operation's recorded decisions and the progress of its drivers; empty if the journal has no such
        operation. Raises StoreUnavailable.
        """
        state = self._journal.state()
        operation = state.operations.get(self._operation)
        if operation is None:
            return []
        return fate(operation) + [self._mark(state, operation, name) for name in _drivers(state, self._operation)]

    def _mark(self, state: JobState, operation: OperationState, instance: str) -> str:
        control = Control(self._store, self._job, instance)
        seen = ObservedDriver(status=control.find_status(), exit=control.read_exit())
        if seen.exit is not None:
            return f"{instance} ended"
        if seen.state is None:
            return ""
        if seen.state.terminal:
            return f"{instance} {seen.state.value}"
        state_text = "broken" if seen.broken else self._told(state, operation, seen)
        return f"{instance} {state_text}" if state_text else ""

    def _told(self, state: JobState, operation: OperationState, seen: ObservedDriver) -> str:
        """Return the mark of the milestone that the waiting step waits for, if a live driver has reached it; otherwise
        an empty text.
        """
        match self._step:
            case Step.FIRST_COMMIT:
                # Leaving the standby is part of this step, and must not resume the task.
                return "triggered" if seen.first_triggers_done else ""
            case Step.CATCH_UP:
                return NEAR if _has_read_all(seen) else ""
            case Step.COMPARE:
                return f"compared {','.join(sorted(seen.status.compared))}" if seen.status is not None else ""
            case Step.PROBATION:
                return "held" if _has_held(state, operation, seen) else ""
            case _ if seen.first_triggers_done:
                return "triggered"
            case _:
                return "standby" if seen.state is DriverState.STANDBY else ""


def fate(operation: OperationState) -> Sight:
    """Return the operation's outcome, rollback reason, abort reason and the person's answer. Each is empty until it is
    recorded.
    """
    answer = "" if operation.approval is None else str(operation.approval.approved)
    return [operation.outcome.value if operation.outcome else "", operation.fall_back, operation.abort, answer]


def _has_read_all(seen: ObservedDriver) -> bool:
    """Whether every query of a shadow has completed a trigger without data."""
    queries = seen.status.queries.values() if seen.status is not None else ()
    return seen.state is DriverState.SHADOW and bool(queries) and all(map(_found_nothing, queries))


def _found_nothing(query: QueryStatus) -> bool:
    batches = 0 if query.committed is None else query.committed + 1
    return query.triggers > batches


def _has_held(state: JobState, operation: OperationState, seen: ObservedDriver) -> bool:
    release = operation.release
    queries = frozenset(state.described.get(release, {}))
    return seen.triggers_of(queries) > operation.request.probation_batches


def _drivers(state: JobState, operation: str) -> list[str]:
    return sorted(instance.instance for instance in state.instances.values() if instance.operation == operation)
