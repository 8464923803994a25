"""Generates the page about the command line from typer's tree of commands."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from typer.main import get_command

from harness.reference.markdown import code, page, prose, table
from streamkeeper.cli.main import app
from streamkeeper.model.markdown_text import anchor

_INTRODUCTION = """
Put `scripts/run` in front of a command in a checkout; an installed wheel has `streamkeeper` on the path. Every command
reads the [settings](settings.md) from the environment. `streamkeeper COMMAND --help` prints what is here.

| exit code | meaning |
|---|---|
| 0 | done; a dry run: it would go ahead |
| 1 | a problem was found: a diagnosis with a cause, damage, a failed drill, a dry run that would not go ahead |
| 2 | refused, failed or used wrongly: one line on stderr says why and what to do |
| 130 | interrupted |

`check` has [codes of its own](../guides/change.md#check-a-change-before-deploying-it).
"""


def render_command_line() -> str:
    """Return the text of docs/reference/cli.md."""
    found = list(_commands(get_command(app), ("streamkeeper",)))
    names = [" ".join(path[1:]) for path, _ in found]
    overview = table(
        ("command", "what it does"),
        (
            (f"[{code(name)}](#{anchor(name)})", _first_sentence(each.help))
            for name, (_, each) in zip(names, found, strict=True)
        ),
    )
    return page("Command line", _INTRODUCTION, overview, *(_section(path, each) for path, each in found))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that performs an action, with the words that call it, in the order of ``--help``."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, each in below.items():
        if not each.hidden:
            yield from _commands(each, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    shown = [each for each in command.params if not each.hidden and each.name != "help"]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    usage = " ".join((*path, *(_usage(each) for each in arguments), "[OPTIONS]"))
    rows = [(_name(each), _default(each), prose(each.help or "")) for each in shown]
    options = table(("argument or option", "default", "meaning"), rows) if rows else ""
    return "\n\n".join((f"## {' '.join(path[1:])}", prose(_text(command.help)), f"```\n{usage}\n```", options))


def _usage(argument: Any) -> str:
    shown = argument.metavar or argument.name.upper()
    return shown if argument.required or shown.startswith("[") else f"[{shown}]"


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return code(_usage(param))
    value = "" if param.is_flag else _value(param)
    names = ", ".join(code(each + value) for each in (*param.opts, *param.secondary_opts))
    return f"{names} (repeatable)" if param.multiple else names


def _value(param: Any) -> str:
    if isinstance(param.default, Enum):
        return f" {'|'.join(each.value for each in type(param.default))}"
    if param.metavar:
        return f" {param.metavar}"
    number = isinstance(param.default, int | float) and not isinstance(param.default, bool)
    return " NUMBER" if number else " TEXT"


def _default(param: Any) -> str:
    default = param.default
    if param.required:
        return "required"
    if isinstance(default, Enum):
        return code(default.value)
    if isinstance(default, bool):
        return code(param.opts[0] if default else "") if param.secondary_opts else ""
    return code(f"{default:g}") if isinstance(default, int | float) else code(str(default or ""))


def _text(help: str | None) -> str:
    """Return a command's help with each paragraph on one line."""
    return "\n\n".join(" ".join(part.split()) for part in (help or "").replace("\b", "").split("\n\n"))


def _first_sentence(help: str | None) -> str:
    return prose(_text(help).partition("\n")[0].partition(". ")[0].removesuffix("."))
