"""The trigger form rejects what its schemas can reject, and a completed form becomes a request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.model.requests.request import DeployRequest, Handover, Rollback, Strategy
from tests.orchestration.running import Instance, context_of

pytestmark = pytest.mark.airflow
GOOD = {"job": "sales_totals", "reason": "first deploy"}


def _fill(jobs: Path, values: dict[str, Any], fields: Callable[[Path], dict[str, Any]] | None = None) -> dict[str, Any]:
    from airflow.sdk import ParamsDict

    from streamkeeper.orchestration.form import deploy_form

    form = ParamsDict((fields or deploy_form)(jobs))
    form.update(values)
    return dict(form.validate())


def test_defaults_are_those_of_the_request(tmp_path: Path) -> None:
    """A form with only the required fields produces a request with the same defaults."""
    from streamkeeper.orchestration.form import read_request

    request = read_request(_fill(tmp_path, {**GOOD, "inherit": False}), requested_by="ada")
    assert request == DeployRequest(job="sales_totals", reason="first deploy", requested_by="ada")


@pytest.mark.parametrize(
    ("given", "inherits"),
    [
        ({}, (True, True)),
        ({"params": {"input": "/in"}}, (False, True)),
        ({"conf": {"spark.sql.shuffle.partitions": "4"}}, (True, False)),
        ({"inherit": False}, (False, False)),
        ({"release": "r0007"}, (False, False)),
    ],
    ids=str,
)
def test_empty_params_and_conf_are_inherited_from_the_current_release(
    tmp_path: Path, given: dict[str, Any], inherits: tuple[bool, bool]
) -> None:
    """Empty params and an empty conf are inherited from the current release, each on its own, unless ``inherit`` is off
    or a release is named.
    """
    from streamkeeper.orchestration.form import read_request

    request = read_request(_fill(tmp_path, {**GOOD, **given}), requested_by="ada")
    assert (request.inherit_params, request.inherit_conf) == inherits


def test_every_field_reaches_the_request(tmp_path: Path) -> None:
    """Every field of the form is passed on to the request."""
    from streamkeeper.orchestration.form import read_request

    filled = {
        **GOOD,
        "release": "r0007",
        "params": {"input": "/in", "files": 3, "strict": True},
        "conf": {"spark.sql.shuffle.partitions": "4"},
        "strategy": "handoff",
        "handover": "cold",
        "dry_run": True,
        "drain_s": 5,
        "standby_s": 6.5,
        "first_commit_s": 7,
        "accept_state_loss": True,
        "accept_risk": True,
        "approve_s": 8,
        "catch_up_s": 9,
        "compare": False,
        "most_missing": 0.25,
        "most_differing": 0.5,
        "expect_different": ["total", "totals.largest"],
        "probation_batches": 0,
        "probation_s": 10,
    }
    assert read_request(_fill(tmp_path, filled), requested_by="ada") == DeployRequest(
        job="sales_totals",
        release="r0007",
        params={"input": "/in", "files": 3, "strict": True},
        conf={"spark.sql.shuffle.partitions": "4"},
        strategy=Strategy.HANDOFF,
        handover=Handover.COLD,
        dry_run=True,
        reason="first deploy",
        requested_by="ada",
        drain_s=5,
        standby_s=6.5,
        first_commit_s=7,
        accept_state_loss=True,
        accept_risk=True,
        approve_s=8,
        catch_up_s=9,
        compare=False,
        most_missing=0.25,
        most_differing=0.5,
        expect_different=("total", "totals.largest"),
        probation_batches=0,
        probation_s=10,
    )


def test_the_form_has_every_field_of_the_request(tmp_path: Path) -> None:
    """The form has every field of the request, except for the requester, the kind of the request and the fields of
    other kinds.
    """
    from streamkeeper.orchestration.form import deploy_form

    others = {"requested_by", "stored_rollback", "stored_start", "stored_recovery", "accept_loss"}
    inherited = {"inherit_params", "inherit_conf", "inherited_from", "not_inherited"}
    asked = {*DeployRequest.__struct_fields__, "inherit", "on_open"} - others - inherited
    assert set(deploy_form(tmp_path)) == asked


def test_the_main_fields_come_first_outside_collapsed_sections(tmp_path: Path) -> None:
    """The main fields come first and outside the collapsed sections."""
    from streamkeeper.orchestration.form import deploy_form

    form = deploy_form(tmp_path)
    sections = {name: param.schema.get("section") for name, param in form.items()}
    main = ["job", "release", "params", "conf", "inherit", "reason", "strategy", "handover", "dry_run"]
    assert [name for name, section in sections.items() if section is None] == main == list(form)[: len(main)]
    assert {section for section in sections.values() if section} == {"Switching", "Deadlines and open operations"}


def test_a_completed_rollback_form_produces_a_rollback_request(tmp_path: Path) -> None:
    """A completed rollback form produces a request of the kind Rollback with the same values and defaults."""
    from streamkeeper.orchestration.form import read_request, rollback_form

    filled = _fill(tmp_path, {**GOOD, "release": "r0003", "accept_risk": True, "accept_loss": True}, rollback_form)
    assert read_request(filled, requested_by="ada", kind=Rollback()) == DeployRequest(
        job="sales_totals",
        release="r0003",
        reason="first deploy",
        requested_by="ada",
        accept_risk=True,
        accept_loss=True,
    ).of_kind(Rollback())


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": "../etc/passwd"},
        {"job": "/abs/job.py"},
        {"release": "latest"},
        {"params": {"a": {"nested": 1}}},
        {"params": {"a": 2**63}},
        {"conf": {"spark.x": 4}},
        {"strategy": "hope"},
        {"handover": "hot"},
        {"dry_run": "yes"},
        {"reason": "why"},
        {"reason": "x" * 1001},
        {"drain_s": 0},
        {"approve_s": float("inf")},
        {"most_missing": 1.5},
        {"most_differing": -0.1},
        {"probation_batches": -1},
        {"accept_risk": "of course"},
        {"on_open": "ignore"},
    ],
    ids=str,
)
def test_an_invalid_field_fails_the_schema_and_creates_no_run(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """An invalid field fails the schema's validation, so that no run is created."""
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        _fill(tmp_path, {**GOOD, **wrong})


