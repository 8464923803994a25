"""What the tasks of every DAG have in common: their installation, what is asked of them, one clear line of an error.

A task is asked by the trigger form of its run, or by its ``request``: the same fields, given in a DAG of one's own.
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
from streamkeeper.model.request_limits import check_length
from streamkeeper.model.run_names import operation_id
from streamkeeper.orchestration.connections import SCHEME, resolve_connection, resolve_master
from streamkeeper.orchestration.links import OutcomeLink, PageLink, ReportLink
from streamkeeper.orchestration.triggers import PutBack
from streamkeeper.page_address import page_path

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.lifecycle.steps import PlannedStep
    from streamkeeper.operations.deploy import Deploy
    from streamkeeper.operations.installation import Installation

LONGEST_REPORT = 2000
"""Lines of a report that are kept with the run; the log has all of them."""
CHANCES = 20
"""How often a task that came to the wrong machine goes back into its queue. Of two workers it meets the right one by
the fifth time in 97 of 100 cases, of five by the twentieth in 99."""
_PAUSE_S = 2.0
_MISSES, _FINISHED = "misses", "finished"


class TaskFailed(SystemExit):
    """Ends a task whose error is told: this is what Airflow logs without a traceback, and hands to the retry policy."""

    def __init__(self, sentence: str) -> None:
        super().__init__(1)
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


class StreamkeeperTask(BaseOperator):
    """A task that tells an error in one line, and fails by it.

    ``reports``: it says what was found before anything was touched; ``ends``: it says what became of an operation.
    ``page``: where Streamkeeper's page shows what it is about, as far as it knows by now.
    """

    operator_extra_links = (PageLink(), ReportLink(), OutcomeLink())
    reports = False
    ends = False
    page = ""
    misses = 0
    """How often it came to a machine that cannot do it."""
    finished: Sequence[str] = ()
    """Parts of its work that it has done on other machines, by name."""
    _resumed: tuple[str, dict[str, Any]] | None = None

    def execute(self, context: Context) -> Any:
        """Do the task's part; raises TaskFailed for an error that another try cannot help."""

        return self._told(context, lambda: self.work(context))

    def execute_again(self, context: Context, event: dict[str, Any]) -> Any:
        """The same, on another machine perhaps."""
        del event
        return self._told(context, lambda: self.work(context))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Airflow's way to a task that was deferred; it remembers that way, to be put back on it."""
        kwargs = dict(next_kwargs or {})
        if isinstance(kwargs.get("event"), dict):
            kwargs["event"] = event = dict(kwargs["event"])
            self.misses, self.finished = event.pop(_MISSES, 0), event.pop(_FINISHED, [])
            self._resumed = next_method, kwargs
        return super().resume_execution(next_method, kwargs, context)

    def work(self, context: Context) -> Any:
        """The task's part."""
        raise TypeError(f"{type(self).__name__} has no work of its own")

    def shows(self, job: str, operation: str = "") -> None:
        """From here on the task is about this job, and this operation of it."""
        self.page = page_path(job, operation)

    def log_steps(self, steps: Iterable[PlannedStep]) -> None:
        """Log each step with what happens if it fails."""
        for planned in steps:
            self.log.info("%s: %s; else %s", planned.step.label, planned.does, planned.otherwise)

    def own_operation(self, context: Context) -> str:
        """The id of the operation that this run starts, or this task group of it."""
        run = context["dag_run"]
        return operation_id(run.dag_id, run.run_id, self._group_id())

    def _group_id(self) -> str:
        return (self.task_group and self.task_group.group_id) or ""

    def first_error(self, context: Context) -> str:
        """The first error that a task of this run told, or of this task group; empty when none did."""
        told = context["ti"].xcom_pull(task_ids=self._tasks_beside(), key="error") or []
        return next((str(error) for error in told if error), "")

    def count_failed(self, context: Context, task_ids: Collection[str]) -> int:
        """How many of these tasks of the run failed, or could not run."""
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
        """Whether another worker may be on another machine, and the task has not been put back too often."""
        executors = conf.get("core", "executor").split(",")
        return self.misses < CHANCES and not all("LocalExecutor" in each for each in executors)

    def prefer_right_machine(self, site: Installation, job: str) -> None:
        """Raise WrongMachine as long as there are chances: for what can do a part of its work on any machine."""
        from streamkeeper.operations.whereabouts import must_be_here

        if self.has_chances():
            must_be_here(site, site.journal(job, "reader").state())

    def _put_back(self, error: WrongMachine) -> None:
        """Leave the task to whichever worker takes it next, as it was resumed; raises TaskDeferred."""
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


