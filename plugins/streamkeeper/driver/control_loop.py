"""The control loop of a driver after a ``go`` or ``shadow`` command: it runs queries, restarts failed ones, cuts over,
and terminates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NoReturn

from streamkeeper.driver.causes import GivenUp, judge
from streamkeeper.driver.comparing import Comparing
from streamkeeper.driver.discarding import discard_shadows
from streamkeeper.driver.ending import Ending, log_line, will_restart
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.garbage import collect_regularly
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.observing import Observer
from streamkeeper.driver.queries import Ended, ServedQuery
from streamkeeper.driver.recording import Recorder
from streamkeeper.driver.source_looks import SourceLooks
from streamkeeper.driver.taking_over import DriverContext, claim_and_fence, shadow, take_over
from streamkeeper.driver.wakeups import Wakeup
from streamkeeper.errors import CheckpointLost, Fenced, InvalidInput, PermanentError, StoreUnavailable
from streamkeeper.model.protocol.driver_messages import Command, CommandKind, DriverState, ExitCode
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

_LOOK_S = 5.0
_BUSY_LOOK_S = 0.02
_ABORT_S = 4.0


class Serving:
    """Runs all queries of a job until they have terminated. ``run`` never returns: it raises Ending or a permanent
    error.
    """

    def __init__(self, context: DriverContext, planned: Mapping[str, PlannedQuery]) -> None:
        self._context = context
        self._planned = planned
        self._queries: dict[str, ServedQuery] = {}
        self._shadows: dict[str, ServedQuery] = {}
        self._comparing: Comparing | None = None
        self._observer = Observer(context)
        self._recorder = Recorder(context)
        self._looks = SourceLooks(context.status_reporter)

    def run(self, order: Command) -> NoReturn:
        """Take over every query, or only the rebuilt queries if the order is SHADOW. Start these queries, and run until
        the driver ends, which raises Ending, Fenced or another PermanentError.
        """
        collect_regularly()
        try:
            if order.kind is CommandKind.SHADOW:
                self._shadow(order)
            else:
                self._serve(order)
            while True:
                self._turn(self._context.wakeups.wait(self._pause_s()))
        except PermanentError:
            # The instance is not restarted, so a later generation could not remove its shadow output.
            self._try_to_discard()
            raise

    def _serve(self, go: Command) -> None:
        """Take over every query, in a driver that runs none yet."""
        taken = [take_over(self._context, query, go) for query in self._planned.values()]
        self._begin(taken, DriverState.SERVING)

    def _shadow(self, order: Command) -> None:
        """Take over only the rebuilt queries."""
        named = [query for name, query in self._planned.items() if name in order.versions]
        for query in named:
            self._shadows[query.query.name] = shadow(self._context, query, order.versions)
        crash_point("driver.shadow.start.before")
        self._begin(self._shadows.values(), DriverState.SHADOW)
        crash_point("driver.shadow.start.after")

    def _begin(self, taken: Iterable[ServedQuery], state: DriverState) -> None:
        """Start the queries that were taken over, and report."""
        taken = list(taken)
        for query in taken:
            self._recorder.note_version(query)
        self._observer.listen_to(taken)
        self._queries |= {query.name: query for query in taken}
        for query in taken:
            self._start(query)
            self._looks.add(query)
        self._recorder.tell(state)

    def _start(self, query: ServedQuery) -> None:
        try:
            query.start()
        except CheckpointLost as error:
            self._give_up(error)
        except Exception as error:
            if isinstance(error, PermanentError) or type(error).__name__ == "AnalysisException":
                line, fault = describe_fault(error, self._context.root), judge(error, self._context.root).fault
                raise GivenUp(query.name, line, fault) from error
            query.note_broken_start(error)
            self._judge(query)
            return
        self._observer.note_start(query)

    def _pause_s(self) -> float:
        due = [query.restart_at - clock.monotonic() for query in self._queries.values() if query.restart_at is not None]
        return min(_LOOK_S, *due) if due else _LOOK_S

    def _turn(self, rang: set[Wakeup]) -> None:
        """Run one turn of the loop: handle orders, terminated processes, terminated runs, due restarts and reports."""
        self._observer.check_jvm()
        try:
            if Wakeup.NUDGE in rang:
                self._context.channel.look_for_commands()
        except StoreUnavailable:
            # The heartbeat retries soon, and the lease ends a driver that stays without its store.
            return
        self._obey()
        try:
            self._observer.check_owner(self._queries.values())
            self._note_ends()
            self._restart_due()
            self._recorder.note_waits(self._queries.values())
            if Wakeup.PROGRESS in rang:
                with self._context.timings.measure("status"):
                    self._recorder.tell()
            elif rang & {Wakeup.FIRST_TRIGGER, Wakeup.ENDED, Wakeup.COMPARED}:
                self._recorder.tell()
            self._recorder.note_start_offsets(self._queries)
        except StoreUnavailable:
            return
        self._end_if_all_ended()

    def _obey(self) -> None:
        """Execute the orders that were read so far; makes no request."""
        if self._context.channel.end_wanted:
            self._end_as_asked()
        if not self._shadows:
            return
        orders = self._context.channel.commands
        go = [order for order in orders if order.kind is CommandKind.GO]
        if go:
            self._cut_over(go[-1])
            return
        compare = [order for order in orders if order.kind is CommandKind.COMPARE]
        if compare and self._comparing is None:
            self._comparing = Comparing(self._context, self._shadows, compare[-1].may_differ)
            self._comparing.start()

    def _cut_over(self, go: Command) -> None:
        """Cut over. Queries without a shadow are taken over first; if that fails, no output has been swapped yet."""
        for name, query in self._shadows.items():
            if go.versions.get(name) != query.claim.version:
                raise InvalidInput(
                    f"query {name} must use checkpoint {go.versions.get(name)}, but uses {query.claim.version}"
                )
        if self._comparing is not None:
            self._comparing.stop()
        self._hold_shadows()
        others = [waiting for name, waiting in self._planned.items() if name not in self._shadows]
        taken = [take_over(self._context, waiting, go) for waiting in others]
        self._swap_outputs()
        self._shadows = {}
        self._begin(taken, DriverState.SERVING)

    def _hold_shadows(self) -> None:
        """Hold every further batch of the rebuilt queries at its gate, and wait until running batches finish."""
        crash_point("driver.cutover.hold.before")
        for query in self._shadows.values():
            query.gate.hold()
        while any(query.gate.busy for query in self._shadows.values()):
            if Wakeup.NUDGE in self._context.wakeups.wait(_BUSY_LOOK_S):
                with suppress(StoreUnavailable):
                    self._context.channel.look_for_commands()
            self._observer.check_jvm()
            self._note_ends()
            if self._context.channel.end_wanted:
                self._end_as_asked()
        crash_point("driver.cutover.hold.after")

    def _swap_outputs(self) -> None:
        """Make the rebuilt queries, which are held at their gates, current: claim their epochs, make their shadows the
        outputs, and release the waiting batches.

        An error ends this process. The next generation of the driver then makes the remaining queries current.
        """
        before = []
        for query in self._shadows.values():
            crash_point("driver.cutover.fence.before")
            claim, writer = claim_and_fence(self._context, query.planned, query.checkpoint, topics=query.topics)
            crash_point("driver.cutover.fence.after")
            last_unseen = query.gate.written
            before.append(query.serve_under(claim, writer))
            self._context.status_reporter.begin_to_serve(query.name, claim.version, claim.epoch, last_unseen)
        crash_point("driver.cutover.release.before")
        for query in self._shadows.values():
            query.gate.release()
        crash_point("driver.cutover.release.after")
        for writer in before:
            writer.close()

    def _note_ends(self) -> None:
        for name, event in self._observer.take_ends():
            query = self._queries[name]
            query.note_end(event)
            self._judge(query)

    def _judge(self, query: ServedQuery) -> None:
        """Report why a run terminated; raise errors that a restart cannot fix."""
        if isinstance(query.failure, PermanentError):
            self._give_up(query.failure)
        if query.cause is Cause.PERMANENT:
            self._give_up(GivenUp(query.name, query.error, query.fault))
        self._recorder.note_end(query)
        if query.ended is Ended.BROKEN:
            raise self._ending_of(query)

    def _ending_of(self, query: ServedQuery) -> Ending:
        """Return the driver's ending for a query that is not restarted in this process."""
        line = f"query {query.name}: {query.error}"
        if query.cause is Cause.DEPENDENCY:
            waited = (
                f"{line}; the driver waited {self._context.spec.restarts.dependency_limit_s / 3600:g}"
                " h for the dependency"
            )
            return Ending(
                DriverState.FAILED,
                ExitCode.REFUSED,
                waited,
                cause=Cause.DEPENDENCY,
                fault=query.fault,
                query=query.name,
            )
        return will_restart(line, query.cause or Cause.FAILURE, query.fault, query=query.name)

    def _give_up(self, error: PermanentError) -> NoReturn:
        """Stop the queries and raise the error. Running batches of other queries may finish, because interrupted ones
        would be replayed.
        """
        if not isinstance(error, Fenced):
            self._stop_queries(_ABORT_S)
        raise error

    def _restart_due(self) -> None:
        now = clock.monotonic()
        for query in self._queries.values():
            if query.restart_at is not None and query.restart_at <= now:
                self._start(query)

    def _end_as_asked(self) -> NoReturn:
        """Drain as commanded; in a dual run, remove the shadow output instead."""
        if not self._shadows:
            self._drain()
        crash_point("driver.shadow.abort.before")
        self._stop_queries(_ABORT_S)
        self._discard()
        crash_point("driver.shadow.abort.after")
        raise Ending(DriverState.STOPPED, ExitCode.STOPPED)

    def _drain(self) -> NoReturn:
        """Stop the queries without admitting a further batch, then raise Ending. Queries between two triggers are
        stopped; running batches may finish or are blocked at the gate.
        """
        crash_point("driver.drain.before")
        self._context.status_reporter.state = DriverState.DRAINING
        self._stop_queries()
        self._recorder.note_drained(self._queries.values())
        crash_point("driver.drain.after")
        raise Ending(DriverState.DRAINED, ExitCode.DRAINED)

    def _stop_queries(self, patience_s: float = float("inf")) -> None:
        for query in self._queries.values():
            query.gate.close()
        reported, deadline = False, clock.monotonic() + patience_s
        while clock.monotonic() < deadline:
            self._observer.check_jvm()
            self._note_ends()
            running = [query for query in self._queries.values() if not query.stop_in_gap()]
            if not running:
                return
            if not reported:
                reported = self._recorder.try_to_tell()
            self._context.wakeups.wait(_BUSY_LOOK_S)

    def _try_to_discard(self) -> None:
        if not self._shadows:
            return
        try:
            self._discard()
        except Exception as error:
            log_line(f"the shadow output could not be removed: {describe_fault(error)}", level=logging.WARNING)

    def _discard(self) -> None:
        if self._comparing is not None:
            self._comparing.stop()
        self._context.session.kill()
        discard_shadows(self._context.channel, self._shadows.values())

    def _end_if_all_ended(self) -> None:
        ends = {query.ended for query in self._queries.values()}
        # A shadow that has read all input waits for its cutover.
        if None in ends or self._shadows:
            return
        if ends == {Ended.FINISHED}:
            raise Ending(DriverState.FINISHED, ExitCode.FINISHED)
        raise Ending(DriverState.DRAINED, ExitCode.DRAINED)
