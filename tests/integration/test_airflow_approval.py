"""An opaque change through a real Airflow: who may answer, what the answer does, and the way back afterwards."""

from __future__ import annotations

from contextlib import suppress

import pytest

from harness.forms import DAG, SALES_TOTALS
from harness.ledger import compare_totals, expected_totals
from harness.outputs import read_totals
from harness.producer import SALES
from harness.rest import AirflowApi, Conflict
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput, OperationRefused
from streamkeeper.model.finding import Verdict
from streamkeeper.model.liveness import Life
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.operation import OperationState
from streamkeeper.model.ways import Way
from streamkeeper.operations.approval import answer_approval
from tests.integration.installation import InstalledAirflow, Run, deploy_first

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

ROLLBACK = "streaming_rollback"
ASKS, REVIEWS = "backup.approve", "dual_run.review"
CODE = (
    ("@streaming_job(", '@F.udf("long")\ndef counted(amount):\n    return amount\n\n\n@streaming_job('),
    ("sales.groupBy(", 'sales.withColumn("amount", counted("amount")).groupBy('),
)
OTHER_CODE = (("    return amount\n", "    return int(amount)\n"),)
OTHER_SUMS = (("    return int(amount)\n", "    return int(amount) + 1\n"),)


@pytest.fixture(scope="module")
def opaque(installation: InstalledAirflow, api: AirflowApi) -> AirflowApi:
    """Release 1 serves, with a Python function below its state; the code under the jobs root has another body."""
    edit(installation, CODE)
    deploy_first(installation, api)
    edit(installation, OTHER_CODE)
    return api


def give_approvers(installation: InstalledAirflow) -> None:
    """Let the job's file name who may answer, and be the code that serves otherwise."""
    file = installation.places.jobs / f"{SALES_TOTALS}.py"
    text = file.read_text().replace(OTHER_CODE[0][1], OTHER_CODE[0][0])
    file.write_text(text.replace(f'name="{SALES_TOTALS}",', f'name="{SALES_TOTALS}", approvers=["cli:ada"],', 1))


def edit(installation: InstalledAirflow, replaces: tuple[tuple[str, str], ...]) -> None:
    file = installation.places.jobs / f"{SALES_TOTALS}.py"
    text = file.read_text()
    for old, new in replaces:
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text)


def asks(run: Run, task: str = ASKS) -> bool:
    """Whether the run comes to wait for a person; the task that asks holds no worker meanwhile."""
    return wait_until(lambda: run.states()[task] in ("deferred", "awaiting_input"), timeout_s=600, poll_s=1)


def operation_of(installation: InstalledAirflow, run: Run) -> OperationState:
    return installation.state.operations[run.operation]


def test_a_rebuilt_output_that_differs_serves_only_if_a_person_says_so(
    installation: InstalledAirflow, opaque: AirflowApi
) -> None:
    """The rows that differ are in the question; declined by REST, the shadow and its output are gone."""
    before, totals = installation.state, read_totals(installation.places.warehouse)
    edit(installation, OTHER_SUMS)
    run = Run(opaque, installation.form(strategy="rebuild"))
    assert asks(run, REVIEWS), run.told()
    question = opaque.question(DAG, run.run_id, REVIEWS)
    assert "its code changed, and the effect on its output is not proven" in question
    assert "3 of 3 common rows differ (squares 3, total 3)" in question
    assert "| row | column | serving | rebuilt |" in question
    run.answer(REVIEWS, "Decline", reason="one too many each")
    assert run.wait() == "failed"
    edit(installation, tuple((new, old) for old, new in OTHER_SUMS))
    states = run.states()
    assert (states["dual_run.answer"], states["takeover.handover"]) == ("failed", "upstream_failed")
    review = operation_of(installation, run).review
    assert review is not None
    assert (review.approved, review.reason) == (False, "one too many each")
    after = installation.state
    assert (after.serving_instance, after.appointed) == (before.serving_instance, before.appointed)
    assert installation.system.site.runner.observe(SALES_TOTALS, after.serving_instance).life is Life.ALIVE
    assert read_totals(installation.places.warehouse) == totals


