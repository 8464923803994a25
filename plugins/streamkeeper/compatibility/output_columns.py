"""Which columns of an output a change redefines: only there may a rebuilt output differ without anybody's word."""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamkeeper.model.manifest import Manifest, columns_of

_UNKNOWN = "?"
_NUMBERED = re.compile(r"\b(source|static) \d+")


def redefined_columns(old: Manifest, new: Manifest) -> frozenset[str]:
    """Names of the columns that mean something else in the new output, that it no longer has, or has now.

    Where it is not known what one of two means, it counts as the same: then a difference is for a person to see. A
    column that went while one came that may mean the same was renamed, perhaps: neither counts as redefined.
    What rows are read, and through which joins, is no part of a column's meaning.
    """
    before, after = _meanings(old), _meanings(new)
    both = {name for name in before.keys() & after.keys() if _differ(before[name], after[name])}
    went, came = before.keys() - after.keys(), after.keys() - before.keys()
    gone = {name for name in went if all(_differ(before[name], after[other]) for other in came)}
    added = {name for name in came if all(_differ(before[other], after[name]) for other in went)}
    return frozenset(both | gone | added)


def columns_that_may_differ(
    query: str, old: Manifest | None, new: Manifest, expect_different: Iterable[str]
) -> tuple[str, ...]:
    """Those that the change redefines, and those that somebody declared: ``column``, or ``query.column``."""
    declared = {column.removeprefix(f"{query}.") for column in expect_different}
    known = names_of_columns(query, new) | (names_of_columns(query, old) if old is not None else set())
    named = known & declared
    return tuple(sorted(named | (redefined_columns(old, new) if old is not None else frozenset())))


def names_of_columns(query: str, manifest: Manifest) -> set[str]:
    """Every name by which ``expect_different`` may name a column of this query."""
    names = set(_meanings(manifest))
    return names | {f"{query}.{name}" for name in names}


def _meanings(manifest: Manifest) -> dict[str, str]:
    """Column of the output -> what it means; empty where that is not known."""
    unknown = {name: "" for name, _ in columns_of(manifest.output_schema)}
    return unknown | {column.name: column.meaning for column in manifest.columns if column.name}


def _differ(*meanings: str) -> bool:
    """Whether two are known to mean something else; the numbers of sources and of tables change with any that comes."""
    known = all(meaning and _UNKNOWN not in meaning for meaning in meanings)
    return known and len({_NUMBERED.sub(r"\1", meaning) for meaning in meanings}) > 1
