"""The trigger form and the command line make the same requests, with the same fields, defaults and descriptions."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer

from streamkeeper.cli.main import app

pytestmark = pytest.mark.airflow

ONLY_TYPED = {
    "deploy": {"no_inherit", "diff", "diff_to", "json"},
    "rollback": {"json"},
    "stop": {"json"},
    "start": {"json"},
    "recover": {"accept_replay", "accept_loss", "json"},
    "prune": {"series", "checkpoint", "store", "grace", "json"},
    "watch": {"once", "overdue_s"},
}
"""Options that only the command has, or that the form has under a different name, by command."""
ONLY_IN_THE_FORM = {
    "deploy": {"inherit"},
    "prune": {"job", "grace_s"},
}
SAID_OTHERWISE = {
    "deploy": {"params", "conf", "expect_different", "on_open"},
    "rollback": {"on_open"},
    "recover": {"action", "query", "snapshot"},
    "prune": {"keep"},
}
"""Fields that are written differently in form and command: JSON or ``KEY=VALUE``, a list or a repeated option."""
VERBS = ("deploy", "rollback", "stop", "start", "recover", "prune", "watch")


def form_of(verb: str) -> dict[str, Any]:
    """Return the fields of a DAG's form."""
    from streamkeeper.orchestration import form, snapshot_forms, watch_task

    forms: dict[str, Callable[[Path], dict[str, Any]]] = {
        "deploy": form.deploy_form,
        "rollback": form.rollback_form,
        "stop": form.stop_form,
        "start": form.start_form,
        "recover": form.recover_form,
        "prune": snapshot_forms.prune_form,
        "watch": watch_task.watch_form,
    }
    return forms[verb](Path("no-such-folder"))


def options_of(verb: str) -> dict[str, Any]:
    """Return the options and arguments of a command."""
    group: Any = typer.main.get_command(app)
    return {each.name: each for each in group.commands[verb].params}


def shared(verb: str) -> list[tuple[str, Any, Any]]:
    """Return the fields that form and command share, each with both definitions."""
    form, options = form_of(verb), options_of(verb)
    return [(name, form[name], options[name]) for name in form if name in options]


def plain(value: Any) -> Any:
    """Return a default in a common form: empty values as None, and a choice as its word."""
    return (value.value if isinstance(value, Enum) else value) or None


@pytest.mark.parametrize("verb", VERBS)
def test_form_and_command_have_the_same_fields(verb: str) -> None:
    """Form and command have the same fields, except for the listed ones."""
    form, options = set(form_of(verb)), set(options_of(verb))
    assert (options - form, form - options) == (ONLY_TYPED.get(verb, set()), ONLY_IN_THE_FORM.get(verb, set()))


@pytest.mark.parametrize("verb", VERBS)
def test_form_and_command_have_the_same_defaults(verb: str) -> None:
    """Each shared field has the same default in form and command, except for the job and the reason, which Airflow
    always requires.
    """
    required = {"job", "reason"}
    defaults = {name: (plain(field.value), plain(option.default)) for name, field, option in shared(verb)}
    assert {name: both for name, both in defaults.items() if name not in required and both[0] != both[1]} == {}


@pytest.mark.parametrize("verb", VERBS)
def test_form_and_command_have_the_same_field_descriptions(verb: str) -> None:
    """Each shared field has the same description in form and command, apart from Markdown backticks."""
    otherwise = SAID_OTHERWISE.get(verb, set())
    said = {
        name: ((field.description or field.schema["description_md"]).replace("`", ""), option.help)
        for name, field, option in shared(verb)
        if name not in otherwise
    }
    assert said
    assert {name: both for name, both in said.items() if both[0] != both[1]} == {}


@pytest.mark.parametrize("verb", VERBS)
def test_form_and_command_offer_the_same_choices(verb: str) -> None:
    """Each field with choices offers the same values in form and command."""
    for name, field, option in shared(verb):
        if "enum" in field.schema:
            assert [each.value for each in option.type_descriptor.annotation] == field.schema["enum"], name
            assert list(field.schema["values_display"]) == field.schema["enum"], name
