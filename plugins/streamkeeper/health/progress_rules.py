"""Rules about a query's progress: triggers, delay, lag, checkpoint writes, state, and the source's retention."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

from streamkeeper.health.health_rule import Found, Rule, serving, serving_queries, tell_span
from streamkeeper.model.protocol.signals import HistoryPoint, QuerySignals
from streamkeeper.model.watch.health import JobLook, Urgency

SHORTEST_STALL_S = 60.0
LEAST_POINTS = 5
SMALL_CHECKPOINT_BYTES = 256 * 2**20
GROWTH_S = 3600.0
FORECAST_S = 24 * 3600.0
SHORT_WRITE_S = 1.0
TYPICAL_BATCHES = 3
GIB = 2**30


def _driver_now(look: JobLook) -> float | None:
    """Return the time of the driver's last report by the driver's clock, in seconds since 1970; None without a report.

    Times that a driver reports are compared only with the driver's clock.
    """
    status = serving(look)
    if status is None or not status.at:
        return None
    try:
        return datetime.fromisoformat(status.at).timestamp()
    except ValueError:
        return None


def _stalled(look: JobLook, times: float) -> Found:
    now = _driver_now(look)
    if now is None:
        return
    for query, status in serving_queries(look):
        signals = status.signals
        if signals.open_since is not None:
            allowed = max(SHORTEST_STALL_S, times * signals.usual_batch_s)
            if now - signals.open_since >= allowed:
                usual = f" (usual: {tell_span(signals.usual_batch_s)})" if signals.usual_batch_s else ""
                yield query, f"batch {signals.batch + 1} has been open for {tell_span(now - signals.open_since)}{usual}"
        elif signals.last_trigger is not None and signals.trigger_s is not None and not status.finished:
            allowed = max(SHORTEST_STALL_S, times * max(signals.trigger_s, signals.usual_batch_s))
            if now - signals.last_trigger >= allowed:
                interval = f"trigger interval: {tell_span(signals.trigger_s)}"
                yield query, f"no trigger has completed for {tell_span(now - signals.last_trigger)} ({interval})"


def _above(value: Callable[[QuerySignals], float | None], sentence: str) -> Callable[[JobLook, float], Found]:
    """Return the search function of a rule for queries with a signal, in seconds, at or above the threshold.

    ``value``: reads the signal; ``sentence``: the cause, with one ``{}`` for the signal.
    """

    def find(look: JobLook, most: float) -> Found:
        for query, status in serving_queries(look):
            found = value(status.signals)
            if found is not None and found >= most:
                yield query, sentence.format(tell_span(found))

    return find


def _newest_batches(look: JobLook, query: str, now: QuerySignals) -> list[QuerySignals]:
    """Return the newest ``TYPICAL_BATCHES`` batches of a query, oldest first; empty if fewer batches are recorded."""
    known = {signals.batch: signals for signals in (*(point.signals for point in look.history.get(query, ())), now)}
    newest = [known[batch] for batch in sorted(known)[-TYPICAL_BATCHES:]]
    return newest if len(newest) == TYPICAL_BATCHES else []


def _longer_than_trigger(look: JobLook, times: float) -> Found:
    for query, status in serving_queries(look):
        signals = status.signals
        if (
            signals.trigger_s
            and signals.usual_batch_s >= times * signals.trigger_s
            and _newest_batches(look, query, signals)
        ):
            yield (
                query,
                f"a batch takes {signals.usual_batch_s:.1f} s at a trigger interval of {signals.trigger_s:.1f} s",
            )


def _behind(look: JobLook, query: str, over_s: float) -> tuple[HistoryPoint, ...]:
    """Return the history points of the newest ``over_s`` seconds of a query; empty if the history covers a shorter time
    or has too few points.
    """
    points = look.history.get(query, ())
    if not points:
        return ()
    since = points[-1].at - over_s
    covered = tuple(point for point in points if point.at >= since)
    full = points[0].at <= since + over_s * 0.1
    return covered if full and len(covered) >= LEAST_POINTS else ()


def _waiting(signals: QuerySignals) -> float | None:
    """Return the backlog at the sources in records, or in files if only files are reported, else the lag in seconds."""
    for name in ("lag_records", "lag_files"):
        values = [value for source in signals.sources if (value := getattr(source, name)) is not None]
        if values:
            return float(sum(values))
    return signals.lag_s


def _lag_grows(look: JobLook, over_s: float) -> Found:
    for query, _ in serving_queries(look):
        counts = [_waiting(point.signals) for point in _behind(look, query, over_s)]
        known = [count for count in counts if count is not None]
        rises = all(after >= before for before, after in pairwise(known))
        if len(known) >= LEAST_POINTS and rises and known[-1] > max(1.0, known[0] * 1.1):
            yield (
                query,
                f"the backlog at its sources grew from {known[0]:,.0f} to {known[-1]:,.0f} in {tell_span(over_s)}",
            )


def _slow_write(look: JobLook, share: float) -> Found:
    for query, status in serving_queries(look):
        newest = _newest_batches(look, query, status.signals)
        if newest and all(
            signals.checkpoint_write_s >= SHORT_WRITE_S and signals.checkpoint_share >= share for signals in newest
        ):
            # A driver that has just restarted has not run a batch yet, so this one may be of the driver before.
            signals = newest[-1]
            part = f"{signals.checkpoint_write_s:.1f} s of a batch's {signals.batch_s:.1f} s"
            yield (
                query,
                f"writing the checkpoint takes {part} ({signals.checkpoint_share:.0%}),"
                f" {TYPICAL_BATCHES} batches in a row",
            )


def _grows(look: JobLook, times: float) -> Found:
    for query, _ in serving_queries(look):
        sizes = [point.signals.checkpoint_bytes for point in _behind(look, query, GROWTH_S)]
        known = [size for size in sizes if size is not None]
        if len(known) >= LEAST_POINTS and known[-1] >= max(SMALL_CHECKPOINT_BYTES, times * known[0]):
            yield query, f"its checkpoint grew from {known[0]:,} to {known[-1]:,} bytes in {tell_span(GROWTH_S)}"


def _memory(look: JobLook, most_gib: float) -> Found:
    for query, status in serving_queries(look):
        now = status.signals.state_memory_bytes
        points = look.history.get(query, ())
        if now >= most_gib * GIB:
            yield query, f"its state uses {now / GIB:.1f} GiB of memory"
        elif len(points) >= LEAST_POINTS and (span := points[-1].at - points[0].at) > 0:
            rate = (points[-1].signals.state_memory_bytes - points[0].signals.state_memory_bytes) / span
            left_s = (most_gib * GIB - now) / rate if rate > 0 else FORECAST_S + 1
            if left_s <= FORECAST_S:
                growth = f"{now / GIB:.1f} GiB now, growing by {rate * 3600 / GIB:.2f} GiB per hour"
                yield query, f"its state will use {most_gib:g} GiB of memory in {tell_span(left_s)}: {growth}"


def _short_runway(look: JobLook, least_s: float) -> Found:
    for query, status in serving_queries(look):
        runway = status.signals.runway_s
        if runway is not None and runway <= least_s:
            yield query, f"its source drops the data that it reads next in {tell_span(max(0.0, runway))}"


def _repaired(look: JobLook, least: float) -> Found:
    for query, status in serving_queries(look):
        if (count := status.signals.repaired_stores) >= least:
            yield query, f"Spark repaired {count} of its state stores automatically; the damage is unknown"


def _too_old(look: JobLook, least: float) -> Found:
    for query, status in serving_queries(look):
        counts = {source.too_old_example: source.too_old_files or 0 for source in status.signals.sources}
        if (total := sum(counts.values())) and total >= least:
            example = next(path for path, count in counts.items() if count)
            files = f"{total:,} input {'file' if total == 1 else 'files'}"
            why = "has a name that is not UTF-8" if "\ufffd" in example else "is older than maxFileAge allows"
            yield query, f"Spark never reads {files}: {example} {why}"


_BEHIND = "A query falls behind"

RULES: tuple[Rule, ...] = (
    Rule(
        "stalled",
        Urgency.PAGE,
        10,
        "times the usual batch",
        "find in the driver's log what the batch waits for, and fix it. Then deploy the current release of {job} again",
        "A query stands still",
        _stalled,
    ),
    Rule(
        "scheduling-delay",
        Urgency.TICKET,
        30,
        "seconds",
        "give {job} more cores or smaller batches, because its batches start late",
        _BEHIND,
        _above(lambda signals: signals.scheduling_delay_s, "its last batch started {} late"),
    ),
    Rule(
        "batch-longer-than-trigger",
        Urgency.TICKET,
        1,
        "times the trigger interval",
        "use a longer trigger interval for {query}, or more cores",
        _BEHIND,
        _longer_than_trigger,
    ),
    Rule(
        "lag-seconds",
        Urgency.TICKET,
        600,
        "seconds",
        "check whether input has grown or batches have slowed. Use more cores or larger batches for {job}",
        _BEHIND,
        _above(lambda signals: signals.lag_s, "it is {} behind its sources"),
    ),
    Rule(
        "lag-growing",
        Urgency.TICKET,
        600,
        "seconds of growth",
        "check whether input has grown or batches have slowed. Use more cores or larger batches for {job}",
        _BEHIND,
        _lag_grows,
    ),
    Rule(
        "checkpoint-write-slow",
        Urgency.TICKET,
        0.5,
        "of a batch's time",
        "use a trigger interval of 5 to 10 batch durations, or faster storage for the checkpoints of {job}",
        "Writing the checkpoint is slow, or it grows",
        _slow_write,
    ),
    Rule(
        "checkpoint-growing",
        Urgency.TICKET,
        2,
        "times in an hour",
        "check that prunes run. Add a watermark or a state timeout to {query}",
        "Writing the checkpoint is slow, or it grows",
        _grows,
    ),
    Rule(
        "state-memory-forecast",
        Urgency.TICKET,
        4,
        "GiB of state within a day",
        "add a watermark or a state timeout to {query}, or give {job} more memory",
        "The driver runs out of memory",
        _memory,
    ),
    Rule(
        "state-repaired",
        Urgency.TICKET,
        1,
        "state stores",
        "run `streamkeeper fsck` on the checkpoint, then compare the output with its input. If they differ, restore a"
        " snapshot of {series}",
        "A checkpoint may be damaged",
        _repaired,
    ),
    Rule(
        "input-too-old",
        Urgency.TICKET,
        1,
        "files",
        "run `streamkeeper old-input {job}` to list the files, and touch only those. If you do not need the files,"
        " switch this rule off",
        "Input files are too old to be read",
        _too_old,
    ),
    Rule(
        "runway-short",
        Urgency.PAGE,
        4 * 3600.0,
        "seconds",
        "increase the retention at the source now. Then let {job} catch up",
        "The source has dropped what comes next",
        _short_runway,
    ),
)
