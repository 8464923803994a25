"""Finds where in the job's code an expression or a function is written. Findings show these lines; no rule compares
them.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Mapping
from pathlib import Path

_MOST, _LONGEST = 500, 1_000
"""The largest number of expressions of a query for which places are recorded, and the length limit of an expression.

Beyond the number, no places are recorded, because a partial list would mislead.
"""


def lines_in_bundle(written: Mapping[str, str], bundle_root: Path | None) -> dict[str, str]:
    """Return those expressions whose ``file:line`` is inside the bundle, with the file's path within the bundle.

    ``written``: the ``file:line`` of each expression. Long expressions are left out. The result is empty if there is no
    bundle or if there are too many expressions.
    """
    if bundle_root is None or len(written) > _MOST:
        return {}
    root = os.path.join(os.path.realpath(bundle_root), "")
    found: dict[str, str] = {}
    for what, place in sorted(written.items()):
        file, _, line = place.rpartition(":")
        path = os.path.realpath(file)
        if len(what) <= _LONGEST and path.startswith(root):
            found[what] = f"{path.removeprefix(root)}:{line}"
    return found


def line_of_function(function: object) -> str:
    """Return the ``file:line`` at which a function begins; empty if the function has no Python code."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
