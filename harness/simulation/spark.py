"""Spark's micro-batch loop over a simulated input: plan a batch, run it through ``foreachBatch``, commit it.

Its checkpoint has the same files as a real one. As in Spark 4.2.0, a query that starts reruns a batch that was planned
but not committed, and starts from the beginning in an empty directory.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit

from harness.simulation.input import InputFiles, Reader
from harness.simulation.scheduler import Process, Scheduler
from harness.simulation.state import StateStore
from streamkeeper.checkpoints.layout import last_committed, last_planned, read_offsets
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.model.protocol.fault_kinds import Fault

if TYPE_CHECKING:
    from harness.simulation.world import World

_CONF = {"spark.sql.shuffle.partitions": "2"}
_PAUSE_S = 2.0
"""The pause between two triggers, as long as a row needs to arrive: a trigger without rows takes as many steps as an
observation.
"""

_CHECKED_FIRST, _CHECKED_EVERY = 3, 4
"""The rows that readers see are checked after each of the first three batches of a run, and after every fourth batch
from then on: fewer checks suffice there, because a missing or duplicate row stays missing or duplicate.
"""


class Frame:
    """The rows of a batch, or the streaming frame of a query."""

    schema = None
    """Simulated rows have no types."""

    def __init__(
        self, session: Session, planned: Sequence[int] = (), *, add: Callable[[Sequence[int]], None] = lambda _: None
    ) -> None:
        """Create the frame. ``planned``: the rows of the batch, whose files Spark lists at this time, leaving out
        missing ones. ``add``: adds the rows to the state, each time the batch is computed.
        """
        self.sparkSession, self._add = session, add
        # A topic that has dropped records ends the run before.
        files = session.world.input if session is not None else None
        there = files.has if isinstance(files, InputFiles) else lambda _: True
        self._rows = [row for row in planned if there(row)]
        self.missing = [row for row in planned if not there(row)]

    @property
    def rows(self) -> list[int]:
        """Compute the batch and return its rows; a task fails on a file that was removed after the listing."""
        if self.sparkSession is not None and not all(map(self.sparkSession.world.input.has, self._rows)):
            raise RuntimeError("a task has failed: a file or a record of the batch does not exist")
        self._add(self._rows)
        return self._rows

    @property
    def _jdf(self) -> list[int]:
        return self.rows

    @property
    def writeStream(self) -> Start:  # noqa: N802
        """Return the builder of a run."""
        return Start(self)


class Start:
    """Collects the arguments of a run, like Spark's stream writer."""

    def __init__(self, frame: Frame) -> None:
        self._session = frame.sparkSession
        self._given: dict[str, Any] = {}

    def queryName(self, name: str) -> Start:  # noqa: N802
        """Set the name of the query, as in Spark."""
        self._given["name"] = name
        return self

    def outputMode(self, _mode: str) -> Start:  # noqa: N802
        """Accept an output mode, as in Spark, and ignore it."""
        return self

    def option(self, _key: str, value: str) -> Start:
        """Set an option, as in Spark; the only one is the location of the checkpoint."""
        self._given["checkpoint"] = value
        return self

    def foreachBatch(self, gate: Callable[[Any, int], None]) -> Start:  # noqa: N802
        """Set the function that is called for each batch, as in Spark."""
        self._given["gate"] = gate
        return self

    def trigger(self, **_given: Any) -> Start:
        """Accept a trigger, as in Spark, and ignore it."""
        return self

    def start(self) -> Run:
        """Start the run asynchronously, and return it."""
        run = Run(self._session, **self._given)
        run.start()
        return run


