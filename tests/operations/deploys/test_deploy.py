"""A deploy as far as it runs without a driver: what is refused before anything is started, and what happens if no
driver can be started.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput, JobUnusable, NotFound, OperationRefused, StreamkeeperError, TemporaryError
from streamkeeper.lifecycle.actions import Assess, Decision, FallBack, Launch
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import (
    Assessed,
    FallBackDecided,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleaseRegistered,
    Role,
    StepBegun,
)
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import Bundled, step_done
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys import deploy as deploying
from streamkeeper.operations.deploys import deploy_acts
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen, Progress, ProgressKind
from streamkeeper.operations.deploys.deploy_acts import DeployActs
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.objects import put_object
from tests.compatibility.manifests import STATEFUL
from tests.operations.registered_job import JOB, QUERY, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A running job; the test's own runner starts nothing."""
    return Registered(tmp_path)


def deploy(job: Registered, operation: str = "op2", **request: object) -> Progress:
    """Open a deploy and advance it as far as possible without a driver."""
    opened = Deploy.open(job.installation, operation, DeployRequest(job=JOB, **request))  # type: ignore[arg-type]
    return opened.run(Step.FALL_BACK)


def with_release(job: Registered, conf: dict[str, str]) -> str:
    """Register a second release with this conf, as an older Streamkeeper would have done, and return its name."""
    first = job.installation.journal(JOB, "test").state().releases["r0001"]
    second = replace(first, number=2, content=replace(first.content, conf=conf))
    job.record(ReleaseRegistered(release=second))
    return second.name


def test_an_old_release_whose_executors_run_elsewhere_is_refused(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy that names a registered release with a forbidden conf is refused. Negative control: without the conf
    check, the deploy passes its bundle step.
    """
    name = with_release(job, {"spark.master": "yarn"})
    ended = deploy(job, release=name)
    assert ended.outcome is Outcome.REFUSED
    assert "conf spark.master=yarn cannot be set" in ended.sentence
    monkeypatch.setattr(deploy_acts, "check_release_conf", lambda conf, allowed: None)
    assert "spark.master" not in deploy(job, "op3", release=name).sentence
    done = job.installation.journal(JOB, "test").state().operations
    assert done["op3"].has_done(Step.BUNDLE)
    assert not done["op2"].has_done(Step.BUNDLE)


def test_an_operations_id_that_comes_with_another_request_is_refused(job: Registered) -> None:
    """An operation id that is reused with a different request is refused, whether the operation is open or finished;
    the same request by a different person continues it.
    """
    asked = DeployRequest(job=JOB, release="r0001", reason="first", requested_by="ada")
    Deploy.open(job.installation, "op2", asked)
    assert Deploy.open(job.installation, "op2", replace(asked, requested_by="bob")).operation == "op2"
    other = replace(asked, dry_run=True, drain_s=7.0)
    with pytest.raises(
        OperationRefused, match=r"differs in drain_s, dry_run\. That operation is open .*on_open=continue"
    ):
        Deploy.open(job.installation, "op2", other)
    job.record(OperationFinished(operation="op2", outcome=Outcome.SUCCEEDED, sentence="r0001 serves"))
    for on_open in OnOpen:
        with pytest.raises(OperationRefused, match="has ended: r0001 serves"):
            Deploy.open(job.installation, "op2", replace(other, dry_run=False), on_open=on_open)
    assert job.installation.journal(JOB, "test").state().open_operation is None


def test_without_the_request_comparison_a_reused_id_returns_the_old_outcome(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the comparison of requests, a different request with the same operation id returns the
    old success although nothing was deployed.
    """
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001", dry_run=True))
    job.record(OperationFinished(operation="op2", outcome=Outcome.SUCCEEDED, sentence="r0001 serves"))
    monkeypatch.setattr(deploying, "must_be_the_same", lambda *_: None)
    assert deploy(job, "op2", params={"a": 1}).sentence == "r0001 serves"


def test_an_operation_missing_from_a_restored_older_store_is_refused(job: Registered) -> None:
    """Advancing an operation that the store does not have, as after a restore of an older copy, fails with a one-line
    error.
    """
    with pytest.raises(NotFound, match=f"job {JOB} has no operation op9"):
        Deploy(job.installation, JOB, "op9").advance(Step.FALL_BACK)


def test_a_job_whose_code_sets_the_state_format_is_refused_at_the_assessment(job: Registered) -> None:
    """A manifest whose code sets the state store provider is refused at the assessment, whatever the release's conf
    contains.
    """
    name = with_release(job, {})
    changed = {"spark.sql.streaming.stateStore.providerClass": "org.apache.Other"}
    manifest = replace(STATEFUL, query=QUERY, confs={**STATEFUL.confs, **changed})
    digest = put_object(job.installation.store, JOB, "manifests", to_json(manifest), ".json")
    job.record(ReleaseDescribed(release=name, manifests={QUERY: digest}))
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release=name))
    state = job.installation.journal(JOB, "test").state()
    with pytest.raises(JobUnusable, match="code sets .*providerClass"):
        assess_candidate(job.installation, state, state.operations["op2"], name)


