"""Reads one job for its page, part by part. If a part cannot be read, the page shows the reason in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TypeVar

import msgspec

from streamkeeper.errors import FormatTooNew, JournalLost, NotFound, RegistryDamaged, StreamkeeperError
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.names import check_name
from streamkeeper.model.protocol.driver_messages import QueryStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.signals import History
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.snapshot import series_of_query
from streamkeeper.model.watch.fleet_index import FleetIndex
from streamkeeper.operations.backups.pruning import read_policy
from streamkeeper.operations.backups.snapshot_rows import list_snapshots
from streamkeeper.operations.deploys.findings import last_assessed, read_findings
from streamkeeper.operations.jobs.downstream import Readers, find_readers
from streamkeeper.operations.jobs.driver_logs import tail_log
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import JobObservation, read_job, read_job_again
from streamkeeper.operations.jobs.overview import JobOverview, make_overview
from streamkeeper.operations.jobs.timelines import Timeline, read_timeline
from streamkeeper.pages.buttons import Buttons, read_buttons
from streamkeeper.pages.charts import JobCharts, make_charts
from streamkeeper.pages.health_view import HealthView, view_health
from streamkeeper.pages.job_view import (
    FindingsView,
    ReleaseView,
    SeriesView,
    StandingView,
    view_findings,
    view_release,
    view_snapshot,
    view_standing,
)
from streamkeeper.pages.parts import Mask, Part, mask_of, read_part
from streamkeeper.pages.query_view import QueryView, view_query
from streamkeeper.pages.viewer import Viewer
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.fleet import read_index
from streamkeeper.registry.objects import read_manifest
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.system import clock

T = TypeVar("T")

LOG_LINES = 100
LONGEST_LINE = 2_000
"""Characters shown of one log line."""


class JobPage:
    """Reads the parts of one job's page. Data that several parts need is read only once. Not thread-safe.

    ``installation``: the installation; ``job``: the job's name; ``again``: whether to read the journal with
    ``read_job_again``, for a part that the page refreshes.

    Raises InvalidInput for an invalid name. The first read raises NotFound for an unknown job, and StoreUnavailable.
    """

    def __init__(self, installation: Installation, job: str, *, again: bool = False) -> None:
        self.job = check_name("job", job)
        self._installation = installation
        self._read = read_job_again if again else read_job

    def standing(self) -> Part[StandingView]:
        """Read the job's status."""
        return self._part("the status", lambda state: view_standing(self._overview))

    def buttons(self, who: Viewer) -> Buttons:
        """Return the buttons that the viewer may use. Return no buttons if they cannot be determined; another part of
        the page then shows the reason.
        """
        state = self._state.value
        if state is None:
            return Buttons()
        try:
            return read_buttons(self._installation, state, who, runs=self._may_run(), rules=self._rules())
        except StreamkeeperError:
            return Buttons()

    def health(self) -> Part[HealthView]:
        """Read the findings of the watch. They can be read even if the journal cannot."""
        return read_part("the watch's index", lambda: view_health(self._index, self.job, now=clock.unix()), self._mask)

    def charts(self) -> Part[JobCharts]:
        """Read the measurements of the current or last driver, and of the driver that it replaced."""
        return self._part("the measurements of its driver", self._charts)

    def release(self) -> Part[ReleaseView | None]:
        """Read the current release; None without a current release."""
        return self._part("the current release", view_release)

    def queries(self) -> Part[tuple[QueryView, ...]]:
        """Read the queries of the current release, and all queries that ever had a checkpoint."""
        return self._part("its queries", lambda state: tuple(self._queries(state)))

    def timeline(self, before: int = 0) -> Part[Timeline]:
        """Read one page of the job's operations; ``before``: only those before this journal entry, 0 for the newest."""
        return self._part("its history", lambda state: read_timeline(self._installation, state, before=before))

    def findings(self) -> Part[FindingsView | None]:
        """Read the findings of the newest assessed operation; None without one."""
        return self._part("the last findings", self._findings)

    def snapshots(self) -> Part[tuple[SeriesView, ...]]:
        """Read the snapshots of each query that ever had a checkpoint."""
        return self._part("its snapshots", lambda state: tuple(self._snapshots(state)))

    def log(self) -> Part[tuple[str, ...]]:
        """Read the location of the driver's log, and its last lines."""
        return self._part("its driver's log", lambda state: tuple(self._log()))

    def readers(self) -> Part[Readers]:
        """Read which jobs read this job's outputs."""
        return self._part("the readers of its output", self._readers)

    def _part(self, what: str, read: Callable[[JobState], T]) -> Part[T]:
        state = self._state
        if state.value is None:
            return Part(missing=state.missing)
        known = state.value
        return read_part(what, lambda: read(known), self._mask)

    @cached_property
    def _state(self) -> Part[JobState]:
        try:
            return Part(value=self._read(self._installation, self.job))
        except JournalLost as error:
            return Part(missing=str(error))
        except NotFound:
            raise NotFound(
                f"job {self.job} is not known", hint="open the fleet page, which lists the known jobs"
            ) from None
        except (RegistryDamaged, FormatTooNew) as error:
            return Part(missing=f"the journal cannot be read: {error}")

    @cached_property
    def _mask(self) -> Mask:
        return mask_of(self._state.value.releases.values() if self._state.value is not None else ())

    @cached_property
    def _overview(self) -> JobOverview:
        assert self._state.value is not None
        return make_overview(JobObservation(self._installation, self.job, state=self._state.value))

    @cached_property
    def _index(self) -> FleetIndex | None:
        return read_index(self._installation.store, self._installation.id)

    def _charts(self, state: JobState) -> JobCharts:
        if not state.serving_instance:
            return JobCharts(instance="")
        before = state.relieved_instance
        found, earlier = self._history(state.serving_instance), History()
        if before:
            # Damage in the folder of the replaced driver does not concern the current driver.
            with suppress(RegistryDamaged, FormatTooNew):
                earlier = self._history(before)
        return make_charts(state.serving_instance, found, before=(before, earlier))

    def _history(self, instance: str) -> History:
        return Control(self._installation.store, self.job, instance).read_history() or History()

    def _rules(self) -> frozenset[str]:
        """Return the rules of the job's symptoms in the watch's last pass."""
        try:
            row = self._index.row(self.job) if self._index is not None else None
        except StreamkeeperError:
            return frozenset()
        return frozenset(symptom.rule for symptom in row.symptoms) if row is not None else frozenset()

    def _may_run(self) -> bool:
        """Whether the driver is running or may be running; False only for a proven termination."""
        try:
            return self._overview.life not in (Life.DEAD, Life.ABSENT)
        except StreamkeeperError:
            return True

    def _statuses(self) -> Mapping[str, QueryStatus]:
        """Return the driver's last report on each query; empty if the report cannot be read, in which case another part
        of the page shows the reason.
        """
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
                root=self._installation.settings.checkpoints,
                undescribed=why,
            )

    def _manifest(self, query: str, digest: str) -> tuple[Manifest | None, str]:
        """Return the manifest of a query and an empty text, or None and the reason why there is no manifest."""
        if not digest:
            release = self._state.value.serving_release if self._state.value is not None else ""
            return (
                None,
                f"{release} does not have this query" if release else "no current release: its plan is not recorded",
            )
        try:
            return read_manifest(self._installation.store, self.job, digest), ""
        except StreamkeeperError as error:
            return None, f"its plan cannot be read: {error}"

    def _findings(self, state: JobState) -> FindingsView | None:
        operation = last_assessed(state)
        return view_findings(read_findings(self._installation, state, operation)) if operation is not None else None

    def _snapshots(self, state: JobState) -> Iterator[SeriesView]:
        policy = read_policy(self._installation.settings.keep)
        store = self._installation.unclaimed_snapshots
        for query in sorted(state.versions):
            try:
                listed = list_snapshots(Catalogue(store, series_of_query(self.job, query)), policy)
            except StreamkeeperError as error:
                yield SeriesView(query=query, unread=str(error))
                continue
            rows = (view_snapshot(row) for row in reversed(listed))
            yield SeriesView(query=query, snapshots=tuple(rows))

    def _log(self) -> Iterator[str]:
        for line in tail_log(self._installation, self.job, count=LOG_LINES):
            yield line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} … ({len(line):,} characters)"

    def _readers(self, state: JobState) -> Readers:
        described = state.described.get(state.serving_release, {})
        found = {query: self._manifest(query, digest) for query, digest in sorted(described.items())}
        outputs = {query: manifest.sink for query, (manifest, _) in found.items() if manifest is not None}
        unread = tuple(f"query {query}: {why}" for query, (manifest, why) in found.items() if manifest is None)
        readers = find_readers(self._installation, self._index, self.job, outputs)
        return msgspec.structs.replace(readers, unknown=(*unread, *readers.unknown))
