"""The trigger forms of the DAGs that act on a job: their fields, each a JSON schema with texts for a person.

Airflow's own form and the page's dialogs are both made from these. A field without a ``default`` is required.
``section``: its fold in the form; ``values_display``: the text of each choice; ``description_md``: a description with
backticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from streamkeeper.model.asked_fields import AskedField, asked_fields
from streamkeeper.model.recovery import RecoveryAction
from streamkeeper.model.request import DEADLINES, RECOVERY, ROLLBACK, DeployRequest

Field = dict[str, Any]
Form = dict[str, Field]

_ASKED = asked_fields(DeployRequest)
_SECRET = "A secret is `secret://airflow/CONN_ID/password`"
DEADLINE_FIELDS = tuple(name for name, field in _ASKED.items() if field.extra.get("section") == DEADLINES)
"""The deadlines of a deploy, which a recovery has too."""
ONLY_OF_A_ROLLBACK = ("accept_loss",)
INHERIT = "inherit"
"""The field by which empty params or conf mean the current release's."""


def deploy_fields(jobs: Sequence[str] = ()) -> Form:
    """The fields of ``streaming_deploy``; Airflow starts no run with input that their schemas refuse.

    ``jobs``: names to suggest.
    """
    names = [name for name in _ASKED if name not in ONLY_OF_A_ROLLBACK]
    own_values = names.index("conf") + 1
    form = {**_fields(*names[:own_values]), INHERIT: _inherit(), **_fields(*names[own_values:])}
    return {
        **form,
        "job": _job(jobs, "A job file under the jobs root, without .py; or the job of a pushed release"),
        "params": _field("params", description=f"{_ASKED['params'].description}. {_SECRET}"),
        "reason": _reason(),
        "on_open": _on_open("deploy"),
    }


def rollback_fields(jobs: Sequence[str] = ()) -> Form:
    """The fields of ``streaming_rollback``."""
    return {
        "job": _job(jobs, "The job to roll back to an older release"),
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
    """The fields of ``streaming_stop``."""
    return {
        "job": _job(jobs, "The job to stop. It stays stopped until a person starts or deploys it"),
        "reason": _reason(),
        **_fields("drain_s"),
    }


def start_fields(jobs: Sequence[str] = ()) -> Form:
    """The fields of ``streaming_start``."""
    return {
        "job": _job(jobs, "The job to start again. Its last release resumes from its checkpoints"),
        "reason": _reason(),
    }


def state_dead_fields(jobs: Sequence[str] = ()) -> Form:
    """The fields of ``streaming_state_dead``."""
    return {
        "job": _job(jobs, "The job whose driver was lost with its machine"),
        "instance": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$",
            "title": "Driver",
            "description": "The driver that has terminated, by its id on the job's page",
        },
        "reason": _reason(),
        "accept": {
            "default": False,
            "type": "boolean",
            "title": "The driver has terminated",
            "description": "Without this nothing is recorded, and the run reports the risks of the statement",
        },
    }


def recover_fields(jobs: Sequence[str] = ()) -> Form:
    """The fields of ``streaming_recover``."""
    return {
        "job": _job(jobs, "The job to diagnose or recover"),
        "action": {
            "default": RecoveryAction.DIAGNOSE.value,
            "type": "string",
            "enum": [action.value for action in RecoveryAction],
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
            "description": "Empty: all damaged queries",
        },
        "snapshot": {
            "default": None,
            "type": ["null", "string"],
            "pattern": "^(s[0-9]{4,10})?$",
            "title": "Snapshot",
            "description_md": "A snapshot of that query, like `s0007`; empty: the one that the diagnosis names",
        },
        "dry_run": _field("dry_run", description=RECOVERY["dry_run"]),
        "reason": _reason(required=False),
        **_fields(*DEADLINE_FIELDS),
    }


def unclamped(schema: Mapping[str, Any]) -> Field:
    """The schema with its bounds hidden from Airflow's page; they are still enforced on the input.

    The page would silently replace a number beyond a bound by that bound: a share of 1.5 by everything. It would also
    cut a text that is too long.
    """
    bounds = {key: value for key, value in schema.items() if key in ("minimum", "maximum", "maxLength")}
    rest = {key: value for key, value in schema.items() if key not in bounds}
    return {**rest, "allOf": [bounds]} if bounds else rest


def clamped(field: Field) -> Field:
    """A form's field with its bounds where our own dialogs read them: the inverse of ``unclamped``."""
    return {**field, **(field.get("allOf") or [{}])[0], **field.get("then", {})}


def _fields(*names: str) -> Form:
    return {name: _field(name) for name in names}


def _field(name: str, **other: Any) -> Field:
    """A field as declared by the request; ``other``: this form's differences, None for a part that it leaves out."""
    field = _ASKED[name]
    description = f"{field.description}; one per line" if isinstance(field.default, tuple) else field.description
    shown = {**_json_type(field), **unclamped(field.extra), "title": field.title, "description": description, **other}
    if "`" in shown["description"]:
        shown["description_md"] = shown.pop("description")
    return {key: value for key, value in shown.items() if value is not None or key == "default"}


def _json_type(field: AskedField) -> Field:
    """The JSON schema of a field's type, as Airflow's form reads it, and its default unless it is required."""
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
    """Requests in Airflow need a reason; it may stay empty if nothing is changed."""
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
        "description": "Empty params or confs are those of the current release; off: none",
    }


def _on_open(verb: str) -> Field:
    return {
        "default": "refuse",
        "type": "string",
        "enum": ["refuse", "continue", "abort"],
        "values_display": {
            "refuse": "Refuse, and name that operation",
            "continue": "Continue that operation",
            "abort": f"Abort that operation, then {verb}",
        },
        "title": "If another operation of the job is open",
        "section": DEADLINES,
    }
