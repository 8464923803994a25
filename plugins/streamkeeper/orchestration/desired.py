"""The tasks that stop a job and start it again, and show what its driver said last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import DeployFailed
from streamkeeper.orchestration.operators import StepOperator, load_deploy, own_operation
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.tasks import StreamkeeperTask, open_site

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.deploy import Deploy
    from streamkeeper.operations.sites import Site

LOG_LINES = 20
LONGEST_STOP = timedelta(minutes=30)


class StopOperator(StreamkeeperTask):
    """Records that the job is to serve no more, drains its driver and proves it dead; again, it goes on with that."""

    def work(self, context: Context) -> str:
        """Returns one sentence; raises NotFound, OperationOpen, or OperationRefused for a job that never served."""
        from streamkeeper.operations.stopping import stop_job

        params, site = context["params"], open_site()
        ended = stop_job(
            site,
            params["job"],
            requested_by=triggered_by(context),
            reason=params["reason"],
            operation=own_operation(context),
            drain_s=float(params["drain_s"]),
            say=lambda line: self.log.info("%s", line),
        )
        show_log(self, site, params["job"], ended.instance)
        if ended.already:
            self._skip(f"{ended.sentence}; nothing was to be done")
        self.log.info("%s", ended.sentence)
        return ended.sentence


class StartOperator(StepOperator):
    """Lets the release that served last serve again: the whole operation, deferred while it waits."""

    def work(self, context: Context) -> str:
        """Returns one sentence; is skipped where the job serves. Raises DeployFailed when it cannot serve again."""
        from streamkeeper.operations.carriers import Carrier, note_carrier
        from streamkeeper.operations.starting import open_start

        params, site, run = context["params"], open_site(), context["dag_run"]
        deploy = open_start(
            site,
            params["job"],
            requested_by=triggered_by(context),
            reason=params["reason"],
            operation=own_operation(context),
        )
        if deploy is None:
            self._skip(f"job {params['job']} serves already")
        note_carrier(site.store, params["job"], deploy.operation, Carrier(dag=run.dag_id, run=run.run_id))
        context["ti"].xcom_push(key="operation", value=deploy.operation)
        for planned in deploy.plan():
            self.log.info("%s: %s; else %s", planned.step.label, planned.does, planned.otherwise)
        return self._until_over(context, lambda: super(StartOperator, self).work(context))

    def look_again(self, context: Context, event: dict[str, Any], on: str, waited_s: float, told: str = "") -> str:
        """Goes on where the trigger woke it."""
        again = super().look_again
        return self._until_over(context, lambda: again(context, event, on, waited_s, told))

    def _until_over(self, context: Context, go_on: Callable[[], str]) -> str:
        """Its sentence; what the driver said last is in the log however it ended."""
        try:
            sentence = str(go_on())
        except DeployFailed:
            self._show(context)
            raise
        self._show(context)
        return sentence

    def _show(self, context: Context) -> None:
        deploy = load_deploy(context)
        show_log(self, deploy.site, deploy.job, _newest_of(deploy))


def show_log(task: StreamkeeperTask, site: Site, job: str, instance: str) -> None:
    """The last lines of a driver's log, in the task's own; or which machine has them."""
    from streamkeeper.operations.driver_logs import tail_log

    if instance:
        for line in tail_log(site, job, instance, count=LOG_LINES):
            task.log.info("driver | %s", line)


def _newest_of(deploy: Deploy) -> str:
    """The instance that the operation planned last; empty when there is none."""
    mine = [each.instance for each in deploy.state.instances.values() if each.operation == deploy.operation]
    return mine[-1] if mine else ""
