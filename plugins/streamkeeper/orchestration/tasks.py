"""The base classes of all tasks, which open the installation, read the request, and report an error in one line.

The request of a task comes from the trigger form of its run, or from the argument ``request`` in a user's DAG, which
has the same fields.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, Param
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException, ParamValidationError

from streamkeeper.errors import InvalidInput, NotFound, PermanentError, StreamkeeperError, WrongMachine
from streamkeeper.model.names import refuse_unknown
from streamkeeper.model.requests.request_limits import check_length
from streamkeeper.model.run_names import operation_id
from streamkeeper.orchestration.connections import SCHEME, resolve_connection, resolve_master
from streamkeeper.orchestration.links import OutcomeLink, PageLink, ReportLink
from streamkeeper.orchestration.triggers import PutBack
from streamkeeper.pages.page_address import page_path

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.lifecycle.steps import PlannedStep
    from streamkeeper.operations.deploys.deploy import Deploy
    from streamkeeper.operations.jobs.installation import Installation

LONGEST_REPORT = 2000
"""Largest number of lines of a report that are stored with the run; the log has all lines."""
CHANCES = 20
"""How often a task on the wrong machine is queued again. With two workers, it reaches the right machine by the fifth
time in 97 of 100 cases; with five workers, by the twentieth time in 99 of 100."""
_PAUSE_S = 2.0
_MISSES, _FINISHED = "misses", "finished"


class TaskFailed(SystemExit):
    """Fails a task whose error is already reported. Airflow logs it without a traceback and applies the retry
    policy.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(1)
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


