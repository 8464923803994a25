"""The mapped tasks of a run, with one query per task, or several if there are many."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from streamkeeper.errors import PermanentError, StreamkeeperError, TemporaryError, WrongMachine
from streamkeeper.orchestration.snapshot_forms import QueryChoice, drill_form, read_choice_of_queries
from streamkeeper.orchestration.tasks import AskedTask, StreamkeeperTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.operations.jobs.targets import Target

SERIES_SHOWN = "{{ task.shown }}"
"""The label of a mapped task in Airflow: JOB/QUERY, and the number of further queries if it has several."""
MOST_TASKS = 500
"""Largest number of mapped tasks in a run. Airflow refuses more than ``core.max_map_length``, 1,024 by default."""


class FindOperator(AskedTask):
    """Lists the selected deployed queries."""

    form = staticmethod(drill_form)

    def work(self, context: Context) -> list[str]:
        """Return one item per mapped task: JOB/QUERY, or several of them, separated by spaces, if there are more
        queries than tasks.

        Raises NotFound for a named job or query that does not exist.
        """
        found = find_series(load_installation(), read_choice_of_queries(self.asked(context)))
        self.log.info("%s", ", ".join(found) or "no query has been deployed yet")
        return share_out(found, most=min(MOST_TASKS, conf.getint("core", "max_map_length", fallback=MOST_TASKS)))


def share_out(series: Sequence[str], *, most: int) -> list[str]:
    """Split the series, in order, into at most ``most`` shares of nearly equal size, each joined by spaces.

    The order keeps the queries of a job together.
    """
    shares = min(len(series), max(most, 1))
    ends = [len(series) * number // shares for number in range(shares + 1)] if shares else []
    return [" ".join(series[start:end]) for start, end in pairwise(ends)]


class SeriesTask(StreamkeeperTask):
    """A task for one query, or for several queries, which it handles one after the other.

    ``series``: JOB/QUERY, or several of them separated by spaces. After a query fails, the task continues with the next
    query.
    ``execution_timeout`` applies to each query.
    """

    def __init__(self, *, series: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.series = series

    @property
    def shown(self) -> str:
        """The displayed name of the task: its first query, and the number of further queries."""
        first, *others = self.series.split() or [""]
        return f"{first} and {len(others)} more" if others else first

    def one(self, installation: Installation, series: str, context: Context) -> str:
        """Do the work for one query and return a sentence; raises AirflowSkipException if there is nothing to do."""
        raise TypeError(f"{type(self).__name__} does not implement one()")

    def each(self, context: Context) -> list[str]:
        """Do the work for every query, and return a sentence for each query that had work.

        Raises the query's error if one query fails, and one combined error if several queries fail. Raises
        AirflowSkipException if no query had work.
        """
        installation, everything = load_installation(), self.series.split()
        if len(everything) == 1:
            self.shows(everything[0].partition("/")[0])
            return [self.one(installation, everything[0], context)]
        left = [series for series in everything if series not in self.finished]
        done: list[str] = []
        failed: list[StreamkeeperError] = []
        for series in left:
            try:
                with self._limited(series):
                    done.append(self.one(installation, series, context))
            except AirflowSkipException:
                self.log.info("%s: there was nothing to do", series)
            except AirflowTaskTimeout as error:
                failed.append(PermanentError(str(error)))
                continue
            except StreamkeeperError as error:
                self.log.error("%s: %s: %s", series, type(error).__name__, error)
                failed.append(error)
                continue
            self.finished = [*self.finished, series]
        if len(failed) < len(left):
            self.misses = 0
        self._raise(failed)
        if not done and len(left) == len(everything):
            self._skip(f"{len(everything)} queries: there was nothing to do")
        return done

    def _limited(self, series: str) -> AbstractContextManager[object]:
        """Return a time limit for one query. The task's own limit would apply to all of its queries together."""
        limit = self.execution_timeout
        if limit is None:
            return nullcontext()
        return cast(
            AbstractContextManager[object], timeout(limit.total_seconds(), f"{series} took longer than {limit}")
        )

    def _raise(self, failed: Sequence[StreamkeeperError]) -> None:
        """Raise the errors, if there are any. An error that another machine or another try may solve has priority."""
        for kind in (WrongMachine, TemporaryError, PermanentError):
            of_kind = [error for error in failed if isinstance(error, kind)]
            if of_kind and len(failed) == 1:
                raise of_kind[0]
            if of_kind:
                messages = "; ".join(error.message for error in failed)
                raise kind(f"{len(failed)} of {len(self.series.split())} queries failed: {messages}")


def find_series(installation: Installation, choice: QueryChoice) -> list[str]:
    """Return JOB/QUERY of every selected query.

    If no job is named, a job with unreadable records is listed as JOB, without a query. ``find_target`` then reports
    the error in the task of that job, and the tasks of the other jobs continue.
    """
    from streamkeeper.operations.jobs.observation import recorded_jobs
    from streamkeeper.operations.jobs.targets import all_targets, query_target

    if choice.query:
        return [query_target(installation, choice.job, choice.query).series]
    if choice.job:
        return [target.series for target in all_targets(installation, job=choice.job)]
    found: list[str] = []
    for job in recorded_jobs(installation):
        try:
            found += [target.series for target in all_targets(installation, job=job)]
        except PermanentError:
            found.append(job)
    return found


def find_target(installation: Installation, series: str) -> Target:
    """Return the checkpoint of JOB/QUERY; raises NotFound, or the error in the records of the job."""
    from streamkeeper.operations.jobs.targets import query_target

    job, _, query = series.partition("/")
    return query_target(installation, job, query)
