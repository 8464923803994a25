"""What the page of a job says, part by part: each is read by itself, and one that cannot be read says why in its place.

A text that is here may be anybody's: it is without secrets, nothing in it steers a reader, and templates escape it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import msgspec

from streamkeeper.compatibility.differences import Difference
from streamkeeper.compatibility.report import strictest_first, told_way
from streamkeeper.errors import FormatTooNew, NotFound, RegistryDamaged, StreamkeeperError
from streamkeeper.health.rule import tell_span
from streamkeeper.model.control import QueryStatus
from streamkeeper.model.finding import Finding
from streamkeeper.model.fleet import FleetIndex
from streamkeeper.model.job_state import JobState
from streamkeeper.model.liveness import Life
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.names import check_name
from streamkeeper.model.redaction import Structure
from streamkeeper.model.secret_names import literal_secrets, shown_value
from streamkeeper.model.signals import History
from streamkeeper.model.snapshot import series_of_query
from streamkeeper.operations.downstream import Readers, find_readers
from streamkeeper.operations.driver_logs import tail_log
from streamkeeper.operations.findings import OperationFindings, last_assessed, read_findings
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.overview import JobOverview, overview_of, read_job
from streamkeeper.operations.overview_facts import Fact, overview_facts
from streamkeeper.operations.pruning import read_policy
from streamkeeper.operations.snapshot_rows import ListedSnapshot, list_snapshots, moment_taken
from streamkeeper.operations.timelines import Timeline, read_timeline
from streamkeeper.pages.buttons import Buttons, read_buttons
from streamkeeper.pages.charts import JobCharts, make_charts
from streamkeeper.pages.health_view import HealthView, view_health
from streamkeeper.pages.parts import Part, read_part
from streamkeeper.pages.query_view import QueryView, view_query
from streamkeeper.pages.viewer import Viewer
from streamkeeper.registry.control import Control
from streamkeeper.registry.fleet import read_index
from streamkeeper.registry.objects import read_manifest
from streamkeeper.snapshots.catalogue import Catalogue

T = TypeVar("T")

LOG_LINES = 100
LONGEST_LINE = 2_000
"""Characters of one line of a log that are shown."""


class QueryStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How one query keeps up, by its driver's last word; what it does not tell is empty."""

    query: Structure
    version: Structure
    epoch: int
    batch: Structure
    took: Structure
    due: Structure
    rates: Structure
    behind: Structure
    state_rows: int
    checkpoint: Structure
    dropped: int
    error: str


class StandingView(msgspec.Struct, frozen=True, kw_only=True):
    """How the job stands: the facts that ``streamkeeper status`` tells, and its queries."""

    facts: tuple[Fact, ...]
    queries: tuple[QueryStanding, ...]


class ReleaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The serving release: what it was given, and in what it was made."""

    release: Structure
    facts: tuple[tuple[str, str], ...]
    params: tuple[tuple[str, str], ...]
    conf: tuple[tuple[str, str], ...]


class QueryFindings(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one query, the strictest first, and how it goes on."""

    query: Structure
    verdict: Structure
    goes: str
    findings: tuple[Finding, ...]


