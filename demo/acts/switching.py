"""Deploys changes of a stateful query that do not fit its checkpoint, and a change that no rule can prove safe."""

from __future__ import annotations

import time
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
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.transitions import Transition

LEAST_PER_SECOND = 10
_ABOUT_STATE, _ABOUT_OUTPUT, _APPROVE = "backup.approve", "dual_run.review", "Approve"
_READING_S = 3.0
"""How long a question is open before it is answered."""


def rebuild(stage: Stage) -> list[StepReport]:
    """Rebuild with a dual run, a comparison, a person's answer and a cutover, while a reader polls the table.

    No rule can prove the Python code of the new query safe: even if all rows are equal so far, the next ones may
    differ. Raises DeployFailed if the reader saw an outage or a decrease.
    """
    stage.tell(f"  {edit(stage.places, WITH_LARGEST)}")
    asked = Asked(
        name="sales_totals: rebuild",
        form=stage.form(SALES_TOTALS, "one more aggregate"),
        verdict=Verdict.SWITCH,
        way=Transition.REBUILD,
        meanwhile=answer_about_output(stage, "both outputs are the same so far"),
    )
    return [rebuild_watched(stage, asked, lambda: read_totals(stage.places.warehouse))]


def rebuild_watched(stage: Stage, asked: Asked, read: Read) -> StepReport:
    """Deploy a rebuild while ``read`` polls the table; return the report with the result of the comparison."""
    report = deploy_watched(stage, asked, read)
    found = stage.last_operation(asked.job).compared.values()
    compared = "; ".join(comparison.sentence for comparison in found) or "nothing"
    stage.tell(f"  compared: {compared}")
    return msgspec.structs.replace(report, told=f"{report.told}; compared: {compared}")


def answer_about_output(stage: Stage, reason: str) -> Approver:
    """Return an approver for the rebuilt output, because the deploy asks a person if the comparison finds no common
    moment of both outputs.
    """
    return Approver(stage.airflow.api, stage.tell, _ABOUT_OUTPUT, reason)


def deploy_watched(stage: Stage, asked: Asked, read: Read) -> StepReport:
    """Deploy while ``read`` polls the current table; raises DeployFailed if it saw an outage or a decrease, or read too
    rarely.

    If the commit times are unknown (S3 has whole seconds), the reported gap is the longest time without a change of the
    table.
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
    """Request an opaque change. The deploy keeps a copy of the state, Airflow asks a person, and the answer is sent by
    REST.
    """
    stage.tell(f"  {edit(stage.places, COUNTED_OTHERWISE)}")
    return Asked(
        name="sales_totals: approved",
        form=stage.form(SALES_TOTALS, "the same by other means"),
        verdict=Verdict.BACKUP,
        way=Transition.RESUME,
        meanwhile=Approver(stage.airflow.api, stage.tell, _ABOUT_STATE, "read, it means the same"),
    )


def check_approval(stage: Stage, report: StepReport) -> StepReport:
    """Return the report with the names of the kept state and the approver; raises DeployFailed if no person has
    approved.
    """
    operation = stage.last_operation(SALES_TOTALS)
    if operation.approval is None or not operation.approval.approved:
        raise DeployFailed(f"{report.name}: nobody has approved")
    kept = ", ".join(f"{query} as {name}" for query, name in sorted(operation.kept_state.items()))
    text = f"kept: {kept}; approved by {operation.approval.by}: {operation.approval.reason}"
    stage.tell(f"  {text}")
    return msgspec.structs.replace(report, told=f"{report.told}; {text}")


class Approver:
    """Answers the question that the task ``question`` of a run asks, after the time that a person needs to read it.

    If an answer arrives within a second, Airflow resumes the asking task before its scheduler has noticed that the task
    was deferred. The scheduler then retries the task, and the answer is lost. A retry asks again.
    """

    def __init__(self, api: AirflowApi, tell: Tell, question: str, reason: str) -> None:
        self._api, self._tell, self._asking, self._reason = api, tell, question, reason
        self._told = False
        self._open_since: float | None = None

    def __call__(self, run: Run) -> None:
        """Answer if the question has been open long enough."""
        if run.seen.get(self._asking) not in ("deferred", "awaiting_input"):
            self._open_since = None
            return
        if self._open_since is None:
            self._open_since = time.monotonic()
        if time.monotonic() - self._open_since < _READING_S:
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
