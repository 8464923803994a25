"""Tests that a prune removes what dead drivers have left, and nothing that may still be needed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, LaunchMode, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import (
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Role,
)
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.backups import ended_drivers
from streamkeeper.operations.backups.pruning import PruneReport, plan_prune, prune, tell_run
from streamkeeper.registry.driver_control import Control, instances
from tests.operations.registered_job import JOB, Registered

NOW = datetime.now(UTC)
DEAD = "op2-candidate"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job whose serving instance is from its first operation; the instance of a second one failed 40 days ago."""
    job = Registered(tmp_path)
    leave(job, "op-candidate", days=40)
    fail(job, "op2")
    leave(job, DEAD, days=40)
    return job


def fail(job: Registered, operation: str, *, ended: bool = True, closed: bool = True) -> None:
    """Record an operation whose instance failed; without ``ended`` its end is not recorded, and without ``closed`` the
    operation is open.
    """
    instance = f"{operation}-candidate"
    job.record(OperationStarted(operation=operation, request=DeployRequest(job=JOB), steps=()))
    job.record(InstancePlanned(operation=operation, instance=instance, release="r0001", role=Role.CANDIDATE))
    if ended:
        job.record(InstanceEnded(operation=operation, instance=instance, proof="two looks", exit="failed"))
    if closed:
        job.record(OperationFinished(operation=operation, outcome=Outcome.FAILED, sentence="failed"))


