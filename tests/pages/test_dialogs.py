"""Tests the dialogs behind the buttons: their initial values, what they never show, and that their content matches the
forms of the DAGs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.model.manifests.release import Environment, ParamValue, Release, ReleaseContent
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.requests.trigger_forms import (
    Form,
    deploy_fields,
    recover_fields,
    rollback_fields,
    start_fields,
    state_dead_fields,
    stop_fields,
)
from streamkeeper.model.secret_references import MASK
from streamkeeper.pages.dialogs import (
    Dialog,
    Input,
    deploy_dialog,
    recover_dialog,
    rollback_dialog,
    start_dialog,
    state_dead_dialog,
    stop_dialog,
)

CONTENT = ReleaseContent(
    bundle="b",
    bundle_bytes=1,
    entry="sales.py",
    params={},
    conf={},
    environment=Environment(python="3.11", spark="4.2.0", packages_sha256="p", jars_sha256="j", digest="d"),
    state_format="",
)
DIALOGS: tuple[tuple[Callable[[JobState], Dialog], Form], ...] = (
    (deploy_dialog, deploy_fields()),
    (rollback_dialog, rollback_fields()),
    (recover_dialog, recover_fields()),
    (stop_dialog, stop_fields()),
    (start_dialog, start_fields()),
    (state_dead_dialog, state_dead_fields()),
)


def served(conf: dict[str, str] | None = None, **params: ParamValue) -> JobState:
    """Return a job whose second release is current and has these params and this conf."""
    content = replace(CONTENT, params=params, conf=conf or {})
    releases = {name: Release(job="sales", number=int(name[1:]), content=content) for name in ("r0001", "r0002")}
    return JobState(
        job="sales", number=9, releases=releases, serving_release="r0002", served={"r0001": {}, "r0002": {}}
    )


def inputs(dialog: Dialog) -> dict[str, Input]:
    return {each.name: each for each in (*dialog.inputs, *(each for _, fold in dialog.folds for each in fold))}


@pytest.mark.parametrize(("make", "form"), DIALOGS)
def test_a_dialog_has_every_field_of_its_form(make: Callable[[JobState], Dialog], form: Form) -> None:
    """A dialog has every field of its DAG's form except the job and the dry run, which is a button, and folds the same
    sections.
    """
    dialog = make(served())
    assert set(inputs(dialog)) == set(form) - {"job", "dry_run"}
    assert dialog.dry is ("dry_run" in form)
    folded = {each.name for _, fold in dialog.folds for each in fold}
    assert folded == {name for name, field in form.items() if "section" in field}


@pytest.mark.parametrize(("make", "form"), DIALOGS)
def test_an_untouched_field_is_the_forms_default(make: Callable[[JobState], Dialog], form: Form) -> None:
    """An untouched field of a dialog sends the default of its form's field, and only fields without a default are
    required.
    """
    for name, each in inputs(make(served())).items():
        if name == "action":
            continue
        assert each.required is ("default" not in form[name]), name
        if not each.required:
            assert sent(each) == form[name]["default"] or (not sent(each) and not form[name]["default"]), name


def sent(each: Input) -> Any:
    """Return what the page's script sends for an untouched field."""
    if each.same:
        return None
    match each.kind:
        case "flag":
            return bool(each.value)
        case "number" | "whole":
            return float(each.value)
        case "json":
            return json.loads(each.value) if each.value else {}
        case _:
            return each.value


def test_the_deploy_dialog_contains_params_and_conf_of_the_current_release() -> None:
    """The deploy dialog contains the current release's params and conf as JSON, marked so that untouched values are not
    sent.
    """
    dialog = deploy_dialog(served({"spark.driver.memory": "512m"}, input="/in", files=3, strict=True, none=None))
    found = inputs(dialog)
    assert json.loads(found["params"].value) == {"input": "/in", "files": 3, "strict": True, "none": None}
    assert json.loads(found["conf"].value) == {"spark.driver.memory": "512m"}
    assert found["params"].same
    assert found["conf"].same
    assert "r0002 runs until" in dialog.sentence


def test_the_deploy_dialog_of_a_job_without_a_release_has_empty_params() -> None:
    """The deploy dialog of a job without a release has empty params, which are not marked as those of the current
    release.
    """
    found = inputs(deploy_dialog(JobState(job="sales", number=1)))
    assert (found["params"].value, found["params"].same) == ("", False)


def test_a_secret_reference_is_shown_and_a_literal_secret_is_masked() -> None:
    """A secret reference is shown as it is, and a literal secret in a param, URL or conf value is masked. Negative
    control: plain values are shown.
    """
    state = served(
        {"spark.hadoop.token": "hunter22"},
        warehouse="secret://env/WAREHOUSE",
        password="opensesame",
        url="postgresql://ada:opensesame@host/db",
        other="postgresql://bob:swordfish@host/db",
        path="/data/in",
        wide="two  spaces",
    )
    found = inputs(deploy_dialog(state))
    assert json.loads(found["params"].value) == {
        "warehouse": "secret://env/WAREHOUSE",
        "password": MASK,
        "url": MASK,
        "other": MASK,
        "path": "/data/in",
        "wide": "two  spaces",
    }
    assert json.loads(found["conf"].value) == {"spark.hadoop.token": MASK}
    assert not {"hunter22", "opensesame", "swordfish"} & set(str(deploy_dialog(state)).replace('"', " ").split())


def test_the_rollback_dialog_suggests_earlier_releases_newest_first() -> None:
    """The rollback dialog suggests the earlier releases, the most recent first, without the current one."""
    state = replace(served(), served={"r0001": {}, "r0003": {}, "r0002": {}})
    dialog = rollback_dialog(state)
    assert inputs(dialog)["release"].suggestions == ("r0003", "r0001")
    assert "r0003 was before it" in dialog.sentence


def test_the_recover_dialog_for_a_snapshot_is_filled_in_with_its_name() -> None:
    """The recover dialog for a snapshot is filled in with the action, the query and the snapshot, and always sends the
    action.
    """
    dialog = recover_dialog(served(), action="restore", query="totals", snapshot="s0007")
    found = inputs(dialog)
    assert [found[name].value for name in ("action", "query", "snapshot")] == ["restore", "totals", "s0007"]
    assert (found["action"].default, dialog.submit) == ("", "Restore")
    assert "s0007" in dialog.title


@pytest.mark.parametrize("action", ["", "diagnose", "<script>"])
def test_a_missing_or_unknown_action_selects_restart(action: str) -> None:
    """A missing, unknown or ``diagnose`` action in the address selects restart, and the dialog never offers an unknown
    one.
    """
    found = inputs(recover_dialog(served(), action=action))["action"]
    assert found.value == "restart"
    assert [value for value, _ in found.choices] == ["restart", "restore", "replan", "rebuild"]
    assert action == "" or action not in dict(found.choices)


def test_bounds_are_those_of_the_request() -> None:
    """The fields of a dialog have the limits of the request, so that the browser rejects an invalid value before
    sending it.
    """
    found = inputs(deploy_dialog(served()))
    assert (found["most_missing"].least, found["most_missing"].most) == (0, 1)
    assert (found["reason"].shortest, found["reason"].longest, found["reason"].required) == (5, 1000, True)
    assert found["release"].pattern
    assert found["drain_s"].least == 0
