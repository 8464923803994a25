"""Records a running driver's status, and where a checkpoint version started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamkeeper.driver.epoch import record_start_offsets
from streamkeeper.driver.queries import Ended, ServedQuery
from streamkeeper.driver.taking_over import Surroundings
from streamkeeper.errors import StoreUnavailable
from streamkeeper.model.control import DriverState
from streamkeeper.model.restarts import Cause


class Recorder:
    """Records the driver's status and where checkpoint versions started; used by the main thread only."""

    def __init__(self, at: Surroundings) -> None:
        self._at = at
        self._start_unknown: set[str] = set()

    def tell(self, state: DriverState | None = None) -> None:
        """Write the status; raises StoreUnavailable. ``state``: the driver's state from now on; None leaves it
        unchanged.
        """
        if state is not None:
            self._at.board.state = state
        self._at.board.tell()

    def try_to_tell(self) -> bool:
        """Write the status; return whether that succeeded."""
        try:
            self.tell()
        except StoreUnavailable:
            return False
        return True

    def note_version(self, query: ServedQuery) -> None:
        """Remember a query if the journal does not record yet where the query's checkpoint version started."""
        known = self._at.line.state
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
            if self._at.board.query(name).committed is None:
                continue
            record_start_offsets(
                self._at.line, query.planned.query, query.claim.version, query.checkpoint, query.sources
            )
            self._start_unknown.discard(name)

    def note_end(self, query: ServedQuery) -> None:
        """Record how the run of a query ended."""
        if query.ended in (Ended.FINISHED, Ended.DRAINED):
            self._at.board.change(query.name, error=query.error, finished=query.ended is Ended.FINISHED)
        else:
            self._at.board.note_failure(query.name, query.error, query.fault)

    def note_drained(self, queries: Iterable[ServedQuery]) -> None:
        """Record the last batch that each gate admitted."""
        for query in queries:
            self._at.board.change(query.name, admitted=query.gate.admitted)

    def note_waits(self, queries: Collection[ServedQuery]) -> None:
        """Record in the status whether queries wait for a dependency.

        The previous generation's failure stays in the status until every query of this generation has shown that the
        failure is over.
        """
        board = self._at.board
        for query in queries:
            # Any completed trigger clears the error.
            if query.cause is Cause.DEPENDENCY and not board.query(query.name).error:
                query.note_trigger()
        waiting = [f"query {query.name}: {query.error}" for query in queries if query.waits]
        if waiting:
            board.cause, board.waiting = Cause.DEPENDENCY.value, "; ".join(waiting)
            board.fault = next(query.fault.value for query in queries if query.waits)
        elif board.cause != Cause.FAILURE.value or self._each_has_triggered(queries):
            board.cause = board.waiting = board.fault = board.failed_query = ""

    def _each_has_triggered(self, queries: Iterable[ServedQuery]) -> bool:
        return all(query.ended is not None or self._at.board.query(query.name).triggers > 0 for query in queries)
