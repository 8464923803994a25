"""Compares a shadow's output with the current one, at a moment when both have read the same input."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.positions import position
from streamkeeper.checkpoints.reach import compare, equal_batches
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.driver.epoch import writer_of
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.driver.taking_over import DriverContext
from streamkeeper.driver.wakeups import Wakeup
from streamkeeper.errors import CheckpointDamaged, NotFound, TemporaryError
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.job_state import JobState
from streamkeeper.sinks.contract import ComparedVersions, SinkWriter
from streamkeeper.system import clock

SEARCH_S = 60.0
_LOOK_S = 0.1
NO_MOMENT = "no moment was found at which both versions had read the same input"

Look = Callable[[], OutputComparison | None]
"""One attempt at a comparison. The result is None, or has ``same_input=False``, if the outputs cannot be compared at
the moment.
"""


class Comparing:
    """Compares the shadow of every rebuilt query with the current output in a separate thread, and reports each result
    to the status board.
    """

    def __init__(
        self, context: DriverContext, shadows: Mapping[str, ServedQuery], may_differ: Mapping[str, tuple[str, ...]]
    ) -> None:
        """``may_differ``: query -> columns in which its outputs may differ."""
        self._context = context
        self._may_differ = dict(may_differ)
        self._shadows = dict(shadows)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread that compares the outputs. The thread finishes after the last comparison, or after
        ``stop``.
        """
        threading.Thread(target=self._compare_all, name="comparison", daemon=True).start()

    def stop(self) -> None:
        """Stop comparing; a running comparison is not awaited, and its result is not reported."""
        self._stopped.set()

    def _compare_all(self) -> None:
        for name, query in self._shadows.items():
            try:
                found = self._compare(query)
            except Exception as error:
                found = OutputComparison(comparable=False, why=describe_fault(error, self._context.root))
            if self._stopped.is_set():
                return
            self._context.status_reporter.compared = {**self._context.status_reporter.compared, name: found}
            self._context.wakeups.ring(Wakeup.COMPARED)

    def _compare(self, query: ServedQuery) -> OutputComparison:
        serving = self._context.spec.rehearse_on.get(query.name)
        if serving is None:
            return OutputComparison(comparable=False, why="no current version runs alongside the shadow")
        writer = writer_of(query.planned.query, query.claim, self._state())
        try:
            return search(self._look_of(writer, tree_at(serving), query), self._stopped)
        finally:
            writer.close()

    def _look_of(self, writer: SinkWriter, old: Tree, query: ServedQuery) -> Look:
        new = query.checkpoint
        versions = ComparedVersions(
            current=old.name,
            may_differ=self._may_differ.get(query.name, ()),
            frame=query.planned.query.df,
            newest_pair=lambda: equal_batches(old.fresh(), new.fresh()),
            same_input=lambda old_batch, new_batch: _same(old, old_batch, new, new_batch),
        )
        return lambda: writer.compare_with_current(versions)

    def _state(self) -> JobState:
        return self._context.channel.state or self._context.channel.look()


def search(look: Look, stopped: threading.Event, *, search_s: float = SEARCH_S) -> OutputComparison:
    """Repeat ``look`` until both outputs come from the same input, and return that result. After ``search_s`` seconds,
    or once ``stopped`` is set, return the last result, marked as not comparable.

    An error in an attempt is ignored, except in the last attempt, whose error is raised.
    """
    deadline = clock.monotonic() + search_s
    found: OutputComparison | None = None
    while True:
        began = clock.monotonic()
        over = began > deadline or stopped.is_set()
        try:
            found = look() or found
        except Exception:
            if over:
                raise
        if found is not None and found.same_input:
            return found
        if over:
            found = found or OutputComparison()
            return msgspec.structs.replace(found, comparable=False, why=found.why or NO_MOMENT, same_input=False)
        # Use at most half of the time, because the database has other users.
        stopped.wait(max(_LOOK_S, clock.monotonic() - began))


def _same(old: Tree, old_batch: int, new: Tree, new_batch: int) -> bool:
    try:
        return compare(position(old.fresh(), old_batch), position(new.fresh(), new_batch)).equal
    except (CheckpointDamaged, NotFound, TemporaryError):
        # A batch's entry is not written yet, or already deleted; a later attempt will succeed.
        return False
