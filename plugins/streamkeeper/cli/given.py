"""What is given on the command line, turned into values; anything else is InvalidInput with one clear line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.model.release import ParamValue
from streamkeeper.model.settings import read_settings
from streamkeeper.operations.sites import Site
from streamkeeper.registry.installations import find_misplaced
from streamkeeper.registry.jobs import list_jobs

Params = Annotated[str, typer.Option("--params", metavar="JSON", help='The job\'s params: {"input": "/data/sales"}')]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark conf; repeatable")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name")]

_MISTYPED = "mend STREAMKEEPER_HOME or STREAMKEEPER_STORE; a first deploy or release push begins one"
_EXAMPLE = '--params \'{"input": "/data/sales"}\''


def open_site(*, begins: bool = False) -> Site:
    """The installation that the environment names; raises OperationRefused for a copied or moved one.

    ``begins``: for commands that an installation may begin with, which is told; any other raises NotFound where there
    is none, and makes nothing.
    """
    _, none_yet = _look_for_site()
    if none_yet and not begins:
        raise NotFound(none_yet, hint=_MISTYPED)
    if none_yet:
        typer.echo(f"note: {none_yet}: a new installation begins there", err=True)
    return Site.from_environment(os.environ)


def open_to_look(*, empty: bool = False) -> Site:
    """The same for commands that change nothing: of a copied or moved one with a warning.

    Raises NotFound where there is no installation, unless it may be ``empty``: then that is a warning as well.
    """
    site, none_yet = _look_for_site()
    if none_yet and not empty:
        raise NotFound(none_yet, hint=_MISTYPED)
    if none_yet:
        typer.echo(f"warning: {none_yet} ({_MISTYPED})", err=True)
    site = site or Site.from_environment(os.environ, looking=True)
    if misplaced := find_misplaced(site.store, site.installation, site.settings.home):
        typer.echo(f"warning: {misplaced} (streamkeeper home show)", err=True)
    return site


def _look_for_site() -> tuple[Site | None, str]:
    """What is there, and why that is no installation yet, empty where it is one. Makes nothing."""
    settings = read_settings(os.environ)
    home = f"STREAMKEEPER_HOME={settings.home}"
    # A local store that is opened is made.
    if scheme_of(settings.store) in ("", "file") and not local_path("store", settings.store).exists():
        if Path(settings.home).exists() and not Path(settings.home).is_dir():
            return None, f"{home} is no directory"
        there = Path(settings.home).exists()
        return None, f"{home}: there is no store at {settings.store}" if there else f"{home} does not exist"
    site = Site.from_environment(os.environ, looking=True)
    if site.installation is not None or list_jobs(site.store):
        return site, ""
    return site, f"{home}: nothing was ever deployed or pushed to {site.store.url}"


def read_params(text: str) -> dict[str, ParamValue]:
    """``{"name": scalar}``; raises InvalidInput."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"--params is not JSON: {error}", hint=_EXAMPLE) from None
    if not isinstance(found, dict):
        raise InvalidInput("--params must be a JSON object", hint=_EXAMPLE)
    for name, value in found.items():
        if isinstance(value, list | dict):
            raise InvalidInput(f"param {name} must be a string, a number, true, false or null")
    return found


def read_conf(pairs: list[str] | None) -> dict[str, str]:
    """``["key=value"]`` -> dict; raises InvalidInput."""
    conf: dict[str, str] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise InvalidInput(f"--conf {pair!r} is not KEY=VALUE", hint="--conf spark.sql.shuffle.partitions=4")
        conf[key] = value
    return conf
