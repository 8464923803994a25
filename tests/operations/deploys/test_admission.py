"""Tests what is refused before a deploy is recorded, what a deploy inherits from the serving release, and which command
continues an operation.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput, JobUnusable, NotFound, OperationRefused, PermanentError
from streamkeeper.lifecycle.steps import plan_deploy
from streamkeeper.model.records.journal_records import (
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleasePromoted,
    ReleaseRegistered,
    StepDone,
)
from streamkeeper.model.requests.request import Deployment, DeployRequest, Rollback
from streamkeeper.operations.deploys import admission
from streamkeeper.operations.deploys.admission import find_same, open_deploy
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen
from streamkeeper.operations.deploys.release_registration import push_release
from streamkeeper.system.secret_resolvers import built_in_resolvers
from tests.operations.registered_job import JOB, Registered, RestingRunner

CODE = """
from streamkeeper import Param, streaming_job

@streaming_job(name="NAME", params={"input": Param(str), "files": Param(int, default=7)})
def job(spark, params):
    yield from ()
"""
CONF = {"spark.sql.shuffle.partitions": "4"}


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job with a serving release and the files of further jobs; its runner starts nothing."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "home").mkdir()
    for name in (JOB, "orders"):
        (tmp_path / "jobs" / f"{name}.py").write_text(CODE.replace("NAME", name))
    (tmp_path / "jobs" / "broken.py").write_text("def (:\n")
    (tmp_path / "jobs" / "other.py").write_text(CODE.replace("NAME", "another"))
    (tmp_path / "jobs" / "lost.py").write_text("import no_such_library\n")
    made = Registered(tmp_path)
    made.installation = dataclasses.replace(made.installation, resolvers=built_in_resolvers({}))
    return made


def serving(job: Registered, params: dict[str, Any], conf: dict[str, str]) -> None:
    """Push a release of the current code with these params and confs, and promote it."""
    pushed = push_release(job.installation, JOB, params=params, conf=conf)
    job.record(ReleasePromoted(operation="op", release=pushed.name, instance="op-candidate"))


def asked(place: Registered, operation: str = "op2", **fields: Any) -> DeployRequest:
    """Open a deploy with these fields and return its recorded request."""
    kind = fields.pop("kind", Deployment())
    opened = open_deploy(place.installation, operation, DeployRequest(**{"job": JOB, **fields}).of_kind(kind))
    return opened.state.operations[operation].request


@pytest.mark.parametrize(
    ("fields", "kind", "told"),
    [
        ({"job": "ordres"}, NotFound, r"no job ordres .*\(perhaps orders\)"),
        ({"job": "broken"}, JobUnusable, "broken.py:1: "),
        ({"job": "other"}, JobUnusable, r"declares no job other \(it declares: another\)"),
        ({"job": "lost"}, JobUnusable, "lost.py:1: ModuleNotFoundError"),
        ({"params": {}}, InvalidInput, "param input is missing"),
        ({"params": {"inptu": "/in"}}, InvalidInput, r"unknown param inptu \(perhaps input\)"),
        ({"params": {"input": 3}}, InvalidInput, "input is 3, not a str"),
        ({"params": {"input": "secret://env/NOWHERE"}}, InvalidInput, "STREAMKEEPER_SECRET_NOWHERE is not set"),
        ({"params": {"input": "/in"}, "conf": {"spark.master": "yarn"}}, InvalidInput, "spark.master=yarn cannot be"),
        ({"release": "r0009"}, NotFound, "has no release r0009"),
        ({"release": "latest"}, InvalidInput, "'latest' is not a release"),
        ({"kind": Rollback()}, NotFound, "orders is not known"),
        ({"params": {"input": "/in"}, "conf": {"spark.driver.memory": "plenty"}}, InvalidInput, "plenty is not a size"),
        ({"revive": True}, OperationRefused, r"orders was not forgotten \(deploy it without --revive\)"),
    ],
    ids=str,
)
def test_a_refused_deploy_records_nothing(
    job: Registered, fields: dict[str, Any], kind: type[Exception], told: str
) -> None:
    """A refused deploy or dry run leaves no key in the store and no file in the home.

    Negative control: without the admission check the job is recorded.
    """
    for dry_run in (False, True):
        before = sorted(job.installation.store.list("")), sorted(Path(job.installation.settings.home).rglob("*"))
        with pytest.raises(kind, match=told):
            asked(job, **{"job": "orders", **fields, "dry_run": dry_run})
        assert before == (
            sorted(job.installation.store.list("")),
            sorted(Path(job.installation.settings.home).rglob("*")),
        )
    if fields.get("release") != "latest":
        name, kind_ = fields.get("job", "orders"), fields.get("kind", Deployment())
        others = {field: value for field, value in fields.items() if field != "kind"}
        Deploy.open(job.installation, "op2", DeployRequest(**{"job": name, **others}).of_kind(kind_))
        assert [*job.installation.store.list(f"registry/{name}/")]


def test_a_machine_without_java_is_refused_before_anything_is_recorded(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without Java a deploy of code, a deploy of a release and a rollback are refused before anything is
    recorded, and the open operation is not aborted.
    """

    def nowhere(_: object, references: object = (), conf: object = None) -> None:
        raise PermanentError("Java is missing")

    serving(job, {"input": "/in"}, {})
    Deploy.open(job.installation, "before", DeployRequest(job=JOB, release="r0002"))
    monkeypatch.setattr(RestingRunner, "check_place", nowhere)
    for request in (
        DeployRequest(job=JOB, params={"input": "/in"}),
        DeployRequest(job=JOB, release="r0002"),
        DeployRequest(job=JOB, release="r0001").of_kind(Rollback()),
    ):
        with pytest.raises(PermanentError, match="Java is missing"):
            open_deploy(job.installation, "op2", request, on_open=OnOpen.ABORT)
    state = job.installation.journal(JOB, "test").state()
    assert state.open_operation is not None
    assert (state.open_operation.operation, state.open_operation.abort) == ("before", "")


