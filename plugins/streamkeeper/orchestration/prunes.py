"""The tasks of a prune: the plan, for people to read, and what carries out a fresh one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from streamkeeper.errors import PermanentError
from streamkeeper.orchestration.snapshot_forms import PruneRequest, prune_form, read_prune
from streamkeeper.orchestration.tasks import AskedTask, open_site

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.installation import Installation
    from streamkeeper.operations.pruning import PruneRun

LONGEST_PRUNE = timedelta(hours=6)


class PruneIncomplete(PermanentError):
    """Something could not be planned or removed; everything else was."""


class PlanPruneOperator(AskedTask):
    """Says what would go and why, and removes nothing; the lines are the ``report``, too."""

    form = staticmethod(prune_form)
    reports = True

    def work(self, context: Context) -> str:
        """Returns one sentence; raises NotFound for an unknown job, InvalidInput for a field of the form.

        What cannot be planned fails the task of a dry run; else it is for ``prune`` to fail by, after its work.
        """
        request = read_prune(self.asked(context))
        run = plan(open_site(), request)
        self._report(context, list(_lines(run)))
        if run.untold and request.dry_run:
            raise PruneIncomplete("\n".join(f"cannot plan {what}" for what in run.untold))
        return f"{sum(len(sweep.dropped) for sweep in run.sweeps)} snapshots would be removed"


class PruneOperator(AskedTask):
    """Removes what nothing keeps now, which may be more or less than what was planned; is skipped by a dry run."""

    form = staticmethod(prune_form)

    def work(self, context: Context) -> str:
        """Returns what went; raises PruneIncomplete when something could not be planned or removed."""
        from streamkeeper.operations.pruning import prune

        request = read_prune(self.asked(context))
        if request.dry_run:
            self._skip("a dry run removes nothing")
        site = open_site()
        done = prune(site.snapshots, plan(site, request), site)
        self.log.info("%s", done.sentence)
        if done.failed:
            raise PruneIncomplete("\n".join((done.sentence, *done.failed)))
        return done.sentence


def plan(site: Installation, request: PruneRequest) -> PruneRun:
    """What a prune would do now; raises NotFound for an unknown job, InvalidInput for a field of the form."""
    from streamkeeper.operations.overview import read_job
    from streamkeeper.operations.pruning import plan_prune

    policy, grace_s = request.policy, request.grace_period_s
    if request.job:
        read_job(site, request.job)
    return plan_prune(site, job=request.job, policy=policy, grace_s=grace_s)


def _lines(run: PruneRun) -> list[str]:
    from streamkeeper.operations.pruning import tell_run

    return list(tell_run(run)) or ["there are no snapshots yet"]
