"""Records a running driver's status, and the offsets at which a checkpoint version started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamkeeper.driver.epoch import record_start_offsets
from streamkeeper.driver.queries import Ended, ServedQuery
from streamkeeper.driver.taking_over import DriverContext
from streamkeeper.errors import StoreUnavailable
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.restart_budgets import Cause


class Recorder:
    """Records the driver's status, and the offsets at which checkpoint versions started. Only the main thread may use
    it.
    """

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._start_unknown: set[str] = set()

    def tell(self, state: DriverState | None = None) -> None:
        """Write the status. Raises StoreUnavailable if the store does not answer.

        ``state``: the driver's state from now on; None leaves the state unchanged.
        """
        if state is not None:
            self._context.status_reporter.state = state
        self._context.status_reporter.tell()

    def try_to_tell(self) -> bool:
        """Write the status; return whether that succeeded."""
        try:
            self.tell()
        except StoreUnavailable:
            return False
        return True

    def note_version(self, query: ServedQuery) -> None:
        """Remember a query if the journal does not yet record where the query's checkpoint version started."""
        known = self._context.channel.state
        version = known.version(query.name, query.claim.version) if known is not None else None
        if version is not None and version.start_offsets is None:
            self._start_unknown.add(query.name)

    def note_start_offsets(self, queries: Mapping[str, ServedQuery]) -> None:
        """Record, for each remembered version that has committed a batch, where the version started; raises
        StoreUnavailable.

        Each version is recorded only once.
        """
        for name in list(self._start_unknown):
            query = queries[name]
            if self._context.status_reporter.query(name).committed is None:
                continue
            record_start_offsets(
                self._context.channel, query.planned.query, query.claim.version, query.checkpoint, query.sources
            )
            self._start_unknown.discard(name)

    def note_end(self, query: ServedQuery) -> None:
        """Record how the run of a query ended."""
        if query.ended in (Ended.FINISHED, Ended.DRAINED):
            self._context.status_reporter.change(query.name, error=query.error, finished=query.ended is Ended.FINISHED)
        else:
            self._context.status_reporter.note_failure(query.name, query.error, query.fault)

    def note_drained(self, queries: Iterable[ServedQuery]) -> None:
        """Record the last batch that each gate admitted."""
        for query in queries:
            self._context.status_reporter.change(query.name, admitted=query.gate.admitted)

    def note_waits(self, queries: Collection[ServedQuery]) -> None:
        """Record in the status whether queries wait for a dependency.

        The previous generation's failure stays in the status until every query of this generation has shown that the
        failure is over.
        """
        status_reporter = self._context.status_reporter
        for query in queries:
            # Any completed trigger clears the error.
            if query.cause is Cause.DEPENDENCY and not status_reporter.query(query.name).error:
                query.note_trigger()
        waiting = [f"query {query.name}: {query.error}" for query in queries if query.waits]
        if waiting:
            status_reporter.cause, status_reporter.waiting = Cause.DEPENDENCY.value, "; ".join(waiting)
            status_reporter.fault = next(query.fault.value for query in queries if query.waits)
        elif status_reporter.cause != Cause.FAILURE.value or self._each_has_triggered(queries):
            status_reporter.cause = status_reporter.waiting = status_reporter.fault = status_reporter.failed_query = ""

    def _each_has_triggered(self, queries: Iterable[ServedQuery]) -> bool:
        return all(
            query.ended is not None or self._context.status_reporter.query(query.name).triggers > 0 for query in queries
        )
