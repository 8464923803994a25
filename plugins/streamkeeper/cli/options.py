"""Command line options made from the fields of a request, with names, help and bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from streamkeeper.model.requests.asked_fields import asked_fields
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.requests.request_limits import check_length


def asked(name: str, **other: Any) -> Any:
    """Return the command line option for the field ``name`` of a request.

    ``other``: arguments for ``typer.Option``, which replace those derived from the field.
    """
    field = asked_fields(DeployRequest)[name]
    flags = [] if field.default is True else [f"--{name.replace('_', '-')}"]
    description = f"{field.description}. Repeatable" if isinstance(field.default, tuple) else field.description
    held = {"callback": _held_to_length(name)} if "maxLength" in field.extra else {}
    shown = {"help": description, **_bounds(field.extra), **held, **other}
    return typer.Option(*flags, **{**shown, "help": shown["help"].replace("`", "")})


def _bounds(extra: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds for typer. It has no exclusive bounds, so "above 0" becomes "at least 1".

    The upper bound of seconds is checked with the request.
    """
    if "exclusiveMinimum" in extra:
        return {"min": extra["exclusiveMinimum"] + 1}
    return {"min": extra.get("minimum"), "max": extra.get("maximum")}


def _held_to_length(name: str) -> Callable[[typer.CallbackParam, str], str]:
    def check(param: typer.CallbackParam, value: str) -> str:
        check_length(name, value, required=param.required)
        return value

    return check
