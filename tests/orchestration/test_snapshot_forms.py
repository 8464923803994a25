"""Tests the forms of the backup, the drill and the prune: empty fields mean everything, and invalid fields are
refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import InvalidInput

pytestmark = pytest.mark.airflow


def fill(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the params that a task receives from a form with these values."""
    from airflow.sdk import ParamsDict

    from streamkeeper.orchestration import snapshot_forms

    forms = {
        "backup": snapshot_forms.backup_form,
        "drill": snapshot_forms.drill_form,
        "prune": snapshot_forms.prune_form,
    }
    form = ParamsDict(forms[kind](Path("no-such-folder")))
    form.update(values)
    return dict(form.validate())


def test_an_empty_form_selects_every_job_and_the_default_policy() -> None:
    """An empty form, as in a scheduled run, selects every job and query and the default policy and grace period."""
    from streamkeeper.orchestration.snapshot_forms import (
        PruneRequest,
        QueryChoice,
        read_choice_of_queries,
        read_prune,
    )

    assert read_choice_of_queries(fill("backup", {})) == QueryChoice()
    assert read_choice_of_queries(fill("drill", {})) == QueryChoice()
    request = read_prune(fill("prune", {}))
    assert request == PruneRequest()
    assert (request.policy, request.grace_period_s) == (None, 86400)


def test_every_field_reaches_the_request() -> None:
    """Every field of the backup, drill and prune forms reaches the request."""
    from streamkeeper.orchestration.snapshot_forms import (
        PruneRequest,
        QueryChoice,
        read_choice_of_queries,
        read_prune,
    )
    from streamkeeper.snapshots.retention import Policy

    assert read_choice_of_queries(fill("backup", {"job": "sales"})) == QueryChoice(job="sales")
    named = {"job": "sales", "query": "totals", "snapshot": "s0007"}
    assert read_choice_of_queries(fill("drill", named)) == QueryChoice(**named)
    filled = {"job": "sales", "dry_run": True, "keep": "last=1, daily=0", "grace_s": 30000}
    request = read_prune(fill("prune", filled))
    assert request == PruneRequest(**filled)
    assert (request.policy, request.grace_period_s) == (Policy(keep_last=1, daily=0), 30000)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("backup", {"job": "../etc"}),
        ("drill", {"query": "Totals"}),
        ("drill", {"snapshot": "latest"}),
        ("prune", {"dry_run": "yes"}),
        ("prune", {"keep": "yearly=3"}),
        ("prune", {"keep": "last=all"}),
        ("prune", {"grace_s": -1}),
    ],
    ids=str,
)
def test_an_invalid_field_is_rejected_by_the_schema_of_the_form(kind: str, wrong: dict[str, Any]) -> None:
    """The form's schema rejects an invalid field, so that no run is created and the REST API can return 400."""
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        fill(kind, wrong)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"query": "totals"}, "query=totals without its job"),
        ({"job": "sales", "snapshot": "s0007"}, "snapshot=s0007 without its query"),
        ({"job": "sales", "query": "totals", "snapshot": "s0000"}, "'s0000' is not a snapshot"),
        ({"job": 7}, "job"),
    ],
    ids=str,
)
def test_inconsistent_fields_are_refused_by_name(params: dict[str, Any], said: str) -> None:
    """A field that lacks the field that it depends on, or has an invalid value, is refused with one line that names
    it.
    """
    from streamkeeper.orchestration.snapshot_forms import read_choice_of_queries

    with pytest.raises(InvalidInput, match=said):
        read_choice_of_queries(params)
