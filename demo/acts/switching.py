"""Changes of a stateful query that its checkpoint cannot carry, and one that nothing can prove."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from demo.acts.stage import Stage
from demo.deploys import Asked, Run, StepReport
from demo.releases import COUNTED_OTHERWISE, WITH_LARGEST, edit
from demo.sampler import Read, Sampler
from harness.forms import SALES_TOTALS
from harness.outputs import read_totals
from harness.rest import AirflowApi, Conflict
from harness.system import Tell
from streamkeeper.errors import DeployFailed
from streamkeeper.model.finding import Verdict
from streamkeeper.model.ways import Way

LEAST_PER_SECOND = 10
_ABOUT_STATE, _ABOUT_OUTPUT, _APPROVE = "backup.approve", "dual_run.review", "Approve"


def rebuild(stage: Stage) -> list[StepReport]:
    """A dual run, a comparison, a person's answer and a cutover, under the eyes of a reader; raises DeployFailed for
    what it saw. Python that nothing proves is in the new query: equal rows so far say nothing of the next ones."""
    stage.tell(f"  {edit(stage.places, WITH_LARGEST)}")
    asked = Asked(
        name="sales_totals: rebuild",
        form=stage.form(SALES_TOTALS, "one more aggregate"),
        verdict=Verdict.SWITCH,
        way=Way.REBUILD,
        meanwhile=answer_about_output(stage, "both outputs are the same so far"),
    )
    return [rebuild_watched(stage, asked, lambda: read_totals(stage.places.warehouse))]


def rebuild_watched(stage: Stage, asked: Asked, read: Read) -> StepReport:
    """The same of a rebuild, with what its comparison found."""
    report = deploy_watched(stage, asked, read)
    found = stage.last_operation(asked.job).compared.values()
    compared = "; ".join(comparison.sentence for comparison in found) or "nothing"
    stage.tell(f"  compared: {compared}")
    return msgspec.structs.replace(report, told=f"{report.told}; compared: {compared}")


def answer_about_output(stage: Stage, reason: str) -> Approver:
    """Approves a rebuilt output, where a person is asked about it: a comparison may find no moment to look at."""
    return Approver(stage.airflow.api, stage.tell, _ABOUT_OUTPUT, reason)


def deploy_watched(stage: Stage, asked: Asked, read: Read) -> StepReport:
    """Deploy while ``read`` looks at the serving table all the time; raises DeployFailed for what it saw.

    Where no commit's moment is known (S3 has whole seconds), the gap is how long the reader saw the table stand still.
    """
    with Sampler(read) as sampler:
        report = stage.deployer.deploy(asked)
    seen = sampler.samples
    stage.tell(f"  a reader of the table meanwhile: {seen.sentence}")
    if seen.wrong or seen.per_second < LEAST_PER_SECOND:
        raise DeployFailed(f"{asked.name}: what a reader saw: {seen.sentence}")
    gap_s = report.handover_gap_s if report.handover_gap_s is not None else round(seen.longest_still_s, 3)
    return msgspec.structs.replace(report, told=f"{report.told}; a reader: {seen.sentence}", handover_gap_s=gap_s)


def ask_for_approval(stage: Stage) -> Asked:
    """An opaque change: the state is kept, a person is asked by Airflow, and the answer comes by REST."""
    stage.tell(f"  {edit(stage.places, COUNTED_OTHERWISE)}")
    return Asked(
        name="sales_totals: approved",
        form=stage.form(SALES_TOTALS, "the same by other means"),
        verdict=Verdict.BACKUP,
        way=Way.RESUME,
        meanwhile=Approver(stage.airflow.api, stage.tell, _ABOUT_STATE, "read, it means the same"),
    )


def check_approval(stage: Stage, report: StepReport) -> StepReport:
    """The report with what was kept and who approved; raises DeployFailed when nobody has."""
    operation = stage.last_operation(SALES_TOTALS)
    if operation.approval is None or not operation.approval.approved:
        raise DeployFailed(f"{report.name}: nobody has approved")
    kept = ", ".join(f"{query} as {name}" for query, name in sorted(operation.kept_state.items()))
    told = f"kept: {kept}; approved by {operation.approval.by}: {operation.approval.reason}"
    stage.tell(f"  {told}")
    return msgspec.structs.replace(report, told=f"{report.told}; {told}")


class Approver:
    """Answers the question of a run's task ``asking``, for as long as it is asked.

    An answer in the very moment of the question makes Airflow try the asking task again, which forgets the answer.
    """

    def __init__(self, api: AirflowApi, tell: Tell, asking: str, reason: str) -> None:
        self._api, self._tell, self._asking, self._reason = api, tell, asking, reason
        self._told = False

    def __call__(self, run: Run) -> None:
        """Look, and answer."""
        if run.seen.get(self._asking) not in ("deferred", "awaiting_input"):
            return
        subject = self._api.question(run.asked.dag, run.run_id, self._asking).partition("\n")[0]
        if not subject:
            return
        with suppress(Conflict):
            self._api.answer(run.asked.dag, run.run_id, self._asking, _APPROVE, reason=self._reason)
        if not self._told:
            self._tell(f"  Airflow asks: {subject}")
            self._tell(f"  {_APPROVE}d by REST")
            self._told = True
