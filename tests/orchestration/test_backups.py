"""The tasks of a backup, with real checkpoints and a real store, without Airflow's processes."""

from __future__ import annotations

import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import CheckpointDamaged, InvalidInput, NotFound, StreamkeeperError
from streamkeeper.snapshots.capture import LONGEST_S, CaptureProgress
from streamkeeper.stores.local import LocalStore
from tests.operations.backups.test_snapshots import Registered
from tests.orchestration.installed import SERIES, add_lost_job, install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    return install(tmp_path, monkeypatch)


def find(**form: Any) -> list[str]:
    """Return the queries that a form selects."""
    from streamkeeper.orchestration.query_tasks import FindOperator

    return FindOperator(task_id="find").work(context_of(Instance(), **form))


def back_up(series: str = SERIES) -> str:
    """Return the result of the backup task of one query."""
    from streamkeeper.orchestration.backups import BackupOperator

    return BackupOperator(task_id="backup", series=series).work(context_of(Instance()))


def judge(failed: int = 0, **form: Any) -> str:
    """Return the result of the last task."""
    from streamkeeper.orchestration.backups import ObjectiveOperator

    return ObjectiveOperator(task_id="objective").work(context_of(Instance(failed), **form))


def test_a_query_is_backed_up_and_then_skipped_until_it_commits(job: Registered) -> None:
    """A query without a new commit is skipped, with a sentence that names the last snapshot; a further commit makes a
    new snapshot.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    assert back_up().startswith(f"{SERIES}: s0001 contains batch 7: ")
    with pytest.raises(AirflowSkipException, match=r"no batch was committed since s0001 \(batch 7\)"):
        back_up()
    job.commit(8)
    assert back_up().startswith(f"{SERIES}: s0002 contains batch 8: ")


@pytest.mark.parametrize(("found", "most", "shares"), [(0, 9, []), (1, 9, [1]), (9, 9, [1] * 9), (25, 10, [2, 3] * 5)])
def test_queries_are_distributed_evenly_over_a_limited_number_of_tasks(
    found: int, most: int, shares: list[int]
) -> None:
    """Queries are distributed in order over a limited number of tasks, whose sizes differ by at most one."""
    from streamkeeper.orchestration.query_tasks import share_out

    series = [f"job{number:04d}/q" for number in range(found)]
    shared = share_out(series, most=most)
    assert " ".join(shared).split() == series
    assert [len(each.split()) for each in shared] == shares


@pytest.mark.filterwarnings("ignore:Using `httpx`")
def test_airflow_rejects_a_mapped_task_for_each_of_many_queries() -> None:
    """Airflow's API server rejects a list of 1,500 mapped tasks, so that as many queries are distributed over
    ``MOST_TASKS`` tasks.
    """
    from airflow.api_fastapi.execution_api.routes.xcoms import set_xcom
    from fastapi import HTTPException

    from streamkeeper.orchestration.query_tasks import MOST_TASKS, share_out

    with pytest.raises(HTTPException, match="unmappable_return_value_length"):
        set_xcom("d", "r", "find", "return_value", None, None, mapped_length=1500)
    assert len(share_out([f"job{number:04d}/q" for number in range(1500)], most=MOST_TASKS)) == MOST_TASKS


def test_a_task_backs_up_its_other_queries_after_one_failed(job: Registered) -> None:
    """After a query of a task has failed, the other queries are still backed up, and the task fails with the error of
    the failed ones.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    lost = add_lost_job(job)
    with pytest.raises(CheckpointDamaged, match=f"{lost} is missing, or has no commit yet"):
        back_up(f"{lost} {SERIES}")
    with pytest.raises(AirflowSkipException, match="no batch was committed since s0001"):
        back_up()
    with pytest.raises(AirflowSkipException, match="2 queries: there was nothing to do"):
        back_up(f"{SERIES} {SERIES}")
    with pytest.raises(StreamkeeperError, match=f"^2 of 3 queries failed: .*{lost} is missing, or has no commit yet"):
        back_up(f"{lost} {SERIES} nope/q")


