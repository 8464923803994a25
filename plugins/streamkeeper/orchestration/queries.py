"""The queries that a run is about, one mapped task for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.errors import PermanentError
from streamkeeper.orchestration.snapshot_forms import Choice, drill_form, read_choice_of_queries
from streamkeeper.orchestration.tasks import AskedTask, open_site

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.installation import Installation
    from streamkeeper.operations.targets import Target

SERIES_SHOWN = "{{ task.series }}"
"""What tells the instances of a mapped task apart in Airflow: JOB/QUERY."""


class FindOperator(AskedTask):
    """Lists the deployed queries that are meant."""

    form = staticmethod(drill_form)

    def work(self, context: Context) -> list[str]:
        """Returns JOB/QUERY of each; raises NotFound for a job or a query that was named and is not there."""
        found = find_series(open_site(), read_choice_of_queries(self.asked(context)))
        self.log.info("%s", ", ".join(found) or "no query has been deployed yet")
        return found


def find_series(site: Installation, choice: Choice) -> list[str]:
    """JOB/QUERY of every query that is meant.

    Without a named job, one whose records cannot be read stands there as JOB alone: ``find_target`` says what is wrong
    with it, in the task that is its own, and the others go on.
    """
    from streamkeeper.operations.overview import recorded_jobs
    from streamkeeper.operations.targets import all_targets, query_target

    if choice.query:
        return [query_target(site, choice.job, choice.query).series]
    if choice.job:
        return [target.series for target in all_targets(site, job=choice.job)]
    found: list[str] = []
    for job in recorded_jobs(site):
        try:
            found += [target.series for target in all_targets(site, job=job)]
        except PermanentError:
            found.append(job)
    return found


def find_target(site: Installation, series: str) -> Target:
    """The checkpoint that belongs to JOB/QUERY; raises NotFound, or what is wrong with the job's records."""
    from streamkeeper.operations.targets import query_target

    job, _, query = series.partition("/")
    return query_target(site, job, query)
