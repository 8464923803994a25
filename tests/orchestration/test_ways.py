"""Tests which tasks of a deploy run and which are skipped: Airflow itself runs the DAGs, with task bodies that do
nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from tests.orchestration.playing import OPENED

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]

PLAY = (
    OPENED
    + """
from streamkeeper.errors import DeployFailed
from streamkeeper.orchestration import approvals, deploy_tasks, recoveries
played = {}
def work(self, context):
    played["ran"].append(self.task_id)
    if self.task_id in played["fails"]:
        raise DeployFailed(self.task_id)
    if self.task_id in played["skips"]:
        self._skip("not asked for")
    return "done"
tasks = (deploy_tasks.BundleOperator, deploy_tasks.StepOperator, deploy_tasks.AssessOperator,
         deploy_tasks.HandoverOperator, deploy_tasks.FallBackOperator, deploy_tasks.FinishOperator,
         deploy_tasks.AnnounceFailureOperator,
         approvals.ApproveOperator, approvals.AnswerOperator,
         recoveries.DiagnoseOperator, recoveries.AcceptOperator, recoveries.RecoverOperator,
         recoveries.RecoveredOperator)
for task in tasks:
    task.work = work
for branch in (deploy_tasks.ChooseOperator, recoveries.DecideOperator):
    branch.choose_branch = lambda self, context: played["branches"][self.task_id]
told = {}
for name, play in json.loads(sys.argv[2]).items():
    played = {"ran": [], "fails": [], "skips": [], **play}
    run = bag.dags[play["dag"]].test(run_conf={"job": "sales_totals", "reason": "a test"})
    states = {each.task_id: each.state for each in run.get_task_instances()}
    told[name] = {"ran": played["ran"], "run": run.state, "states": states}
print("TOLD" + json.dumps(told))
"""
)

DEPLOY, ROLLBACK, RECOVER = "streaming_deploy", "streaming_rollback", "streaming_recover"
PLAYS: dict[str, dict[str, Any]] = {
    "resume": {"dag": DEPLOY, "branches": {"choose": "takeover"}},
    "backup": {"dag": DEPLOY, "branches": {"choose": "backup", "choose_again": "takeover"}},
    "rebuild": {"dag": DEPLOY, "branches": {"choose": "dual_run"}, "skips": ["dual_run.review"]},
    "not asked for": {"dag": DEPLOY, "branches": {"choose": "finish"}, "skips": ["finish"]},
    "both": {"dag": DEPLOY, "branches": {"choose": "backup", "choose_again": "dual_run"}},
    "over": {"dag": DEPLOY, "branches": {"choose": "finish"}, "fails": ["finish"]},
    "risk accepted": {
        "dag": DEPLOY,
        "branches": {"choose": "backup", "choose_again": "takeover"},
        "skips": ["backup.rest"],
    },
    "differs": {"dag": DEPLOY, "branches": {"choose": "dual_run"}},
    "differs, declined": {
        "dag": DEPLOY,
        "branches": {"choose": "dual_run"},
        "fails": ["dual_run.answer", "finish"],
    },
    "declined": {"dag": DEPLOY, "branches": {"choose": "backup"}, "fails": ["backup.answer", "finish"]},
    "aborted": {"dag": DEPLOY, "branches": {"choose": "dual_run"}, "fails": ["dual_run.catch_up", "finish"]},
    "broken": {"dag": DEPLOY, "branches": {"choose": "takeover"}, "fails": ["takeover.probation", "finish"]},
    "rollback": {"dag": ROLLBACK, "branches": {"choose": "takeover"}},
    "diagnosed": {"dag": RECOVER, "branches": {"decide": "finish"}},
    "restored": {"dag": RECOVER, "branches": {"decide": "bundle", "choose": "takeover"}},
    "loss accepted": {"dag": RECOVER, "branches": {"decide": "accept", "choose": "dual_run"}},
    "loss declined": {"dag": RECOVER, "branches": {"decide": "accept"}, "fails": ["bundle", "finish"]},
    "no way back": {"dag": ROLLBACK, "branches": {"choose": "finish"}, "fails": ["finish"]},
}
BEGIN = ["bundle", "standby", "assess"]
BACKUP = ["backup.keep_state", "backup.rest", "backup.approve", "backup.answer", "backup.ready"]
DUAL_RUN = [f"dual_run.{name}" for name in ("shadow", "catch_up", "compare", "review", "answer")]
TAKEOVER = [f"takeover.{name}" for name in ("handover", "first_commit", "snapshot", "probation", "promote")]
END = ["finish"]
FAILED = ["finish", "announce_failure"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the tasks that ran and the final states for each play."""
    home = tmp_path_factory.mktemp("airflow")
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "plugins"),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "STREAMKEEPER_JOBS": str(ROOT / "jobs"),
    }
    command = [sys.executable, "-c", PLAY, str(ROOT / "dags"), json.dumps(PLAYS)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("TOLD"))
    told: dict[str, Any] = json.loads(line.removeprefix("TOLD"))
    return told