def test_a_misspelt_param_does_not_abort_the_open_operation(job: Registered) -> None:
    """A deploy with a misspelt param is refused and does not abort the open operation, even with ``--on-open
    abort``.
    """
    Deploy.open(job.installation, "before", DeployRequest(job=JOB, release="r0001"))
    with pytest.raises(InvalidInput, match="unknown param inptu"):
        open_deploy(job.installation, "op2", DeployRequest(job=JOB, params={"inptu": "/in"}), on_open=OnOpen.ABORT)
    found = job.installation.journal(JOB, "test").state().open_operation
    assert found is not None
    assert (found.operation, found.abort) == ("before", "")


def test_omitted_params_and_confs_are_inherited_from_the_serving_release(job: Registered) -> None:
    """A deploy that inherits records the serving release's params and confs in its request and names them in its
    plan.
    """
    serving(job, {"input": "/in", "files": 3}, CONF)
    request = asked(job, inherit_params=True, inherit_conf=True)
    assert (request.params, request.conf) == ({"input": "/in", "files": 3}, CONF)
    told = plan_deploy(request, serving="r0002")[0].does
    assert "with the params (files, input) and the conf (spark.sql.shuffle.partitions) of r0002" in told


def test_specified_params_replace_all_inherited_params(job: Registered) -> None:
    """Given params replace all of the serving release's, while its confs are inherited if requested. Negative control:
    without a request to inherit, nothing is.
    """
    serving(job, {"input": "/in", "files": 3}, CONF)
    request = asked(job, params={"input": "/other"}, inherit_conf=True)
    assert (request.params, request.conf) == ({"input": "/other"}, CONF)
    job.record(OperationFinished(operation="op2", outcome=Outcome.ABORTED, sentence=""))
    alone = asked(job, "op3", params={"input": "/in"})
    assert (alone.params, alone.conf, alone.inherited_from) == ({"input": "/in"}, {}, "")
    assert "with the" not in plan_deploy(alone, serving="r0002")[0].does


