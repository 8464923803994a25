"""Tests of an opaque change in a real Airflow: who may answer the approval, what the answer causes, and the rollback
afterwards.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from harness.forms import DAG, SALES_TOTALS
from harness.outputs import read_totals
from harness.rest import AirflowApi, Conflict
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput, OperationRefused
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import Transition
from streamkeeper.operations.deploys.approval import answer_approval
from tests.integration.installation import OTHER_CODE, InstalledAirflow, Interrupted, Run, edited

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

ROLLBACK = "streaming_rollback"
ASKS, REVIEWS = "backup.approve", "dual_run.review"
OTHER_SUMS = (("    return amount\n", "    return int(amount) + 1\n"),)


def asks(run: Run, task: str = ASKS) -> bool:
    """Return whether the run comes to wait for a person's answer; the waiting task holds no worker."""
    return wait_until(lambda: run.states()[task] in ("deferred", "awaiting_input"), timeout_s=600, poll_s=1)


def operation_of(installation: InstalledAirflow, run: Run) -> OperationState:
    return installation.state.operations[run.operation]


@pytest.mark.storage
def test_declining_a_differing_rebuilt_output_keeps_the_serving_driver(
    served: InstalledAirflow, api: AirflowApi
) -> None:
    """The review of a dual run lists the rows that differ; after it is declined over REST the deploy fails, and the
    serving driver and its output are unchanged.
    """
    before, totals = served.state, read_totals(served.places.warehouse)
    with edited(served, OTHER_SUMS):
        run = Run(api, served.form(strategy="rebuild"))
        assert asks(run, REVIEWS), run.told()
    question = api.question(DAG, run.run_id, REVIEWS)
    assert "its code changed, and the effect on its output is not proven" in question
    assert "3 of 3 common rows differ (squares 3, total 3)" in question
    assert "| row | column | serving | rebuilt |" in question
    run.answer(REVIEWS, "Decline", reason="one too many each")
    assert run.wait() == "failed"
    states = run.states()
    assert (states["dual_run.answer"], states["takeover.handover"]) == ("failed", "upstream_failed")
    review = operation_of(served, run).review
    assert review is not None
    assert (review.approved, review.reason) == (False, "one too many each")
    after = served.state
    assert (after.serving_instance, after.appointed) == (before.serving_instance, before.appointed)
    assert served.system.installation.runner.observe(SALES_TOTALS, after.serving_instance).life is Life.ALIVE
    assert read_totals(served.places.warehouse) == totals


def test_an_approved_change_takes_over_and_there_is_a_way_back(served: InstalledAirflow, api: AirflowApi) -> None:
    """After an approval over REST, as the page sends it, the journal records who approved and why, and the new release
    takes over.

    A dry run of the rollback states which input would be read and written again without changing the serving release;
    the rollback itself restores the old release's state, and no sale is lost or doubled.
    """
    before = served.state.serving_release
    with edited(served, OTHER_CODE):
        run = Run(api, served.form())
        assert asks(run)
    release = operation_of(served, run).release
    assert f"**{release}** will replace **{before}**" in api.question(DAG, run.run_id, ASKS)
    run.answer(ASKS, "Approve", reason="only int() around it")
    assert run.wait() == "success", run.told()
    operation = operation_of(served, run)
    assert operation.verdict is Verdict.BACKUP
    assert operation.approval is not None
    assert (operation.approval.approved, operation.approval.reason) == (True, "only int() around it")
    assert operation.approval.by not in ("", "airflow")
    assert served.state.serving_release == release
    states = run.states()
    dual_run = {name: state for name, state in states.items() if name.startswith("dual_run.")}
    assert set(dual_run.values()) == {"skipped"}
    assert len(dual_run) == 5

    served.sell()
    assert wait_until(served.caught_up, timeout_s=60)
    form = {"job": SALES_TOTALS, "reason": "the new code is not what was wanted"}
    dry = Run(api, {**form, "dry_run": True}, dag=ROLLBACK)
    assert dry.wait() == "success", dry.told()
    blast_radius = operation_of(served, dry).verdict_sentence
    assert "to be read and written again" in blast_radius
    word, _, price = blast_radius.partition(": ")
    assert dry.report("assess").startswith(f"## {word}\n\n{escaped(price)}\n")
    assert served.state.serving_release == release

    back = Run(api, form, dag=ROLLBACK)
    assert back.wait() == "success", back.told()
    state = served.state
    assert state.serving_release == before
    assert {each.way for each in state.operations[back.operation].transitions.values()} == {Transition.RESTORE}
    served.sell()
    assert wait_until(served.at_rest, timeout_s=60)
    assert served.compare().clean


@pytest.mark.storage
def test_an_approval_counts_only_from_a_listed_approver(served: InstalledAirflow, interrupted: Interrupted) -> None:
    """Airflow's only user may answer everything in Airflow, but an approval by this user does not count because the job
    file names ``cli:ada`` as the approver; the question stays open.

    When ``cli:ada`` declines from the command line, the run fails with that reason and the serving driver is untouched.
    The failed run still emits one asset event with its verdict and outcome.
    """
    before, api = served.state, interrupted.run.api
    assert before.releases[before.serving_release].content.approvers == ("cli:ada",)
    with edited(served, OTHER_CODE):
        run = Run(api, served.form())
        assert asks(run)
    question = api.question(DAG, run.run_id, ASKS)
    assert "May answer: cli:ada." in question
    assert "+    return int(amount)" in question
    standby = [each for each in served.state.instances.values() if each.operation == run.operation]
    assert [each.ended for each in standby] == [True], "the standby does not rest"

    def not_heard() -> bool:
        """Answer until Airflow accepts it, as ``Run.answer`` does, because an answer sent just as the question is
        created is lost; return whether the task's log says that it does not count.
        """
        with suppress(Conflict):
            api.answer(DAG, run.run_id, ASKS, "Approve", reason="in a hurry")
        with suppress(InvalidInput):
            return "does not count" in run.log(ASKS, api.tasks(DAG, run.run_id)[ASKS]["try_number"])
        return False

    assert wait_until(not_heard, timeout_s=120, poll_s=5)
    assert asks(run)
    assert operation_of(served, run).approval is None

    site = served.system.installation
    with pytest.raises(OperationRefused, match="cli:mallory is not among the approvers"):
        answer_approval(site, SALES_TOTALS, run.operation, approved=True, by="cli:mallory", reason="mine")
    answer_approval(site, SALES_TOTALS, run.operation, approved=False, by="cli:ada", reason="not today")
    assert run.wait() == "failed"
    assert run.told()[0].endswith(f"not approved by cli:ada: not today; {before.serving_release} stays as it was")
    states = run.states()
    assert (states["backup.answer"], states["takeover.handover"], states["fall_back"]) == (
        "failed",
        "upstream_failed",
        "skipped",
    )
    assert (states["finish"], states["announce_failure"]) == ("failed", "success")
    (event,) = api.asset_events(DAG, run.run_id)
    assert (event["operation"], event["outcome"], event["verdict"]) == (run.operation, "refused", "BACKUP")
    assert event["sentence"] == operation_of(served, run).sentence
    after = served.state
    assert (after.serving_instance, after.appointed) == (before.serving_instance, before.appointed)
    assert site.runner.observe(SALES_TOTALS, after.serving_instance).life is Life.ALIVE
