"""The fields of the trigger forms of DAGs that act on a job. Each field is a JSON schema with texts for a person.

Airflow's trigger form and the page's dialogs are both made from these fields. A field without a ``default`` is
required. ``section`` names the fold of the form that contains the field, ``values_display`` the label of each choice,
and ``description_md`` a description with backticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from streamkeeper.model.requests.asked_fields import AskedField, asked_fields
from streamkeeper.model.requests.recovery import RecoveryAction
from streamkeeper.model.requests.request import DEADLINES, RECOVERY, ROLLBACK, DeployRequest

Field = dict[str, Any]
Form = dict[str, Field]

_ASKED = asked_fields(DeployRequest)
_SECRET = "Refer to a secret as `secret://airflow/CONN_ID/password`"
DEADLINE_FIELDS = tuple(name for name, field in _ASKED.items() if field.extra.get("section") == DEADLINES)
"""The deadlines of a deploy, which a recovery has too."""
ONLY_OF_A_ROLLBACK = ("accept_loss",)
ACTIONS = (
    "What to do about the problem. `diagnose` reports the cause and the possible actions, and changes nothing;"
    " `restart` runs the current release from its checkpoints; `restore` continues damaged queries from snapshots;"
    " `replan` plans an open batch again if its plan is unreadable; `rebuild` lets damaged queries read all input"
    " again"
)
"""The description of the field ``action`` of a recovery."""
INHERIT = "inherit"
"""Name of the field that makes empty params or confs mean those of the current release."""


def deploy_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_deploy``. ``jobs``: the names of jobs that the form suggests.

    Airflow starts no run for input that a field's schema refuses.
    """
    names = [name for name in _ASKED if name not in ONLY_OF_A_ROLLBACK]
    own_values = names.index("conf") + 1
    form = {**_fields(*names[:own_values]), INHERIT: _inherit(), **_fields(*names[own_values:])}
    return {
        **form,
        "job": _job(
            jobs,
            "Name of the job to deploy: the name of its file in the jobs root without `.py`, or the job"
            " of a pushed release",
        ),
        "params": _field("params", description=f"{_ASKED['params'].description}. {_SECRET}"),
        "reason": _reason(),
        "on_open": _on_open("deploy"),
    }


def rollback_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_rollback``; ``jobs``: the names of jobs to suggest."""
    return {
        "job": _job(jobs, "Name of the job to roll back to an older release"),
        "release": _field("release", description=ROLLBACK["release"]),
        "reason": _reason(),
        "handover": _field("handover"),
        "dry_run": _field("dry_run", description=ROLLBACK["dry_run"]),
        "accept_risk": _field("accept_risk", section=None),
        "accept_loss": _field("accept_loss", section=None),
        **_fields("drain_s", "standby_s", "first_commit_s", "probation_batches", "probation_s"),
        "on_open": _on_open("roll back"),
    }


def stop_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_stop``; ``jobs``: the names of jobs to suggest."""
    return {
        "job": _job(jobs, "Name of the job to stop. The job stays stopped until a person starts or deploys it"),
        "reason": _reason(),
        **_fields("drain_s"),
    }


def start_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_start``; ``jobs``: the names of jobs to suggest."""
    return {
        "job": _job(jobs, "Name of the job to start again. Its last release resumes from its checkpoints"),
        "reason": _reason(),
    }


def state_dead_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_state_dead``; ``jobs``: the names of jobs to suggest."""
    return {
        "job": _job(jobs, "Name of the job whose driver was lost with its machine"),
        "instance": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$",
            "title": "Driver",
            "description": "Id of the driver that has terminated, as shown on the job's page",
        },
        "reason": _reason(),
        "accept": {
            "default": False,
            "type": "boolean",
            "title": "The driver has terminated",
            "description": "Confirm that the driver has terminated. Without this confirmation nothing is recorded,"
            " and the run reports the risks of the statement",
        },
    }


