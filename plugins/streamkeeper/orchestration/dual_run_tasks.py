"""The tasks of a dual run. Only one job is in a dual run at a time, and waiting tasks are deferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.model.records.step import Step
from streamkeeper.model.settings.approvers import NOBODY
from streamkeeper.orchestration.deploy_tasks import SHORT_WAIT_S, StepOperator
from streamkeeper.orchestration.watch import NEAR, Sight

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.deploys.deploy import Deploy, Progress

_FIRST_S = 30.0
"""Seconds of the catch-up for which the task waits without deferring, because a deferred task would notice the end of
the catch-up late.
"""
_SOON_S = 3.0


class ShadowOperator(StepOperator):
    """Starts the dual run as soon as no other job is in one.

    If another job is still in a dual run after ``catch_up_s`` seconds, the operation is aborted. A dual run that waits
    for a person does not count.
    """

    def _advance(self, context: Context, *, on: str, waited_s: float, logged: str) -> str:
        from streamkeeper.operations.deploys.deploy import Progress, ProgressKind
        from streamkeeper.operations.deploys.dual_runs import TURN, dual_run_before, never_came

        deploy = self.load()
        before = dual_run_before(deploy.installation, deploy.job, deploy.operation)
        waited_here_s = waited_s if on == TURN else 0.0
        limit_s = deploy.state.operations[deploy.operation].request.catch_up_s
        if before is not None and waited_here_s <= limit_s:
            line = self._tell(f"waiting for {TURN} to end: {before.sentence}", logged)
            turn = Progress(
                kind=ProgressKind.WAITING,
                step=Step.SHADOW,
                sentence=line,
                on=TURN,
                waited_s=waited_here_s,
                deadline_s=limit_s,
            )
            self._defer(deploy, turn, self._watch(deploy).look(), line)
        if before is not None:
            deploy.abort(requested_by=NOBODY, reason=never_came(before, limit_s))
        if on == TURN:
            on, waited_s = "", 0.0
        return super()._advance(context, on=on, waited_s=waited_s, logged=logged)


class CatchUpOperator(StepOperator):
    """Waits until the candidate of a dual run has caught up. The task itself reads the checkpoints, because Airflow's
    triggerer may be unable to reach them.
    """

    look_s = 1.0
    look_again_s = 30.0

    def _patience_s(self, sight: Sight, waited_s: float) -> float:
        near = any(mark.endswith(NEAR) for mark in sight)
        return max(SHORT_WAIT_S if near else self.patience_s, _FIRST_S - waited_s)

    def asleep_s(self, progress: Progress) -> float:
        """Return the longest deferral in seconds: as for any step, but at most max(3 s, the time waited so far).

        The deferral ends earlier if a Spark trigger of the candidate finds no data. The second limit
        is for busy sources, where every Spark trigger finds data.
        """
        return min(super().asleep_s(progress), max(_SOON_S, progress.waited_s))


class CompareOperator(StepOperator):
    """Compares both outputs. If the request asks for no comparison, the task compares nothing and logs that fact.

    The task is not skipped in that case, because a person may still have to approve the output.
    """

    def _skip_unless_asked_for(self, deploy: Deploy) -> None:
        if deploy.state.operations[deploy.operation].request.compare:
            super()._skip_unless_asked_for(deploy)
        else:
            self.log.info("the outputs are not compared, as requested")
