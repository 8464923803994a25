"""The cutover: shadow queries become current, without a stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from streamkeeper.driver.queries import ServedQuery
from streamkeeper.driver.taking_over import DriverContext, claim_and_fence
from streamkeeper.driver.wakeups import Wakeup
from streamkeeper.errors import StoreUnavailable
from streamkeeper.sinks.contract import SinkWriter
from streamkeeper.system.crash_points import crash_point

_LOOK_S = 0.02


def hold(context: DriverContext, shadows: Mapping[str, ServedQuery], check: Callable[[], None]) -> None:
    """Hold every further batch of these queries at the query's gate, and wait until running batches finish.

    ``check``: called repeatedly during the wait; an error that it raises ends the wait.
    """
    crash_point("driver.cutover.hold.before")
    for query in shadows.values():
        query.gate.hold()
    while any(query.gate.busy for query in shadows.values()):
        if Wakeup.NUDGE in context.wakeups.wait(_LOOK_S):
            with suppress(StoreUnavailable):
                context.channel.look_for_commands()
        check()
    crash_point("driver.cutover.hold.after")


def cut_over(context: DriverContext, shadows: Mapping[str, ServedQuery]) -> None:
    """Make these rebuilt queries, which are held at their gates, current: claim their epochs, make their shadows the
    outputs, and release the waiting batches.

    An error ends this process. The next generation of the driver then makes the remaining queries current.
    """
    before = []
    for query in shadows.values():
        crash_point("driver.cutover.fence.before")
        claim, writer = claim_and_fence(context, query.planned, query.checkpoint, topics=query.topics)
        crash_point("driver.cutover.fence.after")
        last_unseen = query.gate.written
        before.append(query.serve_under(claim, writer))
        context.status_reporter.begin_to_serve(query.name, claim.version, claim.epoch, last_unseen)
    crash_point("driver.cutover.release.before")
    for query in shadows.values():
        query.gate.release()
    crash_point("driver.cutover.release.after")
    _close(before)


def _close(writers: list[SinkWriter]) -> None:
    for writer in writers:
        writer.close()
