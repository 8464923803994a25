"""The trigger form and the command line are two doors to the same requests: same fields, defaults and words."""

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
"""By command: what a terminal is for, and what the form has under another name."""
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
"""What is written in another way in each door: JSON or ``KEY=VALUE``, a list or an option that is repeated."""
VERBS = ("deploy", "rollback", "stop", "start", "recover", "prune", "watch")


def form_of(verb: str) -> dict[str, Any]:
    """The fields of a DAG's form."""
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
    """The options and arguments of a command."""
    group: Any = typer.main.get_command(app)
    return {each.name: each for each in group.commands[verb].params}


def shared(verb: str) -> list[tuple[str, Any, Any]]:
    """The fields that both doors have, each with its form's and its command's."""
    form, options = form_of(verb), options_of(verb)
    return [(name, form[name], options[name]) for name in form if name in options]


def plain(value: Any) -> Any:
    """A default as both doors mean it: what is empty is nothing, and a choice is its word."""
    return (value.value if isinstance(value, Enum) else value) or None


@pytest.mark.parametrize("verb", VERBS)
def test_both_doors_ask_for_the_same(verb: str) -> None:
    """What one of them alone takes is known, with the reason."""
    form, options = set(form_of(verb)), set(options_of(verb))
    assert (options - form, form - options) == (ONLY_TYPED.get(verb, set()), ONLY_IN_THE_FORM.get(verb, set()))


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_left_out_means_the_same(verb: str) -> None:
    """A default that is another one in the other door is a surprise; a reason is required in Airflow always."""
    required = {"job", "reason"}
    defaults = {name: (plain(field.value), plain(option.default)) for name, field, option in shared(verb)}
    assert {name: both for name, both in defaults.items() if name not in required and both[0] != both[1]} == {}


@pytest.mark.parametrize("verb", VERBS)
def test_both_doors_say_the_same(verb: str) -> None:
    """One declaration, so one text; backticks are for Airflow's Markdown."""
    otherwise = SAID_OTHERWISE.get(verb, set())
    said = {
        name: ((field.description or field.schema["description_md"]).replace("`", ""), option.help)
        for name, field, option in shared(verb)
        if name not in otherwise
    }
    assert said
    assert {name: both for name, both in said.items() if both[0] != both[1]} == {}


@pytest.mark.parametrize("verb", VERBS)
def test_both_doors_offer_the_same_choices(verb: str) -> None:
    """A value that only one of them takes is found here."""
    for name, field, option in shared(verb):
        if "enum" in field.schema:
            assert [each.value for each in option.type_descriptor.annotation] == field.schema["enum"], name
            assert list(field.schema["values_display"]) == field.schema["enum"], name
