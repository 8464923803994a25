"""The driver's status, filled from Spark's own events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pendulum

from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.measuring import Meter, QueryProgress, SourceProgress, add_point
from streamkeeper.driver.timings import Timings
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import StoreUnavailable
from streamkeeper.model.coding import decoder_of
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, LaunchSpec, QueryStatus
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.protocol.signals import History, HistoryPoint, SourceSignals
from streamkeeper.model.records.known_checkpoint import commit_key, commits_of
from streamkeeper.model.redaction import redact_value
from streamkeeper.sources.contract import SourceLook
from streamkeeper.sources.known_sources import reported_lag
from streamkeeper.system import clock

HISTORY_EVERY_S = 60.0
IDLE_HISTORY_EVERY_S = 120.0


def _behind(sources: list[SourceProgress]) -> int | None:
    """Return the largest number of records that a source has beyond the batch; None if no source reports it."""
    lags = [lag for source in sources if (lag := reported_lag(source.metrics)) is not None]
    return round(max(lags)) if lags else None


class StatusReporter:
    """The driver's status that will be written next; threads may share it."""

    def __init__(
        self,
        spec: LaunchSpec,
        generation: int,
        timings: Timings,
        channel: DriverChannel,
        *,
        before: DriverStatus | None = None,
        history: History | None = None,
        clock: Callable[[], float] = clock.unix,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """``spec``: the launch specification.
        ``generation``: this generation.
        ``timings``: the timings.
        ``channel``: the access to the store.
        ``before``: the status of an earlier generation, whose beat and commits are continued.
        ``history``: the history of an earlier generation, whose points are continued.
        ``clock``: seconds since 1970.
        ``secrets``: their values are masked in every text of a status, because an error may contain them.
        """
        self._secrets = dict(secrets or {})
        self._lock = threading.Lock()
        self._spec = spec
        self._channel = channel
        self._generation = generation
        self._timings = timings
        self._beat = before.beat if before is not None else 0
        self._commits = commits_of(before)
        self._queries: dict[str, QueryStatus] = {}
        self._meters: dict[str, Meter] = {}
        self._points: dict[str, tuple[HistoryPoint, ...]] = dict(history.queries) if history else {}
        self._clock = clock
        self._new = True
        self.state = DriverState.STARTING
        self.error = ""
        self.warm_up = ""
        self.gathered = False
        self.spark = ""
        # The previous generation's error remains until this one has succeeded.
        self.cause = before.cause if before is not None else ""
        self.waiting = before.waiting if before is not None else ""
        self.fault = before.fault if before is not None else ""
        self.failed_query = before.failed_query if before is not None else ""
        self.compared: dict[str, OutputComparison] = {}
        self._unseen: dict[str, int] = {}

    def put(self, query: QueryStatus) -> None:
        """Add a query to the status, and start to measure it."""
        with self._lock:
            self._queries[query.query] = query
            self._meters[query.query] = Meter(query.signals.trigger_s)

    def change(self, query: str, **changes: object) -> None:
        """Replace fields of a query's status."""
        with self._lock:
            self._queries[query] = msgspec.structs.replace(self._queries[query], **changes)

    def note_failure(self, query: str, error: str, fault: Fault = Fault.UNCLASSIFIED) -> None:
        """Count a failed run of a query."""
        with self._lock:
            before = self._queries[query]
            self._queries[query] = msgspec.structs.replace(
                before, error=error, fault=fault.value, failures=before.failures + 1
            )

    def begin_to_serve(self, query: str, version: str, epoch: int, last_unseen: int | None) -> None:
        """Restart the counts of a query at its cutover. Batches up to ``last_unseen`` were written to the shadow before
        the cutover, so they do not prove that the query runs after the cutover.
        """
        with self._lock:
            before = self._queries[query]
            if last_unseen is not None:
                self._unseen[query] = last_unseen
            self._queries[query] = msgspec.structs.replace(
                before, version=version, epoch=epoch, triggers=0, failures=0, error="", fault=""
            )

    def note_trigger(self, query: str, progress: QueryProgress | None) -> None:
        """Count a completed trigger. ``progress``: the progress of the batch that the trigger committed, None for a
        trigger without data.
        """
        with self._lock:
            before = self._queries.get(query)
            if before is None:
                return
            self._measure(query, progress)
            # Spark reports late: a shadow's batch may be reported after the query became current.
            seen = progress is None or progress.batchId > self._unseen.get(query, -1)
            changes: dict[str, Any] = {"triggers": before.triggers + seen, "error": "", "fault": "", "failures": 0}
            if progress is not None:
                changes |= {
                    "committed": progress.batchId,
                    "rows": before.rows + max(0, progress.numInputRows),
                    "state_rows": sum(operator.numRowsTotal for operator in progress.stateOperators),
                    "offsets": tuple(bytes(source.endOffset).decode() for source in progress.sources),
                    "behind": _behind(progress.sources),
                }
                key = commit_key(query, before.version)
                self._commits[key] = max(progress.batchId, self._commits.get(key, progress.batchId))
            self._queries[query] = msgspec.structs.replace(before, **changes)

    def note_batch(self, query: str, batch: int) -> None:
        """Record the start of a batch."""
        with self._lock:
            self._meters[query].begin(batch, self._clock())

    def note_run_end(self, query: str) -> None:
        """Record that a run has terminated, whatever the reason."""
        with self._lock:
            self._meters[query].end()

    def note_looks(self, query: str, sources: Sequence[SourceLook]) -> None:
        """Record the observed content of a query's sources, in the query's order."""
        with self._lock:
            self._meters[query].look(sources, self._clock())

    def note_size(self, query: str, checkpoint_bytes: int | None) -> None:
        """Record the observed size of a query's checkpoint."""
        with self._lock:
            self._meters[query].weigh(checkpoint_bytes)

    def sources(self, query: str) -> tuple[SourceSignals, ...]:
        """Return the facts about a query's sources; empty before its first batch."""
        with self._lock:
            return self._meters[query].signals(self._clock()).sources

    def _measure(self, query: str, progress: QueryProgress | None) -> None:
        meter, now = self._meters[query], self._clock()
        if progress is None:
            meter.idle(now)
        else:
            meter.commit(progress, now)
            self._new = True

    def query(self, name: str) -> QueryStatus:
        """Return a query's present status, without its measurements (``signals``)."""
        with self._lock:
            return self._queries[name]

    @property
    def commits(self) -> dict[str, int]:
        """``<query>/<version>`` -> the newest committed batch, whichever generation of the instance committed it."""
        with self._lock:
            return dict(self._commits)

    def compose(self) -> DriverStatus:
        """Return the next status to write. Its heartbeat is one more than that of the last status."""
        with self._timings.measure("status.compose"):
            with self._lock:
                self._beat += 1
            return self.status()

    def status(self) -> DriverStatus:
        """Return the present status without increasing the heartbeat."""
        with self._lock:
            now = self._clock()
            measured = {name: meter.signals(now) for name, meter in self._meters.items()}
            status = DriverStatus(
                instance=self._spec.instance,
                release=self._spec.release,
                generation=self._generation,
                state=self.state,
                beat=self._beat,
                at=pendulum.instance(clock.now()).to_iso8601_string(),
                last_command=max((command.number for command in self._channel.commands), default=0),
                queries={
                    name: msgspec.structs.replace(status, signals=measured[name])
                    for name, status in self._queries.items()
                },
                spans_ms=self._timings.sums(),
                store_requests=self._channel.requests,
                error=self.error,
                warm_up=self.warm_up,
                gathered=self.gathered,
                spark=self.spark,
                compared=dict(self.compared),
                commits=dict(self._commits),
                cause=self.cause,
                waiting=self.waiting,
                fault=self.fault,
                failed_query=self.failed_query,
            )
        return redact_value(status, self._secrets)

    def tell(self) -> None:
        """Write the status, and also the history if ``add_to_history`` returns one. Raises StoreUnavailable when the
        status is not written.
        """
        self._channel.write_status(self.compose)
        # Lost history is not an error, and the status has just shown that the store answers.
        with suppress(StoreUnavailable), self._timings.measure("status.history"):
            self._channel.write_history(self.add_to_history)

    def add_to_history(self) -> History | None:
        """Return the history with one more point for each query. Return None while the last point is younger than a
        minute, or than two minutes if no batch was committed since that point.
        """
        with self._lock:
            now, every_s = self._clock(), HISTORY_EVERY_S if self._new else IDLE_HISTORY_EVERY_S
            newest = max((ring[-1].at for ring in self._points.values() if ring), default=None)
            if not self._meters or (newest is not None and 0 <= now - newest < every_s):
                return None
            self._new = False
            for name, meter in self._meters.items():
                self._points[name] = add_point(self._points.get(name, ()), meter.point(now))
            return History(queries=dict(self._points))


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a query's run, as Spark reports it; ``text`` is Spark's exception, empty if there is none."""

    run: str
    condition: str
    text: str


class _ProgressEvent(msgspec.Struct):
    """The JSON of Spark's event."""

    progress: QueryProgress


class EventListener:
    """Receives Spark's streaming events over py4j, with one call per batch. PySpark's own listener makes dozens of
    calls per batch.
    """

    def __init__(
        self, status_reporter: StatusReporter, timings: Timings, wakeups: Wakeups, names: Callable[[str], str | None]
    ) -> None:
        self._status_reporter = status_reporter
        self._timings = timings
        self._wakeups = wakeups
        self._name_of = names
        self._decoder = decoder_of(_ProgressEvent)
        self.ended: list[RunEnded] = []

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing, because the driver itself started the query."""

    def onQueryProgress(self, event: Any) -> None:
        """Record a committed batch."""
        with self._timings.measure("progress"):
            with self._timings.measure("progress.event"):
                encoded = event.json()
            progress = self._decoder.decode(encoded).progress
            self._status_reporter.note_trigger(progress.name, progress)
        self._wakeups.ring(Wakeup.PROGRESS)

    def onQueryIdle(self, event: Any) -> None:
        """Record a trigger without data."""
        name = self._name_of(event.runId().toString())
        if name is None:
            return
        # Later triggers are written with the heartbeat, so that an idle driver costs the store almost no requests.
        first = self._status_reporter.query(name).triggers == 0
        self._status_reporter.note_trigger(name, None)
        if first:
            self._wakeups.ring(Wakeup.FIRST_TRIGGER)

    def onQueryTerminated(self, event: Any) -> None:
        """Record that a run has terminated, whatever the reason."""
        run = event.runId().toString()
        if (name := self._name_of(run)) is not None:
            self._status_reporter.note_run_end(name)
        condition, text = event.errorClassOnException(), event.exception()
        self.ended.append(
            RunEnded(
                run=run,
                condition=condition.get() if condition.isDefined() else "",
                text=text.get() if text.isDefined() else "",
            )
        )
        self._wakeups.ring(Wakeup.ENDED)

    class Java:
        """The interface that py4j requires."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
