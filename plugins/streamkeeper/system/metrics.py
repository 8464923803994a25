"""Metrics for Prometheus: the facts about jobs as text, and an endpoint that serves them.

Labels are job, query and version, and names of rules and releases: no label grows without bound or contains a job's
values. Names and units follow Prometheus' conventions. Times of a driver's clock are exported unchanged: compare them
with each other, and with ``time()`` only if the machines' clocks are synchronised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamkeeper.errors import InvalidInput
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, QueryStatus
from streamkeeper.model.watch.health import BackupLook, Symptom

_PREFIX = "streamkeeper_"
_QUERY = ("job", "query", "version")
_LAST_PORT = 65_535

Figure = Callable[[QueryStatus], float | None]


class JobSample(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one job. In the export of a driver, these are only the facts in the driver's own status."""

    job: str
    """The job."""
    release: str = ""
    """The current release."""
    serving: bool | None = None
    """Whether a driver was observed to run it; None if that was not observed."""
    status: DriverStatus | None = None
    """The driver's status; None if unknown."""
    backups: dict[str, BackupLook] = {}
    """Query -> ages of its snapshots."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The complete content of one export."""

    jobs: tuple[JobSample, ...] = ()
    """The jobs."""
    symptoms: tuple[Symptom, ...] = ()
    """The symptoms of the last pass of the watch."""
    watch_pass: float | None = None
    """When the watch last finished a pass, in seconds since 1970; None if it has never finished one."""
    store_up: bool | None = None
    """Whether the store answers; None if it was not queried."""


def _measured(figure: Figure) -> Figure:
    """Return ``figure``, but with None for a query that has committed no batch since its driver started."""
    return lambda query: figure(query) if query.signals.batch >= 0 else None


def _lag(kind: str) -> Figure:
    """Return a figure that sums the field ``kind`` over the query's sources that report it."""

    def found(query: QueryStatus) -> float | None:
        values = [each for source in query.signals.sources if (each := getattr(source, kind)) is not None]
        return sum(values) if values else None

    return found


_GAUGES: tuple[tuple[str, str, Figure], ...] = (
    ("query_lag_records", "Records in the query's sources that it has not read yet.", _lag("lag_records")),
    ("query_lag_files", "Files in the query's sources that it has not read yet.", _lag("lag_files")),
    (
        "query_too_old_files",
        "Input files that Spark never reads: older than maxFileAge allows, or with a name that is not UTF-8.",
        _lag("too_old_files"),
    ),
    ("query_lag_seconds", "Lag of the query's source with the largest lag.", lambda query: query.signals.lag_s),
    ("batch_duration_seconds", "Duration of the last batch.", _measured(lambda query: query.signals.batch_s)),
    (
        "batch_duration_usual_seconds",
        "Median duration of the last batches.",
        _measured(lambda query: query.signals.usual_batch_s),
    ),
    (
        "trigger_interval_seconds",
        "Interval of the query's trigger; absent for availableNow.",
        lambda query: query.signals.trigger_s,
    ),
    (
        "scheduling_delay_seconds",
        "How much later than its trigger the last batch began.",
        _measured(lambda query: query.signals.scheduling_delay_s),
    ),
    (
        "checkpoint_write_seconds",
        "Time that the last batch took to write its offsets, its commit and its slowest state store commit.",
        _measured(lambda query: query.signals.checkpoint_write_s),
    ),
    ("checkpoint_size_bytes", "Size of the checkpoint's files.", lambda query: query.signals.checkpoint_bytes),
    ("state_rows", "Rows in the state stores.", _measured(lambda query: query.signals.state_rows)),
    (
        "state_memory_bytes",
        "Memory that the state stores use.",
        _measured(lambda query: query.signals.state_memory_bytes),
    ),
    (
        "source_runway_seconds",
        "Time until a source drops input that the query has not read yet, at the source's present rate of dropping.",
        lambda query: query.signals.runway_s,
    ),
    (
        "last_commit_timestamp_seconds",
        "When the query last committed a batch with data, by the driver's clock.",
        lambda query: query.signals.last_commit,
    ),
    (
        "last_trigger_timestamp_seconds",
        "When the query last completed a trigger, with or without data, by the driver's clock.",
        lambda query: query.signals.last_trigger,
    ),
    (
        "batch_open_since_timestamp_seconds",
        "When the running batch began, by the driver's clock; absent between batches.",
        lambda query: query.signals.open_since,
    ),
    (
        "query_failures_in_a_row",
        "Consecutive failed runs of the query since its last completed trigger.",
        lambda query: query.failures,
    ),
)

_COUNTERS: tuple[tuple[str, str, Figure], ...] = (
    ("input_rows", "Rows read since the driver started.", lambda query: query.rows),
    (
        "rows_dropped_by_watermark",
        "Late rows that Spark has dropped since the driver started.",
        lambda query: query.signals.dropped_rows,
    ),
    (
        "state_stores_repaired",
        "State stores that Spark has repaired by itself since the driver started.",
        lambda query: query.signals.repaired_stores,
    ),
)

_SERVES = frozenset({DriverState.SERVING, DriverState.DRAINING})


