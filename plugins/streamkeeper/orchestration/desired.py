"""The tasks that stop a job and start it. Both log the last lines of the driver's log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import DeployFailed
from streamkeeper.model.records.step import Step
from streamkeeper.orchestration.deploy_tasks import SHORT_WAIT_S, StepOperator
from streamkeeper.orchestration.form import start_form, stop_form
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.tasks import AskedTask, OpeningTask, StreamkeeperTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.deploys.deploy import Deploy
    from streamkeeper.operations.jobs.installation import Installation

LOG_LINES = 20
LONGEST_STOP = timedelta(minutes=30)


class StopOperator(AskedTask):
    """Records that the job must stay stopped, drains its driver and proves the driver's termination.

    If the stop was interrupted, a second run continues it.
    """

    form = staticmethod(stop_form)

    def work(self, context: Context) -> str:
        """Return one sentence; raises NotFound, OperationOpen, or OperationRefused for a job that has never run."""
        from streamkeeper.operations.deploys.stopping import stop_job

        params, installation = self.asked(context), load_installation()
        self.prefer_right_machine(installation, params["job"])
        ended = stop_job(
            installation,
            params["job"],
            requested_by=triggered_by(context),
            reason=params["reason"],
            operation=self.own_operation(context),
            drain_s=float(params["drain_s"]),
            log=lambda line: self.log.info("%s", line),
        )
        show_log(self, installation, params["job"], ended.instance)
        if ended.already:
            self._skip(f"{ended.sentence}; nothing to do")
        self.log.info("%s", ended.sentence)
        return ended.sentence


class StartOperator(OpeningTask, StepOperator):
    """Starts the last current release of a job. The task carries out the whole operation, and is deferred while it
    waits.
    """

    form = staticmethod(start_form)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step=Step.FALL_BACK, patience_s=SHORT_WAIT_S, job="", operation="", **kwargs)

    def work(self, context: Context) -> str:
        """Return one sentence; skipped if the job is running. Raises DeployFailed if the job cannot be started."""
        from streamkeeper.operations.deploys.starting import open_start

        params = self.asked(context)
        self.job, self.operation = params["job"], self.own_operation(context)
        deploy = open_start(
            load_installation(),
            params["job"],
            requested_by=triggered_by(context),
            reason=params["reason"],
            operation=self.operation,
        )
        if deploy is None:
            self._skip(f"job {params['job']} is running already")
        self._opened(context, deploy, deploy.plan())
        return self._until_over(lambda: super(StartOperator, self).work(context))

    def look_again(self, context: Context, event: dict[str, Any], on: str, waited_s: float, told: str = "") -> str:
        """Continue after the trigger has fired; the arguments are those of ``StepOperator.look_again``."""
        self.job, self.operation = self.asked(context)["job"], self.own_operation(context)
        again = super().look_again
        return self._until_over(lambda: again(context, event, on, waited_s, told))

    def _until_over(self, go_on: Callable[[], str]) -> str:
        """Run ``go_on`` and return the operation's sentence. Log the last lines of the driver's log if the operation
        has succeeded or failed.
        """
        try:
            sentence = str(go_on())
        except DeployFailed:
            self._show()
            raise
        self._show()
        return sentence

    def _show(self) -> None:
        deploy = self.load()
        show_log(self, deploy.installation, deploy.job, _newest_of(deploy))


def show_log(task: StreamkeeperTask, installation: Installation, job: str, instance: str) -> None:
    """Log the last lines of a driver's log. If the log is on another machine, log the name of that machine instead."""
    from streamkeeper.operations.jobs.driver_logs import tail_log

    if instance:
        for line in tail_log(installation, job, instance, count=LOG_LINES):
            task.log.info("driver | %s", line)


def _newest_of(deploy: Deploy) -> str:
    """Return the instance that the operation planned last; empty if it planned none."""
    mine = [instance.instance for instance in deploy.state.instances.values() if instance.operation == deploy.operation]
    return mine[-1] if mine else ""