def test_no_field_declares_a_bound_that_airflow_would_silently_apply(tmp_path: Path) -> None:
    """No field declares a minimum, a maximum or a maximum length, because Airflow's page would silently change a value
    to the bound, such as 1.5 to 1.
    """
    from streamkeeper.orchestration.form import deploy_form, recover_form, rollback_form, stop_form
    from streamkeeper.orchestration.snapshot_forms import prune_form

    for form in (deploy_form, rollback_form, stop_form, recover_form, prune_form):
        for name, field in form(tmp_path).items():
            assert not {"minimum", "maximum", "maxLength"} & field.schema.keys(), name


@pytest.mark.parametrize(("reason", "taken"), [("", True), ("why", False), ("a disk broke", True), ("x" * 1001, False)])
def test_a_recovery_accepts_an_empty_reason_but_no_invalid_one(tmp_path: Path, reason: str, taken: bool) -> None:
    """A recovery accepts an empty reason, because a diagnosis changes nothing, but rejects one that is too short or too
    long.
    """
    from airflow.sdk.exceptions import ParamValidationError

    from streamkeeper.orchestration.form import recover_form

    with nullcontext() if taken else pytest.raises(ParamValidationError):
        _fill(tmp_path, {"job": "sales_totals", "reason": reason}, recover_form)


@pytest.mark.parametrize("reason", ["why", "x" * 1001], ids=len)
def test_a_templated_reason_of_invalid_length_is_refused_in_one_line(reason: str) -> None:
    """A templated reason that is rendered too short or too long is refused in one line, because the form's schema does
    not check templates.
    """
    from streamkeeper.orchestration.desired import StopOperator

    task = StopOperator(task_id="stop", request={"job": "sales_totals", "reason": "{{ params.why }}"})
    task.request = {**(task.request or {}), "reason": reason}
    with pytest.raises(InvalidInput, match="reason has .* characters"):
        task.asked(context_of(Instance()))


def test_the_suggested_jobs_are_the_job_files_of_the_folder(tmp_path: Path) -> None:
    """The suggested jobs are the job files of the folder; a missing folder yields none and no error."""
    from streamkeeper.orchestration.form import list_job_examples

    for name in ("sales_totals.py", "event_copy.py", "_shared.py", "notes.txt"):
        (tmp_path / name).touch()
    assert list_job_examples(tmp_path) == ["event_copy", "sales_totals"]
    assert list_job_examples(tmp_path / "missing") == []


def test_a_value_of_a_wrong_type_is_refused_with_its_field_name() -> None:
    """A value of a wrong type that has passed the schema is refused with the name of its field."""
    from streamkeeper.orchestration.form import read_request

    with pytest.raises(InvalidInput, match="drain_s"):
        read_request({**GOOD, "drain_s": "soon"}, requested_by="ada")


def test_an_unknown_conf_key_is_refused_with_the_likely_field() -> None:
    """A misspelt key in the run's conf, which Airflow accepts, is refused by name with the likely field."""
    from streamkeeper.orchestration.tasks import refuse_unknown_fields

    refuse_unknown_fields(context_of(Instance(), **GOOD))
    context = context_of(Instance(), **GOOD)
    context["dag_run"].conf = {**GOOD, "resaon": "why"}
    with pytest.raises(InvalidInput, match=r"field 'resaon' is not known \(perhaps write reason for resaon\)"):
        refuse_unknown_fields(context)
    context["dag_run"].conf = None
    refuse_unknown_fields(context)
