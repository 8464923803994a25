"""The task that drills snapshots: it restores a snapshot to scratch space and resumes its query there, with the sink
diverted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import PermanentError
from streamkeeper.orchestration.query_tasks import SeriesTask, find_target
from streamkeeper.orchestration.snapshot_forms import drill_form, read_choice_of_queries
from streamkeeper.orchestration.tasks import AskedTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.model.records.snapshot import Snapshot
    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.snapshots.catalogue import Catalogue

LONGEST_DRILL = timedelta(hours=2)


class DrillFailed(PermanentError):
    """Raised if a snapshot could not be restored, or if the query does not resume from the snapshot."""


class DrillOperator(AskedTask, SeriesTask):
    """Drills the requested snapshot, or else each query's newest snapshot if that snapshot is not verified yet."""

    template_fields: Sequence[str] = ("request", "series")
    form = staticmethod(drill_form)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._results: list[str] = []

    def work(self, context: Context) -> str:
        """Return the results, which are also the run's ``report``; raises DrillFailed with the results if a drill
        failed.
        """
        try:
            return "\n".join(self.each(context))
        finally:
            if self._results:
                self._report(context, self._results)

    def one(self, installation: Installation, series: str, context: Context) -> str:
        """Drill a snapshot of one query, and return the result as a sentence.

        Raises DrillFailed with that sentence if the query does not resume.
        """
        from streamkeeper.operations.backups.drills import drill, released_job
        from streamkeeper.snapshots.catalogue import Catalogue

        catalogue = Catalogue(installation.snapshots, find_target(installation, series).series)
        snapshot = self._choose(catalogue, series, read_choice_of_queries(self.asked(context)).snapshot)
        self.shows(series.partition("/")[0])
        self.log.info("%s %s: restoring batch %d, then resuming the query", series, snapshot.name, snapshot.batch)
        result = drill(catalogue, snapshot, released_job(installation, snapshot), installation.resolvers)
        sentence = f"{series} {snapshot.name}: {result.sentence}"
        self._results.append(sentence)
        if not result.ok:
            raise DrillFailed(sentence)
        return sentence

    def _choose(self, catalogue: Catalogue, series: str, name: str) -> Snapshot:
        from streamkeeper.model.records.snapshot import snapshot_number

        if name:
            return catalogue.read(snapshot_number(name))
        newest = catalogue.newest()
        if newest is None:
            self._skip(f"{series}: no snapshot yet")
        if catalogue.is_verified(newest.number):
            self._skip(f"{series} {newest.name}: verified already, {catalogue.drills(newest.number)[-1].at}")
        return newest
