"""Decides whether to restart an instance whose driver has terminated, considering the decisions made since."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState
from streamkeeper.model.records.job_state import JobState


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """The decision whether another generation of an instance starts. ``state``: the final state of the instance if none
    starts.
    """

    goes_on: bool
    reason: str = ""
    state: DriverState = DriverState.STOPPED


def may_go_on(state: JobState, instance: str, orders: Collection[CommandKind]) -> Continuation:
    """Return the decision whether another generation of an instance may start.

    ``orders``: all commands to that instance so far. While the job is stopped, an appointed instance may not restart,
    unless the operation that planned the instance is open. An open operation decides about its own instances.
    """
    if CommandKind.DRAIN in orders:
        return Continuation(goes_on=False, reason=f"{instance} was ordered to drain", state=DriverState.DRAINED)
    if CommandKind.STOP in orders:
        return Continuation(goes_on=False, reason=f"{instance} was ordered to end")
    mine = state.instances.get(instance)
    if mine is None:
        return Continuation(goes_on=True)
    if mine.ended:
        return Continuation(goes_on=False, reason=f"{instance} is recorded as ended: {mine.proof}")
    if mine.appointed and state.appointed != instance:
        superseded = f"{instance} was superseded: {state.appointed} is appointed"
        return Continuation(goes_on=False, reason=superseded, state=DriverState.FENCED)
    operation = state.operations.get(mine.operation)
    is_open = operation is not None and operation.outcome is None
    if state.stopped is not None and mine.appointed and not is_open:
        return Continuation(
            goes_on=False, reason=f"the job was stopped by {state.stopped.requested_by or 'an unknown user'}"
        )
    return Continuation(goes_on=True)