class StreamkeeperTask(BaseOperator):
    """A task that logs an error as one line, and fails with it.

    ``reports``: whether the task reports findings before anything is changed; ``ends``: whether the task reports the
    end of an operation. ``page``: path of the Streamkeeper page about its job or operation; empty while unknown.
    """

    operator_extra_links = (PageLink(), ReportLink(), OutcomeLink())
    reports = False
    ends = False
    page = ""
    misses = 0
    """How often the task ran on a machine that cannot do its work."""
    finished: Sequence[str] = ()
    """Names of the parts of the work that were done on other machines."""
    _resumed: tuple[str, dict[str, Any]] | None = None

    def execute(self, context: Context) -> Any:
        """Do the task's work and return its result; raises TaskFailed for an error that a retry cannot solve."""

        return self._told(context, lambda: self.work(context))

    def execute_again(self, context: Context, event: dict[str, Any]) -> Any:
        """Do the task's work after it was queued again, possibly on another machine."""
        del event
        return self._told(context, lambda: self.work(context))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume a deferred task; called by Airflow. Keeps ``next_method`` and its arguments: if the task is queued
        again, another machine continues with them.
        """
        kwargs = dict(next_kwargs or {})
        if isinstance(kwargs.get("event"), dict):
            kwargs["event"] = event = dict(kwargs["event"])
            self.misses, self.finished = event.pop(_MISSES, 0), event.pop(_FINISHED, [])
            self._resumed = next_method, kwargs
        return super().resume_execution(next_method, kwargs, context)

    def work(self, context: Context) -> Any:
        """Do the task's work and return its result. Each task implements this method."""
        raise TypeError(f"{type(self).__name__} does not implement work()")

    def shows(self, job: str, operation: str = "") -> None:
        """Record which job the task is about and, if ``operation`` is not empty, which operation of the job."""
        self.page = page_path(job, operation)

    def log_steps(self, steps: Iterable[PlannedStep]) -> None:
        """Log each planned step, and what happens if the step fails."""
        for planned in steps:
            self.log.info("%s: %s; else %s", planned.step.label, planned.does, planned.otherwise)

    def own_operation(self, context: Context) -> str:
        """Return the id of the operation that this task's group starts; without a group, that the run starts."""
        run = context["dag_run"]
        return operation_id(run.dag_id, run.run_id, self._group_id())

    def _group_id(self) -> str:
        return (self.task_group and self.task_group.group_id) or ""

    def first_error(self, context: Context) -> str:
        """Return the first error that a task of this task group reported; empty without one.

        If this task is in no group, all tasks of the run count.
        """
        errors = context["ti"].xcom_pull(task_ids=self._tasks_beside(), key="error") or []
        return next((str(error) for error in errors if error), "")

    def count_failed(self, context: Context, task_ids: Collection[str]) -> int:
        """Return how many of these tasks of the run failed, or could not run because another task failed."""
        run = context["dag_run"]
        return context["ti"].get_ti_count(
            dag_id=run.dag_id,
            task_ids=sorted(task_ids),
            run_ids=[run.run_id],
            states=["failed", "upstream_failed"],
        )

    def _tasks_beside(self) -> list[str]:
        return [task.task_id for task in self.task_group.iter_tasks()] if self.task_group else []

    def _told(self, context: Context, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except WrongMachine as error:
            if self.has_chances():
                self._put_back(error)
            self.log.error("%s: %s", type(error).__name__, error)
            context["ti"].xcom_push(key="error", value=str(error))
            raise TaskFailed(str(error)) from error
        except StreamkeeperError as error:
            self.log.error("%s: %s", type(error).__name__, error)
            context["ti"].xcom_push(key="error", value=str(error))
            if isinstance(error, PermanentError):
                raise TaskFailed(str(error)) from error
            raise

    def has_chances(self) -> bool:
        """Whether the task may be queued again for another machine: a worker may run there, and the task was queued
        again fewer than ``CHANCES`` times."""
        executors = conf.get("core", "executor").split(",")
        return self.misses < CHANCES and not all("LocalExecutor" in each for each in executors)

    def prefer_right_machine(self, installation: Installation, job: str) -> None:
        """Raise WrongMachine if the job belongs to another machine and the task can still be queued again.

        After the last chance the task continues here, because part of its work is possible on any machine.
        """
        from streamkeeper.operations.jobs.placement import check_placement

        if self.has_chances():
            check_placement(installation, installation.journal(job, "reader").state())

    def _put_back(self, error: WrongMachine) -> None:
        """Queue the task again for any worker, to continue where it was last resumed; raises TaskDeferred."""
        misses = self.misses + 1
        self.log.info("not on this machine, back into the queue (%d of %d): %s", misses, CHANCES, error.message)
        method, kwargs = self._resumed or ("execute_again", {"event": {}})
        finished = {_FINISHED: list(self.finished)} if self.finished else {}
        event = {**kwargs["event"], _MISSES: misses, **finished}
        self.defer(
            trigger=PutBack(event=event, pause_s=_PAUSE_S),
            method_name=method,
            kwargs={name: value for name, value in kwargs.items() if name != "event"},
        )

    def _skip(self, sentence: str) -> NoReturn:
        """End the task as skipped, and log the reason."""
        self.log.info("%s", sentence)
        raise AirflowSkipException(sentence)

    def _report(self, context: Context, lines: list[str]) -> None:
        """Log the lines, and store them with the run as its ``report``."""
        for line in lines:
            self.log.info("%s", line)
        left = len(lines) - LONGEST_REPORT
        kept = [*lines[:LONGEST_REPORT], *([f"and {left} more lines, in the task's log"] if left > 0 else [])]
        context["ti"].xcom_push(key="report", value="\n".join(kept))


class AskedTask(StreamkeeperTask):
    """A task with a request, which comes from the form of the run or from ``request``, a mapping of fields of the form.

    Fields that ``request`` leaves out have the form's defaults. Values may be templates.
    """

    template_fields: Sequence[str] = ("request",)
    template_fields_renderers = {"request": "json"}
    form: Callable[[Path], dict[str, Param]]

    def __init__(self, *, request: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Raise InvalidInput for a field that the form does not have, or a missing field without a default."""
        super().__init__(**kwargs)
        self.request = None if request is None else fill_form(type(self).form(Path(os.devnull)), request)

    def asked(self, context: Context) -> Mapping[str, Any]:
        """Return every field of the request; raises InvalidInput for a field that the form does not have, and for a
        ``reason`` that is too short or too long."""
        if self.request is None:
            refuse_unknown_fields(context)
        asked: Mapping[str, Any] = context["params"] if self.request is None else self.request
        check_length("reason", str(asked.get("reason") or ""))
        self.shows(str(asked.get("job") or ""))
        return asked


class OpeningTask(AskedTask):
    """A task that opens an operation, which other tasks continue."""

    @property
    def carried_on(self) -> dict[str, Any]:
        """The arguments for an OperationTask that continues the operation opened by this task.

        The arguments are templates, because direct references to this task's results would make this task an upstream
        task of the OperationTask. An OperationTask with the trigger rule ``all_done`` and no other upstream task would
        then start too early, right after this task.
        """
        return {
            "job": "{{ params.job }}" if self.request is None else str(self.request["job"]),
            "operation": self._left("operation"),
            "tried_out": self._left("tried_out"),
        }

    def _left(self, key: str) -> str:
        return f"{{{{ ti.xcom_pull(task_ids='{self.task_id}', key='{key}') or '' }}}}"

    def _opened(self, context: Context, deploy: Deploy, steps: Iterable[PlannedStep]) -> None:
        """Pass the operation to the tasks that continue it, record that this run executes it, and log its steps."""
        from streamkeeper.operations.jobs.carriers import Carrier, note_carrier

        run = context["dag_run"]
        self.shows(deploy.job, deploy.operation)
        context["ti"].xcom_push(key="operation", value=deploy.operation)
        carrier = Carrier(dag=run.dag_id, run=run.run_id, group=self._group_id())
        note_carrier(deploy.installation.store, deploy.job, deploy.operation, carrier)
        self.log_steps(steps)


class OperationTask(StreamkeeperTask):
    """A task that continues a job's operation, which this run or another run has opened.

    ``job``, ``operation``: the job's name and the operation's id. ``tried_out``: for a dry run that leaves nothing
    behind, the name of its private installation; empty for any other operation.
    """

    template_fields: Sequence[str] = ("job", "operation", "tried_out")

    def __init__(self, *, job: str, operation: str, tried_out: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job, self.operation, self.tried_out = job, operation, tried_out

    def load(self, *, on: str = "", waited_s: float = 0.0) -> Deploy:
        """Load the operation; raises NotFound if none was opened.

        ``on``, ``waited_s``: what the operation waits for, and for how long so far, seconds.
        """
        from streamkeeper.operations.deploys.deploy import Deploy

        if not self.operation:
            raise NotFound("no operation was opened")
        # A dry run that leaves nothing behind has no page either.
        self.shows("" if self.tried_out else self.job, self.operation)
        installation = self._installation()
        try:
            return Deploy.load(installation, self.job, self.operation, on=on, waited_s=waited_s)
        except NotFound as error:
            if (directory := installation.settings.store_directory) is None or self.tried_out:
                raise
            hint = f"set one shared STREAMKEEPER_STORE for workers on several machines; {directory} is only on this"
            " machine"
            raise NotFound(error.message, hint=hint) from None

    def _installation(self) -> Installation:
        from streamkeeper.operations.deploys.dry_run_installation import place_of

        return place_of(load_installation(), self.tried_out) if self.tried_out else load_installation()


def fill_form(form: Mapping[str, Param], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return every field of a form, with defaults for missing fields; raises InvalidInput, naming the field."""
    refuse_unknown("field", values, form)
    filled = dict(values)
    for name, field in form.items():
        if name not in filled:
            try:
                filled[name] = field.resolve()
            except ParamValidationError:
                raise InvalidInput(f"the field {name} is missing") from None
    return filled


def refuse_unknown_fields(context: Context) -> None:
    """Raise InvalidInput for a key in the run's conf that the DAG's form does not have.

    Airflow itself accepts any key. Without this check, a deploy with a misspelt ``dry_run`` would not be a dry run.
    """
    refuse_unknown("field", context["dag_run"].conf or {}, context["dag"].params)


def load_installation() -> Installation:
    """Open the installation, with Airflow's connections as a source of secrets and of the Spark master."""
    from streamkeeper.operations.jobs.installation import Installation

    return Installation.from_environment(
        os.environ, resolvers={SCHEME: resolve_connection}, resolve_master=resolve_master
    )
