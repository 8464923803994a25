"""Values for one query on the page of a job: plan, sources, output and checkpoint versions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from streamkeeper.compatibility.differences import operator_lines, source_lines
from streamkeeper.health.health_rule import tell_span
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.names import version_number
from streamkeeper.model.protocol.driver_messages import QueryStatus
from streamkeeper.model.protocol.signals import SourceSignals
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.redaction import Structure
from streamkeeper.model.secret_names import masked_code, masked_place

LONGEST_PLAN = 64 * 1024
"""Characters shown of a plan."""


class SourceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One source."""

    title: str
    """Its number and kind."""
    details: tuple[str, ...] = ()
    """Its options and columns."""
    offset: str = ""
    """End of the last committed batch, as Spark wrote it; empty if unknown."""
    lag: str = ""
    """Unread input as text; empty if unknown."""


class OperatorLine(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator and its state."""

    title: str
    details: tuple[str, ...] = ()


class VersionLine(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version."""

    version: Structure
    """Its name."""
    stands: Structure
    """The status of the version: current, previous or never used."""
    origin: str
    """How the version was created, as recorded."""
    place: str
    """Its directory."""
    release: Structure = ""
    """The release that created it; empty if unknown."""
    operation: Structure = ""
    """The operation that created it; empty if unknown."""
    carries_on: str = ""
    """The version whose output it continues."""
    committed: int | None = None
    """Its recorded commit; None without one."""
    state_format: Structure = ""
    """The format of its state."""


class QueryView(msgspec.Struct, frozen=True, kw_only=True):
    """One query of a job."""

    query: Structure
    """The query's name."""
    undescribed: str = ""
    """Why the query's plan is unknown, in which case ``sources`` contains the sources that the driver reports. Empty if
    the plan is known.
    """
    output: str = ""
    """Kind and location of its output."""
    output_mode: Structure = ""
    """Its output mode."""
    trigger: Structure = ""
    """Its trigger."""
    watermarks: tuple[str, ...] = ()
    """Its watermarks."""
    sources: tuple[SourceLine, ...] = ()
    """Its sources."""
    operators: tuple[OperatorLine, ...] = ()
    """Its stateful operators."""
    plan: str = ""
    """Its plan."""
    versions: tuple[VersionLine, ...] = ()
    """Its checkpoint versions, newest first."""


def view_query(
    state: JobState,
    query: str,
    manifest: Manifest | None,
    status: QueryStatus | None,
    *,
    root: str,
    undescribed: str = "",
) -> QueryView:
    """Return the view of one query of a job.

    ``state``: the job's state.
    ``query``: the query's name.
    ``manifest``: its manifest, None if it is unknown.
    ``status``: the driver's last report, None without one.
    ``root``: the checkpoint root of versions whose record names no root.
    ``undescribed``: why the manifest is unknown.
    """
    versions = tuple(_versions(state, query, root))
    if manifest is None:
        return QueryView(query=query, undescribed=undescribed, sources=_told_sources(status), versions=versions)
    return QueryView(
        query=query,
        output=f"{manifest.sink.kind} {masked_place(manifest.sink.output)}",
        output_mode=manifest.output_mode,
        trigger=manifest.trigger,
        watermarks=tuple(map(masked_code, manifest.watermarks)),
        sources=tuple(_sources(manifest, status)),
        operators=tuple(_operators(manifest)),
        plan=_plan(manifest.plan),
        versions=versions,
    )


def _sources(manifest: Manifest, status: QueryStatus | None) -> Iterator[SourceLine]:
    offsets = status.offsets if status is not None else ()
    signals = status.signals.sources if status is not None else ()
    for number, source in enumerate(manifest.sources):
        title, *details = map(masked_code, source_lines(number, source))
        yield SourceLine(
            title=title,
            details=tuple(line.strip() for line in details),
            offset=masked_code(offsets[number]) if number < len(offsets) else "",
            lag=tell_lag(signals[number]) if number < len(signals) else "",
        )


def _told_sources(status: QueryStatus | None) -> tuple[SourceLine, ...]:
    """Return the sources that the driver reports, for a query without a manifest; empty without a report."""
    if status is None:
        return ()
    signals: Sequence[SourceSignals] = status.signals.sources
    count = max(len(status.offsets), len(signals))
    return tuple(
        SourceLine(
            title=masked_code(signals[number].source if number < len(signals) else f"source {number}"),
            offset=masked_code(status.offsets[number]) if number < len(status.offsets) else "",
            lag=tell_lag(signals[number]) if number < len(signals) else "",
        )
        for number in range(count)
    )


def tell_lag(source: SourceSignals) -> str:
    """Return the backlog of a source, such as "12,000 records, lag 3.5 min; the source drops unread input in 2 h"."""
    waits = [
        f"{count:,} {what}"
        for count, what in ((source.lag_records, "records"), (source.lag_files, "files"))
        if count is not None
    ]
    if source.lag_s is not None:
        waits.append(f"lag {tell_span(source.lag_s)}")
    if source.too_old_files:
        waits.append(f"{source.too_old_files:,} never read (too old, or not UTF-8)")
    lags = ", ".join(waits)
    if source.runway_s is None:
        return lags
    return "; ".join(filter(None, (lags, f"the source drops unread input in {tell_span(source.runway_s)}")))


def _operators(manifest: Manifest) -> Iterator[OperatorLine]:
    for number, operator in enumerate(manifest.operators):
        title, *details = masked_code("\n".join(operator_lines(number, operator))).split("\n")
        yield OperatorLine(title=title, details=tuple(line.strip() for line in details))


def _versions(state: JobState, query: str, root: str) -> Iterator[VersionLine]:
    serving = state.current_version(query)
    known = state.versions.get(query, ())
    for version in sorted(known, key=lambda each: version_number(each.version), reverse=True):
        serves = serving is not None and version.version == serving.version
        yield VersionLine(
            version=version.version,
            stands="current" if serves else "previous" if version.serves else "never used",
            origin=version.origin,
            place=state.checkpoint(query, version.version, root),
            release=version.release,
            operation=version.operation if version.operation in state.operations else "",
            carries_on=_carries_on(version),
            committed=version.committed,
            state_format=version.state_format,
        )


def _carries_on(version: CheckpointVersion) -> str:
    if not version.parent:
        return ""
    last = "" if version.parent_batch is None else f" after its batch {version.parent_batch}"
    return f"{version.parent}{last}"


def _plan(plan: str) -> str:
    shown = masked_code(plan)
    left = len(shown) - LONGEST_PLAN
    return shown if left <= 0 else f"{shown[:LONGEST_PLAN]}\n… ({left:,} more characters)"