def test_an_approved_change_takes_over_and_there_is_a_way_back(
    installation: InstalledAirflow, opaque: AirflowApi
) -> None:
    """Approved by REST, as the page does it: who and why stand in the journal, and the release goes on.

    The rollback says before it acts what it would write again; then the state is that of the old code, and nothing is
    lost or doubled.
    """
    run = Run(opaque, installation.form())
    assert asks(run)
    release = operation_of(installation, run).release
    assert f"**{release}** will replace **r0001**" in opaque.question(DAG, run.run_id, ASKS)
    run.answer(ASKS, "Approve", reason="only int() around it")
    assert run.wait() == "success", run.told()
    operation = operation_of(installation, run)
    assert operation.verdict is Verdict.BACKUP
    assert operation.approval is not None
    assert (operation.approval.approved, operation.approval.reason) == (True, "only int() around it")
    assert operation.approval.by not in ("", "airflow")
    assert installation.state.serving_release == release
    states = run.states()
    dual_run = {name: state for name, state in states.items() if name.startswith("dual_run.")}
    assert set(dual_run.values()) == {"skipped"}
    assert len(dual_run) == 5

    installation.sell()
    assert wait_until(installation.caught_up, timeout_s=60)
    form = {"job": SALES_TOTALS, "reason": "the new code is not what was wanted"}
    dry = Run(opaque, {**form, "dry_run": True}, dag=ROLLBACK)
    assert dry.wait() == "success", dry.told()
    blast_radius = operation_of(installation, dry).verdict_sentence
    assert "to be read and written again" in blast_radius
    word, _, price = blast_radius.partition(": ")
    assert dry.report("assess").startswith(f"## {word}\n\n{escaped(price)}\n")
    assert installation.state.serving_release == release

    back = Run(opaque, form, dag=ROLLBACK)
    assert back.wait() == "success", back.told()
    state = installation.state
    assert state.serving_release == "r0001"
    assert {each.way for each in state.operations[back.operation].ways.values()} == {Way.RESTORE}
    installation.sell()
    assert wait_until(installation.caught_up, timeout_s=60)
    installation.system.drain((SALES_TOTALS,))
    sales, totals = installation.places.input / SALES, read_totals(installation.places.warehouse)
    assert compare_totals(SALES_TOTALS, expected_totals(sales), totals).clean


def test_an_answer_by_rest_of_who_may_not_give_it_is_not_heard_and_one_from_elsewhere_is(
    installation: InstalledAirflow, opaque: AirflowApi
) -> None:
    """This Airflow knows one user, whom it lets answer everything: the question stays for whom the job's file names.

    Declined by them from the command line while Airflow asks: the run fails with that sentence, and nothing was
    touched. A task that fails updates no asset; the run has updated its own all the same, with verdict and outcome.
    """
    give_approvers(installation)
    listed = Run(opaque, installation.form())
    assert listed.wait() == "success", listed.told()
    edit(installation, OTHER_CODE)
    before = installation.state
    run = Run(opaque, installation.form())
    assert asks(run)
    assert "May answer: cli:ada." in opaque.question(DAG, run.run_id, ASKS)
    assert "+    return int(amount)" in opaque.question(DAG, run.run_id, ASKS)
    standby = [each for each in installation.state.instances.values() if each.operation == run.operation]
    assert [each.ended for each in standby] == [True], "the standby does not rest"

    def not_heard() -> bool:
        """Answered until it was taken, as ``Run.answer`` does it: one in the very moment of the question is lost."""
        with suppress(Conflict):
            opaque.answer(DAG, run.run_id, ASKS, "Approve", reason="in a hurry")
        with suppress(InvalidInput):
            return "does not count" in run.log(ASKS, opaque.tasks(DAG, run.run_id)[ASKS]["try_number"])
        return False

    assert wait_until(not_heard, timeout_s=120, poll_s=5)
    assert asks(run)
    assert operation_of(installation, run).approval is None

    site = installation.system.site
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
    (event,) = run.api.asset_events(DAG, run.run_id)
    assert (event["operation"], event["outcome"], event["verdict"]) == (run.operation, "refused", "BACKUP")
    assert event["sentence"] == operation_of(installation, run).sentence
    after = installation.state
    assert (after.serving_instance, after.appointed) == (before.serving_instance, before.appointed)
    assert site.runner.observe(SALES_TOTALS, after.serving_instance).life is Life.ALIVE
