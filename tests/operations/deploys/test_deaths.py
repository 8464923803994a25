"""A driver that cannot be observed: the effect of a person's statement that it has terminated, and when the statement
is refused.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamkeeper.errors import InvalidInput, KeyExists, NotFound, OperationRefused, StreamkeeperError
from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import InstancePlanned, OperationStarted, Role
from streamkeeper.model.records.snapshot import DrillResult
from streamkeeper.model.requests.diagnosis import Problem, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.watch.health import Urgency
from streamkeeper.operations.deploys import deaths
from streamkeeper.operations.deploys.admission import admit
from streamkeeper.operations.deploys.deaths import give_up, make_unclaimable, snapshot_fork, state_death
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.version_acts import VersionActs
from streamkeeper.operations.fleet.watching import PassReport, WatchPass, run_pass
from streamkeeper.operations.jobs.observation import DriverObservation
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.registry.driver_control import Control
from tests.operations.registered_job import JOB, QUERY, Registered

DRIVER, REASON = "op-candidate", "its node was scrapped"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    job = Registered(tmp_path)
    job.runner.life = Life.UNKNOWN
    return job


def say(job: Registered, *, by: str = "cli:ada", accept: bool = True, instance: str = DRIVER) -> list[str]:
    return state_death(job.installation, JOB, instance, by=by, reason=REASON, accept=accept)


def test_a_stated_termination_is_recorded_as_a_statement_and_not_as_proof(job: Registered) -> None:
    """A stated termination is recorded with its author and reason, never as a proof; the driver no longer owns the
    checkpoints, and the diagnosis becomes ``OWNER_UNPROVEN``.
    """
    assert diagnose_job(job.installation, JOB).cause is Problem.DRIVER_UNREACHABLE
    risks = say(job)
    assert any("Other drivers may continue only in a copy of these checkpoints" in line for line in risks)
    state = job.installation.journal(JOB, "test").state()
    assert state.instances[DRIVER].proof == f"stated by cli:ada, not proven: {REASON}"
    assert state.instances[DRIVER].stated_by == "cli:ada"
    assert state.owners == []
    assert DriverObservation.of(job.installation, state, DRIVER).liveness.life is Life.DEAD
    assert diagnose_job(job.installation, JOB).cause is Problem.OWNER_UNPROVEN


def test_a_directory_whose_owner_may_live_is_not_continued(job: Registered) -> None:
    """After a stated termination a restart, a start, a deploy and an appointment in the same directory are refused; a
    restore into a copy is possible. Negative control: with a proven termination, a restart is possible.
    """
    before = diagnose_job(job.installation, JOB)
    job.runner.life = Life.DEAD
    assert options_of(job)[RecoveryAction.RESTART] == ""
    job.runner.life = Life.UNKNOWN
    say(job)
    assert "may still write there: its termination was stated, not proven" in options_of(job)[RecoveryAction.RESTART]
    assert options_of(job)[RecoveryAction.RESTORE] == "query totals: there is no snapshot of the query"
    job.take()
    assert options_of(job)[RecoveryAction.RESTORE] == ""
    assert before.cause is not Problem.OWNER_UNPROVEN
    refused = "op-candidate may still write to checkpoint v0001 of sales/totals: .*--action restore"
    with pytest.raises(OperationRefused, match=refused):
        open_start(job.installation, JOB, requested_by="ada", reason="again", operation="again")
    state = job.installation.journal(JOB, "test").state()
    with pytest.raises(OperationRefused, match=refused):
        admit(job.installation, state, DeployRequest(job=JOB, release="r0001"))
    job.record(OperationStarted(operation="late", request=DeployRequest(job=JOB), steps=()))
    job.record(InstancePlanned(operation="late", instance="late-candidate", release="r0001", role=Role.CANDIDATE))
    acts = VersionActs(job.installation, job.installation.journal(JOB, "test"), JOB, "late")
    with pytest.raises(OperationRefused, match=refused):
        acts.appoint("late-candidate", {})
    acts.appoint("late-candidate", {QUERY: "v0002"})
    assert job.installation.journal(JOB, "test").state().appointed == "late-candidate"


def options_of(job: Registered) -> dict[RecoveryAction, str]:
    """Return for each recovery action why it is not possible; the text is empty if it is possible."""
    return {option.action: option.why_not for option in diagnose_job(job.installation, JOB).options}


def test_four_eyes_do_not_keep_a_termination_from_being_stated(tmp_path: Path) -> None:
    """With ``four_eyes`` one person alone can state a termination, because no second one requested it; the list of
    approvers still applies.
    """
    job = Registered(tmp_path)
    settings = msgspec.structs.replace(job.installation.settings, four_eyes=True, approvers=("cli:ada",))
    site = job.installation.__class__(settings=settings, store=job.installation.store, runner=job.runner)
    job.runner.life = Life.UNKNOWN
    with pytest.raises(OperationRefused, match="mallory is not among the approvers"):
        state_death(site, JOB, DRIVER, by="cli:mallory", reason=REASON, accept=True)
    state_death(site, JOB, DRIVER, by="cli:ada", reason=REASON, accept=True)
    assert site.journal(JOB, "test").state().instances[DRIVER].stated_by == "cli:ada"


def test_a_statement_without_acceptance_records_nothing(job: Registered) -> None:
    """Without acceptance the statement records nothing and names the risk: a table refuses the old driver's writes once
    its successor has taken over.
    """
    before = job.installation.journal(JOB, "test").state().number
    told = "refuses the driver's writes once its successor has taken over"
    assert any(told in line for line in say(job, accept=False))
    assert job.installation.journal(JOB, "test").state().number == before


def test_the_risk_of_an_output_without_a_fence_is_named(tmp_path: Path) -> None:
    """For a foreach sink the statement names the risk that nothing can refuse the old driver's writes."""
    job = Registered(tmp_path, sink="foreach")
    job.runner.life = Life.UNKNOWN
    assert any("cannot refuse the driver's writes" in line for line in say(job, accept=False))


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (Life.ALIVE, "op-candidate is running.*streamkeeper stop sales"),
        (
            Life.DEAD,
            "termination of op-candidate needs no statement, because it can be proven here.*streamkeeper recover sales",
        ),
        (Life.ABSENT, "the termination of op-candidate needs no statement, because it can be proven here"),
    ],
)
def test_an_observable_or_proven_termination_cannot_be_stated(job: Registered, life: Life, told: str) -> None:
    """A termination that can be observed or proven cannot be stated: the refusal names the command to use instead, and
    nothing is recorded.
    """
    job.runner.life = life
    with pytest.raises(OperationRefused, match=told):
        say(job)
    assert not job.installation.journal(JOB, "test").state().instances[DRIVER].ended


