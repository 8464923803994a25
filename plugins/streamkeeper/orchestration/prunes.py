"""The tasks of a prune: one reports a plan, the other makes a new plan and carries it out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from streamkeeper.errors import PermanentError
from streamkeeper.orchestration.snapshot_forms import PruneRequest, prune_form, read_prune
from streamkeeper.orchestration.tasks import AskedTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.backups.pruning import PruneRun
    from streamkeeper.operations.jobs.installation import Installation

LONGEST_PRUNE = timedelta(hours=6)


class PruneIncomplete(PermanentError):
    """Raised if part of a prune could not be planned or removed. The rest was removed, except in a dry run."""


class PlanPruneOperator(AskedTask):
    """Reports what would be removed and why, in the log and as the task's XCom ``report``. Removes nothing."""

    form = staticmethod(prune_form)
    reports = True

    def work(self, context: Context) -> str:
        """Return one sentence; raises NotFound for an unknown job, InvalidInput for a wrong field of the form.

        If an item cannot be planned, a dry run fails here. In any other run the task ``prune`` fails after its work.
        """
        request = read_prune(self.asked(context))
        run = plan(load_installation(), request)
        self._report(context, list(_lines(run)))
        if run.untold and request.dry_run:
            raise PruneIncomplete("\n".join(f"cannot plan {what}" for what in run.untold))
        return f"{sum(len(sweep.dropped) for sweep in run.sweeps)} snapshots would be removed"


class PruneOperator(AskedTask):
    """Removes everything that no rule keeps at the time of this task. Skipped in a dry run.

    The removed items may differ from the plan that an earlier task reported.
    """

    form = staticmethod(prune_form)

    def work(self, context: Context) -> str:
        """Return a sentence about what was removed; raises PruneIncomplete if something could not be planned or
        removed."""
        from streamkeeper.operations.backups.pruning import prune

        request = read_prune(self.asked(context))
        if request.dry_run:
            self._skip("a dry run removes nothing")
        installation = load_installation()
        done = prune(installation.snapshots, plan(installation, request), installation)
        self.log.info("%s", done.sentence)
        if done.failed:
            raise PruneIncomplete("\n".join((done.sentence, *done.failed)))
        return done.sentence


def plan(installation: Installation, request: PruneRequest) -> PruneRun:
    """Plan the prune; raises NotFound for an unknown job, InvalidInput for a wrong field of the form."""
    from streamkeeper.operations.backups.pruning import plan_prune
    from streamkeeper.operations.jobs.observation import read_job

    policy, grace_s = request.policy, request.grace_period_s
    if request.job:
        read_job(installation, request.job)
    return plan_prune(installation, job=request.job, policy=policy, grace_s=grace_s)


def _lines(run: PruneRun) -> list[str]:
    from streamkeeper.operations.backups.pruning import tell_run

    return list(tell_run(run)) or ["there are no snapshots yet"]
