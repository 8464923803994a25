"""What the driver tells of itself: the status, filled from Spark's own events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pendulum

from streamkeeper.driver.control import StoreLine
from streamkeeper.driver.spans import Spans
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.model.comparison import OutputComparison
from streamkeeper.model.control import DriverState, DriverStatus, LaunchSpec, QueryStatus
from streamkeeper.model.known_checkpoint import commit_key, commits_of

_LAG = "maxOffsetsBehindLatest"


class _SourceProgress(msgspec.Struct):
    endOffset: msgspec.Raw = msgspec.Raw(b"null")
    metrics: dict[str, str] = {}


class _OperatorProgress(msgspec.Struct):
    numRowsTotal: int = 0


class QueryProgress(msgspec.Struct):
    """The part of Spark's progress JSON that is told on."""

    name: str
    batchId: int
    numInputRows: int = 0
    sources: list[_SourceProgress] = []
    stateOperators: list[_OperatorProgress] = []


def _behind(sources: list[_SourceProgress]) -> int | None:
    """Records that the sources hold beyond the batch, as far as any of them tells: Kafka does, files do not."""
    told = [float(each.metrics[_LAG]) for each in sources if _LAG in each.metrics]
    return round(max(told)) if told else None


class StatusBoard:
    """The status as it will be written next; threads may share it."""

    def __init__(
        self, spec: LaunchSpec, generation: int, spans: Spans, line: StoreLine, *, before: DriverStatus | None = None
    ) -> None:
        """``before``: the last status of an earlier generation, whose beat and commits go on."""
        self._lock = threading.Lock()
        self._spec = spec
        self._line = line
        self._generation = generation
        self._spans = spans
        self._beat = before.beat if before is not None else 0
        self._commits = commits_of(before)
        self._queries: dict[str, QueryStatus] = {}
        self.state = DriverState.STARTING
        self.error = ""
        self.warm_up = ""
        self.gathered = False
        # What the generation before has ended with stands until this one has done better.
        self.cause = before.cause if before is not None else ""
        self.waiting = before.waiting if before is not None else ""
        self.compared: dict[str, OutputComparison] = {}
        self._unseen: dict[str, int] = {}

    def put(self, query: QueryStatus) -> None:
        """Begin to tell of a query."""
        with self._lock:
            self._queries[query.query] = query

    def change(self, query: str, **changes: object) -> None:
        """Replace fields of a query's status."""
        with self._lock:
            self._queries[query] = msgspec.structs.replace(self._queries[query], **changes)

    def note_failure(self, query: str, error: str) -> None:
        """Count a run that failed."""
        with self._lock:
            before = self._queries[query]
            self._queries[query] = msgspec.structs.replace(before, error=error, failures=before.failures + 1)

    def begin_to_serve(self, query: str, version: str, epoch: int, last_unseen: int | None) -> None:
        """Count anew: what a query has done in shadow, up to the batch ``last_unseen``, is no sign that it serves."""
        with self._lock:
            before = self._queries[query]
            if last_unseen is not None:
                self._unseen[query] = last_unseen
            self._queries[query] = msgspec.structs.replace(
                before, version=version, epoch=epoch, triggers=0, failures=0, error=""
            )

    def note_trigger(self, query: str, progress: QueryProgress | None) -> None:
        """Count a completed trigger: with a committed batch, or without data (None)."""
        with self._lock:
            before = self._queries.get(query)
            if before is None:
                return
            # Spark tells late: a batch of the shadow may be told once its query serves.
            seen = progress is None or progress.batchId > self._unseen.get(query, -1)
            changes: dict[str, Any] = {"triggers": before.triggers + seen, "error": "", "failures": 0}
            if progress is not None:
                changes |= {
                    "committed": progress.batchId,
                    "rows": before.rows + max(0, progress.numInputRows),
                    "state_rows": sum(each.numRowsTotal for each in progress.stateOperators),
                    "offsets": tuple(bytes(each.endOffset).decode() for each in progress.sources),
                    "behind": _behind(progress.sources),
                }
                key = commit_key(query, before.version)
                self._commits[key] = max(progress.batchId, self._commits.get(key, progress.batchId))
            self._queries[query] = msgspec.structs.replace(before, **changes)

    def query(self, name: str) -> QueryStatus:
        """What is told of a query now."""
        with self._lock:
            return self._queries[name]

    @property
    def commits(self) -> dict[str, int]:
        """``<query>/<version>`` -> the newest batch committed, in earlier generations too."""
        with self._lock:
            return dict(self._commits)

    def compose(self) -> DriverStatus:
        """The next status to write; its beat is one more than the last one's."""
        with self._lock:
            self._beat += 1
            return DriverStatus(
                instance=self._spec.instance,
                release=self._spec.release,
                generation=self._generation,
                state=self.state,
                beat=self._beat,
                at=pendulum.now("UTC").to_iso8601_string(),
                last_command=max((each.number for each in self._line.commands), default=0),
                queries=dict(self._queries),
                spans_ms=self._spans.sums(),
                store_requests=self._line.requests,
                error=self.error,
                warm_up=self.warm_up,
                gathered=self.gathered,
                compared=dict(self.compared),
                commits=dict(self._commits),
                cause=self.cause,
                waiting=self.waiting,
            )


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Spark ended a run of a query; ``text`` is its exception, empty when there was none."""

    run: str
    condition: str
    text: str


class EventListener:
    """Spark's streaming events, called over py4j with two calls per event instead of pyspark's dozens."""

    def __init__(self, board: StatusBoard, spans: Spans, wakeups: Wakeups, names: Callable[[str], str | None]) -> None:
        self._board = board
        self._spans = spans
        self._wakeups = wakeups
        self._name_of = names
        self._decoder = msgspec.json.Decoder(QueryProgress)
        self.ended: list[RunEnded] = []

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to tell: the driver started it."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch was committed."""
        with self._spans.measure("progress"):
            progress = self._decoder.decode(event.progress().json())
            self._board.note_trigger(progress.name, progress)
        self._wakeups.ring(Wakeup.PROGRESS)

    def onQueryIdle(self, event: Any) -> None:
        """A trigger found no data."""
        name = self._name_of(event.runId().toString())
        if name is None:
            return
        # Later ones go with the heartbeat: an idle driver costs the store next to nothing.
        first = self._board.query(name).triggers == 0
        self._board.note_trigger(name, None)
        if first:
            self._wakeups.ring(Wakeup.FIRST_TRIGGER)

    def onQueryTerminated(self, event: Any) -> None:
        """A run ended, whatever the reason."""
        condition, text = event.errorClassOnException(), event.exception()
        self.ended.append(
            RunEnded(
                run=event.runId().toString(),
                condition=condition.get() if condition.isDefined() else "",
                text=text.get() if text.isDefined() else "",
            )
        )
        self._wakeups.ring(Wakeup.ENDED)

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
