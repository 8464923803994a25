"""Options that several commands share, and their parsing; wrong values raise InvalidInput with one clear line."""

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
from streamkeeper.model.release import ParamValue
from streamkeeper.model.settings import read_settings
from streamkeeper.operations.installation import Installation
from streamkeeper.registry.installations import find_misplaced
from streamkeeper.registry.jobs import list_jobs

Params = Annotated[str, typer.Option("--params", metavar="JSON", help='The job\'s params: {"input": "/data/sales"}')]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark conf; repeatable")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name")]

_MISTYPED = (
    "correct STREAMKEEPER_HOME or STREAMKEEPER_STORE; if the store was lost: streamkeeper registry rebuild; otherwise"
    " the first deploy or release push creates one"
)
_EXAMPLE = '--params \'{"input": "/data/sales"}\''


def open_site(*, begins: bool = False) -> Installation:
    """Open the installation that the environment names; raises OperationRefused for a copied or moved one.

    ``begins``: whether the command may create an installation; it then prints a note. Without it, NotFound is raised
    if there is none, and nothing is created.
    """
    _, none_yet = _look_for_site()
    if none_yet and not begins:
        raise NotFound(none_yet, hint=_MISTYPED)
    if none_yet:
        echo(f"note: {none_yet}: a new installation is created there", err=True)
    return Installation.from_environment(os.environ)


def open_to_look(*, empty: bool = False) -> Installation:
    """Open the installation for a command that changes nothing; a copied or moved one only prints a warning.

    Raises NotFound if there is no installation; with ``empty``, prints a warning instead.
    """
    site, none_yet = _look_for_site()
    if none_yet and not empty:
        raise NotFound(none_yet, hint=_MISTYPED)
    if none_yet:
        echo(f"warning: {none_yet} ({_MISTYPED})", err=True)
    site = site or Installation.from_environment(os.environ, looking=True)
    if misplaced := find_misplaced(site.store, site.record, site.settings.home):
        echo(f"warning: {misplaced} (streamkeeper home show)", err=True)
    return site


def _look_for_site() -> tuple[Installation | None, str]:
    """The installation, and the reason why there is none yet (empty if there is one). Creates nothing.

    Raises InvalidInput if none can be created because part of the home is a file.
    """
    settings = read_settings(os.environ)
    home = f"STREAMKEEPER_HOME={settings.home}"
    there = next(part for part in (Path(settings.home), *Path(settings.home).parents) if part.exists())
    if not there.is_dir():
        raise InvalidInput(f"{home}: {there} is a file", hint="STREAMKEEPER_HOME must be a directory")
    # Opening a local store creates it.
    if (directory := settings.store_directory) is not None and not directory.exists():
        missing = f"{home}: there is no store at {settings.store}"
        return None, missing if Path(settings.home).exists() else f"{home} does not exist"
    site = Installation.from_environment(os.environ, looking=True)
    if site.record is not None or list_jobs(site.store):
        return site, ""
    return site, f"{home}: no job was ever deployed or pushed to {site.store.url}"


def read_params(text: str) -> dict[str, ParamValue]:
    """``{"name": scalar}``; raises InvalidInput."""
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
                f"param {name} is a number outside the range that can be stored", hint="write it as a string"
            )
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise InvalidInput(f"--params has {twice[0]} more than once", hint="write each param once")
    return dict(pairs)


def _no_number(constant: str) -> Any:
    raise InvalidInput(f"--params has {constant}, which is not JSON", hint='write it as a string: "NaN"')


def read_conf(pairs: list[str] | None) -> dict[str, str]:
    """``["key=value"]`` -> dict; raises InvalidInput."""
    conf: dict[str, str] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise InvalidInput(f"--conf {pair!r} is not KEY=VALUE", hint="--conf spark.sql.shuffle.partitions=4")
        conf[key] = value
    return conf
