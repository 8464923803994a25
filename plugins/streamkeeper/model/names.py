"""Checks names that become parts of keys and paths, so that no other code needs to check them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches

from streamkeeper.errors import InvalidInput

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_LAST_NUMBER = re.compile(r"(\d+)(?:\.json)?$")
_RELEASE = re.compile(r"r[0-9]{4,}")
_VERSION = re.compile(r"v[0-9]{4,}")
_INSTANCE = re.compile(r"[a-z0-9][a-z0-9-]{0,120}")


def check_name(what: str, name: str) -> str:
    """Return ``name`` if it may name a job or a query (``[a-z][a-z0-9_]*``, at most 63), else raise InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{what} name {shorten(name)!r} is not allowed",
            hint="start with a letter, and use at most 63 lower-case letters, digits and underscores",
        )
    return name


def is_name(name: str) -> bool:
    """Whether ``name`` may name a job or a query, by the rule of ``check_name``."""
    return _NAME.fullmatch(name) is not None


def refuse_unknown(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidInput if ``names`` contains unknown names. The hint suggests the known names that were probably
    meant.
    """
    unknown = [name for name in names if name not in known]
    if unknown:
        meant = [f"{nearest(name, known)} for {name}" for name in unknown if nearest(name, known)]
        hint = f"perhaps write {', '.join(meant)}" if meant else f"use one of: {', '.join(sorted(known))}"
        raise InvalidInput(
            f"{what} {', '.join(map(repr, unknown))} {'is' if len(unknown) == 1 else 'are'} not known", hint=hint
        )


def shorten(text: str, longest: int = 80) -> str:
    """Return the text, or its beginning and its length if it is longer than ``longest``, to keep a message short."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return the known name most similar to ``name``; empty if none is similar enough.

    ``likeness`` is the least similarity, from 0 to 1, as in difflib.
    """
    return next(iter(get_close_matches(name, known, n=1, cutoff=likeness)), "")


def alternatives(names: Sequence[str]) -> str:
    """Return names as a list for a sentence, such as ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def check_instance(name: str) -> str:
    """Return ``name`` if it may name an operation or a driver instance, else raise InvalidInput."""
    if not _INSTANCE.fullmatch(name):
        raise InvalidInput(
            f"{shorten(name)!r} is not a name of an operation or a driver",
            hint="use lower-case letters, digits and dashes",
        )
    return name


def key_number(key: str, name: Callable[[int], str]) -> int | None:
    """Return the number in a store's key if ``name`` maps the number to that key; None for any other key."""
    found = _LAST_NUMBER.search(key)
    return int(found[1]) if found and name(int(found[1])) == key else None


def release_name(number: int) -> str:
    """Return the name of a release, such as r0007 for 7."""
    return f"r{number:04d}"


def release_number(name: str) -> int:
    """Return the number of a release, such as 7 for r0007; raises InvalidInput for anything else."""
    if not _RELEASE.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a release", hint="a release looks like r0007")
    return int(name[1:])


def version_name(number: int) -> str:
    """Return the name of a checkpoint version, such as v0003 for 3."""
    return f"v{number:04d}"


def check_version(name: str) -> str:
    """Return ``name`` if it may name a checkpoint version, else raise InvalidInput."""
    version_number(name)
    return name


def version_number(name: str) -> int:
    """Return the number of a checkpoint version, such as 3 for v0003; raises InvalidInput for anything else."""
    if not _VERSION.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a checkpoint version", hint="a checkpoint version looks like v0003")
    return int(name[1:])
