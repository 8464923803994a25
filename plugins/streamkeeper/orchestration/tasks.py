"""What the tasks of every DAG have in common: their installation, and one clear line when something is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from streamkeeper.errors import PermanentError, StreamkeeperError
from streamkeeper.model.names import refuse_unknown
from streamkeeper.orchestration.connections import SCHEME, resolve_connection
from streamkeeper.orchestration.links import OutcomeLink, ReportLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.sites import Site

LONGEST_REPORT = 2000
"""Lines of a report that are kept with the run; the log has all of them."""


class TaskFailed(SystemExit):
    """Ends a task whose error is told: this is what Airflow logs without a traceback, and hands to the retry policy."""

    def __init__(self, sentence: str) -> None:
        super().__init__(1)
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


class StreamkeeperTask(BaseOperator):
    """A task that tells an error in one line, and fails by it."""

    operator_extra_links = (ReportLink(), OutcomeLink())

    def execute(self, context: Context) -> Any:
        """Do the task's part; raises TaskFailed for an error that another try cannot help."""

        def work() -> Any:
            refuse_unknown_fields(context)
            return self.work(context)

        return self._told(context, work)

    def work(self, context: Context) -> Any:
        """The task's part."""
        raise TypeError(f"{type(self).__name__} has no work of its own")

    def _told(self, context: Context, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except StreamkeeperError as error:
            self.log.error("%s: %s", type(error).__name__, error)
            context["ti"].xcom_push(key="error", value=str(error))
            if isinstance(error, PermanentError):
                raise TaskFailed(str(error)) from error
            raise

    def _skip(self, sentence: str) -> NoReturn:
        """End the task as skipped, saying why there is nothing to do."""
        self.log.info("%s", sentence)
        raise AirflowSkipException(sentence)

    def _report(self, context: Context, lines: list[str]) -> None:
        """Say the lines in the log, and keep them with the run as its ``report``."""
        for line in lines:
            self.log.info("%s", line)
        left = len(lines) - LONGEST_REPORT
        kept = [*lines[:LONGEST_REPORT], *([f"and {left} more lines, in the task's log"] if left > 0 else [])]
        context["ti"].xcom_push(key="report", value="\n".join(kept))


def refuse_unknown_fields(context: Context) -> None:
    """Raise InvalidInput for a key in the run's conf that the DAG's form does not have.

    Airflow takes any: a misspelt ``dry_run`` would be passed over, and the deploy would be a real one.
    """
    refuse_unknown("field", context["dag_run"].conf or {}, context["dag"].params)


def open_site() -> Site:
    """The site of this installation, with Airflow's connections as a source of secrets."""
    from streamkeeper.operations.sites import Site

    return Site.from_environment(os.environ, resolvers={SCHEME: resolve_connection})
