"""Options that several commands share, and the parsing of their values. A wrong value raises InvalidInput."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from streamkeeper.cli.terminal import echo
from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.settings.settings import read_settings
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.installations import find_misplaced
from streamkeeper.registry.jobs import list_jobs

Params = Annotated[
    str,
    typer.Option("--params", metavar="JSON", help='Params of the job, as a JSON object like {"input": "/data/sales"}'),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A Spark conf of the job, like spark.sql.shuffle.partitions=4. Repeatable"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job")]

_MISTYPED = (
    "correct STREAMKEEPER_HOME or STREAMKEEPER_STORE if one of them is wrong. If the store was lost, run `streamkeeper"
    " registry rebuild`. Otherwise run `streamkeeper deploy JOB` or `streamkeeper release push JOB`, which create the"
    " installation"
)
_EXAMPLE = 'write them like `--params \'{"input": "/data/sales"}\'`'


def load_installation(*, begins: bool = False) -> Installation:
    """Open the installation that the environment names; raises OperationRefused if the installation was copied or
    moved.

    ``begins``: create the installation and print a note if there is none. Without ``begins``, raise NotFound and create
    nothing.
    """
    _, none_yet = _find_installation()
    if none_yet and not begins:
        raise NotFound(none_yet, hint=_MISTYPED)
    if none_yet:
        echo(f"note: {none_yet}: a new installation is created there", err=True)
    return Installation.from_environment(os.environ)


def load_read_only(*, empty: bool = False) -> Installation:
    """Open the installation for a command that changes nothing. If the installation was copied or moved, print a
    warning.

    ``empty``: if there is no installation, print a warning. Without ``empty``, raise NotFound.
    """
    installation, none_yet = _find_installation()
    if none_yet and not empty:
        raise NotFound(none_yet, hint=_MISTYPED)
    if none_yet:
        echo(f"warning: {none_yet} ({_MISTYPED})", err=True)
    installation = installation or Installation.from_environment(os.environ, read_only=True)
    if misplaced := find_misplaced(installation.store, installation.record, installation.settings.home):
        echo(f"warning: {misplaced}. Details: run `streamkeeper home show`", err=True)
    return installation


def _find_installation() -> tuple[Installation | None, str]:
    """Return the installation and "", or the reason why there is no installation yet. Creates nothing.

    Raises InvalidInput if part of the home's path is a file, because no installation can be created there.
    """
    settings = read_settings(os.environ)
    home = f"STREAMKEEPER_HOME={settings.home}"
    there = next(part for part in (Path(settings.home), *Path(settings.home).parents) if part.exists())
    if not there.is_dir():
        raise InvalidInput(f"{home}: {there} is a file", hint="set STREAMKEEPER_HOME to a directory")
    # Opening a local store creates it.
    if (directory := settings.store_directory) is not None and not directory.exists():
        missing = f"{home}: there is no store at {settings.store}"
        return None, missing if Path(settings.home).exists() else f"{home} does not exist"
    installation = Installation.from_environment(os.environ, read_only=True)
    if installation.record is not None or list_jobs(installation.store):
        return installation, ""
    return installation, f"{home}: no job was ever deployed or pushed to {installation.store.url}"


def read_params(text: str) -> dict[str, ParamValue]:
    """Parse params from JSON, ``{"name": scalar}``; raises InvalidInput."""
    try:
        found = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"--params is not JSON: {error}", hint=_EXAMPLE) from None
    except RecursionError:
        raise InvalidInput("--params is nested too deeply", hint=_EXAMPLE) from None
    if not isinstance(found, dict):
        raise InvalidInput("--params must be a JSON object", hint=_EXAMPLE)
    for name, value in found.items():
        if isinstance(value, list | dict):
            raise InvalidInput(f"param {name} must be a string, a number, true, false or null")
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(
                f"param {name} is a number outside the range that can be stored", hint="write the number as a string"
            )
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise InvalidInput(f"--params has {twice[0]} more than once", hint="write each param once")
    return dict(pairs)


def _no_number(constant: str) -> Any:
    raise InvalidInput(f"--params has {constant}, which is not JSON", hint='write the value as a string, such as "NaN"')


def read_conf(pairs: list[str] | None) -> dict[str, str]:
    """Parse confs, ``["key=value"]``, into a dict; raises InvalidInput."""
    conf: dict[str, str] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise InvalidInput(
                f"--conf {pair!r} is not KEY=VALUE", hint="write it as in `--conf spark.sql.shuffle.partitions=4`"
            )
        conf[key] = value
    return conf
