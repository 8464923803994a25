"""Tests the tasks of a prune: what they report, what they remove, and what makes them fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.snapshots.catalogue import Catalogue
from tests.operations.backups.test_snapshots import Registered
from tests.orchestration.installed import SERIES, install
from tests.orchestration.running import Instance, context_of

pytestmark = pytest.mark.airflow
ONLY_THE_LAST = "last=1,hourly=0,daily=0,weekly=0,monthly=0"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job with two snapshots, the older of which is kept only by a policy."""
    job = install(tmp_path, monkeypatch)
    job.take()
    job.commit(8)
    job.take()
    return job


def plan(**form: Any) -> str:
    """Run the first task and return its report."""
    from streamkeeper.orchestration.prunes import PlanPruneOperator

    instance = Instance()
    PlanPruneOperator(task_id="plan").work(context_of(instance, **form))
    return str(instance.pushed["report"])


def prune(**form: Any) -> str:
    """Run the second task and return its result."""
    from streamkeeper.orchestration.prunes import PruneOperator

    return PruneOperator(task_id="prune").work(context_of(Instance(), **form))


def test_a_dry_run_shows_the_list_and_removes_nothing(job: Registered) -> None:
    """A dry run reports for every snapshot why it is kept or dropped, and removes none."""
    from airflow.sdk.exceptions import AirflowSkipException

    lines = plan(keep=ONLY_THE_LAST, dry_run=True).splitlines()
    assert lines[0].startswith(f"drop {SERIES} s0001: not among the last 1; ")
    assert lines[1] == f"keep {SERIES} s0002: the newest; one of the last 1"
    with pytest.raises(AirflowSkipException, match="a dry run removes nothing"):
        prune(keep=ONLY_THE_LAST, dry_run=True)
    assert job.catalogue.numbers() == [1, 2]


def test_an_explicit_policy_overrides_the_policy_of_the_installation(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prune without a policy of its own follows the installation's policy, an explicit policy overrides it, and
    dropped snapshots are deleted.
    """
    assert prune().startswith("pruned 0 snapshots")
    monkeypatch.setenv("STREAMKEEPER_KEEP", ONLY_THE_LAST)
    assert prune(keep="last=2").startswith("pruned 0 snapshots")
    assert prune(job="sales").startswith("pruned 1 snapshots")
    assert job.catalogue.numbers() == [2]


def test_a_damaged_series_fails_the_task_after_intact_series_are_pruned(job: Registered) -> None:
    """A damaged series is named and fails the task, but the intact series is pruned first; a dry run fails because of
    it as well.
    """
    from streamkeeper.orchestration.prunes import PruneIncomplete

    other = Catalogue(job.installation.snapshots, "other/query")
    job.installation.snapshots.create(other.index_key(1), b"not a snapshot")
    assert "cannot plan other/query: " in plan(keep=ONLY_THE_LAST)
    with pytest.raises(PruneIncomplete, match="cannot plan other/query"):
        plan(keep=ONLY_THE_LAST, dry_run=True)
    assert job.catalogue.numbers() == [1, 2]
    with pytest.raises(PruneIncomplete) as caught:
        prune(keep=ONLY_THE_LAST)
    done, failed = str(caught.value).splitlines()
    assert done.startswith("pruned 1 snapshots")
    assert failed.startswith("other/query: ")
    assert job.catalogue.numbers() == [2]


def test_bad_input_is_refused_before_anything_is_planned(job: Registered) -> None:
    """An unknown job, an invalid policy and a grace period that is too short are each refused with one line, and
    nothing is removed.
    """
    for task in (plan, prune):
        with pytest.raises(NotFound, match="job nope is not known"):
            task(job="nope")
        with pytest.raises(InvalidInput, match="keep=last=0: "):
            task(keep="last=0")
        with pytest.raises(InvalidInput, match="grace_s=5 is too short"):
            task(grace_s=5)
    assert job.catalogue.numbers() == [1, 2]


def test_a_report_over_the_limit_is_cut_and_refers_to_the_log(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report over the length limit is cut and refers to the task's log for the remaining lines."""
    from streamkeeper.orchestration import tasks

    monkeypatch.setattr(tasks, "LONGEST_REPORT", 1)
    report = plan(keep=ONLY_THE_LAST).splitlines()
    assert report[0].startswith(f"drop {SERIES} s0001")
    assert report[1].endswith("more lines, in the task's log")