class Session:
    """A Spark session and its JVM, which is a child process of the driver."""

    def __init__(self, world: World, driver: Process) -> None:
        self.world, self.driver = world, driver
        self.jvm = Process(f"{driver.name} jvm", driver.machine, parent=driver)
        driver.children.append(self.jvm)
        world.scheduler.start(self.jvm, f"{self.jvm.name} stdin", self._end_with_python)
        self.listeners: list[Any] = []
        self.version = "4.2.0"
        self.spark = self
        self.kills = SimpleNamespace(any=lambda: False)
        self.last_word, self.fault = "the JVM has ended", Fault.UNCLASSIFIED

    def _end_with_python(self) -> None:
        """Terminate the JVM shortly after the driver has died, as Spark's gateway does when its standard input is
        closed.
        """
        scheduler = self.world.scheduler
        scheduler.wait(lambda: not self.driver.alive)
        scheduler.sleep(3.0 * scheduler.chance.random())
        scheduler.kill(self.jvm, 0)

    @property
    def dead(self) -> bool:
        """Return whether the JVM has terminated."""
        return not self.jvm.alive

    def answers(self) -> bool:
        """Return whether the JVM responds."""
        return self.jvm.alive

    def kill(self) -> None:
        """Kill the JVM and wait for its end."""
        self.world.scheduler.kill(self.jvm, -9)

    def in_jvm(self, call: Callable[[], None]) -> None:
        """Call into the JVM and wait for the response: a JVM that has died sends none. The JVM does not notice the
        caller's death.
        """
        _call_in(self.world.scheduler, self.jvm, f"{self.jvm.name} for Python", call)

    def ring_when_dead(self, _wakeups: Any) -> None:
        """Do nothing, because the driver checks often enough."""