def recover_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_recover``; ``jobs``: the names of jobs to suggest."""
    return {
        "job": _job(jobs, "Name of the job to diagnose or recover"),
        "action": {
            "default": RecoveryAction.DIAGNOSE.value,
            "type": "string",
            "enum": [action.value for action in RecoveryAction],
            "description_md": ACTIONS,
            "values_display": {
                "diagnose": "Diagnose: report the cause and the possible actions",
                "restart": "Restart: the current release, from its checkpoints",
                "restore": "Restore: damaged queries from snapshots",
                "replan": "Replan: plan an open batch again if its plan is unreadable",
                "rebuild": "Rebuild: damaged queries read all input again",
            },
            "title": "Action",
        },
        "query": {
            "default": None,
            "type": ["null", "string"],
            "pattern": "^([a-z][a-z0-9_]{0,62})?$",
            "title": "Query",
            "description": "The only query to restore or rebuild, damaged or not. If empty, all damaged queries",
        },
        "snapshot": {
            "default": None,
            "type": ["null", "string"],
            "pattern": "^(s[0-9]{4,10})?$",
            "title": "Snapshot",
            "description_md": "Snapshot to restore the named query from, like `s0007`. If empty, the one that the"
            " diagnosis names",
        },
        "dry_run": _field("dry_run", description=RECOVERY["dry_run"]),
        "reason": _reason(required=False),
        **_fields(*DEADLINE_FIELDS),
    }


def unclamped(schema: Mapping[str, Any]) -> Field:
    """Return the schema with its bounds hidden from Airflow's page. Airflow still enforces the bounds on the input.

    The page would silently replace a number beyond a bound by the bound, for example a share of 1.5 by 1. It would also
    cut a text that is too long.
    """
    bounds = {key: value for key, value in schema.items() if key in ("minimum", "maximum", "maxLength")}
    rest = {key: value for key, value in schema.items() if key not in bounds}
    return {**rest, "allOf": [bounds]} if bounds else rest


def clamped(field: Field) -> Field:
    """Return the field with its bounds where the page's dialogs read them: the inverse of ``unclamped``."""
    return {**field, **(field.get("allOf") or [{}])[0], **field.get("then", {})}


def _fields(*names: str) -> Form:
    return {name: _field(name) for name in names}


def _field(name: str, **other: Any) -> Field:
    """The field as the request declares it, with the parts in ``other`` replaced, or left out if they are None."""
    field = _ASKED[name]
    description = f"{field.description}. One per line" if isinstance(field.default, tuple) else field.description
    shown = {**_json_type(field), **unclamped(field.extra), "title": field.title, "description": description, **other}
    if "`" in shown["description"]:
        shown["description_md"] = shown.pop("description")
    return {key: value for key, value in shown.items() if value is not None or key == "default"}


def _json_type(field: AskedField) -> Field:
    """Return the JSON schema of a field's type, as Airflow's form reads it, and its default unless it is required."""
    if isinstance(field.default, Enum):
        return {"default": field.default.value, "type": "string", "enum": [choice.value for choice in field.kind]}
    schema = msgspec.json.schema(field.kind)
    if "anyOf" in schema:
        schema = {"type": ["null", schema["anyOf"][0]["type"]]}
    if field.default is msgspec.NODEFAULT:
        return schema
    return {"default": list(field.default) if isinstance(field.default, tuple) else field.default, **schema}


def _job(jobs: Sequence[str], description: str) -> Field:
    return _field("job", examples=list(jobs), description=description)


def _reason(*, required: bool = True) -> Field:
    """The field for the reason, which a request in Airflow needs unless it changes nothing (``required=False``)."""
    field = _ASKED["reason"]
    shown = {"type": "string", "title": field.title, "description": field.description}
    if required:
        return {**shown, **unclamped(field.extra)}
    return {"default": "", **shown, "if": {"minLength": 1}, "then": field.extra}


def _inherit() -> Field:
    return {
        "default": True,
        "type": "boolean",
        "title": "Keep current values",
        "description": "Use the params or confs of the current release if you leave params or confs empty. If off,"
        " empty means none",
    }


def _on_open(verb: str) -> Field:
    return {
        "default": "refuse",
        "type": "string",
        "enum": ["refuse", "continue", "abort"],
        "values_display": {
            "refuse": "Refuse this request, and name the open operation",
            "continue": "Continue the open operation instead",
            "abort": f"Abort the open operation, then {verb}",
        },
        "title": "If another operation of the job is open",
        "section": DEADLINES,
    }
