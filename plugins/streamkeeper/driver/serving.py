"""The control loop of a driver that has been told to go: claim, serve, restart what breaks, drain, end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from streamkeeper.crash_points import crash_point
from streamkeeper.driver.control import StoreLine
from streamkeeper.driver.ending import Ending, will_restart
from streamkeeper.driver.epoch import checkpoint_of, claim_epoch, open_writer, record_start_offsets
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.gate import Gate
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.progress import EventListener, StatusBoard
from streamkeeper.driver.queries import Ended, ServedQuery
from streamkeeper.driver.session import Session
from streamkeeper.driver.spans import Spans
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import Fenced, PermanentError, StoreUnavailable
from streamkeeper.model.control import Command, DriverState, ExitCode, LaunchSpec, QueryStatus

_LOOK_S = 5.0
_DRAIN_LOOK_S = 0.02


class Serving:
    """Serves all queries of a job until they have ended; ``run`` returns by raising Ending, or a permanent error."""

    def __init__(
        self,
        spec: LaunchSpec,
        generation: int,
        *,
        session: Session,
        line: StoreLine,
        board: StatusBoard,
        spans: Spans,
        wakeups: Wakeups,
        root: Path,
    ) -> None:
        self._spec = spec
        self._generation = generation
        self._session = session
        self._line = line
        self._board = board
        self._spans = spans
        self._wakeups = wakeups
        self._root = root
        self._queries: dict[str, ServedQuery] = {}
        self._runs: dict[str, str] = {}
        self._start_unknown: set[str] = set()
        self._listener = EventListener(board, spans, wakeups, self._runs.get)

    def run(self, planned: Mapping[str, PlannedQuery], go: Command) -> NoReturn:
        """Take every query over, start them, and serve; raises Ending, Fenced, SinkAhead or another PermanentError."""
        self._take_over(planned, go)
        self._listen(planned)
        for query in self._queries.values():
            self._start(query)
        self._board.state = DriverState.SERVING
        self._tell()
        while True:
            self._turn(self._wakeups.wait(self._pause_s()))

    def _take_over(self, planned: Mapping[str, PlannedQuery], go: Command) -> None:
        spec = self._spec
        for name, each in planned.items():
            checkpoint = checkpoint_of(spec.checkpoints, spec.job, name, go.versions)
            with self._spans.measure("claim"):
                claim, state = claim_epoch(
                    self._line, spec.job, spec.instance, self._generation, each.query, go.versions[name]
                )
                writer = open_writer(each.query, claim, checkpoint)
            gate = Gate(name, writer, self._line, claim.superseded_by, self._spans, self._wakeups)
            self._queries[name] = ServedQuery(each, claim, checkpoint, gate, self._root)
            self._board.put(QueryStatus(query=name, version=claim.version, epoch=claim.epoch))
            known = next((v for v in state.versions.get(name, ()) if v.version == claim.version), None)
            if known is not None and known.start_offsets is None:
                self._start_unknown.add(name)

    def _listen(self, planned: Mapping[str, PlannedQuery]) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        spark: Any = self._session.spark
        ensure_callback_server_started(spark.sparkContext._gateway)
        wrapper = spark._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self._listener)
        # A job may read each query in a session of its own; each tells its own queries' events only.
        sessions: list[Any] = [each.query.df.sparkSession._jsparkSession for each in planned.values()]
        for position, each in enumerate(sessions):
            if not any(each.equals(other) for other in sessions[:position]):
                each.streams().addListener(wrapper)

    def _start(self, query: ServedQuery) -> None:
        try:
            query.start()
        except Exception as error:
            if isinstance(error, PermanentError) or type(error).__name__ == "AnalysisException":
                raise PermanentError(f"query {query.name}: {describe_fault(error, self._root)}") from error
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
                self._line.look_for_commands()
            if self._line.end_wanted:
                self._drain()
            self._check_owner()
            self._note_ends()
            self._restart_due()
            if Wakeup.PROGRESS in rang:
                with self._spans.measure("status"):
                    self._tell()
            elif rang & {Wakeup.FIRST_TRIGGER, Wakeup.ENDED}:
                self._tell()
            self._note_start_offsets()
        except StoreUnavailable:
            # The heartbeat tries again soon, and the lease ends a driver that stays without its store.
            return
        self._end_if_all_ended()

    def _check_jvm(self) -> None:
        if self._session.dead:
            raise will_restart("the JVM ended by itself")

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
        if query.failure is not None and isinstance(query.failure, PermanentError):
            raise query.failure
        self._board.change(query.name, error=query.error, finished=query.ended is Ended.FINISHED)
        if query.ended is Ended.BROKEN:
            raise will_restart(f"query {query.name}: {query.error}")

    def _restart_due(self) -> None:
        now = time.monotonic()
        for query in self._queries.values():
            if query.restart_at is not None and query.restart_at <= now:
                self._start(query)

    def _note_start_offsets(self) -> None:
        for name in list(self._start_unknown):
            query = self._queries[name]
            if self._board.query(name).committed is None:
                continue
            record_start_offsets(self._line, query.planned.query, query.claim.version, query.checkpoint, query.sources)
            self._start_unknown.discard(name)

    def _check_owner(self) -> None:
        """From what the gate and the heartbeat have read of the journal; asks nothing itself."""
        state = self._line.state
        for query in self._queries.values():
            superseded = query.claim.superseded_by(state) if state is not None else ""
            if superseded:
                raise Fenced(f"query {query.name}: {superseded}")

    def _tell(self) -> None:
        self._line.write_status(self._board.compose)

    def _drain(self) -> NoReturn:
        """Let no batch through; what is between two triggers is stopped, what runs may finish or meets the gate."""
        crash_point("driver.drain.before")
        for query in self._queries.values():
            query.gate.close()
        self._board.state = DriverState.DRAINING
        told = False
        while True:
            self._check_jvm()
            self._note_ends()
            running = [query for query in self._queries.values() if not query.stop_in_gap()]
            if not running:
                break
            if not told:
                told = self._try_to_tell()
            self._wakeups.wait(_DRAIN_LOOK_S)
        crash_point("driver.drain.after")
        raise Ending(DriverState.DRAINED, ExitCode.DRAINED)

    def _try_to_tell(self) -> bool:
        try:
            self._tell()
        except StoreUnavailable:
            return False
        return True

    def _end_if_all_ended(self) -> None:
        ends = {query.ended for query in self._queries.values()}
        if None in ends:
            return
        if ends == {Ended.FINISHED}:
            raise Ending(DriverState.FINISHED, ExitCode.FINISHED)
        raise Ending(DriverState.DRAINED, ExitCode.DRAINED)
