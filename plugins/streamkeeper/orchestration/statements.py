"""The tasks that state the termination of a lost driver: record it, then copy the checkpoints that it wrote."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from streamkeeper.errors import OperationRefused
from streamkeeper.model.approvers import NOBODY
from streamkeeper.orchestration.form import state_dead_form
from streamkeeper.orchestration.people import triggered_by
from streamkeeper.orchestration.tasks import AskedTask, open_site

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_COPY = timedelta(hours=5)
"""The same as for a backup, because the copy is one."""


class StateDeadOperator(AskedTask):
    """Records the termination of a driver that cannot be observed any more, under the conditions of the command."""

    form = staticmethod(state_dead_form)
    reports = True

    def work(self, context: Context) -> str:
        """Returns the recorded statement; raises OperationRefused without ``accept``, with the risks, and for a
        driver that runs, whose termination can be proven, or whose termination this person may not state."""
        from streamkeeper.operations.deaths import is_stated, state_death

        asked, site = self.asked(context), open_site()
        job, instance, reason, by = asked["job"], asked["instance"], asked["reason"], triggered_by(context)
        if by == NOBODY:
            raise OperationRefused("a person must state it: this run has no known triggering user")
        stated = f"recorded: the termination of {instance} is stated by {by}, not proven"
        if asked["accept"] and is_stated(site, job, instance, by=by, reason=reason):
            return stated
        risks = state_death(site, job, instance, by=by, reason=reason, accept=bool(asked["accept"]))
        self._report(context, risks)
        if not asked["accept"]:
            raise OperationRefused(
                f"nothing is recorded of {instance}; the statement would risk: {'; '.join(risks)}",
                hint="set the field accept once you are certain that the driver has terminated",
            )
        return stated


class CopyForkOperator(AskedTask):
    """Takes a snapshot of every checkpoint that the driver may still write, so that a restore replays nothing."""

    form = staticmethod(state_dead_form)

    def work(self, context: Context) -> str:
        """Returns the next step for a person; raises OperationRefused if no checkpoint is in that state."""
        from streamkeeper.operations.deaths import snapshot_fork

        job = self.asked(context)["job"]
        for line in snapshot_fork(open_site(), job):
            self.log.info("%s", line)
        told = f"copied; continue with the DAG streaming_recover, action restore, or: streamkeeper recover {job}"
        self.log.info("%s", told)
        return told
