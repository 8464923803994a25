"""A driver that nobody can look at: what a person's word about its death does, and what it is refused for."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput, NotFound, OperationRefused, StreamkeeperError
from streamkeeper.model.journal import InstancePlanned, OperationStarted, Role
from streamkeeper.model.liveness import Life
from streamkeeper.model.recovery import Cause, RecoveryAction
from streamkeeper.model.request import DeployRequest
from streamkeeper.operations.admission import admit
from streamkeeper.operations.deaths import state_death
from streamkeeper.operations.diagnosing import diagnose_job
from streamkeeper.operations.overview import observe
from streamkeeper.operations.starting import open_start
from streamkeeper.operations.version_acts import VersionActs
from streamkeeper.operations.watching import Watch, run_pass
from tests.operations.registered_job import JOB, QUERY, Registered

DRIVER, REASON = "op-candidate", "its node was scrapped"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    job = Registered(tmp_path)
    job.runner.life = Life.UNKNOWN
    return job


def say(job: Registered, *, by: str = "cli:ada", accept: bool = True, instance: str = DRIVER) -> list[str]:
    return state_death(job.site, JOB, instance, by=by, reason=REASON, accept=accept)


def test_a_stated_death_is_on_record_as_a_persons_word(job: Registered) -> None:
    """By whom and why, never as a proof; what owned the checkpoints owns them no more, and a recovery goes on."""
    assert diagnose_job(job.site, JOB).cause is Cause.DRIVER_UNREACHABLE
    risks = say(job)
    assert any("nobody else goes on there, but in a copy" in line for line in risks)
    state = job.site.journal(JOB, "test").state()
    assert state.instances[DRIVER].proof == f"stated by cli:ada, not proven: {REASON}"
    assert state.owners == []
    assert observe(job.site, state, DRIVER).life is Life.DEAD
    assert diagnose_job(job.site, JOB).cause is Cause.OWNER_UNPROVEN


def test_nobody_goes_on_in_a_directory_whose_owner_may_live(job: Registered) -> None:
    """Neither a restart, a start, a deploy nor an appointment; a restore does, in a copy. Negative control: with the
    same end proven, a restart is possible."""
    before = diagnose_job(job.site, JOB)
    job.runner.life = Life.DEAD
    assert options_of(job)[RecoveryAction.RESTART] == ""
    job.runner.life = Life.UNKNOWN
    say(job)
    assert "may still write there, for its end was stated, not proven" in options_of(job)[RecoveryAction.RESTART]
    assert options_of(job)[RecoveryAction.RESTORE] == "query totals: there is no snapshot of it"
    job.take()
    assert options_of(job)[RecoveryAction.RESTORE] == ""
    assert before.cause is not Cause.OWNER_UNPROVEN
    refused = "checkpoint v0001 of sales/totals may still be written by op-candidate.*--action restore"
    with pytest.raises(OperationRefused, match=refused):
        open_start(job.site, JOB, requested_by="ada", reason="again", operation="again")
    state = job.site.journal(JOB, "test").state()
    with pytest.raises(OperationRefused, match=refused):
        admit(job.site, state, DeployRequest(job=JOB, release="r0001"))
    job.record(OperationStarted(operation="late", request=DeployRequest(job=JOB), steps=()))
    job.record(InstancePlanned(operation="late", instance="late-candidate", release="r0001", role=Role.CANDIDATE))
    acts = VersionActs(job.site, job.site.journal(JOB, "test"), JOB, "late")
    with pytest.raises(OperationRefused, match=refused):
        acts.appoint("late-candidate", {})
    acts.appoint("late-candidate", {QUERY: "v0002"})
    assert job.site.journal(JOB, "test").state().appointed == "late-candidate"


def options_of(job: Registered) -> dict[RecoveryAction, str]:
    """Action -> why it is not possible, empty where it is."""
    return {option.action: option.why_not for option in diagnose_job(job.site, JOB).options}


def test_without_acceptance_nothing_is_recorded(job: Registered) -> None:
    """What it risks is said: of a table that it is refused, of a function that nothing keeps it from writing."""
    before = job.site.journal(JOB, "test").state().number
    assert any("refuses what it writes once its successor serves" in line for line in say(job, accept=False))
    assert job.site.journal(JOB, "test").state().number == before


def test_the_risk_of_an_output_without_a_fence_is_named(tmp_path: Path) -> None:
    """Nothing keeps a function from writing beside its successor."""
    job = Registered(tmp_path, sink="foreach")
    job.runner.life = Life.UNKNOWN
    assert any("nothing keeps it from writing" in line for line in say(job, accept=False))


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (Life.ALIVE, "op-candidate lives.*streamkeeper stop sales"),
        (Life.DEAD, "its end can be proven here.*streamkeeper recover sales"),
        (Life.ABSENT, "its end can be proven here"),
    ],
)
def test_what_can_be_known_is_not_stated(job: Registered, life: Life, told: str) -> None:
    """Only where nobody can look; with the way that there is instead."""
    job.runner.life = life
    with pytest.raises(OperationRefused, match=told):
        say(job)
    assert not job.site.journal(JOB, "test").state().instances[DRIVER].ended


def test_a_word_counts_once_and_by_whom_it_may_be_given(tmp_path: Path) -> None:
    """Said twice it is told; who may not answer what operations ask may not say this, either."""
    job = Registered(tmp_path, approvers=("cli:ada",))
    job.runner.life = Life.UNKNOWN
    with pytest.raises(OperationRefused, match="cli:mallory is not among the approvers"):
        say(job, by="cli:mallory")
    say(job)
    with pytest.raises(OperationRefused, match="is on record: stated by cli:ada"):
        say(job)


@pytest.mark.parametrize(("instance", "kind"), [("nobody", NotFound), ("../../x", InvalidInput)])
def test_an_instance_that_is_not_one_is_refused(job: Registered, instance: str, kind: type[StreamkeeperError]) -> None:
    """Unknown to the journal, or no name at all."""
    with pytest.raises(kind):
        say(job, instance=instance)


def test_a_reason_is_needed(job: Registered) -> None:
    """Who reads the record later asks how it was known."""
    with pytest.raises(InvalidInput, match="for a reason"):
        state_death(job.site, JOB, DRIVER, by="cli:ada", reason=" ", accept=True)


def test_the_watch_takes_it_for_dead_from_then_on(job: Registered) -> None:
    """Before, it says that it cannot be known; afterwards, that it is dead and who has said so."""

    def told() -> str:
        return "\n".join(run_pass(Watch(site=job.site, acts=False)).lines)

    before = told()
    assert "driver-unknown" in before
    assert "driver-dead" not in before
    say(job)
    assert "driver-dead" in told()