@pytest.mark.parametrize(
    ("play", "ran"),
    [
        ("resume", [*BEGIN, *TAKEOVER, *END]),
        ("backup", [*BEGIN, *BACKUP, *TAKEOVER, *END]),
        ("rebuild", [*BEGIN, *DUAL_RUN[:4], *TAKEOVER, *END]),
        ("both", [*BEGIN, *BACKUP, *DUAL_RUN, *TAKEOVER, *END]),
        ("not asked for", [*BEGIN, *END]),
        ("over", [*BEGIN, *FAILED]),
        ("risk accepted", [*BEGIN, *BACKUP[:2], *TAKEOVER, *END]),
        ("differs", [*BEGIN, *DUAL_RUN, *TAKEOVER, *END]),
        ("differs, declined", [*BEGIN, *DUAL_RUN, "fall_back", *FAILED]),
        ("declined", [*BEGIN, *BACKUP[:4], "fall_back", *FAILED]),
        ("aborted", [*BEGIN, *DUAL_RUN[:2], "fall_back", *FAILED]),
        ("broken", [*BEGIN, *TAKEOVER[:4], "fall_back", *FAILED]),
        ("rollback", [*BEGIN, *TAKEOVER, *END]),
        ("diagnosed", ["diagnose", *END]),
        ("restored", ["diagnose", *BEGIN, *TAKEOVER, *END]),
        ("loss accepted", ["diagnose", "accept", *BEGIN, *DUAL_RUN, *TAKEOVER, *END]),
        ("loss declined", ["diagnose", "accept", "bundle", "fall_back", *FAILED]),
        ("no way back", [*BEGIN, *FAILED]),
    ],
)
def test_only_the_chosen_groups_and_the_last_task_run(played: dict[str, Any], play: str, ran: list[str]) -> None:
    """For every path through the DAG, the tasks of the chosen groups run in their order, the last task always runs, and
    no task is left without a state.
    """
    told = played[play]
    assert told["ran"] == ran
    failed = bool(PLAYS[play].get("fails"))
    assert told["run"] == ("failed" if failed else "success")
    assert told["states"]["announce_failure"] == ("success" if failed else "skipped")
    assert None not in told["states"].values()


@pytest.mark.parametrize(
    ("play", "state"), [("resume", "success"), ("over", "upstream_failed"), ("not asked for", "skipped")]
)
def test_the_state_of_the_last_task_equals_the_result_of_the_deploy(
    played: dict[str, Any], play: str, state: str
) -> None:
    """The state of the last task ``done`` equals the result of the deploy, even though the failure announcement itself
    succeeds.
    """
    assert played[play]["states"]["done"] == state


def test_tasks_on_a_path_that_was_not_chosen_are_skipped_and_not_failed(played: dict[str, Any]) -> None:
    """Tasks on a path that was not chosen are ``skipped``, while tasks that could not run after a failure are
    ``upstream_failed``.
    """
    states = played["resume"]["states"]
    assert {states[task] for task in (*BACKUP, *DUAL_RUN, "choose_again", "fall_back")} == {"skipped"}
    declined = played["declined"]["states"]
    assert {declined[task] for task in ("backup.ready", *TAKEOVER)} == {"upstream_failed"}


def _operation(*ways: QueryTransition, **more: Any) -> OperationState:
    request = more.pop("request", DeployRequest(job="j"))
    named = {f"q{number}": way for number, way in enumerate(ways)}
    verdict = more.pop("verdict", Verdict.SWITCH)
    return OperationState(
        operation="op", request=request, steps=(), started=1, verdict=verdict, transitions=named, **more
    )


RESUME, OPAQUE = QueryTransition(way=Transition.RESUME), QueryTransition(way=Transition.RESUME, opaque=True)
REBUILD, HANDOFF, BACK = (
    QueryTransition(way=Transition.REBUILD),
    QueryTransition(way=Transition.HANDOFF),
    QueryTransition(way=Transition.RETURN),
)
FIRST = {Step.KEEP_STATE: "backup", Step.SHADOW: "dual_run"}
AFTER_BACKUP = {Step.SHADOW: "dual_run"}


@pytest.mark.parametrize(
    ("operation", "first", "then"),
    [
        (_operation(RESUME), "takeover", "takeover"),
        (_operation(HANDOFF, RESUME), "takeover", "takeover"),
        (_operation(BACK), "takeover", "takeover"),
        (_operation(OPAQUE), "backup", "takeover"),
        (_operation(REBUILD), "dual_run", "dual_run"),
        (_operation(OPAQUE, REBUILD), "backup", "dual_run"),
        (_operation(REBUILD, fall_back="refused"), "finish", "finish"),
        (_operation(OPAQUE, outcome=Outcome.FAILED), "finish", "finish"),
    ],
    ids=["resume", "handoff", "back", "opaque", "rebuild", "opaque and rebuild", "given up", "over"],
)
def test_the_branch_follows_the_record_of_the_operation(operation: OperationState, first: str, then: str) -> None:
    """The journal's record of the operation alone decides which task group the run continues with, before and after a
    backup.
    """
    from streamkeeper.orchestration.deploy_tasks import choose_group

    assert choose_group(operation, FIRST, go_on="takeover", end="finish") == first
    assert choose_group(operation, AFTER_BACKUP, go_on="takeover", end="finish") == then