def test_only_approvers_can_state_a_termination_and_only_once(tmp_path: Path) -> None:
    """A person who is not among the approvers cannot state a termination, and a second statement is refused because the
    first one is recorded.
    """
    job = Registered(tmp_path, approvers=("cli:ada",))
    job.runner.life = Life.UNKNOWN
    with pytest.raises(OperationRefused, match="cli:mallory is not among the approvers"):
        say(job, by="cli:mallory")
    say(job)
    with pytest.raises(OperationRefused, match="is already recorded: stated by cli:ada"):
        say(job)


@pytest.mark.parametrize(("instance", "kind"), [("nobody", NotFound), ("../../x", InvalidInput)])
def test_stating_the_termination_of_an_unknown_instance_is_refused(
    job: Registered, instance: str, kind: type[StreamkeeperError]
) -> None:
    """Stating the termination of an instance that the journal does not have, or of an invalid name, is refused."""
    with pytest.raises(kind):
        say(job, instance=instance)


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (Life.ABSENT, "never started: its store is older"),
        (Life.DEAD, "given up: its store is older; "),
        (Life.UNKNOWN, "given up: its store is older; it was killed, and its end was not seen: "),
    ],
)
def test_an_instance_is_observed_and_killed_before_its_abandonment(
    job: Registered, monkeypatch: pytest.MonkeyPatch, life: Life, told: str
) -> None:
    """Giving up an instance observes and kills it first: only an absent one is recorded as never started, and one whose
    end was not seen is recorded as such and holds nothing up.
    """
    monkeypatch.setattr(deaths, "_KILLED_WITHIN_S", 0.0)
    killed: list[str] = []
    monkeypatch.setattr(job.runner, "kill", lambda _, instance: killed.append(instance))
    job.runner.life = life
    assert give_up(job.installation, JOB, DRIVER, "its store is older").startswith(told)
    assert killed == [DRIVER]


@pytest.mark.parametrize("claimed", [True, False])
def test_an_instance_recorded_as_never_started_cannot_be_started(job: Registered, claimed: bool) -> None:
    """An instance that one caller has found without a process can no longer be started by a second caller of the same
    operation; one that has claimed its process record stays claimed.
    """
    record = ProcessRecord(instance="op2-candidate", generation=1, machine="m", host="h", pid=7, started=1)
    control = Control(job.installation.store, JOB, "op2-candidate")
    if claimed:
        control.write_process(record)
    assert make_unclaimable(job.installation, JOB, "op2-candidate") is not claimed
    if not claimed:
        with pytest.raises(KeyExists):
            control.write_process(record)


def test_a_stated_termination_needs_a_reason(job: Registered) -> None:
    """A stated termination without a reason is refused."""
    with pytest.raises(InvalidInput, match="a stated termination needs a reason"):
        state_death(job.installation, JOB, DRIVER, by="cli:ada", reason=" ", accept=True)


def a_pass(job: Registered, *, now: float, acts: bool = False, **given: Any) -> PassReport:
    """Run one pass of the watch at that time."""
    return run_pass(WatchPass(installation=job.installation, acts=acts, now=lambda: now, **given))


def rules_of(report: PassReport) -> dict[str, Urgency]:
    """Return the severity of each rule that a pass found."""
    return {symptom.rule: symptom.severity for row in report.index.rows for symptom in row.symptoms}


