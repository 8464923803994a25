"""The tasks that record a person's statement that a lost driver has terminated, and take snapshots of the driver's
checkpoints.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from streamkeeper.errors import OperationRefused
from streamkeeper.model.settings.approvers import NOBODY
from streamkeeper.orchestration.form import state_dead_form
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.tasks import AskedTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_COPY = timedelta(hours=5)
"""Time limit of the copy. It equals that of a backup, because the copy is a backup."""


class StateDeadOperator(AskedTask):
    """Records the statement that a driver has terminated, under the conditions of ``streamkeeper state-dead``."""

    form = staticmethod(state_dead_form)
    reports = True

    def work(self, context: Context) -> str:
        """Return the recorded statement.

        Raises OperationRefused with the risks if ``accept`` is not set. Raises OperationRefused also if the driver
        runs, if the driver's termination can be proven, or if the user who triggered the run is unknown or is not
        entitled to make the statement.
        """
        from streamkeeper.operations.deploys.deaths import is_stated, state_death

        asked, installation = self.asked(context), load_installation()
        job, instance, reason, by = asked["job"], asked["instance"], asked["reason"], triggered_by(context)
        if by == NOBODY:
            raise OperationRefused(
                "a person must confirm that the driver has ended, but this run has no known triggering user",
                hint="sign in to Airflow and trigger this DAG by hand",
            )
        stated = f"recorded: the termination of {instance} is stated by {by}, not proven"
        if asked["accept"] and is_stated(installation, job, instance, by=by, reason=reason):
            return stated
        risks = state_death(installation, job, instance, by=by, reason=reason, accept=bool(asked["accept"]))
        self._report(context, risks)
        if not asked["accept"]:
            raise OperationRefused(
                f"this run recorded nothing about {instance}, because the field accept is not set. The risks of"
                f" stating that the driver has terminated: {'; '.join(risks)}",
                hint="set the field accept once you are certain that the driver has terminated",
            )
        return stated


class CopyForkOperator(AskedTask):
    """Takes a snapshot of every checkpoint to which a driver with a stated termination may still write.

    A restore of such a snapshot replays no batch. If a snapshot cannot be taken, the task logs the reason.
    """

    form = staticmethod(state_dead_form)

    def work(self, context: Context) -> str:
        """Return the next step for a person; raises OperationRefused if the job has no such checkpoint."""
        from streamkeeper.operations.deploys.deaths import snapshot_fork

        job = self.asked(context)["job"]
        for line in snapshot_fork(load_installation(), job):
            self.log.info("%s", line)
        report = (
            "copied. Next, run the DAG streaming_recover with the action restore, or run"
            f" `streamkeeper recover {job} --action restore`"
        )
        self.log.info("%s", report)
        return report
