"""An opaque change through a real Airflow: who may answer, what the answer does, and the way back afterwards."""

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
    """Whether the run comes to wait for a person; the task that asks holds no worker meanwhile."""
    return wait_until(lambda: run.states()[task] in ("deferred", "awaiting_input"), timeout_s=600, poll_s=1)


def operation_of(installation: InstalledAirflow, run: Run) -> OperationState:
    return installation.state.operations[run.operation]


def test_a_rebuilt_output_that_differs_serves_only_if_a_person_says_so(
    served: InstalledAirflow, api: AirflowApi
) -> None:
    """The rows that differ are in the question; declined by REST, the shadow and its output are gone."""
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
    """Approved by REST, as the page does it: who and why stand in the journal, and the release goes on.

    The rollback says before it acts what it would write again; then the state is that of the old code, and nothing is
    lost or doubled.
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


def test_an_answer_by_rest_of_who_may_not_give_it_is_not_heard_and_one_from_elsewhere_is(
    served: InstalledAirflow, interrupted: Interrupted
) -> None:
    """This Airflow knows one user, whom it lets answer everything: the question stays for whom the job's file names.

    Declined by them from the command line while Airflow asks: the run fails with that sentence, and nothing was
    touched. A task that fails updates no asset; the run has updated its own all the same, with verdict and outcome.
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
        """Answered until it was taken, as ``Run.answer`` does it: one in the very moment of the question is lost."""
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