class Run:
    """One run of a query in the JVM."""

    def __init__(self, session: Session, *, name: str, checkpoint: str, gate: Callable[[Any, int], None]) -> None:
        self._session, self.name, self._gate = session, name, gate
        self._world, self._scheduler = session.world, session.world.scheduler
        self._tree = tree_at(checkpoint, lasting=False)
        self.checkpoint = checkpoint
        self.runId = str(uuid.UUID(int=self._scheduler.chance.getrandbits(128)))
        self.id = self._world.open_checkpoint(self._tree)
        self._active, self._stopped, self._triggered = True, False, False
        self._error = self._condition = ""
        self._input: Reader
        self._state = self._open_state() if self._world.stateful else None
        self._next = self._first = self._begin = 0
        """The number of the next batch and of the run's first one, and the position at which the next one begins."""
        self._open: int | None = None
        """The end of the planned batch that has to run again; None without one."""
        self._jsq = SimpleNamespace(
            status=lambda: SimpleNamespace(isTriggerActive=lambda: self._triggered),
            exception=lambda: SimpleNamespace(isDefined=lambda: False),
        )

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Return whether the run is still active."""
        return self._active and self._session.jvm.alive

    def start(self) -> None:
        """Start the thread of the run."""
        self._scheduler.start(self._session.jvm, f"{self._session.driver.name} {self.name}", self._loop)

    def stop(self) -> None:
        """Stop the run between two triggers."""
        self._stopped = True
        self._scheduler.wake()
        self._scheduler.wait(lambda: not self.isActive, 5.0)

    def _loop(self) -> None:
        try:
            self._read_checkpoint()
            while not self._stopped:
                self._triggered = True
                self._trigger()
                self._triggered = False
                self._scheduler.wait(lambda: self._stopped, _PAUSE_S)
        except Exception as error:
            self._error, self._condition = f"{type(error).__name__}: {error}", getattr(error, "condition", "")
        self._triggered = self._active = False
        self._scheduler.wake()
        self._tell("onQueryTerminated", self._ended())

    def _read_checkpoint(self) -> None:
        """Determine where to continue. As in Spark, a run reads this once and then relies on its memory."""
        self._input = self._world.input.reader(self._tree.fresh(), self._write, self._options())
        planned, committed = last_planned(self._tree.fresh()), last_committed(self._tree.fresh())
        self._next = 0 if committed is None else committed + 1
        self._begin = self._end_of(committed)
        if planned is not None:
            self._input.request(self._end_of(planned - 1 if planned else None), self._end_of(planned))
            if planned != committed:
                self._next, self._open = planned, self._end_of(planned)
        self._first = self._next

    def _trigger(self) -> None:
        number = self._next
        if self._open is not None:
            end = self._open
        else:
            end = self._input.latest(self._begin)
            if end == self._begin:
                self._tell("onQueryIdle", SimpleNamespace(runId=lambda: SimpleNamespace(toString=lambda: self.runId)))
                return
            self._write(f"offsets/{number}", self._plan(end))
            # As in Spark, once the next batch is planned.
            self._cleaned(self._input.clean(self._begin))
        begin = self._begin
        rows = self._input.rows(begin, end)
        self._call_gate(number, rows)
        if number - self._first < _CHECKED_FIRST or number % _CHECKED_EVERY == 0:
            self._world.check_shown()
        self._write(f"commits/{number}", b'v1\n{"nextBatchWatermarkMs":0}')
        self._begin, self._next, self._open = end, number + 1, None
        self._tell("onQueryProgress", self._progress(number, begin, end, len(rows)))

    def _open_state(self) -> StateStore:
        return StateStore(self._world, self._tree)

    def _options(self) -> dict[str, str]:
        """Return the source's options that override those of the query."""
        return {}

    def _cleaned(self, rows: Sequence[int]) -> None:
        if rows:
            self._world.rules.cleaned(rows)

    def _call_gate(self, number: int, rows: Sequence[int]) -> None:
        def add(computed: Sequence[int]) -> None:
            if self._state is not None:
                self._state.add(number, computed)

        self._in_python(lambda: self._gate(Frame(self._session, rows, add=add), number))

    def _in_python(self, call: Callable[[], None]) -> None:
        """Call back into the driver's process and wait for the response: a process that has died sends none."""
        driver = self._session.driver
        _call_in(self._scheduler, driver, f"{driver.name} {self.name} in Python", call)

    def _write(self, path: str, content: bytes) -> None:
        self._scheduler.seam()
        self._world.rules.sole_writer(self, path)
        self._tree.create(path, [content])

    def _end_of(self, batch: int | None) -> int:
        if batch is None:
            return self._input.start
        (end,) = read_offsets(self._tree.fresh(), batch).ends.values()
        return self._input.position(end)

    def _plan(self, end: int) -> bytes:
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": _CONF})
        return f"v1\n{head}\n{self._offsets(end)}".encode()

    def _offsets(self, end: int) -> str:
        return json.dumps(self._input.offset(end), separators=(",", ":"))

    def _progress(self, number: int, begin: int, end: int, rows: int) -> Any:
        source = {
            "description": self._world.input.described,
            "startOffset": self._input.offset(begin),
            "endOffset": self._input.offset(end),
            "numInputRows": rows,
            "metrics": {},
        }
        told = {
            "id": self.id, "runId": self.runId, "name": self.name, "batchId": number, "numInputRows": rows,
            "timestamp": self._scheduler.now().isoformat(), "durationMs": {}, "stateOperators": [],
            "sources": [source],
        }  # fmt: skip
        return SimpleNamespace(json=lambda: json.dumps({"progress": told}))

    def _ended(self) -> Any:
        def some(text: str) -> Any:
            return SimpleNamespace(isDefined=lambda: bool(text), get=lambda: text)

        return SimpleNamespace(
            runId=lambda: SimpleNamespace(toString=lambda: self.runId),
            errorClassOnException=lambda: some(self._condition),
            exception=lambda: some(self._error),
        )

    def _tell(self, event: str, told: Any) -> None:
        for listener in self._session.listeners:
            with suppress(ConnectionError):
                self._in_python(partial(getattr(listener, event), told))


def _call_in(scheduler: Scheduler, process: Process, name: str, call: Callable[[], None]) -> None:
    """Run ``call`` as an actor of a different process; raises its error, or ConnectionError if the process has
    terminated.
    """
    errors: list[BaseException] = []

    def body() -> None:
        try:
            call()
        except GreenletExit:
            raise
        except BaseException as error:
            errors.append(error)

    calling = scheduler.start(process, name, body)
    scheduler.wait(lambda: calling.done or not process.alive)
    if errors:
        raise errors[0]
    if not process.alive:
        raise ConnectionError(f"{process.name} has ended")
