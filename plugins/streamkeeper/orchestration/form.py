"""The deploy's trigger form: its fields, and the request that a filled-in form is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from airflow.sdk import Param

from streamkeeper.errors import InvalidInput
from streamkeeper.model.journal import DeployRequest, Handover, Strategy

_MOST_EXAMPLES = 50
_ADVANCED = "Deadlines and open operations"


def list_job_examples(jobs: Path) -> list[str]:
    """Names of the job files under the jobs root: suggestions only. One look at a directory, at parse time."""
    try:
        names = sorted(entry.name for entry in os.scandir(jobs) if entry.name.endswith(".py"))
    except OSError:
        return []
    return [name.removesuffix(".py") for name in names if not name.startswith("_")][:_MOST_EXAMPLES]


def deploy_form(jobs: Path) -> dict[str, Param]:
    """The fields of ``streaming_deploy``; what their schemas refuse never becomes a run."""
    defaults = DeployRequest(job="")
    return {**_what(jobs), **_how(defaults), **_advanced(defaults)}


def _what(jobs: Path) -> dict[str, Param]:
    return {
        "job": Param(
            type="string",
            pattern="^[a-z][a-z0-9_]{0,62}$",
            examples=list_job_examples(jobs),
            title="Job",
            description="A job file under the jobs root, without .py; or the job of a pushed release",
        ),
        "release": Param(
            None,
            type=["null", "string"],
            pattern="^(r[0-9]{4,})?$",
            title="Release",
            description_md="Empty: the code now under the jobs root. Or a pushed release, like `r0007`",
        ),
        "params": Param(
            {},
            type="object",
            additionalProperties={"type": ["string", "number", "boolean", "null"]},
            title="Job params",
            description_md="What the job declares, as JSON. A secret is `secret://airflow/CONN_ID/password`",
        ),
        "conf": Param(
            {},
            type="object",
            additionalProperties={"type": "string"},
            title="Spark conf",
            description_md='As JSON, for example `{"spark.sql.shuffle.partitions": "4"}`',
        ),
        "reason": Param(type="string", minLength=5, title="Reason", description="Recorded with the operation"),
    }


def _how(defaults: DeployRequest) -> dict[str, Param]:
    return {
        "strategy": Param(
            defaults.strategy.value,
            type="string",
            enum=[each.value for each in Strategy],
            values_display={"auto": "Auto: follow the verdict", "resume": "Resume only"},
            title="Strategy",
        ),
        "handover": Param(
            defaults.handover.value,
            type="string",
            enum=[each.value for each in Handover],
            values_display={"warm": "Warm: start beside the serving driver", "cold": "Cold: no room for two"},
            title="Handover",
        ),
        "dry_run": Param(
            defaults.dry_run, type="boolean", title="Dry run", description="Describe and assess, then stop"
        ),
    }


def _advanced(defaults: DeployRequest) -> dict[str, Param]:
    return {
        "drain_s": _seconds(defaults.drain_s, "Drain", "then the old driver is killed and the batch replayed"),
        "standby_s": _seconds(defaults.standby_s, "Standby", "then the deploy ends and nothing was touched"),
        "first_commit_s": _seconds(defaults.first_commit_s, "First commit", "then the old release goes again"),
        "on_open": Param(
            "refuse",
            type="string",
            enum=["refuse", "continue", "abort"],
            values_display={
                "refuse": "Refuse, and name it",
                "continue": "Continue that operation",
                "abort": "Abort that operation, then deploy",
            },
            title="If another operation of the job is open",
            section=_ADVANCED,
        ),
    }


def _seconds(default: float, title: str, otherwise: str) -> Param:
    return Param(
        default, type="number", exclusiveMinimum=0, title=f"{title} (s)", description=otherwise, section=_ADVANCED
    )


def read_request(params: Mapping[str, Any], *, requested_by: str) -> DeployRequest:
    """The request of a filled-in form; raises InvalidInput, naming the field."""
    known = {name: params[name] for name in DeployRequest.__struct_fields__ if name in params}
    values = {**known, "release": params.get("release") or None, "requested_by": requested_by}
    try:
        return msgspec.convert(values, DeployRequest)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the deploy form is wrong: {error}") from error
