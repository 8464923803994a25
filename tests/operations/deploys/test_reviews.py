"""The columns in which a rebuilt output may differ: declared by the request or derived from the change, and sent to the
driver that compares.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput
from streamkeeper.lifecycle.actions import Decision, Send
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.manifest import StateColumn
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.records.journal_records import OperationStarted, ReleaseDescribed, StepDone
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.deploy_acts import DeployActs
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object
from tests.compatibility.manifests import STATEFUL
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask_about_output

KEY, SUM = StateColumn(name="k", meaning="source 0.k", type="string"), StateColumn(name="s", meaning="?", type="long")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def describe(job: Registered, release: str, total: str) -> None:
    """Register a description of the release in which the output column ``s`` has this meaning."""
    manifest = replace(STATEFUL, columns=(KEY, replace(SUM, meaning=total)))
    digest = put_object(job.installation.store, JOB, "manifests", to_json(manifest), ".json")
    job.record(ReleaseDescribed(release=release, manifests={QUERY: digest}))


@pytest.mark.parametrize("name", ["s", "totals.s"])
def test_an_unknown_expect_different_column_is_refused_at_the_assessment(job: Registered, name: str) -> None:
    """An unknown column in ``expect_different`` is refused at the assessment with the likely name; the correct name is
    accepted.
    """
    for operation, columns in (("good", (name,)), ("bad", (f"{name}x",))):
        request = DeployRequest(job=JOB, release="r0001", expect_different=columns)
        job.record(OperationStarted(operation=operation, request=request, steps=()))
        job.record(StepDone(operation=operation, step=Step.BUNDLE.tag, result={"release": "r0001"}))
    state = job.installation.journal(JOB, "test").state()
    assert assess_candidate(job.installation, state, state.operations["good"], "r0001").refusal == ""
    with pytest.raises(InvalidInput) as refused:
        assess_candidate(job.installation, state, state.operations["bad"], "r0001")
    told = f"expect_different: column '{name}x' is not known (perhaps write {name} for {name}x)"
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("old", "new", "declared", "may_differ"),
    [
        ("sum(source 0.x)", "sum(source 0.y)", (), ("s",)),
        ("sum(source 0.x)", "sum(source 0.x)", (), ()),
        ("sum(source 0.x)", "sum(source 0.x)", ("k", "totals.s"), ("k", "s")),
    ],
)
def test_the_driver_receives_one_compare_command_with_the_differing_columns(
    job: Registered, monkeypatch: pytest.MonkeyPatch, old: str, new: str, declared: tuple[str, ...], may_differ: object
) -> None:
    """The driver receives a single COMPARE command, even if the step is retried, with the columns that the change
    redefines and those that the request declares.
    """
    monkeypatch.setattr(job.runner, "notify", lambda _job, _instance: None)
    describe(job, "r0001", old)
    ask_about_output(job, "op2", compared=False, expect_different=declared)
    describe(job, "r0002", new)
    acts = DeployActs(job.installation, job.installation.journal(JOB, "test"), JOB, "op2")
    for _ in range(2):
        acts.carry_out(Decision(step=Step.COMPARE, action=Send("op2-candidate", CommandKind.COMPARE), reason=""))
    (command,) = Control(job.installation.store, JOB, "op2-candidate").commands(0)
    assert (command.kind, command.may_differ) == (CommandKind.COMPARE, {QUERY: may_differ})