def metric_families(fleet: Fleet) -> Iterator[Metric]:
    """Yield every metric of a fleet, or of one driver; the function does no I/O."""
    yield from _of_queries(fleet.jobs)
    yield from _of_jobs(fleet.jobs)
    ages = GaugeMetricFamily(
        _PREFIX + "snapshot_age_seconds",
        "Age of the query's newest snapshot; of the newest verified one with verified=true.",
        labels=["job", "query", "verified"],
    )
    for each in fleet.jobs:
        for query, look in sorted(each.backups.items()):
            for verified, age_s in (("false", look.age_s), ("true", look.verified_age_s)):
                if age_s is not None:
                    ages.add_metric([each.job, query, verified], age_s)
    yield ages
    symptoms = GaugeMetricFamily(
        _PREFIX + "symptom",
        "1 for each symptom that the last pass of the watch found.",
        labels=["rule", "severity", "job", "query"],
    )
    for found in fleet.symptoms:
        symptoms.add_metric([found.rule, found.severity.value, found.job, found.query], 1)
    yield symptoms
    yield from _single(
        "watch_pass_timestamp_seconds",
        "When the watch in Airflow last made a pass; if it makes none, when any other watch did.",
        fleet.watch_pass,
    )
    yield from _single("store_up", "1 if the store answers, 0 if it does not.", fleet.store_up)


def _of_queries(jobs: Sequence[JobSample]) -> Iterator[Metric]:
    samples = [(job, query) for job in jobs if job.status for _, query in sorted(job.status.queries.items())]
    for name, help, figure in _GAUGES:
        yield _family(GaugeMetricFamily(_PREFIX + name, help, labels=_QUERY), figure, samples)
    for name, help, figure in _COUNTERS:
        yield _family(CounterMetricFamily(_PREFIX + name, help, labels=_QUERY), figure, samples)


def _family(
    family: GaugeMetricFamily | CounterMetricFamily, figure: Figure, samples: Iterable[tuple[JobSample, QueryStatus]]
) -> Metric:
    for job, query in samples:
        value = figure(query)
        if value is not None:
            family.add_metric([job.job, query.query, query.version], value)
    return family


def _of_jobs(jobs: Sequence[JobSample]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        _PREFIX + "job_info", "1 for each job, with its current release and Spark.", labels=["job", "release", "spark"]
    )
    serving = GaugeMetricFamily(_PREFIX + "job_serving", "1 if a driver runs the job, 0 if none does.", labels=["job"])
    restarts = CounterMetricFamily(
        _PREFIX + "restarts", "Restarts of the job's driver since it was deployed.", labels=["job"]
    )
    beats = CounterMetricFamily(
        _PREFIX + "heartbeats", "Reports that the job's driver wrote; grows while the driver lives.", labels=["job"]
    )
    for each in jobs:
        info.add_metric([each.job, each.release, each.status.spark if each.status is not None else ""], 1)
        if each.serving is not None:
            serving.add_metric([each.job], each.serving)
        if each.status is not None:
            restarts.add_metric([each.job], max(0, each.status.generation - 1))
            beats.add_metric([each.job], each.status.beat)
    yield from (info, serving, restarts, beats)


def _single(name: str, help: str, value: float | None) -> Iterator[Metric]:
    """Yield a metric without labels. For an unknown value yield no metric, so that ``absent()`` detects it."""
    if value is not None:
        yield GaugeMetricFamily(_PREFIX + name, help, value=value)


def of_driver(job: str, status: DriverStatus) -> Fleet:
    """Return the content of the export of one driver, from its status."""
    sample = JobSample(job=job, release=status.release, serving=status.state in _SERVES, status=status)
    return Fleet(jobs=(sample,))


def render_metrics(fleet: Fleet) -> str:
    """Return the metrics in the text format that Prometheus reads."""
    return generate_latest(_registry(lambda: fleet)).decode()


class _Collector(Collector):
    def __init__(self, look: Callable[[], Fleet]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        yield from metric_families(self._look())


def _registry(look: Callable[[], Fleet]) -> CollectorRegistry:
    # Automatic description would observe the whole fleet once, only to list the metrics.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(look))
    return registry


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """The address to listen on, at the first free port from ``first`` to ``last``."""

    address: str
    first: int
    last: int


def read_listen(text: str, *, where: str) -> Listen:
    """Parse ``127.0.0.1:9464``, ``9470`` (on the loopback) or ``0.0.0.0:9470-9569``.

    ``where`` names the setting in the InvalidInput that is raised for any other text.
    """
    address, _, ports = text.rpartition(":")
    first, _, last = ports.partition("-")
    try:
        found = Listen(address=address.strip("[]") or "127.0.0.1", first=int(first), last=int(last or first))
    except ValueError:
        found = Listen(address="", first=0, last=0)
    if not 0 < found.first <= found.last <= _LAST_PORT:
        raise InvalidInput(
            f"{where}: {text!r} is not an address and port",
            hint="write an address and a port, such as 127.0.0.1:9464, or a range of ports: 127.0.0.1:9470-9569",
        )
    return found


def serve_metrics(listen: Listen, look: Callable[[], Fleet]) -> tuple[int, threading.Thread]:
    """Serve metrics from a daemon thread; return the port and the thread. Each request calls ``look`` for its metrics.

    Raises InvalidInput if none of the ports is free.
    """
    registry = _registry(look)
    for port in range(listen.first, listen.last + 1):
        try:
            _, thread = start_http_server(port, listen.address, registry)
        except OSError as error:
            refused = error
            continue
        return port, thread
    raise InvalidInput(f"cannot listen on {listen.address}:{listen.last}: {refused.strerror}", hint="name a free port")
