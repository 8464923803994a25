"""Secret references: where they are allowed, and how their values are resolved.

A reference is a whole param or conf value: ``secret://env/NAME`` or ``secret://airflow/CONN_ID[/field]``. Releases,
statuses, logs and reports contain only the reference. Resolvers read the environment and Airflow; this module does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from streamkeeper.errors import InvalidInput

T = TypeVar("T")

SCHEMES = frozenset({"env", "airflow"})
MASK = "***"
_MARK = "secret://"
_REFERENCE = re.compile(r"secret://([a-z]+)/([A-Za-z0-9_.\-]+(?:/[A-Za-z0-9_.\-]+)?)")


def is_reference(value: object) -> bool:
    """Whether a param or conf value is a secret reference (well-formed or not)."""
    return isinstance(value, str) and value.startswith(_MARK)


def split_reference(reference: str) -> tuple[str, str]:
    """Return scheme and rest of a reference, such as ``("env", "NAME")`` of ``secret://env/NAME``.

    Raises InvalidInput for a malformed reference or an unknown scheme.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise InvalidInput(
            f"{reference!r} is not a secret reference",
            hint="write secret://env/NAME, secret://airflow/CONN_ID or secret://airflow/CONN_ID/field",
        )
    scheme, path = match.groups()
    if scheme not in SCHEMES or (scheme == "env" and "/" in path):
        raise InvalidInput(
            f"secret reference {reference} is not valid: scheme {scheme} is unknown or does not allow this form",
            hint="write secret://env/NAME, secret://airflow/CONN_ID or secret://airflow/CONN_ID/field",
        )
    return scheme, path


def find_references(params: Mapping[str, object], conf: Mapping[str, str]) -> list[str]:
    """Return the references among the values, sorted, each once; raises InvalidInput, naming a wrong param or conf."""
    found: set[str] = set()
    for where, values in (("param", params), ("conf", conf)):
        for key, value in values.items():
            if is_reference(value):
                found.add(_checked(f"{where} {key}", str(value)))
            elif isinstance(value, str) and _MARK in value:
                raise InvalidInput(
                    f"{where} {key}: a secret reference is part of a longer text",
                    hint="store the whole value as the secret, for example the whole URL",
                )
    return sorted(found)


def _checked(where: str, reference: str) -> str:
    try:
        split_reference(reference)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message}", hint=error.hint) from None
    return reference


def resolve(references: Iterable[str], resolvers: Mapping[str, Callable[[str], str]]) -> dict[str, str]:
    """Return reference -> value.

    ``resolvers``: scheme -> function of the rest of the reference, such as ``NAME`` or ``CONN_ID/field``. Raises
    InvalidInput for a scheme without a resolver, and for an empty value; resolvers raise their own errors.
    """
    values: dict[str, str] = {}
    for reference in references:
        scheme, path = split_reference(reference)
        if scheme not in resolvers:
            raise InvalidInput(
                f"{reference} cannot be resolved here",
                hint=f"use a scheme that is known here: {', '.join(sorted(resolvers)) or 'none'}",
            )
        values[reference] = resolvers[scheme](path)
        if not values[reference]:
            raise InvalidInput(f"{reference} is empty", hint="give the secret a value, or remove the reference")
    return values


def substitute(values: Mapping[str, T], secrets: Mapping[str, str]) -> dict[str, T | str]:
    """Return the values with each reference replaced; raises InvalidInput for a reference that ``secrets`` lacks."""
    filled: dict[str, T | str] = {}
    for key, value in values.items():
        if isinstance(value, str) and is_reference(value):
            if value not in secrets:
                raise InvalidInput(f"{key}: {value} was not resolved at launch", hint="launch the instance again")
            filled[key] = secrets[value]
        else:
            filled[key] = value
    return filled
