"""The fields of a request that a person fills in, as declared by the request's type."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import msgspec


class AskedField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a request, as its type declares it."""

    name: str
    """Name of the field in the request."""
    kind: Any
    """Its type."""
    default: Any
    """Its default; NODEFAULT for a required field."""
    title: str
    """Its title in a form."""
    description: str
    """Its description: plain text, in which only backticks are Markdown."""
    extra: dict[str, Any]
    """Additional keys of its JSON schema."""


@cache
def asked_fields(request: type[msgspec.Struct]) -> dict[str, AskedField]:
    """Return, by name, the fields of a request type that have a title, in the order of their declaration."""
    found = {}
    for field in msgspec.structs.fields(request):
        kind, *metas = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
        if metas and metas[0].title:
            empty = field.default_factory
            found[field.name] = AskedField(
                name=field.name,
                kind=kind,
                default=field.default if empty is msgspec.NODEFAULT else empty(),
                title=metas[0].title,
                description=metas[0].description or "",
                extra=metas[0].extra or {},
            )
    return found
