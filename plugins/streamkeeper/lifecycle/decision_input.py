"""The input of a decision: the recorded state of the job, and the observed drivers."""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.observed_driver import NEVER_STARTED, ObservedDriver
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import Reached


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input for deciding the next action of an operation."""

    state: JobState
    """The job, as its journal records it."""
    operation: OperationState
    """The operation that is being decided."""
    seen: dict[str, ObservedDriver]
    """Instance -> its observation."""
    reached: dict[str, Reached] = {}
    """Query -> how much of the current release's input its shadow has read; empty if the decision does not need it."""
    objection: str = ""
    """While the operation waits for an approval: why the recorded approval does not count; empty if it counts."""
    lost_back: dict[str, str] = {}
    """Query -> the rows that its rollback path loses.

    Set after the candidate has terminated in a fall-back, and until another instance is appointed.
    """
    on: str = ""
    """The name of the present wait; empty outside of one."""
    waited_s: float = 0.0
    """Seconds since the present wait started."""

    def of(self, instance: str) -> ObservedDriver:
        return self.seen.get(instance, NEVER_STARTED)
