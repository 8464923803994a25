"""Which columns of an output a change redefines: only there may a rebuilt output differ without anybody's word."""

from __future__ import annotations

from collections.abc import Iterable

from streamkeeper.model.manifest import Manifest, StateColumn

_UNKNOWN = "?"


def redefined_columns(old: Manifest, new: Manifest) -> frozenset[str]:
    """Names of the columns that both outputs have and that mean something else in the new one.

    Where it is not known what one of the two means, it counts as the same: then a difference is for a person to see.
    What rows are read, and through which joins, is no part of a column's meaning.
    """
    before = {each.name: each for each in old.columns}
    return frozenset(
        each.name
        for each in new.columns
        if each.name in before and _is_known(before[each.name], each) and before[each.name].meaning != each.meaning
    )


def columns_that_may_differ(
    query: str, old: Manifest | None, new: Manifest, expect_different: Iterable[str]
) -> tuple[str, ...]:
    """Those that the change redefines, and those that somebody declared: ``column``, or ``query.column``."""
    declared = {each.removeprefix(f"{query}.") for each in expect_different}
    named = names_of_columns(query, new) & declared
    return tuple(sorted(named | (redefined_columns(old, new) if old is not None else frozenset())))


def names_of_columns(query: str, manifest: Manifest) -> set[str]:
    """Every name by which ``expect_different`` may name a column of this query."""
    names = {each.partition(" ")[0] for each in manifest.output_schema.splitlines()}
    names |= {each.name for each in manifest.columns if each.name}
    return names | {f"{query}.{each}" for each in names}


def _is_known(*columns: StateColumn) -> bool:
    return all(each.meaning and _UNKNOWN not in each.meaning for each in columns)
