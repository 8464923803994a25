"""A job that runs on a different machine: every command is refused before anything is recorded, and an open operation
is not given up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import CheckpointDamaged, OperationRefused, WrongMachine
from streamkeeper.model.protocol.driver_messages import control_key
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import InstanceEnded, InstancePlanned, OperationStarted, Role, StepDone
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import Deployment, DeployRequest, RequestKind, Rollback
from streamkeeper.operations.backups.backup import back_up, lateness_of
from streamkeeper.operations.backups.pruning import plan_prune, tell_run
from streamkeeper.operations.deploys import starting
from streamkeeper.operations.deploys.admission import open_deploy
from streamkeeper.operations.deploys.deaths import state_death
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen, ProgressKind
from streamkeeper.operations.deploys.dry_run_installation import place_name, place_of
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.jobs.placement import check_placement
from streamkeeper.operations.jobs.registered import recorded_findings
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.operations.recovery.recovering import RecoveryRequest, open_recovery
from streamkeeper.runners.machine import this_machine
from tests.checkpoints.damaging import lose
from tests.operations.registered_job import JOB, QUERY, Registered

DRIVER = "op-candidate"
AWAY = "far-away"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job whose driver runs on a different machine."""
    job = Registered(tmp_path)
    job.runner.elsewhere = AWAY
    return job


def deploy(job: Registered, kind: RequestKind | None = None, **fields: Any) -> Deploy:
    request = DeployRequest(job=JOB, **fields)
    return open_deploy(job.installation, "op2", request.of_kind(kind or Deployment()))


def start(job: Registered) -> Deploy | None:
    return open_start(job.installation, JOB, requested_by="ada", reason="", operation="op2")


def restart(job: Registered) -> Deploy:
    asked = RecoveryRequest(request=DeployRequest(job=JOB), action=RecoveryAction.RESTART)
    return open_recovery(job.installation, "op2", asked)


VERBS: dict[str, Callable[[Registered], object]] = {
    "a deploy": deploy,
    "a deploy that ends what is open": lambda job: open_deploy(
        job.installation, "op2", DeployRequest(job=JOB), on_open=OnOpen.ABORT
    ),
    "a release": lambda job: deploy(job, release="r0001"),
    "a rollback": lambda job: deploy(job, Rollback()),
    "a dry run": lambda job: deploy(job, dry_run=True),
    "a start": start,
    "a recovery": restart,
}


def entries(job: Registered) -> int:
    return job.installation.journal(JOB, "test").state().number


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_every_command_for_a_driver_on_a_different_machine_is_refused(
    job: Registered, verb: Callable[[Registered], object]
) -> None:
    """Each command is refused with the driver, its machine and both ways out, before anything is recorded or
    started.
    """
    before = entries(job)
    with pytest.raises(
        WrongMachine,
        match=rf"driver {DRIVER} of job {JOB}: it runs on {AWAY}; no change was made here.*run the command on",
    ) as e:
        verb(job)
    assert f"state-dead {JOB} {DRIVER}" in e.value.hint
    assert entries(job) == before


def test_after_a_stated_termination_the_refusal_names_the_copy_as_way_out(job: Registered) -> None:
    """After a stated termination a start is still refused, and the refusal names the way to continue in a copy of the
    checkpoint.
    """
    state_death(job.installation, JOB, DRIVER, by="cli:ada", reason="scrapped", accept=True)
    with pytest.raises(OperationRefused, match="to continue in a copy, run `streamkeeper snapshot take"):
        start(job)


def planned(job: Registered) -> Deploy:
    """Record a deploy whose candidate was started on a different machine."""
    for record in (
        InstanceEnded(operation="op", instance=DRIVER, proof="gone", exit="stopped"),
        OperationStarted(operation="op2", request=DeployRequest(job=JOB, release="r0001"), steps=()),
        StepDone(operation="op2", step="bundle", result={"release": "r0001"}),
        InstancePlanned(operation="op2", instance="op2-candidate", release="r0001", role=Role.CANDIDATE),
    ):
        job.record(record)
    return Deploy.load(job.installation, JOB, "op2")


def test_an_open_operation_of_a_different_machine_is_not_abandoned(job: Registered) -> None:
    """Advancing an operation whose candidate runs on a different machine is refused at every step and records nothing;
    on its own machine the operation continues.
    """
    deploy = planned(job)
    before = entries(job)
    for step in (Step.STANDBY, Step.GO, Step.FALL_BACK):
        with pytest.raises(WrongMachine, match=f"op2-candidate of job {JOB}: it runs on {AWAY}"):
            deploy.advance(step)
    assert entries(job) == before
    job.runner.elsewhere, job.runner.life = "", Life.ALIVE
    assert deploy.advance(Step.STANDBY).kind is ProgressKind.WAITING


