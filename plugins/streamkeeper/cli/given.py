"""What is given on the command line, turned into values; anything else is InvalidInput with one clear line."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from streamkeeper.errors import InvalidInput
from streamkeeper.model.release import ParamValue
from streamkeeper.operations.sites import Site
from streamkeeper.registry.installations import find_misplaced

Params = Annotated[str, typer.Option("--params", metavar="JSON", help='The job\'s params: {"input": "/data/sales"}')]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark conf; repeatable")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name")]

_EXAMPLE = '--params \'{"input": "/data/sales"}\''


def open_site() -> Site:
    """The installation that the environment names; raises OperationRefused for a copied or moved one."""
    return Site.from_environment(os.environ)


def open_to_look() -> Site:
    """The same for commands that change nothing: of a copied or moved one with a warning."""
    site = Site.from_environment(os.environ, looking=True)
    if misplaced := find_misplaced(site.store, site.installation, site.settings.home):
        typer.echo(f"warning: {misplaced} (streamkeeper home show)", err=True)
    return site


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
