"""The gate: every batch of a query passes it before its sink is touched.

The gate blocks batches once the driver drains, once the journal names another owner, while the store does not answer,
or when the checkpoint is older than before. A blocked batch stays planned, and the next driver executes it under the
same batch id. While the gate is held, batches wait. At a cutover they continue with another writer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamkeeper.driver.continuity import Continuity
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.timings import Timings
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import Fenced, StoreUnavailable
from streamkeeper.model.records.job_state import JobState
from streamkeeper.sinks.contract import SinkWriter
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARED_S = 0.1
"""Queries of one driver that trigger within this time share one read of the store."""
_RETRY_S = 0.25


class GateClosed(Exception):
    """Raised to refuse a batch while the driver drains. The batch stays planned, and the next run writes it."""


class Gate:
    """The gate of one query under one epoch. Spark calls the gate for each batch, outside of the main thread."""

    def __init__(
        self,
        query: str,
        writer: SinkWriter,
        channel: DriverChannel,
        superseded_by: Callable[[JobState], str],
        continuity: Continuity,
        timings: Timings,
        wakeups: Wakeups,
        began: Callable[[int], None] = lambda batch: None,
        check_files: Callable[[DataFrame, int], None] = lambda batch, number: None,
    ) -> None:
        """``query``: the query's name.
        ``writer``: writes admitted batches.
        ``channel``: the access to the store.
        ``superseded_by``: returns why the claim is no longer valid.
        ``continuity``: checks the checkpoint.
        ``timings``: receives timings.
        ``wakeups``: wakes the main thread.
        ``began``: called before all else with the number of every batch.
        ``check_files``: raises InputUnreadable or InputGone for a batch that Spark would read wrongly.
        """
        self._query = query
        self._continuity = continuity
        self._writer = writer
        self._channel = channel
        self._superseded_by = superseded_by
        self._timings = timings
        self._wakeups = wakeups
        self._began = began
        self._check_files = check_files
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._held = False
        self._inside = False
        self._failure: BaseException | None = None
        self.admitted: int | None = None
        self.refused: int | None = None
        self.written: int | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Admit the batch and write it."""
        self._began(batch_id)
        crash_point("driver.batch.offered")
        try:
            with self._timings.measure("gate"):
                self._admit(batch_id)
                self._check_files(batch, batch_id)
            crash_point("driver.batch.before")
            with self._timings.measure("write"):
                self._writer.write(batch, batch_id)
            self.written = batch_id
            crash_point("driver.batch.written")
            self._timings.add("batches", 1)
        except GateClosed:
            raise
        except BaseException as error:
            # Spark returns an error of this function only as text.
            self._failure = error
            raise
        finally:
            with self._lock:
                self._inside = False

    def close(self) -> None:
        """Refuse further batches, and batches that wait at the gate, with GateClosed. A batch that is being written
        continues.
        """
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def hold(self) -> None:
        """Make further batches wait at the gate until ``release``; a batch that is being written continues."""
        with self._lock:
            self._held = True

    def hand_to(self, writer: SinkWriter, superseded_by: Callable[[JobState], str]) -> SinkWriter:
        """Give the gate another writer, which writes the waiting batches under its own claim. The gate must be held,
        and no batch may be in progress. Return the previous writer, which the caller must close.

        ``superseded_by``: returns why the new writer's claim is no longer valid; empty if it is valid.
        """
        with self._lock:
            before, self._writer, self._superseded_by = self._writer, writer, superseded_by
            return before

    def release(self) -> None:
        """Release the waiting batches."""
        with self._lock:
            self._held = False
            self._changed.notify_all()

    @property
    def busy(self) -> bool:
        """Whether a batch is being written now."""
        with self._lock:
            return self._inside

    def take_failure(self) -> BaseException | None:
        """Return the error of the last batch and clear it; None if there is no error."""
        failure, self._failure = self._failure, None
        return failure

    def _admit(self, batch_id: int) -> None:
        while not self._try_to_admit(batch_id):
            with self._lock:
                self._changed.wait_for(lambda: self._closed or not self._held)

    def _try_to_admit(self, batch_id: int) -> bool:
        """Try to admit a batch; return False while the gate is held, or when its claim has changed during the check."""
        superseded_by = self._superseded_by
        with self._timings.measure("gate.checkpoint"):
            self._continuity.check_batch(batch_id)
        with self._timings.measure("gate.store"):
            state = self._ask(batch_id)
        if self._channel.end_wanted:
            self.close()
            self._wakeups.ring(Wakeup.LOOKED)
        superseded = superseded_by(state)
        with self._lock:
            if self._held or self._superseded_by is not superseded_by:
                self._refuse_if_closed(batch_id)
                return False
            if superseded:
                raise Fenced(f"query {self._query}: {superseded}")
            self._refuse_if_closed(batch_id)
            self._inside, self.admitted = True, batch_id
        self._continuity.note_batch(batch_id)
        return True

    def _ask(self, batch_id: int) -> JobState:
        while True:
            with self._lock:
                self._refuse_if_closed(batch_id)
            try:
                return self._channel.look(max_age_s=_SHARED_S)
            except StoreUnavailable:
                # An unreachable store never admits a batch; the lease ends a driver that stays here.
                clock.sleep(_RETRY_S)

    def _refuse_if_closed(self, batch_id: int) -> None:
        if self._closed:
            self.refused = batch_id
            raise GateClosed(f"query {self._query}: batch {batch_id} stays planned")
