"""Returns to an older release: automatically after a new release has failed, and by a manual rollback."""

from __future__ import annotations

from demo.acts.stage import Stage
from demo.deploys import Asked, Run, StepReport
from demo.releases import NO_REFUNDS, edit
from harness.forms import EVENT_COPY, ROLLBACK_DAG, SALES_TOTALS
from streamkeeper.errors import DeployFailed
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import Transition

_PROBATION = 20
"""The number of triggers of the probation, enough for the first refund to arrive."""


class Refunds:
    """Starts the refunds as soon as a run has directed its candidate to take over."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._came = False

    def __call__(self, run: Run) -> None:
        """Start the refunds if the candidate has been directed to take over, and if they were not started before."""
        operation = self._stage.state(run.asked.job).operations.get(run.operation)
        if not self._came and operation is not None and operation.has_done(Step.GO):
            self._came = True
            self._stage.system.begin_refunds()
            self._stage.tell("  it went; the first refunds come in")


def ask_for_failure(stage: Stage) -> Asked:
    """Request a release that passes its rehearsal and fails on later data, after which the old release returns."""
    stage.tell(f"  {edit(stage.places, NO_REFUNDS)}")
    return Asked(
        name="event_copy: falls back",
        form=stage.form(EVENT_COPY, "a stricter filter", probation_batches=_PROBATION),
        verdict=Verdict.RESUME,
        way=Transition.RESUME,
        outcome=Outcome.FELL_BACK,
        meanwhile=Refunds(stage),
    )


def check_fall_back(stage: Stage, report: StepReport) -> StepReport:
    """Return the report; raises DeployFailed unless the previous release is current."""
    edit(stage.places, NO_REFUNDS.reverse)
    failed, state = stage.last_operation(EVENT_COPY), stage.state(EVENT_COPY)
    if state.serving_release == failed.release:
        raise DeployFailed(f"{report.name}: {state.serving_release} was not to serve")
    return report


def roll_back(stage: Stage, job: str = SALES_TOTALS) -> list[StepReport]:
    """Roll back to the release before the rebuild, on the checkpoint version that it left.

    The dry run of the rollback shows which data is replayed.
    """
    state = stage.state(job)
    release = _before_rebuild(stage, job)
    form = {"job": job, "release": release, "reason": f"back to {release}"}
    stage.tell(f"  {state.serving_release} serves; a dry run says what going back to {release} means")
    dry = Asked(
        name=f"{job}: rollback, dry run",
        form={**form, "dry_run": True},
        dag=ROLLBACK_DAG,
        verdict=Verdict.SWITCH,
        way=Transition.RETURN,
        outcome=Outcome.DRY_RUN,
    )
    back = Asked(name=f"{job}: rollback", form=form, dag=ROLLBACK_DAG, verdict=Verdict.SWITCH, way=Transition.RETURN)
    reports = [stage.deployer.deploy(dry), stage.deployer.deploy(back)]
    if stage.state(job).serving_release != release:
        raise DeployFailed(f"{back.name}: {release} was to serve")
    return reports


def _before_rebuild(stage: Stage, job: str) -> str:
    """Return the last release that was current on a checkpoint version other than the current one."""
    state = stage.state(job)
    now = state.served[state.serving_release]
    return [release for release, versions in state.served.items() if versions != now][-1]
