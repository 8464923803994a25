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

from streamkeeper.model.requests.asked_fields import AskedField, Verb, asked_fields
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import DEADLINES, SWITCHING, DeployRequest

Field = dict[str, Any]
Form = dict[str, Field]

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
    asked = _fields(Verb.DEPLOY, jobs)
    own_values = list(asked).index("conf") + 1
    before, after = list(asked.items())[:own_values], list(asked.items())[own_values:]
    return {**dict(before), INHERIT: _inherit(), **dict(after), "on_open": _on_open("deploy")}


def rollback_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_rollback``; ``jobs``: the names of jobs to suggest."""
    asked = _fields(Verb.ROLLBACK, jobs)
    # A rollback has too few of these fields to hide them.
    shown = {name: _without(field, "section", SWITCHING) for name, field in asked.items()}
    return {**shown, "on_open": _on_open("roll back")}


def stop_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_stop``; ``jobs``: the names of jobs to suggest."""
    return _fields(Verb.STOP, jobs)


def start_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_start``; ``jobs``: the names of jobs to suggest."""
    return _fields(Verb.START, jobs)


def state_dead_fields(jobs: Sequence[str] = ()) -> Form:
    """Return the form fields of the DAG ``streaming_state_dead``; ``jobs``: the names of jobs to suggest."""
    job, reason = (asked_fields(DeployRequest)[name] for name in ("job", "reason"))
    return {
        "job": _field(job, "Name of the job whose driver was lost with its machine", examples=list(jobs)),
        "instance": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$",
            "title": "Driver",
            "description": "Id of the driver that has terminated, as shown on the job's page",
        },
        "reason": _reason(reason, required=True),
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
    asked = _fields(Verb.RECOVER, jobs)
    return {
        "job": asked.pop("job"),
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
        **asked,
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


def _fields(verb: Verb, jobs: Sequence[str]) -> Form:
    """Return the fields that a verb takes, as the request declares them. ``jobs``: the names of jobs to suggest."""
    fields = asked_fields(DeployRequest, verb)
    form = {name: _field(field, field.help(verb)) for name, field in fields.items()}
    # A diagnosis changes nothing, so it needs no reason.
    form["reason"] = _reason(fields["reason"], required=verb is not Verb.RECOVER)
    return {**form, "job": {**form["job"], "examples": list(jobs)}}


def _field(field: AskedField, description: str, **other: Any) -> Field:
    """Return the field as the request declares it, with the parts in ``other`` added."""
    note = field.ask.form_note
    shown = {
        **_json_type(field),
        **unclamped(field.schema),
        "title": field.ask.title,
        "description": f"{description}. {note}" if note else description,
        **({"section": field.ask.section} if field.ask.section else {}),
        **other,
    }
    if "`" in shown["description"]:
        shown["description_md"] = shown.pop("description")
    return shown


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


def _reason(field: AskedField, *, required: bool) -> Field:
    """Return the form field for the reason, which may be left empty only if ``required`` is False."""
    shown = {"type": "string", "title": field.ask.title, "description": field.ask.help}
    if required:
        return {**shown, **unclamped(field.schema)}
    return {"default": "", **shown, "if": {"minLength": 1}, "then": field.schema}


def _without(field: Field, key: str, value: object) -> Field:
    return {name: each for name, each in field.items() if (name, each) != (key, value)}


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
