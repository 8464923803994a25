"""Tests of the backup, drill and prune DAGs in a real Airflow while the job is running."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.forms import SALES_TOTALS
from harness.rest import AirflowApi
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.journal_records import CheckpointVersionCreated
from streamkeeper.model.records.snapshot import Snapshot
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.snapshots.catalogue import Catalogue
from tests.integration.installation import MAPPED, InstalledAirflow, Run
from tests.orchestration.installed import add_job_without_commits

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

BACKUP, DRILL, PRUNE = "streaming_backup", "streaming_drill", "streaming_prune"
SERIES, LOST = f"{SALES_TOTALS}/totals", "lost_totals/totals"
ONLY_THE_LAST = "last=1,hourly=0,daily=0,weekly=0,monthly=0"


class Snapshots:
    """The snapshots of the running job, with helpers that create more of them."""

    def __init__(self, installation: InstalledAirflow, api: AirflowApi) -> None:
        self.installation, self.api = installation, api
        self.catalogue = Catalogue(installation.system.installation.snapshots, SERIES)

    def run(self, dag: str, **form: Any) -> Run:
        """Run one of the DAGs and return the run once it has finished."""
        run = Run(self.api, form, dag=dag)
        run.wait()
        return run

    def sell(self) -> None:
        """Add one more batch of sales and wait until it is committed."""
        self.installation.sell()
        assert wait_until(self.installation.at_rest, timeout_s=60)

    def take(self) -> Snapshot:
        """Commit one more batch and take a snapshot of it without Airflow."""
        self.sell()
        site = self.installation.system.installation
        return back_up(site.snapshots, query_target(site, SALES_TOTALS, "totals")).snapshot


@pytest.fixture(scope="module")
def snapshots(served: InstalledAirflow, api: AirflowApi) -> Snapshots:
    """The running job with a committed batch that no snapshot contains."""
    made = Snapshots(served, api)
    made.sell()
    return made


def test_a_second_backup_without_new_batches_is_skipped(snapshots: Snapshots) -> None:
    """The first backup run takes a snapshot of the running job; the second run skips its task and logs that no batch
    was committed since that snapshot.
    """
    first = snapshots.run(BACKUP, job=SALES_TOTALS)
    assert (first.state, first.states()) == ("success", dict.fromkeys(("find", "backup", "objective"), "success"))
    newest = snapshots.catalogue.newest()
    assert newest is not None
    assert (snapshots.installation.checkpoint / "commits" / str(newest.batch)).exists()
    assert f"{SERIES}: {newest.name} contains batch {newest.batch}: " in first.log("backup", map_index=0)
    second = snapshots.run(BACKUP, job=SALES_TOTALS)
    assert (second.state, second.mapped("backup")[SERIES]["state"]) == ("success", "skipped")
    assert f"no batch was committed since {newest.name}" in second.log("backup", map_index=0)
    assert snapshots.catalogue.newest() == newest


def test_a_lost_checkpoint_fails_only_its_own_backup_task_and_the_run(snapshots: Snapshots) -> None:
    """When another job's checkpoint directory is missing, that job's backup task fails without a retry and names the
    directory, this job's snapshot is still taken, and the run fails.
    """
    record = CheckpointVersionCreated(
        query="totals", version="v0001", release="r0001", origin="fresh", state_format="rocksdb"
    )
    snapshots.installation.system.installation.journal("lost_totals", "test").append(lambda _: record)
    before = snapshots.catalogue.numbers()
    snapshots.sell()
    run = snapshots.run(BACKUP)
    tasks = run.mapped("backup")
    assert {name: task["state"] for name, task in tasks.items()} == {LOST: "failed", SERIES: "success"}
    assert len(snapshots.catalogue.numbers()) == len(before) + 1
    assert run.state == "failed"
    gone = f"checkpoint v0001 of {LOST} is missing, or has no commit yet"
    assert gone in run.log("backup", map_index=tasks[LOST]["map_index"])
    told = run.log("objective")
    assert gone in told
    assert "1 of this run's tasks failed" in told
    assert int(tasks[LOST]["try_number"]) == 1


def test_a_prune_deletes_what_its_dry_run_listed(snapshots: Snapshots) -> None:
    """A prune with ``dry_run`` lists what it would drop, deletes nothing and skips the second task; without ``dry_run``
    it deletes the listed snapshot and keeps the newest one.
    """
    older, newest = snapshots.take(), snapshots.take()
    before = snapshots.catalogue.numbers()
    shown = snapshots.run(PRUNE, job=SALES_TOTALS, keep=ONLY_THE_LAST, dry_run=True)
    assert (shown.state, shown.states()) == ("success", {"plan": "success", "prune": "skipped"})
    assert snapshots.catalogue.numbers() == before
    for told in (shown.report("plan"), shown.log("plan")):
        assert f"drop {SERIES} {older.name}: not among the last 1" in told
        assert f"keep {SERIES} {newest.name}: the newest" in told
    done = snapshots.run(PRUNE, job=SALES_TOTALS, keep=ONLY_THE_LAST)
    assert done.state == "success", done.log("prune")
    left = snapshots.catalogue.numbers()
    assert newest.number in left
    assert older.number not in left
    snapshots.sell()


@pytest.mark.storage
def test_more_queries_than_airflow_maps_are_backed_up_and_drilled(snapshots: Snapshots) -> None:
    """With 1,500 more queries that have no batch yet, the backup and drill runs stay within Airflow's limit of mapped
    tasks and still reach the running job.

    The drill resumes a driver on the newest snapshot while the job runs, and marks that snapshot as verified.
    """
    site = snapshots.installation.system.installation
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_job_without_commits(site, f"waiting{number:04d}"), range(1500)))
    snapshots.sell()
    before = snapshots.catalogue.numbers()
    told = {}
    for dag, task in ((BACKUP, "backup"), (DRILL, "drill")):
        run = snapshots.run(dag)
        tasks = run.mapped(task).values()
        states = sorted(each["state"] for each in tasks)
        # The share with a snapshot to take or to drill had work, and the lost job of the test above has failed its own.
        assert len(states) == MAPPED, states
        assert {"success", "failed"} & {*states}, states
        assert run.states()["find"] == "success"
        told[task] = "\n".join(run.log(task, map_index=each["map_index"]) for each in tasks)
    newest = snapshots.catalogue.newest()
    assert newest is not None
    assert len(snapshots.catalogue.numbers()) == len(before) + 1
    assert f"{SERIES}: {newest.name} contains batch {newest.batch}: " in told["backup"]
    assert snapshots.catalogue.is_verified(newest.number)
    assert f"{SERIES} {newest.name}: verified: " in told["drill"]
    snapshots.sell()
    assert snapshots.installation.caught_up()


@pytest.mark.parametrize(
    "wrong", [{"keep": "yearly=3"}, {"dry_run": "yes"}, {"job": "../up"}, {"grace_s": -1}], ids=str
)
def test_an_invalid_param_is_answered_with_http_400(snapshots: Snapshots, wrong: dict[str, Any]) -> None:
    """A trigger with an invalid param is answered with HTTP 400 that names the field, and no run is created."""
    with pytest.raises(InvalidInput, match=f"400 .*{next(iter(wrong))}"):
        snapshots.api.trigger(PRUNE, wrong)
