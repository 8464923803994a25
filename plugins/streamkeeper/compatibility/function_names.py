"""Finds the names of the Python functions in expressions, which contain only a number for each. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from streamkeeper.compatibility.output_columns import without_texts
from streamkeeper.compatibility.rule import is_rows
from streamkeeper.model.manifests.manifest import SINK_FUNCTION, Manifest

_NUMBER = re.compile(r"\bfunc=(\d+)\b")
_CALL = "__call__"
_WORD = re.compile(r"\w+(?:\.\w+)*")

Names = Mapping[int, str]
"""The name of each function in the expressions of one manifest, by the function's number."""
NO_NAMES: Names = MappingProxyType({})


class Named(NamedTuple):
    """The names of the functions in the deployed job's expressions, and in the candidate's."""

    before: Names = NO_NAMES
    after: Names = NO_NAMES


UNNAMED = Named()


def names_of_both(old: Manifest, new: Manifest) -> Named:
    """Return, for each of the two manifests, the names of the functions in its expressions."""
    return Named(_names(old), _names(new))


def short_name(name: str, manifest: Manifest) -> str:
    """Return the name of a function as its author calls it; ``name``: as in ``Manifest.functions``.

    For a callable object this is the name of its class, or ``__call__`` if the manifest does not identify the class.
    """
    shown = name.partition(" ")[2] or name
    if shown != _CALL:
        return shown
    owners = [part.rpartition(".")[0] for part in manifest.reached.get(name, ()) if part.endswith(f".{_CALL}")]
    return owners[0].rpartition(".")[2] if len(owners) == 1 else shown


def _names(manifest: Manifest) -> Names:
    """Return the function names that the output's columns identify. If there is only one function, it has the
    number 0.
    """
    found: dict[int, str] = {}
    for column in manifest.columns:
        numbers = _runs(_NUMBER.findall(without_texts(column.meaning)))
        # A function that is called at several places has a name for each of them.
        names = _runs([short_name(name, manifest) for name in column.functions or ()])
        if len(numbers) == len(names):
            found |= {int(number): name for number, name in zip(numbers, names, strict=True)}
    called = [name for name in manifest.functions if not name.startswith(SINK_FUNCTION) and not is_rows(name)]
    if len(called) == 1:
        found.setdefault(0, short_name(called[0], manifest))
    return {number: name for number, name in found.items() if _WORD.fullmatch(name)}


def _runs(items: Sequence[str]) -> list[str]:
    """Return the items without immediate repetitions."""
    return [item for item, _ in groupby(items)]
