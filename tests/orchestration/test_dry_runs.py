"""A dry run in Airflow of a job that was never deployed: its tasks work in a temporary installation that is removed
with the run.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamkeeper.errors import DeployFailed
from streamkeeper.model.run_names import operation_id
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.dry_run_installation import place_of
from streamkeeper.operations.jobs.installation import Installation
from tests.operations.registered_job import Registered
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow
OPERATION = operation_id("a_dag", "manual__1")
CODE = """
from streamkeeper import Param, streaming_job

@streaming_job(name="orders", params={"input": Param(str)})
def orders(spark, params):
    yield from ()
"""


class Run(Instance):
    """The tasks of one run: later tasks pull what earlier ones have pushed."""

    def xcom_pull(self, task_ids: str | list[str], key: str = "return_value") -> Any:
        """Return the pushed value, in a list if several tasks are requested."""
        found = self.pushed.get(key)
        return [found] if isinstance(task_ids, list) else found


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """An installation with the file of a job that was never deployed."""
    made = install(tmp_path, monkeypatch)
    jobs = Path(made.installation.settings.jobs)
    jobs.mkdir(exist_ok=True)
    monkeypatch.setenv("STREAMKEEPER_JOBS", str(jobs))
    (jobs / "orders.py").write_text(CODE)
    # Whoever comes first makes the installation known to its store and its home.
    Installation.from_environment(os.environ)
    return made


def context(run: Run, **params: Any) -> Any:
    form = {"job": "orders", "params": params, "reason": "a look", "dry_run": True, "on_open": "refuse"}
    return context_of(run, **form, standby_s=300.0)


def finish(run: Run) -> Any:
    """Return the last task, with its templates rendered from the values that the first task has pushed."""
    from streamkeeper.orchestration.deploy_tasks import FinishOperator

    given = {name: run.pushed.get(name, "") for name in ("operation", "tried_out")}
    return FinishOperator(task_id="finish", job="orders", **given)


def left(job: Registered) -> list[str]:
    """Return every key of the store and every file of the home, except for the scratch folder."""
    files = (str(each) for each in Path(job.installation.settings.home).rglob("*") if each.name != "scratch")
    return sorted([*job.installation.store.list(""), *files])


def test_a_dry_run_with_a_mistyped_param_leaves_nothing_in_store_or_home(job: Registered) -> None:
    """A dry run with a mistyped param fails in its first and last task and in the asset event with the same sentence,
    and leaves nothing in the store or the home.
    """
    from streamkeeper.orchestration.deploy_tasks import BundleOperator

    run, before = Run(), left(job)
    asked = context(run, inptu="/in")
    with task_fails(r"unknown param inptu \(perhaps input\)"):
        BundleOperator(task_id="bundle").execute(asked)
    with task_fails(r"unknown param inptu \(perhaps input\)"):
        finish(run).execute(asked)
    told = announce(run, asked)
    assert (told["job"], told["operation"], told["outcome"]) == ("orders", "", "not-opened")
    assert told["sentence"] == run.pushed["error"]
    assert left(job) == before


def announce(run: Run, asked: Any) -> dict[str, Any]:
    """Return the event that the asset receives after the last task has failed."""
    from streamkeeper.orchestration.deploy_tasks import OPERATIONS, AnnounceFailureOperator

    given = {name: run.pushed.get(name, "") for name in ("operation", "tried_out")}
    asked["outlet_events"] = {OPERATIONS: SimpleNamespace(extra={})}
    AnnounceFailureOperator(task_id="announce_failure", finish="finish", job="orders", **given).work(asked)
    told: dict[str, Any] = asked["outlet_events"][OPERATIONS].extra
    return told


def test_the_tasks_of_a_dry_run_share_one_temporary_installation(job: Registered) -> None:
    """All tasks and triggers of a dry run use one temporary installation that the last task removes, and the store has
    no record of the job. Negative control: a deploy is recorded.
    """
    from streamkeeper.orchestration.deploy_tasks import BundleOperator
    from streamkeeper.orchestration.triggers import StepTrigger

    run, before = Run(), left(job)
    asked = context(run, input="/in")
    BundleOperator(task_id="bundle").execute(asked)
    assert not any("orders" in key for key in job.installation.store.list(""))
    deploy = finish(run).load()
    assert deploy.state.open_operation is not None
    store = deploy.installation.settings.store
    trigger = StepTrigger(job="orders", operation=OPERATION, step="STANDBY", sight=[], at_most_s=1, store=store)
    assert trigger._open().look()[:4] == ["", "", "", ""]
    assert StepTrigger(**{**trigger.serialize()[1], "store": ""})._open().look() == []
    deploy.abort(requested_by="ada", reason="enough")
    deploy.run()
    with pytest.raises(DeployFailed, match="enough"):
        finish(run).work(asked)
    told = announce(run, asked)
    assert (told["operation"], told["outcome"]) == (OPERATION, "aborted")
    assert "enough" in told["sentence"]
    assert left(job) == before
    BundleOperator(task_id="bundle").execute({**asked, "params": {**asked["params"], "dry_run": False}})
    try:
        assert any("registry/orders/" in key for key in job.installation.store.list(""))
    finally:
        # It has a driver by now.
        begun = Deploy.load(Installation.from_environment(os.environ), "orders", OPERATION)
        begun.abort(requested_by="ada", reason="enough")
        begun.run()


def test_every_task_of_a_run_finds_the_same_temporary_installation(job: Registered) -> None:
    """Every task of a run finds the same temporary installation by the operation's name; a different run has a
    different one.
    """
    first = place_of(job.installation, OPERATION).settings.home
    assert place_of(job.installation, OPERATION).settings.home == first
    assert place_of(job.installation, "another").settings.home != first