def test_an_inherited_param_no_longer_declared_is_omitted_and_named(job: Registered, tmp_path: Path) -> None:
    """An inherited param that the code no longer declares is omitted and named in the plan; a given one is refused."""
    serving(job, {"input": "/in", "files": 3}, {})
    file = tmp_path / "jobs" / f"{JOB}.py"
    file.write_text(file.read_text().replace('"files": Param(int, default=7)', '"rows": Param(int, default=7)'))
    request = asked(job, inherit_params=True, inherit_conf=True)
    assert (request.params, request.not_inherited) == ({"input": "/in"}, ("files",))
    told = plan_deploy(request, serving="r0002")[0].does
    assert "with the params (input) of r0002; without files, which the code no longer declares" in told
    job.record(OperationFinished(operation="op2", outcome=Outcome.ABORTED, sentence=""))
    with pytest.raises(InvalidInput, match="unknown param files"):
        asked(job, "op3", params={"input": "/in", "files": 3})


def test_a_param_whose_type_has_changed_is_refused(job: Registered, tmp_path: Path) -> None:
    """An inherited param whose declared type has changed is refused."""
    serving(job, {"input": "/in", "files": 3}, {})
    file = tmp_path / "jobs" / f"{JOB}.py"
    file.write_text(file.read_text().replace("Param(int, default=7)", 'Param(str, default="7")'))
    with pytest.raises(InvalidInput, match="param files is 3, not a str"):
        asked(job, inherit_params=True)


def test_code_that_only_a_driver_can_load_inherits_all_params(job: Registered, tmp_path: Path) -> None:
    """If only a driver can load the job's code, all params are inherited, because it is unknown which ones the code
    declares.
    """
    serving(job, {"input": "/in", "files": 3}, {})
    file = tmp_path / "jobs" / f"{JOB}.py"
    file.write_text("from pyspark.sql import functions as F\nAMOUNT = F.col('amount')\n" + CODE.replace("NAME", JOB))
    assert asked(job, inherit_params=True).params == {"input": "/in", "files": 3}


