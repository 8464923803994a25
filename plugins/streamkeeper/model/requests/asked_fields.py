"""The declaration of a request's fields, from which command-line options, forms and limits are made.

A field that a person fills in has an ``Ask`` in its annotation. Nothing else names the field, except the code that uses
its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, get_args

import msgspec

LONGEST_S = 366 * 24 * 3600.0


class Verb(Enum):
    """A command that takes a request. The DAG ``streaming_<verb>`` takes the same fields."""

    DEPLOY = "deploy"
    ROLLBACK = "rollback"
    STOP = "stop"
    START = "start"
    RECOVER = "recover"


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """The unit of a number. It determines the limits."""

    name: str
    """Its name, in the plural."""
    limits: dict[str, float]
    """The limits of a number in this unit, as in a JSON schema."""
    wrong: str
    """What is wrong with a number beyond the limits."""
    hint: str
    """Which numbers are within the limits."""


SECONDS = Unit(
    name="seconds",
    limits={"exclusiveMinimum": 0, "maximum": LONGEST_S},
    wrong="is not a deadline",
    hint=f"give seconds, above 0 and up to {LONGEST_S:.0f}",
)
SHARE = Unit(
    name="shares", limits={"minimum": 0, "maximum": 1}, wrong="is not a share", hint="give a number between 0 and 1"
)
COUNT = Unit(name="times", limits={"minimum": 0}, wrong="is below 0", hint="give 0 or more")


class Ask(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a person may fill in, and where. The annotation of a request's field contains the Ask. Types must be
    hashable, so an Ask is compared by identity.
    """

    title: str
    """Title in a form."""
    help: str
    """The meaning: plain text, in which only backticks are Markdown, without a full stop at the end."""
    verbs: tuple[Verb, ...] = (Verb.DEPLOY,)
    """The commands and DAGs that have the field."""
    help_for: dict[Verb, str] = {}
    """Verb -> the meaning, where it differs from ``help``."""
    required: tuple[Verb, ...] = ()
    """Commands in which the field is required although it has a default."""
    unit: Unit | None = None
    """The unit of a number; None for other types."""
    section: str = ""
    """The fold of the form that contains the field; empty for a field that is always visible."""
    metavar: str = ""
    """The placeholder of the value on the command line; empty for the placeholder of the type."""
    form_note: str = ""
    """How to write the value in a form; empty if that is obvious."""
    extra: dict[str, Any] = {}
    """Further keys of the field's JSON schema, such as ``pattern``, ``maxLength`` or ``values_display``."""


class AskedField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a request that a person may fill in."""

    name: str
    """Name of the field in the request."""
    kind: Any
    """Its type."""
    default: Any
    """Its default; NODEFAULT for a required field."""
    ask: Ask
    """The rest of its declaration."""

    @property
    def schema(self) -> dict[str, Any]:
        """The limits and other keys of its JSON schema, without the type."""
        return {**(self.ask.unit.limits if self.ask.unit is not None else {}), **self.ask.extra}

    def help(self, verb: Verb) -> str:
        """Return the meaning of the field in a command or DAG."""
        return self.ask.help_for.get(verb, self.ask.help)


@cache
def asked_fields(request: type[msgspec.Struct], verb: Verb | None = None) -> Mapping[str, AskedField]:
    """Return, by name, the fields of a request type that a person may fill in, in the order of their declaration.

    ``verb``: only those that this command has; None for all.
    """
    found = {}
    for field in msgspec.structs.fields(request):
        kind, *metas = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
        ask = next((each for each in metas if isinstance(each, Ask)), None)
        if ask is not None and (verb is None or verb in ask.verbs):
            empty = field.default_factory
            default = field.default if empty is msgspec.NODEFAULT else empty()
            found[field.name] = AskedField(name=field.name, kind=kind, default=default, ask=ask)
    return found
