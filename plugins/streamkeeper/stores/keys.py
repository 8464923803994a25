"""The syntax of keys, which every kind of store checks the same way."""

from __future__ import annotations

import re

from streamkeeper.errors import InvalidInput

_PART = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,199}")
_LONGEST = 900


def check_key(key: str) -> str:
    """Return ``key`` if it is valid, else raise InvalidInput.

    No part may start with a dot. This excludes ``.`` and ``..``, and reserves such names for a store's unfinished
    files.
    """
    if len(key) > _LONGEST or not all(_PART.fullmatch(part) for part in key.split("/")):
        raise InvalidInput(
            f"{key!r} is not a valid key",
            hint="separate the parts of a key with `/`; a part contains letters, digits and `._=-`, "
            "and starts with no dot",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it names a folder (ends with ``/``; empty is the whole store), else raise InvalidInput."""
    if prefix:
        if not prefix.endswith("/"):
            raise InvalidInput(f"{prefix!r} is not a folder", hint="end the folder with /")
        check_key(prefix[:-1])
    return prefix
