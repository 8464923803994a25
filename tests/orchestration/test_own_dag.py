"""Tests a user's own DAG that contains deploy groups: Airflow itself runs the example of the docs with a real driver,
and groups that fail, are skipped or are refused.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.run_names import operation_id
from streamkeeper.operations.deploys.stopping import stop_job
from streamkeeper.operations.jobs.installation import Installation
from tests.orchestration.playing import OPENED

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "release_event_copy.py"
GROUP = "deploy_event_copy"
OPERATIONS = "streamkeeper://operations/"

TWO = """
from airflow.sdk import dag, task
from streamkeeper.airflow_tasks import StopOperator, deploy_streaming_job

@dag(schedule=None, params={"wanted": False})
def two_jobs():
    @task.short_circuit
    def wanted(params):
        return params["wanted"]

    wanted() >> deploy_streaming_job("orders", reason="every night")
    stop = StopOperator(task_id="stop", request={"job": "nope", "reason": "before the copy"})
    stop >> deploy_streaming_job("event_copy", reason="after the stop", group_id="copy")

two_jobs()
"""

HASTY = """
from airflow.sdk import Asset, dag, task
from streamkeeper.airflow_tasks import deploy_streaming_job

@dag(schedule=None)
def hasty():
    @task
    def announce():
        pass

    copies = [Asset("event_copies")]
    deploy_streaming_job("event_copy", reason="no driver is that quick", standby_s=1, outlets=copies) >> announce()

hasty()
"""

RUN = (
    OPENED
    + """
from airflow.models.asset import AssetEvent
from airflow.utils.session import create_session
told = {}
for name, conf in json.loads(sys.argv[2]):
    run = bag.dags[name].test(run_conf=conf)
    tasks = run.get_task_instances()
    told[f"{name} {len(told)}"] = {
        "run": run.run_id,
        "state": run.state,
        "states": {each.task_id: each.state for each in tasks},
        "left": {key: {each.task_id: each.xcom_pull(task_ids=each.task_id, key=key) for each in tasks}
                 for key in ("return_value", "error", "report", "_link_OutcomeLink")},
    }
with create_session() as session:
    events = [[each.source_run_id, each.source_task_id, each.asset.uri, each.extra]
              for each in session.query(AssetEvent).all()]
