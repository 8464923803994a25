"""The dialogs of the buttons: the fields of a DAG's trigger form, filled in with the current values. Pure.

A dialog sends nothing to the page's own application. The dialog's script creates a run of the DAG in the viewer's
Airflow session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.trigger_forms import (
    Field,
    Form,
    clamped,
    deploy_fields,
    recover_fields,
    rollback_fields,
    start_fields,
    state_dead_fields,
    stop_fields,
)
from streamkeeper.model.secret_names import is_shown_whole, literal_secrets
from streamkeeper.model.secret_references import MASK
from streamkeeper.pages.viewer import DEPLOY, RECOVER, ROLLBACK, START, STATE_DEAD, STOP

_NOT_ASKED = frozenset({"job", "dry_run"})
"""Fields that the dialog leaves out, because the page and the button determine their values."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One input field of a dialog. Its bounds are the attributes of an HTML input."""

    name: str
    """The form field's name."""
    kind: str
    """text, prose, json, lines, number, whole, flag or choice."""
    title: str
    """Its label."""
    help: str
    """Its help text."""
    value: str = ""
    """Its initial text."""
    default: str = ""
    """The value that is not sent, as JSON; empty for a field that is always sent."""
    same: bool = False
    """Whether the initial value is that of the current release; the field is then sent only if it was changed."""
    choices: tuple[tuple[str, str], ...] = ()
    """Value and label of each choice."""
    suggestions: tuple[str, ...] = ()
    """Values to suggest."""
    required: bool = False
    """Whether it must be filled in."""
    pattern: str = ""
    """A regular expression for the whole text; empty without one."""
    least: float | None = None
    """The smallest number."""
    most: float | None = None
    """The largest number."""
    shortest: int | None = None
    """The smallest number of characters."""
    longest: int | None = None
    """The largest number of characters."""


class Dialog(msgspec.Struct, frozen=True, kw_only=True):
    """One button's dialog."""

    name: str
    """Its name in the address."""
    dag: str
    """The DAG that it runs."""
    title: str
    """Its heading."""
    sentence: str
    """Its introduction."""
    submit: str
    """The label of its button."""
    inputs: tuple[Input, ...]
    """The fields that are always visible."""
    folds: tuple[tuple[str, tuple[Input, ...]], ...] = ()
    """Title -> rarely used fields."""
    dry: bool = False
    """Whether its DAG has a dry run."""
    opens: bool = True
    """Whether the run opens an operation."""
    told_by: tuple[str, ...]
    """Ids of the tasks whose errors the dialog shows."""
    words_of: tuple[str, ...] = ()
    """Ids of the tasks whose report is shown as the result of a run that opens no operation."""
    asks: str = ""
    """The id of the task that may ask a person before the operation exists; empty without such a task."""


def deploy_dialog(state: JobState) -> Dialog:
    """Return the deploy dialog, filled in with the params and the conf of the current release."""
    serving = state.releases.get(state.serving_release)
    filled: dict[str, str] = {}
    if serving is not None:
        secrets = set(literal_secrets(serving.content.params)) | set(literal_secrets(serving.content.conf))
        filled = {
            "params": _shown_values(serving.content.params, secrets),
            "conf": _shown_values(serving.content.conf, secrets),
        }
    running = f"{state.serving_release} runs until the new release has taken over. " if serving is not None else ""
    return _dialog(
        deploy_fields(),
        filled,
        name="deploy",
        dag=DEPLOY,
        title=f"Deploy {state.job}",
        sentence=f"{running}Params and conf that you do not change stay those of the current release.",
        submit="Deploy",
        same=("params", "conf"),
        dry=True,
        told_by=("bundle", "standby", "assess"),
        words_of=("finish", "assess"),
    )


def rollback_dialog(state: JobState) -> Dialog:
    """Return the rollback dialog, which suggests earlier releases, newest first."""
    earlier = [release for release in reversed(state.served) if release != state.serving_release]
    return _dialog(
        rollback_fields(),
        {},
        name="rollback",
        dag=ROLLBACK,
        title=f"Roll back {state.job}",
        sentence=f"{state.serving_release} is current, {earlier[0] if earlier else 'no release'} was before it."
        " A dry run reports the rollback path and what would be written again.",
        submit="Roll back",
        suggested={"release": earlier},
        dry=True,
        told_by=("bundle", "standby", "assess"),
    )


def recover_dialog(state: JobState, *, action: str = "", query: str = "", snapshot: str = "") -> Dialog:
    """Return the recovery dialog.

    ``action``: the action to select; ``query`` and ``snapshot``: the snapshot that the viewer has chosen to restore,
    empty without one.
    """
    fields = recover_fields()
    # The dry run of any action reports the diagnosis.
    fields["action"] = {
        **fields["action"],
        "default": RecoveryAction.RESTART.value,
        "enum": [each for each in fields["action"]["enum"] if each != RecoveryAction.DIAGNOSE.value],
        "description": "What to do about the problem",
    }
    chosen = action if action in fields["action"]["enum"] else RecoveryAction.RESTART.value
    return _dialog(
        fields,
        {"action": chosen, "query": query, "snapshot": snapshot},
        name="recover",
        dag=RECOVER,
        title=f"Restore {query} of {state.job} from {snapshot}" if snapshot else f"Recover {state.job}",
        sentence="A dry run inspects driver, checkpoints, outputs and snapshots, and reports what the action would read"
        " again, write again or lose. An action that loses or duplicates rows waits until a person accepts that.",
        submit="Restore" if snapshot else "Recover",
        suggested={"query": sorted(state.versions)},
        always=("action",),
        dry=True,
        told_by=("diagnose", "accept", "bundle", "standby", "assess"),
        words_of=("diagnose",),
        asks="accept",
    )