class AskedTask(StreamkeeperTask):
    """A task that is asked by the run's form, or by its ``request``, a mapping with fields of that ``form``.

    What a request leaves out is as in an untouched form. Values may be templates.
    """

    template_fields: Sequence[str] = ("request",)
    template_fields_renderers = {"request": "json"}
    form: Callable[[Path], dict[str, Param]]

    def __init__(self, *, request: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Raises InvalidInput for a field that the form does not have, or has no default for."""
        super().__init__(**kwargs)
        self.request = None if request is None else fill_form(type(self).form(Path(os.devnull)), request)

    def asked(self, context: Context) -> Mapping[str, Any]:
        """Every field; raises InvalidInput for a key in the run's conf that the form does not have, or a reason that is
        none."""
        if self.request is None:
            refuse_unknown_fields(context)
        asked: Mapping[str, Any] = context["params"] if self.request is None else self.request
        check_length("reason", str(asked.get("reason") or ""))
        self.shows(str(asked.get("job") or ""))
        return asked


class OpeningTask(AskedTask):
    """A task that opens an operation, which others carry on."""

    @property
    def carried_on(self) -> dict[str, Any]:
        """The arguments of an OperationTask by which it carries on what this one opens.

        Templates: a task that runs whatever became of the others must not come after this one alone.
        """
        return {
            "job": "{{ params.job }}" if self.request is None else str(self.request["job"]),
            "operation": self._left("operation"),
            "tried_out": self._left("tried_out"),
        }

    def _left(self, key: str) -> str:
        return f"{{{{ ti.xcom_pull(task_ids='{self.task_id}', key='{key}') or '' }}}}"

    def _opened(self, context: Context, deploy: Deploy, steps: Iterable[PlannedStep]) -> None:
        """Leave the operation for the tasks that carry it on, and say what they will do."""
        from streamkeeper.operations.carriers import Carrier, note_carrier

        run = context["dag_run"]
        self.shows(deploy.job, deploy.operation)
        context["ti"].xcom_push(key="operation", value=deploy.operation)
        carrier = Carrier(dag=run.dag_id, run=run.run_id, group=self._group_id())
        note_carrier(deploy.site.store, deploy.job, deploy.operation, carrier)
        self.log_steps(steps)


class OperationTask(StreamkeeperTask):
    """A task that carries on an operation of a job: the one that this run has opened, or any other.

    ``tried_out``: by which name a dry run that is to leave nothing has a place for itself; empty for any other.
    """

    template_fields: Sequence[str] = ("job", "operation", "tried_out")

    def __init__(self, *, job: str, operation: str, tried_out: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job, self.operation, self.tried_out = job, operation, tried_out

    def load(self, *, on: str = "", waited_s: float = 0.0) -> Deploy:
        """The operation; raises NotFound where none was opened."""
        from streamkeeper.operations.deploy import Deploy

        if not self.operation:
            raise NotFound("no operation was opened")
        # What leaves nothing has no page either.
        self.shows("" if self.tried_out else self.job, self.operation)
        site = self._site()
        try:
            return Deploy.load(site, self.job, self.operation, on=on, waited_s=waited_s)
        except NotFound as error:
            if (directory := site.settings.store_directory) is None or self.tried_out:
                raise
            hint = f"{directory} is on this machine: workers on several machines need one shared STREAMKEEPER_STORE"
            raise NotFound(error.message, hint=hint) from None

    def _site(self) -> Installation:
        from streamkeeper.operations.trying_out import place_of

        return place_of(open_site(), self.tried_out) if self.tried_out else open_site()


def fill_form(form: Mapping[str, Param], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a form, those that are not given with their defaults; raises InvalidInput, naming the field."""
    refuse_unknown("field", given, form)
    filled = dict(given)
    for name, field in form.items():
        if name not in filled:
            try:
                filled[name] = field.resolve()
            except ParamValidationError:
                raise InvalidInput(f"the field {name} is missing") from None
    return filled


def refuse_unknown_fields(context: Context) -> None:
    """Raise InvalidInput for a key in the run's conf that the DAG's form does not have.

    Airflow takes any: a misspelt ``dry_run`` would be passed over, and the deploy would be a real one.
    """
    refuse_unknown("field", context["dag_run"].conf or {}, context["dag"].params)


def open_site() -> Installation:
    """The site of this installation, with Airflow's connections as a source of secrets and of the master."""
    from streamkeeper.operations.installation import Installation

    return Installation.from_environment(
        os.environ, resolvers={SCHEME: resolve_connection}, resolve_master=resolve_master
    )