def test_each_query_of_a_share_has_a_time_limit_of_its_own(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that hangs is stopped by its own time limit, and the next query of the task is backed up."""
    from streamkeeper.orchestration.backups import BackupOperator

    one, done = BackupOperator.one, list[str]()

    def hang(self: Any, site: Any, series: str, context: Any) -> str:
        done.append(series)
        if len(done) == 1:
            time.sleep(30)
        return one(self, site, series, context)

    monkeypatch.setattr(BackupOperator, "one", hang)
    task = BackupOperator(task_id="backup", series=f"sales/hangs {SERIES}", execution_timeout=timedelta(seconds=5))
    with pytest.raises(StreamkeeperError, match="sales/hangs took longer than 0:00:05"):
        task.work(context_of(Instance()))
    assert done == ["sales/hangs", SERIES]


def test_a_query_without_a_commit_is_skipped(job: Registered) -> None:
    """A query without a committed batch is skipped by the backup and is not late."""
    from airflow.sdk.exceptions import AirflowSkipException

    shutil.rmtree(job.directory / "commits")
    with pytest.raises(AirflowSkipException, match=f"{SERIES}: no checkpoint to back up yet: .* no committed batch"):
        back_up()
    assert judge()


def test_a_missing_or_emptied_checkpoint_with_snapshots_fails_its_task(job: Registered) -> None:
    """A missing or emptied checkpoint with snapshots fails both tasks with the restore command, rather than count as a
    new one.
    """
    from streamkeeper.orchestration.backups import ObjectiveMissed

    back_up()
    for path in job.directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    told = f"was emptied: snapshot s0001 contains batch 7 of this checkpoint, but .*snapshot restore {SERIES}"
    with pytest.raises(CheckpointDamaged, match=told):
        back_up()
    with pytest.raises(ObjectiveMissed, match="was emptied"):
        judge()
    job.directory.rmdir()
    with pytest.raises(
        CheckpointDamaged, match=f"v0001 of {SERIES} is missing, or has no commit yet: .*snapshot restore {SERIES}"
    ):
        back_up()


def test_the_form_selects_all_deployed_queries_or_those_of_one_job(job: Registered) -> None:
    """An empty form selects all deployed queries, a job selects its own, and an unknown job is refused with the known
    ones.
    """
    lost = add_lost_job(job)
    assert find() == [lost, SERIES]
    assert find(job="sales") == [SERIES]
    assert find(job="sales", query="totals") == [SERIES]
    with pytest.raises(NotFound, match="job nope is not known .*known jobs: lost, sales"):
        find(job="nope")
    with pytest.raises(InvalidInput, match="query=totals without its job"):
        find(query="totals")


def test_a_job_whose_records_cannot_be_read_does_not_stop_the_others(job: Registered) -> None:
    """A job with an unreadable journal is listed by its name and fails its own task, and the other jobs are backed
    up.
    """
    store = LocalStore(Path(job.installation.settings.store))
    store.create("registry/broken/journal/0000000001", b"not a record")
    store.create("registry/unrecorded/bundles/abc.zip", b"of a deploy that died at once")
    assert find() == ["broken", SERIES]
    with pytest.raises(StreamkeeperError):
        back_up("broken")
    assert back_up()


def test_a_missed_objective_fails_with_a_line_for_each_query(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missed objective fails with a line for each late or unreadable query, and does not name a query in time."""
    from streamkeeper.orchestration.backups import ObjectiveMissed

    monkeypatch.setenv("STREAMKEEPER_BACKUP_OBJECTIVE_S", "0.001")
    add_lost_job(job)
    with pytest.raises(ObjectiveMissed) as caught:
        judge()
    lost, late = str(caught.value).splitlines()
    assert lost.startswith("lost/q: checkpoint v0001 of lost/q is missing")
    assert late.startswith(f"{SERIES}: there is no snapshot; the oldest batch without a snapshot is")
    back_up()
    assert judge(job="sales") == "every batch committed more than 0 s ago is in a snapshot (queries: 1)"


def test_a_failed_backup_makes_the_run_red(job: Registered) -> None:
    """The last task fails if an earlier one failed, even within the objective, because Airflow derives the state of a
    run from its last task.
    """
    from streamkeeper.orchestration.backups import ObjectiveMissed

    back_up()
    with pytest.raises(ObjectiveMissed, match="2 of this run's tasks failed"):
        judge(failed=2)


def test_an_error_is_kept_with_the_task() -> None:
    """A failing task stores its error as an XCom and fails with the exception that Airflow logs without a traceback."""
    from streamkeeper.orchestration.backups import BackupOperator

    instance = Instance()
    with task_fails("STREAMKEEPER_HOME is not set"):
        BackupOperator(task_id="backup", series=SERIES).execute(context_of(instance))
    assert instance.pushed["error"].startswith("STREAMKEEPER_HOME is not set")


def test_the_progress_of_a_long_capture_is_logged_every_five_seconds() -> None:
    """The progress of a capture is logged every five seconds, so that a short one logs nothing, however many files it
    has.
    """
    from streamkeeper.orchestration.backups import Pace

    clock, said = [0.0], list[str]()
    pace = Pace(said.append, now=lambda: clock[0])
    for files in range(1, 25):
        pace(CaptureProgress(batch=3, files=files, of_files=24, bytes=files * 1000, of_bytes=24_000, added=files))
        clock[0] += 0.5
    assert said == [
        "batch 3: 11 of 24 files, 11,000 of 24,000 bytes read, 11 bytes stored",
        "batch 3: 21 of 24 files, 21,000 of 24,000 bytes read, 21 bytes stored",
    ]


def test_a_backup_deadline_is_shorter_than_the_protection_from_a_prune() -> None:
    """The deadline of a backup task is shorter than the time for which a capture's objects are protected from a
    prune.
    """
    from streamkeeper.orchestration.backups import LONGEST_BACKUP

    assert LONGEST_BACKUP.total_seconds() < LONGEST_S