def stop_dialog(state: JobState) -> Dialog:
    """Return the stop dialog. It shows the result of the DAG run, because a stop opens no operation."""
    return _dialog(
        stop_fields(),
        {},
        name="stop",
        dag=STOP,
        title=f"Stop {state.job}",
        sentence="The driver finishes the open batch and stops. The job stays stopped until a person starts, deploys"
        " or rolls it back; it then resumes from its checkpoints.",
        submit="Stop",
        opens=False,
        told_by=("stop",),
    )


def start_dialog(state: JobState) -> Dialog:
    """Return the start dialog. Starting a job resumes its last release from that release's checkpoints."""
    return _dialog(
        start_fields(),
        {},
        name="start",
        dag=START,
        title=f"Start {state.job}",
        sentence=f"{state.serving_release} resumes from its checkpoints.",
        submit="Start",
        told_by=("start",),
    )


def state_dead_dialog(state: JobState) -> Dialog:
    """Return the dialog in which a person states that the current driver has terminated. It shows the result of the DAG
    run, because such a statement opens no operation.
    """
    return _dialog(
        state_dead_fields(),
        {"instance": state.serving_instance},
        name="state-dead",
        dag=STATE_DEAD,
        title=f"State that the driver of {state.job} has terminated",
        sentence="Use this only if the driver's machine will not come back and you know that the driver has terminated."
        " Your statement is recorded as not proven. A copy of the driver's checkpoint is kept, and Recover with the"
        " action restore continues there. Without the tick nothing is recorded, and the risks of the statement are"
        " reported.",
        submit="State termination",
        opens=False,
        told_by=("copy", "state"),
    )


def _dialog(
    form: Form,
    filled: Mapping[str, str],
    *,
    suggested: Mapping[str, Iterable[str]] | None = None,
    same: tuple[str, ...] = (),
    always: tuple[str, ...] = (),
    **options: Any,
) -> Dialog:
    inputs: list[Input] = []
    folds: dict[str, list[Input]] = {}
    for name, field in form.items():
        if name in _NOT_ASKED:
            continue
        made = _input(name, field, filled.get(name), tuple((suggested or {}).get(name, ())))
        made = msgspec.structs.replace(
            made, same=name in same and name in filled, default="" if name in always else made.default
        )
        folds.setdefault(field["section"], []).append(made) if "section" in field else inputs.append(made)
    return Dialog(inputs=tuple(inputs), folds=tuple((title, tuple(each)) for title, each in folds.items()), **options)


def _input(name: str, field: Field, filled: str | None, suggestions: tuple[str, ...]) -> Input:
    schema = clamped(field)
    kind = _kind(name, schema)
    return Input(
        name=name,
        kind=kind,
        title=schema["title"],
        help=(schema.get("description") or schema.get("description_md") or "").replace("`", ""),
        value=_value(kind, schema.get("default")) if filled is None else filled,
        default=json.dumps(schema["default"]) if "default" in schema else "",
        choices=tuple((each, schema.get("values_display", {}).get(each, each)) for each in schema.get("enum", ())),
        suggestions=suggestions,
        required="default" not in schema,
        pattern=schema.get("pattern", ""),
        least=schema.get("minimum", schema.get("exclusiveMinimum")),
        most=schema.get("maximum"),
        shortest=schema.get("minLength"),
        longest=schema.get("maxLength"),
    )


_KINDS = {"boolean": "flag", "number": "number", "integer": "whole", "object": "json", "array": "lines"}


def _kind(name: str, schema: Field) -> str:
    if "enum" in schema:
        return "choice"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    found = next((_KINDS[kind] for kind in kinds if kind in _KINDS), "text")
    return "prose" if found == "text" and name == "reason" else found


def _value(kind: str, default: object) -> str:
    """Return the initial text of a field with this default."""
    match default:
        case None | {} | []:
            return ""
        case bool():
            return "yes" if default else ""
        case float():
            return f"{default:g}"
        case _:
            return str(default)


def _shown_values(values: Mapping[str, ParamValue], secrets: set[str]) -> str:
    """Return the values as JSON, one per line. A literal secret is masked; the mask itself is never sent as a value."""

    def shown(name: str, value: ParamValue) -> ParamValue:
        if not isinstance(value, str):
            return value
        hidden = any(secret in value for secret in secrets) or not is_shown_whole(name, value)
        return MASK if hidden else value

    shown_values = {name: shown(name, value) for name, value in sorted(values.items())}
    return json.dumps(shown_values, indent=2, ensure_ascii=False)