def test_an_inheriting_deploy_is_refused_if_the_current_release_changed(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy that inherits is refused if a different release became the current one after the check. Negative
    control: a deploy that inherits nothing is accepted.
    """
    serving(job, {"input": "/in"}, {})
    of_release = {"release": replace(job.installation.journal(JOB, "t").state().releases["r0002"], number=3)}
    admit = admission.admit

    def overtaken(*given: Any) -> DeployRequest:
        admitted = admit(*given)
        job.record(ReleaseRegistered(**of_release))
        job.record(ReleasePromoted(operation="op", release="r0003", instance="op-candidate"))
        return admitted

    monkeypatch.setattr(admission, "admit", overtaken)
    told = (
        "r0003 became the current release after this deploy was requested, so the deploy would not inherit the params"
        " and confs of r0003"
    )
    with pytest.raises(OperationRefused, match=told):
        asked(job, inherit_params=True, inherit_conf=True)
    assert asked(job, params={"input": "/in"}).params == {"input": "/in"}


def test_an_unchecked_continue_request_is_refused_after_the_operation_finished(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to continue an operation that finishes in the meantime is refused, because it was not checked. Negative
    control: a repeated request is checked.
    """
    serving(job, {"input": "/in"}, {})
    Deploy.open(job.installation, "before", DeployRequest(job=JOB, release="r0001"))
    start = Deploy._start

    def ended(self: Deploy, *given: Any) -> str | None:
        job.record(OperationFinished(operation="before", outcome=Outcome.REFUSED, sentence="over"))
        return start(self, *given)

    monkeypatch.setattr(Deploy, "_start", ended)
    request = DeployRequest(job=JOB, params={"inptu": "/in"})
    with pytest.raises(OperationRefused, match=f"open for job {JOB} ended while this deploy was requested"):
        open_deploy(job.installation, "op2", request, on_open=OnOpen.CONTINUE)
    with pytest.raises(InvalidInput, match="unknown param inptu"):
        open_deploy(job.installation, "op2", request, on_open=OnOpen.CONTINUE)


def test_a_repeated_request_finds_the_existing_operation(job: Registered) -> None:
    """A repeated request with the same operation name and the same form finds the existing operation, whatever was
    inherited; a different request is refused.
    """
    serving(job, {"input": "/in"}, CONF)
    request = DeployRequest(job=JOB, inherit_params=True, inherit_conf=True)
    open_deploy(job.installation, "op2", request)
    assert open_deploy(job.installation, "op2", request).operation == "op2"
    with pytest.raises(OperationRefused, match=r"another request, which differs in inherit_params, params\."):
        open_deploy(job.installation, "op2", DeployRequest(job=JOB, params={"input": "/in"}, inherit_conf=True))


def test_an_identical_request_continues_the_open_operation(job: Registered, tmp_path: Path) -> None:
    """The same request by the same person with the same reason continues the open operation; it is refused once the
    code has changed.

    Negative control: a request for a stored release continues, because its code does not change.
    """
    serving(job, {"input": "/in"}, {})
    request = DeployRequest(job=JOB, inherit_params=True, requested_by="cli:ada", reason="first")
    assert find_same(job.installation, request) == ""
    open_deploy(job.installation, "op2", request)
    assert find_same(job.installation, request) == "op2"
    assert find_same(job.installation, replace(request, reason="second")) == ""
    assert find_same(job.installation, replace(request, requested_by="cli:bob")) == ""
    job.record(StepDone(operation="op2", step="bundle", result={"release": "r0002"}))
    assert find_same(job.installation, request) == "op2"
    file = tmp_path / "jobs" / f"{JOB}.py"
    file.write_text(file.read_text() + "\nMORE = 1\n")
    with pytest.raises(
        OperationRefused,
        match=r"op2 .* deploys r0002, but the code has changed since the operation started \(use `--on-open continue`",
    ):
        find_same(job.installation, request)
    job.record(OperationFinished(operation="op2", outcome=Outcome.ABORTED, sentence=""))
    assert find_same(job.installation, request) == ""
    named = replace(request, release="r0002", inherit_params=False)
    job.record(OperationStarted(operation="op3", request=named, steps=()))
    job.record(StepDone(operation="op3", step="bundle", result={"release": "r0002"}))
    assert find_same(job.installation, named) == "op3"


@pytest.mark.parametrize(
    ("release", "told"),
    [
        (None, "no release was current before r0002"),
        ("r0002", "r0002 is the current release"),
        ("r0009", "has no release r0009"),
    ],
)
def test_a_rollback_to_nowhere_leaves_nothing(job: Registered, release: str | None, told: str) -> None:
    """A rollback without a valid target release is refused and records nothing."""
    serving(job, {"input": "/in"}, {})
    before = job.installation.journal(JOB, "test").state().number
    with pytest.raises(PermanentError, match=told):
        open_deploy(job.installation, "back", DeployRequest(job=JOB, release=release).of_kind(Rollback()))
    assert job.installation.journal(JOB, "test").state().number == before


def test_a_release_whose_confs_exceed_the_limits_is_refused_unrecorded(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release whose confs exceed the place's limits is refused before anything is recorded. Negative control: a
    smaller one is accepted.
    """
    asked: list[object] = []

    def small(_: object, references: object = (), conf: dict[str, str] | None = None) -> None:
        asked.append(conf)
        if (conf or {}).get("spark.driver.memory") == "64g":
            raise InvalidInput("the pod template limits the driver container to 8Gi")

    monkeypatch.setattr(RestingRunner, "check_place", small)
    serving(job, {"input": "/in"}, {"spark.driver.memory": "64g"})
    given = {"params": {"input": "/in"}, "conf": {"spark.driver.memory": "64g"}}
    for fields in (given, {"release": "r0002"}):
        with pytest.raises(InvalidInput, match="limits the driver container"):
            open_deploy(job.installation, "op2", DeployRequest(job=JOB, **fields))  # type: ignore[arg-type]
    assert asked == [{"spark.driver.memory": "64g"}] * 2
    assert "op2" not in job.installation.journal(JOB, "test").state().operations
    open_deploy(
        job.installation, "op3", DeployRequest(job=JOB, params={"input": "/in"}, conf={"spark.driver.memory": "1g"})
    )