def test_without_the_machine_check_a_healthy_candidate_falls_back(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of the machine, the operation falls back although its candidate is
    healthy.
    """
    deploy = planned(job)
    monkeypatch.setattr(Deploy, "_must_be_here", lambda *_: None)
    assert deploy.advance(Step.STANDBY).kind is ProgressKind.FALLING_BACK


def test_a_finished_operation_can_be_read_on_any_machine(job: Registered) -> None:
    """A finished operation can be read on any machine, because its outcome is recorded."""
    assert Deploy.load(job.installation, JOB, "op").advance(Step.FALL_BACK).kind is ProgressKind.ENDED


@pytest.fixture
def moved(tmp_path: Path) -> Registered:
    """A job whose driver has terminated and whose checkpoint is on the disk of a different machine."""
    job = Registered(tmp_path)
    job.take()
    job.record(InstanceEnded(operation="op", instance=DRIVER, proof="gone", exit="stopped"))
    lose(job.directory, "missing")
    job.write_process(AWAY)
    return job


def test_a_checkpoint_on_a_different_machines_disk_is_not_started(moved: Registered) -> None:
    """A deploy or a start of a checkpoint on a different machine's disk is refused with the directory and both
    machines, and nothing is recorded.
    """
    before = entries(moved)
    told = rf"checkpoint v0001 of {JOB}/{QUERY}: {moved.directory} was written on {AWAY}, and does not exist on"
    for verb in (deploy, start):
        with pytest.raises(WrongMachine, match=f"{told} {this_machine().host}; .*run the command on {AWAY}.*recover"):
            verb(moved)
    assert entries(moved) == before


def test_without_the_placement_check_a_start_without_checkpoint_is_recorded(
    moved: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of the placement, the start is recorded although its driver would find no
    checkpoint.
    """
    monkeypatch.setattr(starting, "check_placement", lambda *_: None)
    assert start(moved) is not None
    assert moved.installation.journal(JOB, "test").state().open_operation is not None


def test_a_backup_of_a_checkpoint_elsewhere_is_refused_with_its_machine(moved: Registered) -> None:
    """A backup, and the check of its lateness, are refused with the name of the machine whose disk contains the
    checkpoint.
    """
    for look in (lambda: back_up(moved.installation.snapshots, query_target(moved.installation, JOB, QUERY)),
                 lambda: lateness_of(moved.installation, query_target(moved.installation, JOB, QUERY))):  # fmt: skip
        with pytest.raises(WrongMachine, match=f"was written on {AWAY}"):
            look()


def test_a_missing_checkpoint_without_a_process_record_is_reported_as_damaged(moved: Registered) -> None:
    """Negative control: a missing checkpoint without a process record, or with a record of this machine, is reported as
    damaged.
    """
    record = control_key(JOB, DRIVER, "process-0001.json")
    for _ in range(2):
        moved.installation.store.delete(record)
        check_placement(moved.installation, moved.installation.journal(JOB, "test").state())
        with pytest.raises(CheckpointDamaged):
            query_target(moved.installation, JOB, QUERY).open()
        moved.write_process(this_machine().host)


def test_a_checkpoint_directory_on_a_shared_mount_passes_the_placement_check(moved: Registered) -> None:
    """A checkpoint directory that exists here, such as one on a shared mount, passes the check of the placement."""
    moved.directory.mkdir()
    check_placement(moved.installation, moved.installation.journal(JOB, "test").state())


def test_check_prune_and_diagnosis_name_the_machine_of_the_checkpoint(moved: Registered) -> None:
    """The findings, the prune and the diagnosis name the machine that wrote the checkpoint, and a recovery can still
    restore a snapshot here.
    """
    state = moved.installation.journal(JOB, "test").state()
    (finding,) = recorded_findings(moved.installation, state)[QUERY]
    assert (AWAY in finding.evidence, finding.hint) == (True, f"run the command on {AWAY}")
    assert f"keep {moved.directory}: {moved.directory} was written on {AWAY}" in "\n".join(
        tell_run(plan_prune(moved.installation))
    )
    found = diagnose_job(moved.installation, JOB)
    assert f"was written on {AWAY}" in found.sentence
    assert found.option(RecoveryAction.RESTORE).possible


def test_the_temporary_home_of_a_dry_run_is_found_only_on_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary home of a dry run is found on its own machine, even after a change of the host name; on a different
    machine the command is refused and creates nothing.
    """
    job = Registered(tmp_path)
    name = place_name("op9")
    home = Path(place_of(job.installation, name).settings.home)
    assert Path(place_of(job.installation, "op9").settings.home) == home
    assert Path(place_of(job.installation, f"op9@{AWAY}").settings.home) == home
    with pytest.raises(WrongMachine, match=f"the dry run op8 runs on {AWAY}"):
        place_of(job.installation, f"op8@{AWAY}")
    assert list(home.parent.iterdir()) == [home]
