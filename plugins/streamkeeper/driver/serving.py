"""The control loop of a driver that has been told to go, or to shadow: serve, restart what breaks, cut over, end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from streamkeeper.crash_points import crash_point
from streamkeeper.driver.comparing import Comparing
from streamkeeper.driver.cutover import cut_over, hold
from streamkeeper.driver.discarding import discard_shadows
from streamkeeper.driver.ending import Ending, say, will_restart
from streamkeeper.driver.epoch import record_start_offsets
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.progress import EventListener
from streamkeeper.driver.queries import Ended, ServedQuery
from streamkeeper.driver.source_looks import SourceLooks
from streamkeeper.driver.taking_over import Surroundings, shadow, take_over
from streamkeeper.driver.wakeups import Wakeup
from streamkeeper.errors import CheckpointLost, Fenced, InvalidInput, PermanentError, StoreUnavailable
from streamkeeper.model.control import Command, CommandKind, DriverState, ExitCode
from streamkeeper.model.restarts import Cause

_LOOK_S = 5.0
_DRAIN_LOOK_S = 0.02
_ABORT_S = 4.0


class Serving:
    """Serves all queries of a job until they have ended; ``run`` returns by raising Ending, or a permanent error."""

    def __init__(self, at: Surroundings, planned: Mapping[str, PlannedQuery]) -> None:
        self._at = at
        self._planned = planned
        self._queries: dict[str, ServedQuery] = {}
        self._shadows: dict[str, ServedQuery] = {}
        self._comparing: Comparing | None = None
        self._runs: dict[str, str] = {}
        self._start_unknown: set[str] = set()
        self._listener = EventListener(at.board, at.spans, at.wakeups, self._runs.get)
        self._looks = SourceLooks(at.board)

    def run(self, order: Command) -> NoReturn:
        """Take over what the order names, start it, and serve; raises Ending, Fenced or another PermanentError."""
        try:
            if order.kind is CommandKind.SHADOW:
                self._shadow(order)
            else:
                self._serve(order)
            while True:
                self._turn(self._at.wakeups.wait(self._pause_s()))
        except PermanentError:
            # Nobody starts it again, so that nobody else could remove what it has written unseen.
            self._try_to_discard()
            raise

    def _serve(self, go: Command) -> None:
        """Every query, of a driver that serves none yet."""
        taken = [take_over(self._at, each, go.versions) for each in self._planned.values()]
        self._begin(taken, DriverState.SERVING)

    def _shadow(self, order: Command) -> None:
        """Only the queries that are rebuilt."""
        named = [each for name, each in self._planned.items() if name in order.versions]
        for each in named:
            self._shadows[each.query.name] = shadow(self._at, each, order.versions)
        crash_point("driver.shadow.start.before")
        self._begin(self._shadows.values(), DriverState.SHADOW)
        crash_point("driver.shadow.start.after")

    def _begin(self, taken: Iterable[ServedQuery], state: DriverState) -> None:
        """Start what was taken over, and tell."""
        taken = list(taken)
        known = self._at.line.state
        for query in taken:
            version = known.version(query.name, query.claim.version) if known is not None else None
            if version is not None and version.start_offsets is None:
                self._start_unknown.add(query.name)
        self._listen(taken)
        self._queries |= {query.name: query for query in taken}
        for query in taken:
            self._start(query)
            self._looks.add(query)
        self._at.board.state = state
        self._tell()

    def _listen(self, taken: list[ServedQuery]) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        spark: Any = self._at.session.spark
        ensure_callback_server_started(spark.sparkContext._gateway)
        wrapper = spark._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self._listener)
        # A job may read each query in a session of its own; each tells its own queries' events only.
        heard: list[Any] = [each.planned.query.df.sparkSession._jsparkSession for each in self._queries.values()]
        for query in taken:
            session: Any = query.planned.query.df.sparkSession._jsparkSession
            if not any(session.equals(other) for other in heard):
                session.streams().addListener(wrapper)
            heard.append(session)

    def _start(self, query: ServedQuery) -> None:
        try:
            query.start()
        except CheckpointLost as error:
            self._give_up(error)
        except Exception as error:
            if isinstance(error, PermanentError) or type(error).__name__ == "AnalysisException":
                raise PermanentError(f"query {query.name}: {describe_fault(error, self._at.root)}") from error
            query.note_broken_start(error)
            self._judge(query)
            return
        self._runs[query.run_id] = query.name

    def _pause_s(self) -> float:
        due = [each.restart_at - time.monotonic() for each in self._queries.values() if each.restart_at is not None]
        return min(_LOOK_S, *due) if due else _LOOK_S

    def _turn(self, rang: set[Wakeup]) -> None:
        """One turn of the loop: what was ordered, what died, what ended, what is due, what is to be told."""
        self._check_jvm()
        try:
            if Wakeup.NUDGE in rang:
                self._at.line.look_for_commands()
        except StoreUnavailable:
            # The heartbeat tries again soon, and the lease ends a driver that stays without its store.
            return
        self._obey()
        try:
            self._check_owner()
            self._note_ends()
            self._restart_due()
            self._note_waits()
            if Wakeup.PROGRESS in rang:
                with self._at.spans.measure("status"):
                    self._tell()
            elif rang & {Wakeup.FIRST_TRIGGER, Wakeup.ENDED, Wakeup.COMPARED}:
                self._tell()
            self._note_start_offsets()
        except StoreUnavailable:
            return
        self._end_if_all_ended()

    def _obey(self) -> None:
        """What is known of orders; asks nothing."""
        if self._at.line.end_wanted:
            self._end_as_asked()
        if not self._shadows:
            return
        orders = self._at.line.commands
        go = [each for each in orders if each.kind is CommandKind.GO]
        if go:
            self._cut_over(go[-1])
            return
        compare = [each for each in orders if each.kind is CommandKind.COMPARE]
        if compare and self._comparing is None:
            self._comparing = Comparing(self._at, self._shadows, compare[-1].may_differ)
            self._comparing.start()

    def _cut_over(self, go: Command) -> None:
        """What is not shadowed is taken over first: should that fail, no output has been swapped yet."""
        for name, query in self._shadows.items():
            if go.versions.get(name) != query.claim.version:
                raise InvalidInput(f"query {name} was told to serve {go.versions.get(name)}, not {query.claim.version}")
        if self._comparing is not None:
            self._comparing.stop()
        hold(self._at, self._shadows, self._check_while_held)
        others = [each for name, each in self._planned.items() if name not in self._shadows]
        taken = [take_over(self._at, each, go.versions) for each in others]
        cut_over(self._at, self._shadows)
        self._shadows = {}
        self._begin(taken, DriverState.SERVING)

    def _check_while_held(self) -> None:
        self._check_jvm()
        self._note_ends()
        if self._at.line.end_wanted:
            self._end_as_asked()

    def _check_jvm(self) -> None:
        if self._at.session.dead:
            raise will_restart(self._at.session.last_word)

    def _note_ends(self) -> None:
        while self._listener.ended:
            event = self._listener.ended.pop(0)
            name = self._runs.pop(event.run, None)
            if name is not None:
                query = self._queries[name]
                query.note_end(event)
                self._judge(query)

    def _judge(self, query: ServedQuery) -> None:
        """Tell how a run ended; raises what cannot be helped by starting it again."""
        if isinstance(query.failure, PermanentError):
            self._give_up(query.failure)
        if query.cause is Cause.PERMANENT:
            self._give_up(PermanentError(f"query {query.name}: {query.error}"))
        if query.ended in (Ended.FINISHED, Ended.DRAINED):
            self._at.board.change(query.name, error=query.error, finished=query.ended is Ended.FINISHED)
            return
        self._at.board.note_failure(query.name, query.error)
        if query.ended is Ended.BROKEN:
            raise self._ending_of(query)

    def _ending_of(self, query: ServedQuery) -> Ending:
        """What the driver ends with, for a query that is not started again in this process."""
        line = f"query {query.name}: {query.error}"
        if query.cause is Cause.DEPENDENCY:
            waited = f"{line}; it was waited for, {self._at.spec.restarts.dependency_limit_s / 3600:g} h long"
            return Ending(DriverState.FAILED, ExitCode.REFUSED, waited, cause=Cause.DEPENDENCY)
        return will_restart(line, query.cause or Cause.FAILURE)

    def _give_up(self, error: PermanentError) -> NoReturn:
        """End with it. What another query is in the middle of may finish: cut short, its batch would come again."""
        if not isinstance(error, Fenced):
            self._stop_queries(_ABORT_S)
        raise error

    def _restart_due(self) -> None:
        now = time.monotonic()
        for query in self._queries.values():
            if query.restart_at is not None and query.restart_at <= now:
                self._start(query)

    def _note_waits(self) -> None:
        """Whether a query waits for what does not answer, for the status.

        What the generation before broke with stands until this one has shown, query by query, that it does not.
        """
        for query in self._queries.values():
            # Any completed trigger takes the error away.
            if query.cause is Cause.DEPENDENCY and not self._at.board.query(query.name).error:
                query.note_trigger()
        waiting = [f"query {each.name}: {each.error}" for each in self._queries.values() if each.waits]
        board = self._at.board
        if waiting:
            board.cause, board.waiting = Cause.DEPENDENCY.value, "; ".join(waiting)
        elif board.cause != Cause.FAILURE.value or self._each_has_triggered():
            board.cause = board.waiting = ""

    def _each_has_triggered(self) -> bool:
        return all(
            each.ended is not None or self._at.board.query(each.name).triggers > 0 for each in self._queries.values()
        )

    def _note_start_offsets(self) -> None:
        for name in list(self._start_unknown):
            query = self._queries[name]
            if self._at.board.query(name).committed is None:
                continue
            record_start_offsets(
                self._at.line, query.planned.query, query.claim.version, query.checkpoint, query.sources
            )
            self._start_unknown.discard(name)

    def _check_owner(self) -> None:
        """From what the gate and the heartbeat have read of the journal; asks nothing itself."""
        if self._at.line.lost is not None:
            raise self._at.line.lost
        state = self._at.line.state
        for query in self._queries.values():
            superseded = query.claim.superseded_by(state) if state is not None else ""
            if superseded:
                raise Fenced(f"query {query.name}: {superseded}")

    def _tell(self) -> None:
        self._at.board.tell()

    def _end_as_asked(self) -> NoReturn:
        """By a drain; in a dual run nothing of it is kept."""
        if not self._shadows:
            self._drain()
        crash_point("driver.shadow.abort.before")
        self._stop_queries(_ABORT_S)
        self._discard()
        crash_point("driver.shadow.abort.after")
        raise Ending(DriverState.STOPPED, ExitCode.STOPPED)

    def _drain(self) -> NoReturn:
        """Let no batch through; what is between two triggers is stopped, what runs may finish or meets the gate."""
        crash_point("driver.drain.before")
        self._at.board.state = DriverState.DRAINING
        self._stop_queries()
        for query in self._queries.values():
            self._at.board.change(query.name, admitted=query.gate.admitted)
        crash_point("driver.drain.after")
        raise Ending(DriverState.DRAINED, ExitCode.DRAINED)

    def _stop_queries(self, patience_s: float = float("inf")) -> None:
        for query in self._queries.values():
            query.gate.close()
        told, deadline = False, time.monotonic() + patience_s
        while time.monotonic() < deadline:
            self._check_jvm()
            self._note_ends()
            running = [query for query in self._queries.values() if not query.stop_in_gap()]
            if not running:
                return
            if not told:
                told = self._try_to_tell()
            self._at.wakeups.wait(_DRAIN_LOOK_S)

    def _try_to_discard(self) -> None:
        if not self._shadows:
            return
        try:
            self._discard()
        except Exception as error:
            say(f"what was written in shadow could not be removed: {describe_fault(error)}")

    def _discard(self) -> None:
        if self._comparing is not None:
            self._comparing.stop()
        self._at.session.kill()
        discard_shadows(self._at.line, self._shadows.values())

    def _try_to_tell(self) -> bool:
        try:
            self._tell()
        except StoreUnavailable:
            return False
        return True

    def _end_if_all_ended(self) -> None:
        ends = {query.ended for query in self._queries.values()}
        # A shadow that has read all there was waits for its cutover.
        if None in ends or self._shadows:
            return
        if ends == {Ended.FINISHED}:
            raise Ending(DriverState.FINISHED, ExitCode.FINISHED)
        raise Ending(DriverState.DRAINED, ExitCode.DRAINED)