class FindingsView(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest assessment found; ``undiffered``: why the code's differences are not known."""

    operation: Structure
    release: Structure
    before: Structure
    decision: str
    refusal: str
    queries: tuple[QueryFindings, ...]
    differences: tuple[Difference, ...]
    undiffered: str


class SnapshotLine(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot. ``taken``: seconds since 1970; ``stored``: bytes that it added; ``kept``: why it stays, or goes."""

    name: Structure
    error: str = ""
    batch: int = -1
    version: Structure = ""
    release: Structure = ""
    taken: float | None = None
    bytes: int = 0
    stored: int = 0
    verified: bool | None = None
    drill: str = ""
    keep: bool = True
    kept: str = ""


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots of one query, newest first; ``unread``: why they cannot be listed."""

    query: Structure
    snapshots: tuple[SnapshotLine, ...] = ()
    unread: str = ""


class JobPage:
    """One job, read part by part: what several parts need is read once. Not for several threads.

    Raises InvalidInput for a name that is none; NotFound for an unknown job and StoreUnavailable once anything is read.
    """

    def __init__(self, site: Installation, job: str) -> None:
        self.job = check_name("job", job)
        self._site = site

    def standing(self) -> Part[StandingView]:
        """How it stands."""
        return self._part("how it stands", lambda state: _standing(self._overview))

    def health(self) -> Part[HealthView]:
        """What the watch found, also where the journal cannot be read."""
        return read_part("the watch's index", lambda: view_health(self._index, self.job), self._secrets)

    def charts(self) -> Part[JobCharts]:
        """What the driver that serves, or did last, has measured."""
        return self._part("what its driver measured", self._charts)

    def release(self) -> Part[ReleaseView | None]:
        """What serves; None where nothing ever did."""
        return self._part("the serving release", _release)

    def queries(self) -> Part[tuple[QueryView, ...]]:
        """Those of the serving release, and those that ever had a checkpoint."""
        return self._part("its queries", lambda state: tuple(self._queries(state)))

    def timeline(self, before: int = 0) -> Part[Timeline]:
        """What was done to it; ``before``: only what came before this entry of the journal."""
        return self._part("its history", lambda state: read_timeline(self._site, state, before=before))

    def findings(self) -> Part[FindingsView | None]:
        """Of the newest operation that was assessed; None where none was."""
        return self._part("the last findings", self._findings)

    def snapshots(self) -> Part[tuple[SeriesView, ...]]:
        """Of each query that ever had a checkpoint."""
        return self._part("its snapshots", lambda state: tuple(self._snapshots(state)))

    def log(self) -> Part[tuple[str, ...]]:
        """Where the log of the driver is, and its last lines."""
        return self._part("its driver's log", lambda state: tuple(self._log()))

    def readers(self) -> Part[Readers]:
        """The jobs that read what this one writes."""
        return self._part("who reads its output", self._readers)

    def buttons(self, who: Viewer) -> Buttons:
        """What the viewer may do with it; none where that cannot be told: the parts say why."""
        state = self._state.value
        if state is None:
            return Buttons()
        try:
            return read_buttons(self._site, state, who, runs=self._overview.life is Life.ALIVE)
        except StreamkeeperError:
            return Buttons()

    def _part(self, what: str, read: Callable[[JobState], T]) -> Part[T]:
        state = self._state
        if state.value is None:
            return Part(missing=state.missing)
        known = state.value
        return read_part(what, lambda: read(known), self._secrets)

    @cached_property
    def _state(self) -> Part[JobState]:
        try:
            return Part(value=read_job(self._site, self.job))
        except NotFound:
            raise NotFound(f"job {self.job} is not known", hint="the fleet lists those that are") from None
        except (RegistryDamaged, FormatTooNew) as error:
            return Part(missing=f"the journal cannot be read: {error}")

    @cached_property
    def _secrets(self) -> Mapping[str, str]:
        """Values that stand in a release where references should."""
        releases = self._state.value.releases.values() if self._state.value is not None else ()
        given = (values for each in releases for values in (each.content.params, each.content.conf))
        return {secret: secret for values in given for secret in literal_secrets(values)}

    @cached_property
    def _overview(self) -> JobOverview:
        assert self._state.value is not None
        return overview_of(self._site, self._state.value)

    @cached_property
    def _index(self) -> FleetIndex | None:
        return read_index(self._site.store, self._site.id)

    def _charts(self, state: JobState) -> JobCharts:
        if not state.serving_instance:
            return JobCharts(instance="")
        found = Control(self._site.store, self.job, state.serving_instance).read_history()
        return make_charts(state.serving_instance, found or History())

    def _statuses(self) -> Mapping[str, QueryStatus]:
        """The driver's last word; none where it cannot be read, which another part tells."""
        try:
            status = self._overview.status
        except StreamkeeperError:
            return {}
        return status.queries if status is not None else {}

    def _queries(self, state: JobState) -> Iterator[QueryView]:
        described, statuses = state.described.get(state.serving_release, {}), self._statuses()
        for query in sorted({*described, *state.versions}):
            manifest, why = self._manifest(query, described.get(query, ""))
            yield view_query(
                state,
                query,
                manifest,
                statuses.get(query),
                root=self._site.settings.checkpoints,
                undescribed=why,
            )

    def _manifest(self, query: str, digest: str) -> tuple[Manifest | None, str]:
        """What Spark makes of a query, or why that is not known."""
        if not digest:
            release = self._state.value.serving_release if self._state.value is not None else ""
            return None, f"{release} has no such query" if release else "nothing serves: its plan is on no record"
        try:
            return read_manifest(self._site.store, self.job, digest), ""
        except StreamkeeperError as error:
            return None, f"its plan cannot be read: {error}"

    def _findings(self, state: JobState) -> FindingsView | None:
        operation = last_assessed(state)
        return _view_findings(read_findings(self._site, state, operation)) if operation is not None else None

    def _snapshots(self, state: JobState) -> Iterator[SeriesView]:
        policy = read_policy(self._site.settings.keep)
        store = self._site.unclaimed_snapshots
        for query in sorted(state.versions):
            try:
                listed = list_snapshots(Catalogue(store, series_of_query(self.job, query)), policy)
            except StreamkeeperError as error:
                yield SeriesView(query=query, unread=str(error))
                continue
            yield SeriesView(query=query, snapshots=tuple(_snapshot(row) for row in reversed(listed)))

    def _log(self) -> Iterator[str]:
        for line in tail_log(self._site, self.job, count=LOG_LINES):
            yield line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} … ({len(line):,} characters)"

    def _readers(self, state: JobState) -> Readers:
        described = state.described.get(state.serving_release, {})
        found = {query: self._manifest(query, digest) for query, digest in sorted(described.items())}
        outputs = {query: manifest.sink for query, (manifest, _) in found.items() if manifest is not None}
        unread = tuple(f"query {query}: {why}" for query, (manifest, why) in found.items() if manifest is None)
        readers = find_readers(self._site, self._index, self.job, outputs)
        return msgspec.structs.replace(readers, unknown=(*unread, *readers.unknown))


def _standing(seen: JobOverview) -> StandingView:
    beat = str(seen.status.beat) if seen.status is not None else ""
    queries = sorted(seen.status.queries.items()) if seen.status is not None else []
    # The page's own title has the job's name.
    facts = tuple(fact for fact in overview_facts(seen, beat=beat) if fact.name != "job")
    return StandingView(facts=facts, queries=tuple(_query_standing(name, query) for name, query in queries))


def _query_standing(name: str, query: QueryStatus) -> QueryStanding:
    at = query.signals
    told = at.last_trigger is not None
    return QueryStanding(
        query=name,
        version=query.version,
        epoch=query.epoch,
        batch="" if query.committed is None else f"{query.committed:,}",
        took=f"{at.batch_s:.1f} s" if told else "",
        due=f"every {at.trigger_s:g} s" if at.trigger_s else "at once" if told else "",
        rates=f"{at.input_rows_per_s:,.0f} in, {at.processed_rows_per_s:,.0f} done" if told else "",
        behind=tell_span(at.lag_s) if at.lag_s is not None else "",
        state_rows=query.state_rows,
        checkpoint=f"{at.checkpoint_share:.0%}" if told else "",
        dropped=at.dropped_rows,
        error=query.error,
    )


def _release(state: JobState) -> ReleaseView | None:
    release = state.releases.get(state.serving_release)
    if release is None:
        return None
    content, made = release.content, release.content.environment
    health = ", ".join(f"{rule} {'off' if at is None else f'{at:g}'}" for rule, at in sorted(content.health.items()))
    facts = (
        ("job file", content.entry),
        ("code", content.bundle[:12]),
        ("made in", f"Python {made.python}, Spark {made.spark}"),
        ("thresholds", health),
        ("may answer", ", ".join(content.approvers)),
    )
    return ReleaseView(
        release=release.name,
        facts=tuple(fact for fact in facts if fact[1]),
        params=tuple((key, shown_value(key, value)) for key, value in sorted(content.params.items())),
        conf=tuple((key, shown_value(key, value)) for key, value in sorted(content.conf.items())),
    )


def _view_findings(found: OperationFindings) -> FindingsView:
    return FindingsView(
        operation=found.operation,
        release=found.release,
        before=found.before,
        decision=found.decision,
        refusal=found.refusal,
        queries=tuple(
            QueryFindings(
                query=query,
                verdict=assessed.verdict.name,
                goes=told_way(found.ways[query]) if query in found.ways else "",
                findings=tuple(strictest_first(assessed)),
            )
            for query, assessed in sorted(found.assessment.queries.items())
        ),
        differences=found.differences,
        undiffered=found.undiffered,
    )


def _snapshot(row: ListedSnapshot) -> SnapshotLine:
    if row.snapshot is None:
        return SnapshotLine(name=row.name, error=row.error, kept=row.told_kept)
    return SnapshotLine(
        name=row.name,
        batch=row.snapshot.batch,
        version=row.snapshot.version,
        release=row.snapshot.release,
        taken=moment_taken(row.snapshot).timestamp(),
        bytes=row.snapshot.bytes,
        stored=row.snapshot.stored,
        verified=row.verified,
        drill=row.told_drill,
        keep=row.keep,
        kept=row.told_kept,
    )