def test_an_unobservable_driver_pages_after_its_jobs_silence_limit(job: Registered) -> None:
    """A driver that cannot be observed pages after 600 s of silence, and the page names both commands of the way out.
    Negative control: without the rule ``driver-lost``, six hours of silence stay a ticket.
    """
    job.report(7)
    assert rules_of(a_pass(job, now=1000.0))["driver-unknown"] is Urgency.TICKET
    assert rules_of(a_pass(job, now=1599.0))["driver-unknown"] is Urgency.TICKET
    paged = a_pass(job, now=1600.0)
    assert rules_of(paged) == {**rules_of(paged), "driver-lost": Urgency.PAGE}
    assert paged.index.rows[0].worst is Urgency.PAGE
    action = next(symptom.action for symptom in paged.index.rows[0].symptoms if symptom.rule == "driver-lost")
    assert f"streamkeeper state-dead {JOB} {DRIVER}" in action
    assert f"streamkeeper recover {JOB} --action restore" in action
    without = rules_of(a_pass(job, now=1600.0 + 6 * 3600, but=frozenset({"driver-lost"})))
    assert (without["driver-unknown"], Urgency.PAGE in without.values()) == (Urgency.TICKET, False)


def test_after_a_stated_termination_the_watch_starts_nothing_and_pages(job: Registered) -> None:
    """After a stated termination no pass of the watch tries to start the job, and each reports ``owner-unproven`` as a
    page. Negative control: with a proven termination the same pass would start the driver.
    """
    say(job)
    for moment in (1000.0, 1060.0, 1120.0):
        found = a_pass(job, now=moment, acts=True)
        assert not any("start" in line for line in found.lines if "owner-unproven" not in line), found.lines
        assert rules_of(found)["owner-unproven"] is Urgency.PAGE
        assert "driver-dead" not in rules_of(found)
    proven = Registered(job.directory.parents[3] / "other")
    assert any("would start" in line for line in a_pass(proven, now=1000.0, acts=True, dry_run=True).lines)


def test_after_a_stated_termination_a_job_without_a_committed_batch_is_started(job: Registered) -> None:
    """After a stated termination the watch starts a job whose checkpoint has no committed batch, because no data is at
    risk, and does not report ``owner-unproven``.
    """
    for folder in ("offsets", "commits", "sources", "state"):
        shutil.rmtree(job.directory / folder)
    say(job)
    found = a_pass(job, now=1000.0, acts=True, dry_run=True)
    assert rules_of(found) == {"driver-dead": Urgency.PAGE}
    assert any("would start" in line for line in found.lines), found.lines


def test_a_snapshot_of_the_lost_drivers_directory_restores_without_replay(job: Registered) -> None:
    """A snapshot of the directory that the lost driver left makes a restore possible that replays nothing; before the
    statement no such snapshot is taken.
    """
    with pytest.raises(OperationRefused, match="no checkpoint of sales belongs to a driver"):
        snapshot_fork(job.installation, JOB)
    say(job)
    (line,) = snapshot_fork(job.installation, JOB)
    assert "s0001" in line
    restore = diagnose_job(job.installation, JOB).option(RecoveryAction.RESTORE)
    assert (restore.possible, restore.asks) == (True, False)


def test_an_operation_counts_a_stated_termination_as_dead(job: Registered) -> None:
    """An operation counts a candidate with a stated termination as dead, so that it does not wait until its deadline
    for a candidate that cannot be observed.
    """
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB, release="r0001"), steps=()))
    job.record(InstancePlanned(operation="op2", instance="op2-candidate", release="r0001", role=Role.CANDIDATE))
    deploy = Deploy.load(job.installation, JOB, "op2")
    assert deploy._observe().of("op2-candidate").life is Life.UNKNOWN
    say(job, instance="op2-candidate")
    assert deploy._observe().of("op2-candidate").life is Life.DEAD


@pytest.mark.parametrize("damaged", [False, True])
def test_the_snapshot_of_the_fork_is_preferred_to_an_older_drilled_one(job: Registered, damaged: bool) -> None:
    """A restore uses the new snapshot of the fork rather than an older, drilled one that would replay a batch. Negative
    control: with a damaged checkpoint, it uses the drilled snapshot.
    """
    job.take()
    job.catalogue.note_drill(1, DrillResult(id="d1", ok=True, message="batch 8 ran", at="2026-01-01"))
    job.commit(8)
    job.write_table(8)
    say(job)
    snapshot_fork(job.installation, JOB)
    if damaged:
        (job.directory / "offsets/8").write_text("")
    assert diagnose_job(job.installation, JOB).option(RecoveryAction.RESTORE).snapshots == {
        QUERY: "s0001" if damaged else "s0002"
    }


def test_a_missing_directory_of_the_lost_driver_is_reported(job: Registered) -> None:
    """If the lost driver's directory is missing, the report states that no snapshot could be taken and that a restore
    uses the newest existing one.
    """
    job.take()
    say(job)
    shutil.rmtree(job.directory)
    (line,) = snapshot_fork(job.installation, JOB)
    assert "a restore uses the newest existing snapshot, because none could be taken now" in line