def leave(job: Registered, instance: str, *, days: float) -> None:
    """Create everything that a driver leaves: records, a rotated log, and scratch space with a link to a directory
    outside it.
    """
    control = Control(job.installation.store, JOB, instance)
    spec = LaunchSpec(
        instance=instance, job=JOB, release="r0001", mode=LaunchMode.STANDBY, bundle="b" * 64, entry="sales.py",
        params={}, conf={}, checkpoints="/c",
    )  # fmt: skip
    control.write_launch(spec)
    control.write_process(
        ProcessRecord(instance=instance, generation=1, machine="m", host="h", pid=1, started=1)
    )  # fmt: skip
    at = (NOW - timedelta(days=days)).isoformat()
    control.write_status(
        DriverStatus(instance=instance, release="r0001", generation=1, state=DriverState.FAILED, beat=1, at=at)
    )
    home = Path(job.installation.settings.home)
    for file in (home / "logs" / JOB / f"{instance}.log", home / "logs" / JOB / f"{instance}.log.1"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("said\n")
    scratch = home / "scratch" / instance
    (scratch / "local").mkdir(parents=True)
    (scratch / "local" / "blocks").write_text("x" * 100)
    (home / "precious").mkdir(exist_ok=True)
    (home / "precious" / "file").write_text("stays")
    (scratch / "link").symlink_to(home / "precious")


def left_of(job: Registered, instance: str) -> list[str]:
    """Return what is left of an instance: records, log, scratch."""
    home = Path(job.installation.settings.home)
    found = ["records"] if instance in instances(job.installation.store, JOB) else []
    found += ["log"] if list((home / "logs" / JOB).glob(f"{instance}.log*")) else []
    return [*found, *(["scratch"] if (home / "scratch" / instance).exists() else [])]


def run(job: Registered) -> PruneReport:
    """Prune everything now."""
    return prune(job.installation.snapshots, plan_prune(job.installation, now=NOW), job.installation)


ALL = ["records", "log", "scratch"]


def test_files_of_a_dead_driver_are_removed_after_30_days(job: Registered) -> None:
    """After 30 days a prune removes a dead driver's records, logs and scratch space, but nothing behind a link;
    everything of the serving instance is kept, even if it is dead.
    """
    (told,) = [line for line in tell_run(plan_prune(job.installation, now=NOW)) if DEAD in line]
    assert "3 records" in told
    assert "older than 30 days" in told
    report = run(job)
    assert (report.records, report.failed) == (3, ())
    assert left_of(job, DEAD) == []
    assert left_of(job, "op-candidate") == ALL
    assert (Path(job.installation.settings.home) / "precious" / "file").read_text() == "stays"
    assert "3 records of terminated drivers" in report.sentence
    assert run(job).records == 0


def test_only_scratch_space_is_removed_before_30_days(job: Registered) -> None:
    """Before 30 days only the scratch space of a dead driver is removed; its log and records are kept for an
    investigation.
    """
    fail(job, "op3")
    leave(job, "op3-candidate", days=29)
    run(job)
    assert left_of(job, "op3-candidate") == ["records", "log"]


@pytest.mark.parametrize("life", [Life.ALIVE, Life.UNKNOWN])
def test_nothing_of_a_driver_not_proven_dead_is_removed(job: Registered, life: Life) -> None:
    """Nothing of a driver is removed while it is alive or its life is unknown, however old its status is; once it is
    dead, everything is.
    """
    fail(job, "op3", ended=False)
    leave(job, "op3-candidate", days=400)
    job.runner.life = life
    run(job)
    assert left_of(job, "op3-candidate") == ALL
    job.runner.life = Life.DEAD
    run(job)
    assert left_of(job, "op3-candidate") == []


def test_nothing_of_an_open_operation_is_removed(job: Registered) -> None:
    """Nothing of an instance of an open operation is removed, because the operation's steps may still read it."""
    fail(job, "op3", closed=False)
    leave(job, "op3-candidate", days=400)
    run(job)
    assert left_of(job, "op3-candidate") == ALL


def test_records_of_the_last_claimer_of_a_version_are_kept(job: Registered) -> None:
    """The records of the instance that claimed a version last are kept, because its last commit distinguishes a lost
    checkpoint directory from a complete one.
    """
    fail(job, "op3", ended=False, closed=False)
    leave(job, "op3-candidate", days=1)
    job.record(job.version("v0002"))
    job.record(replace(job.epoch("v0002", 2), instance="op3-candidate"))
    state = job.installation.journal(JOB, "test").state()
    assert [each.claimed_by for each in state.versions["totals"]] == ["op-candidate", "op3-candidate"]
    run(job)
    assert left_of(job, "op-candidate") == ALL


def test_a_driver_without_a_status_is_as_old_as_its_operation(job: Registered) -> None:
    """A dead driver without a status is as old as its operation, and is removed once that is old enough."""
    fail(job, "op3")
    leave(job, "op3-candidate", days=400)
    job.installation.store.delete(f"control/{JOB}/op3-candidate/status.json")
    run(job)
    assert left_of(job, "op3-candidate") == ["records", "log"]
    later = plan_prune(job.installation, now=NOW + timedelta(days=31))
    prune(job.installation.snapshots, later, job.installation)
    assert left_of(job, "op3-candidate") == []


def test_a_removal_deletes_the_process_record_last(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal deletes the launch record first, so that the instance cannot be started, and the process record last;
    if it is interrupted, the next prune completes it.
    """
    (planned,) = plan_prune(job.installation, now=NOW).drivers
    assert [key.rpartition("/")[2] for key in planned.keys] == ["launch.json", "status.json", "process-0001.json"]
    points = iter(["first"])

    def die(name: str) -> None:
        if next(points, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ended_drivers, "crash_point", die)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    assert Control(job.installation.store, JOB, DEAD).read_launch() is None
    assert Control(job.installation.store, JOB, DEAD).processes()
    run(job)
    assert left_of(job, DEAD) == []


def old(folder: Path, *, days: float) -> Path:
    """Create a directory with a file, both with a modification time ``days`` ago."""
    folder.mkdir(parents=True)
    (folder / "job.py").write_text("pass\n")
    at = (NOW - timedelta(days=days)).timestamp()
    for each in (folder / "job.py", folder):
        os.utime(each, (at, at))
    return folder


def test_unused_bundles_and_drill_leftovers_are_removed(job: Registered) -> None:
    """A prune removes old unused bundles and the leftovers of drills and dry runs, but not the serving release's
    bundle, a recently used one, a recent drill or an unknown scratch directory.
    """
    home = Path(job.installation.settings.home)
    gone = [
        old(home / "bundles" / ("c" * 64), days=31),
        old(home / "bundles" / ".unpacking-x", days=2),
        old(home / "scratch" / f"drill-{'0' * 32}", days=2),
        old(home / "scratch" / "dry-run-lpn7hdrh", days=2),
    ]
    kept = [
        old(home / "bundles" / ("b" * 64), days=400),
        old(home / "bundles" / ("d" * 64), days=29),
        old(home / "scratch" / f"drill-{'1' * 32}", days=0.5),
        old(home / "scratch" / "mine", days=400),
    ]
    run(job)
    assert [each.exists() for each in gone] == [False] * 4
    assert [each.exists() for each in kept] == [True] * 4
    assert not list((home / "bundles").glob(".removed-*"))


def test_a_bundle_that_is_used_after_the_plan_stays(job: Registered) -> None:
    """A bundle that a driver marks as used after the prune was planned is kept."""
    bundle = old(Path(job.installation.settings.home) / "bundles" / ("c" * 64), days=31)
    planned = plan_prune(job.installation, now=NOW)
    assert [each.directory for each in planned.unused] == [str(bundle)]
    os.utime(bundle)
    prune(job.installation.snapshots, planned, job.installation)
    assert (bundle / "job.py").exists()


def test_no_bundle_goes_while_a_job_cannot_be_read(job: Registered) -> None:
    """No bundle is removed while a job's journal cannot be read, or in a prune of only one job, because a driver may
    still use it.
    """
    bundle = old(Path(job.installation.settings.home) / "bundles" / ("c" * 64), days=31)
    job.installation.store.replace("registry/other/journal/0000000001.json", b"{")
    planned = plan_prune(job.installation, now=NOW)
    assert planned.untold
    assert planned.unused == ()
    assert plan_prune(job.installation, job=JOB, now=NOW).unused == ()
    assert bundle.exists()
