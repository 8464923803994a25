"""The trigger forms as Airflow params, and the request that a filled-in form makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from airflow.sdk import Param

from streamkeeper.errors import InvalidInput
from streamkeeper.model.requests import trigger_forms
from streamkeeper.model.requests.asked_fields import asked_fields
from streamkeeper.model.requests.request import Deployment, DeployRequest, RequestKind
from streamkeeper.model.requests.trigger_forms import INHERIT, Form

_DEPLOYMENT = Deployment()
_MOST_EXAMPLES = 50


def list_job_examples(jobs: Path) -> list[str]:
    """Return up to 50 names of job files in the jobs root, as suggestions. Reads one directory, at parse time."""
    try:
        names = sorted(entry.name for entry in os.scandir(jobs) if entry.name.endswith(".py"))
    except OSError:
        return []
    return [name.removesuffix(".py") for name in names if not name.startswith("_")][:_MOST_EXAMPLES]


def deploy_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_deploy``; ``jobs``: the jobs root, for suggested job names."""
    return _params(trigger_forms.deploy_fields(list_job_examples(jobs)))


def rollback_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_rollback``; ``jobs``: the jobs root, for suggested job names."""
    return _params(trigger_forms.rollback_fields(list_job_examples(jobs)))


def stop_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_stop``; ``jobs``: the jobs root, for suggested job names."""
    return _params(trigger_forms.stop_fields(list_job_examples(jobs)))


def start_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_start``; ``jobs``: the jobs root, for suggested job names."""
    return _params(trigger_forms.start_fields(list_job_examples(jobs)))


def state_dead_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_state_dead``; ``jobs``: the jobs root, for suggested job names."""
    return _params(trigger_forms.state_dead_fields(list_job_examples(jobs)))


def recover_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_recover``; ``jobs``: the jobs root, for suggested job names."""
    return _params(trigger_forms.recover_fields(list_job_examples(jobs)))


def read_request(params: Mapping[str, Any], *, requested_by: str, kind: RequestKind = _DEPLOYMENT) -> DeployRequest:
    """Read a request of a kind from a filled-in form; raises InvalidInput, naming the field."""
    known = {name: params[name] for name in asked_fields(DeployRequest) if name in params}
    release = params.get("release") or None
    inherits = bool(params.get(INHERIT)) and release is None and isinstance(kind, Deployment)
    values = {
        **known,
        "release": release,
        "requested_by": requested_by,
        "inherit_params": inherits and not params.get("params"),
        "inherit_conf": inherits and not params.get("conf"),
    }
    try:
        return msgspec.convert(values, DeployRequest).of_kind(kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the form is wrong: {error}") from error


def _params(form: Form) -> dict[str, Param]:
    return {name: Param(**field) for name, field in form.items()}