print("TOLD" + json.dumps({"runs": list(told.values()), "events": events}, default=str))
"""
)


def environment(root: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "plugins"),
        "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
        "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", ""),
        "AIRFLOW_HOME": str(root / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "STREAMKEEPER_HOME": str(root / "home"),
        "STREAMKEEPER_JOBS": str(ROOT / "jobs"),
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return the results of four runs: the example, the example with a failing first task, a DAG with two groups, and a
    DAG whose deploy is refused.
    """
    root = tmp_path_factory.mktemp("own")
    (root / "dags").mkdir()
    shutil.copy(EXAMPLE, root / "dags")
    (root / "dags" / "two.py").write_text(TWO)
    (root / "dags" / "hasty.py").write_text(HASTY)
    (root / "events" / "in").mkdir(parents=True)
    (root / "events" / "in" / "1.csv").write_text("e1,ada,seen,1\n")
    runs = [("release_event_copy", {"folder": str(root / "events")}), ("release_event_copy", {"folder": "/proc"})]
    runs += [("two_jobs", {}), ("hasty", {})]
    command = [sys.executable, "-c", RUN, str(root / "dags"), json.dumps(runs)]
    site = Installation.from_environment(environment(root))
    try:
        done = subprocess.run(command, env=environment(root), capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        told = json.loads(next(line[4:] for line in done.stdout.splitlines() if line.startswith("TOLD")))
        yield {**told, "state": site.journal("event_copy", "test").state(), "input": str(root / "events" / "in")}
    finally:
        with suppress(NotFound):
            stop_job(site, "event_copy", requested_by="test", reason="over", operation="op-stop", drain_s=20)


def updates(played: dict[str, Any], run: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return, for each asset update of this run, the task of the group, the asset and the outcome in the event."""
    mine = (event for event in played["events"] if event[0] == run["run"])
    return sorted((task.removeprefix(f"{GROUP}."), asset, said.get("outcome", "")) for _, task, asset, said in mine)


@pytest.mark.spark
def test_the_example_of_the_docs_deploys_a_job(played: dict[str, Any]) -> None:
    """The DAG of the docs deploys a job with params from an upstream task; the downstream task receives the outcome,
    and both assets are updated.
    """
    run, state = played["runs"][0], played["state"]
    operation = state.operations[operation_id("release_event_copy", run["run"], GROUP)]
    assert operation.outcome is Outcome.SUCCEEDED
    assert operation.request.reason == f"release {run['run']}"
    assert state.releases[state.serving_release].content.params["input"] == played["input"]
    assert run["left"]["return_value"]["announce"].startswith("event_copy is released: ")
    assert "r0001" in run["left"]["report"][f"{GROUP}.finish"]
    assert run["left"]["_link_OutcomeLink"][f"{GROUP}.bundle"].endswith(f"/tasks/{GROUP}.finish/xcom")
    assert updates(played, run) == [("finish", "event_copies", ""), ("finish", OPERATIONS, "succeeded")]


@pytest.mark.spark
def test_a_failed_upstream_task_prevents_the_deploy(played: dict[str, Any]) -> None:
    """When the task upstream of a deploy fails, nothing is deployed, the group fails with ``no operation was opened``,
    and the downstream task does not run.
    """
    run = played["runs"][1]
    assert run["states"]["prepare"] == "failed"
    assert run["states"][f"{GROUP}.bundle"] == "upstream_failed"
    assert run["left"]["error"][f"{GROUP}.finish"] == "no operation was opened"
    assert run["states"]["announce"] == "upstream_failed"
    assert len(played["state"].operations) == 2
    assert updates(played, run) == [("announce_failure", OPERATIONS, "not-opened")]


@pytest.mark.spark
def test_a_refused_deploy_fails_its_group_and_updates_only_the_operations_asset(played: dict[str, Any]) -> None:
    """A refused deploy fails its group, the downstream task does not run, only the operations asset is updated (outcome
    ``refused``, with the operation and its sentence), and the asset of a successful deploy is not updated.
    """
    run = played["runs"][3]
    assert run["state"] == "failed"
    assert (run["states"][f"{GROUP}.finish"], run["states"][f"{GROUP}.done"]) == ("failed", "upstream_failed")
    assert run["states"]["announce"] == "upstream_failed"
    assert updates(played, run) == [("announce_failure", OPERATIONS, "refused")]
    (event,) = (event for event in played["events"] if event[0] == run["run"])
    operation = operation_id("hasty", run["run"], GROUP)
    assert event[3]["operation"] == operation
    assert event[3]["sentence"] == played["state"].operations[operation].sentence


@pytest.mark.spark
def test_groups_of_one_dag_skip_and_fail_independently(played: dict[str, Any]) -> None:
    """Of two groups in one DAG, the one behind a false short circuit is skipped entirely, and the one behind a failed
    task fails on its own.
    """
    run = played["runs"][2]
    states = run["states"]
    assert {state for name, state in states.items() if name.startswith("deploy_orders.")} == {"skipped"}
    assert states["stop"] == "failed"
    assert "nope" in run["left"]["error"]["stop"]
    assert states["copy.bundle"] == "upstream_failed"
    assert states["copy.finish"] == "failed"
    assert run["left"]["error"]["copy.finish"] == "no operation was opened"


def test_an_unknown_or_missing_request_field_is_an_import_error() -> None:
    """A misspelt request field fails when the DAG is parsed, with a suggestion of the right name; so does a missing
    required field.
    """
    from airflow.sdk import DAG

    from streamkeeper.airflow_tasks import StopOperator, deploy_streaming_job

    with DAG("d", schedule=None):
        with pytest.raises(InvalidInput, match=r"field 'dryrun' is not known \(perhaps write dry_run"):
            deploy_streaming_job("orders", reason="a test", dryrun=True)
        with pytest.raises(InvalidInput, match="field reason is missing"):
            StopOperator(task_id="stop", request={"job": "orders"})


def test_omitted_request_fields_have_the_defaults_of_the_form() -> None:
    """A group's request has the form's defaults for every field that is not passed, and templates are accepted in any
    field of the request.
    """
    from airflow.sdk import DAG

    from streamkeeper.airflow_tasks import deploy_streaming_job

    with DAG("d", schedule=None) as dag:
        deploy_streaming_job("orders", reason="{{ ds }}", drain_s=7)
    bundle: Any = dag.get_task("deploy_orders.bundle")
    assert (bundle.request["reason"], bundle.request["drain_s"], bundle.request["standby_s"]) == ("{{ ds }}", 7, 300.0)
    assert bundle.template_fields == ("request",)
    choose: Any = dag.get_task("deploy_orders.choose")
    assert (choose.job, choose.go_on, choose.end) == ("orders", "deploy_orders.takeover", "deploy_orders.finish")
    assert "task_ids='deploy_orders.bundle'" in choose.operation
    assert dag.get_task("deploy_orders.takeover.handover").retries == 5