def test_a_request_too_large_with_inherited_conf_aborts_no_open_operation(job: Registered) -> None:
    """A request that exceeds the size limit together with its inherited conf is refused and does not abort the open
    operation. Negative control: a smaller inherited conf is accepted and aborts it.
    """
    job.record(OperationStarted(operation="open", request=DeployRequest(job=JOB), steps=()))
    request = DeployRequest(job=JOB, reason="new")

    def inherit(size: int) -> Callable[[JobState], DeployRequest]:
        return lambda state: replace(request, conf={"spark.note": "x" * size})

    with pytest.raises(InvalidInput, match="more than 1,048,576"):
        Deploy.open(job.installation, "op2", request, on_open=OnOpen.ABORT, prepare=inherit(2**20))
    state = job.installation.journal(JOB, "test").state()
    assert state.operations["open"].abort == ""
    Deploy.open(job.installation, "op2", request, on_open=OnOpen.ABORT, prepare=inherit(10))
    assert job.installation.journal(JOB, "test").state().operations["open"].abort != ""


@pytest.mark.parametrize("on_open", [OnOpen.CONTINUE, OnOpen.ABORT])
def test_a_dry_run_neither_continues_nor_aborts_an_open_operation(job: Registered, on_open: OnOpen) -> None:
    """A dry run may neither continue nor abort an open operation, which stays open."""
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001"))
    with pytest.raises(InvalidInput, match=f"a dry run cannot {on_open.value} an open operation"):
        Deploy.open(job.installation, "op3", DeployRequest(job=JOB, release="r0001", dry_run=True), on_open=on_open)
    assert job.installation.journal(JOB, "test").state().open_operation.operation == "op2"


