"""The fields of a request that a person fills in, as the request's type declares them."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import msgspec


class AskedField(msgspec.Struct, frozen=True, kw_only=True):
    """One field: its type, its default (NODEFAULT where it is required), and its words; ``extra``: of a JSON schema.

    The description is Markdown, as far as backticks go.
    """

    name: str
    kind: Any
    default: Any
    title: str
    description: str
    extra: dict[str, Any]


@cache
def asked_fields(request: type[msgspec.Struct]) -> dict[str, AskedField]:
    """By name, in the order in which they are declared: those that have a title."""
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
