"""Options that follow from the fields of a request: their names, help and bounds."""

from __future__ import annotations

from typing import Any

import typer

from streamkeeper.model.asked_fields import asked_fields
from streamkeeper.model.request import DeployRequest


def asked(name: str, **other: Any) -> Any:
    """The option of a request's field; ``other``: what the command line says otherwise."""
    field = asked_fields(DeployRequest)[name]
    flags = [] if field.default is True else [f"--{name.replace('_', '-')}"]
    description = f"{field.description}; repeatable" if isinstance(field.default, tuple) else field.description
    shown = {"help": description, **_bounds(field.extra), **other}
    return typer.Option(*flags, **{**shown, "help": shown["help"].replace("`", "")})


def _bounds(extra: dict[str, Any]) -> dict[str, Any]:
    """Typer has no open bounds: above 0 is from 1 on. The upper bound of seconds is checked with the request."""
    if "exclusiveMinimum" in extra:
        return {"min": extra["exclusiveMinimum"] + 1}
    return {"min": extra.get("minimum"), "max": extra.get("maximum")}