def test_a_version_in_a_local_directory_starts_the_driver_with_a_local_master(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a checkpoint version lies in a local directory, the driver starts with a local master, because remote
    executors would write state to their own disks; without the directory the configured master applies.
    """
    launched: list[LaunchSpec] = []
    monkeypatch.setattr(job.runner, "launch", lambda spec, secrets: launched.append(spec))
    job.set(master="spark://elsewhere:7077")
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))

    def master_of(release: str, instance: str) -> str:
        planned = InstancePlanned(operation="op2", instance=instance, release=release, role=Role.CANDIDATE)
        job.record(planned)
        acts = deploy_acts.DeployActs(job.installation, job.installation.journal(JOB, "test"), JOB, "op2")
        action = Launch(instance, LaunchMode.STANDBY)
        acts.carry_out(Decision(step=Step.STANDBY, action=action, reason="to see"))
        return launched[-1].conf.get("spark.master", "")

    assert master_of("r0001", "one") == "local[2]"
    assert master_of(with_release(job, {"spark.master": "local[1]"}), "two") == "local[1]"
    shutil.rmtree(job.directory)
    assert master_of("r0001", "three") == ""


def under_way(job: Registered, *more: Record, done: tuple[Step, ...] = ()) -> Deploy:
    """Record a deploy of a second release whose old driver is drained and whose candidate is appointed; ``done`` lists
    further finished steps.
    """
    name = with_release(job, {})
    shown = {
        QUERY: put_object(job.installation.store, JOB, "manifests", to_json(replace(STATEFUL, query=QUERY)), ".json")
    }
    job.record(ReleaseDescribed(release=name, manifests=shown))
    back = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", back=Transition.RESUME)
    resume = Verdict.RESUME
    for record in (
        OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()),
        step_done("op2", Step.BUNDLE, Bundled(name)),
        InstancePlanned(operation="op2", instance="op2-candidate", release=name, role=Role.CANDIDATE),
        Assessed(operation="op2", verdict=resume, reverse=resume, sentence="", report="", transitions={QUERY: back}),
        StepBegun(operation="op2", step=Step.DRAIN.tag),
        InstanceEnded(operation="op2", instance="op-candidate", proof="gone", exit="drained"),
        InstanceAppointed(operation="op2", instance="op2-candidate"),
        *(step_done("op2", step) for step in done),
        *more,
    ):
        job.record(record)
    return Deploy.load(job.installation, JOB, "op2", on="op2-candidate: probation", waited_s=60)


def never_starts(job: Registered, monkeypatch: pytest.MonkeyPatch, error: StreamkeeperError) -> list[str]:
    """Make every start fail and only the candidate alive; return the list of instances that the runner kills."""
    barred: list[str] = []
    starts: list[str] = []

    def launch(spec: LaunchSpec, secrets: dict[str, str]) -> None:
        starts.append(spec.instance)
        assert len(starts) < 10, "it is tried again and again"
        raise error

    def observe(_: str, instance: str) -> Liveness:
        life = Life.ALIVE if instance == "op2-candidate" else Life.ABSENT
        return Liveness(life=life, why=life.value)

    monkeypatch.setattr(job.runner, "launch", launch)
    monkeypatch.setattr(job.runner, "observe", observe)
    monkeypatch.setattr(job.runner, "kill", lambda _, instance: barred.append(instance))
    return barred


REFUSED = FallBack(Outcome.REFUSED)
GONE = InvalidInput("the driver's program /env/python cannot be run")


def test_a_fallback_to_an_unstartable_release_fails_the_operation(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fallback whose old release can no longer be started fails the operation and reports the reason. Negative
    control: without this rule the start is retried without end.
    """
    ended = InstanceEnded(operation="op2", instance="op2-candidate", proof="gone", exit="failed")
    opened = under_way(job, ended, FallBackDecided(operation="op2", reason="it broke"))
    with monkeypatch.context() as without:
        never_starts(job, without, GONE)
        without.setattr(Deploy, "_instead", lambda self, decision, error: replace(decision, action=REFUSED))
        with pytest.raises(AssertionError, match="again and again"):
            opened.run()
    never_starts(job, monkeypatch, GONE)
    told = opened.run()
    assert told.outcome is Outcome.FAILED
    assert f"r0001 could not be restarted: never started: {GONE}" in told.sentence


@pytest.mark.parametrize("error", [GONE, TemporaryError("no process can be made")])
def test_an_unstartable_fallback_driver_does_not_stop_the_deploy(
    job: Registered, monkeypatch: pytest.MonkeyPatch, error: StreamkeeperError
) -> None:
    """A fallback driver that cannot be started is barred and recorded as never started, and the candidate continues.
    Negative control: without this rule its error would stop the deploy.
    """
    steps = (Step.STANDBY, Step.ASSESS, Step.DRAIN, Step.PROVE_DEAD, Step.GO, Step.FIRST_COMMIT, Step.SNAPSHOT)
    opened = under_way(job, done=steps)
    with monkeypatch.context() as without:
        never_starts(job, without, TemporaryError("no process can be made"))
        without.setattr(Deploy, "_starts_old_release", lambda self, action: False)
        with pytest.raises(TemporaryError, match="no process can be made"):
            opened.advance(Step.FALL_BACK)
    barred = never_starts(job, monkeypatch, error)
    assert opened.advance(Step.FALL_BACK).kind is ProgressKind.WAITING
    assert barred == ["op2-fallback"]
    state = opened.state
    assert state.instances["op2-fallback"].proof == f"never started: {error}"
    assert not state.operations["op2"].fall_back


def test_a_record_missing_from_a_restored_older_store_is_named(job: Registered) -> None:
    """A process that has read a newer journal fails with an error that names the operation or the description that the
    restored older store lacks.
    """
    acts = DeployActs(job.installation, job.installation.journal(JOB, "test"), JOB, "op9")
    with pytest.raises(NotFound, match=f"job {JOB} has no operation op9"):
        acts.carry_out(Decision(step=Step.ASSESS, action=Assess(), reason=""))
    state = job.installation.journal(JOB, "test").state()
    with pytest.raises(NotFound, match=f"job {JOB} records no description of r0009"):
        stored_manifests(job.installation, state, "r0009")
