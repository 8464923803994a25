"""The expressions of an output's columns, and the columns that a change redefines.

Only redefined columns of a rebuilt output may differ without an approval.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from streamkeeper.compatibility.rule import operator_pairs, same_state
from streamkeeper.model.manifests.manifest import Manifest, Operator, StateColumn, columns_of

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TEXT = re.compile(_QUOTED)
_NUMBERED = re.compile(rf"({_QUOTED})|\b(source|static) \d+|\b(func=)\d+")
_STATIC_AND_CODE = re.compile(rf"({_QUOTED})|\b(static) \d+|\b(func=)\d+")
_CODE = re.compile(rf"({_QUOTED})|\b(func=)\d+")
RESULT_OF_CODE = re.compile(r"(?:\w*PandasWithState|TransformWithState)\w*\(.*\)\[(\d+)\]", re.DOTALL)
"""Matches a column that stateful Python code returns, with the column's position in the result."""
_STATE_TYPE = re.compile(r"\bstateType=(?=\{)")
_FIELD_NAME = re.compile(rf'"name":{_QUOTED}')
STATE_BY_POSITION = "; the stored state stays: Spark reads its fields by position, not by name"
"""The end of the effect if only the names of fields in the state of stateful code differ."""


def redefined_columns(old: Manifest, new: Manifest) -> frozenset[str]:
    """Return the names of the columns that have another expression in the new output, or were removed or added.

    Different values in a redefined column are expected. If the old or the new expression of a column is unknown, the
    column does not count as redefined, so that a person must approve different values. If a removed and an added column
    may have the same expression, they may be one renamed column, and neither counts as redefined. Changes of the rows
    that are read, or of the joins that the rows pass, are not found, because a column's expression does not contain
    them.
    """
    before, after = _meanings(old), _meanings(new)
    both = {name for name in before.keys() & after.keys() if _differ(before[name], after[name])}
    went, came = before.keys() - after.keys(), after.keys() - before.keys()
    removed = {name for name in went if all(_differ(before[name], after[other]) for other in came)}
    added = {name for name in came if all(_differ(before[other], after[name]) for other in went)}
    return frozenset(both | removed | added)


def columns_that_may_differ(
    query: str, old: Manifest | None, new: Manifest, expect_different: Iterable[str]
) -> tuple[str, ...]:
    """Return the sorted names of the output columns whose values may differ between the two manifests.

    These are the columns that the change redefines (none if ``old`` is None), and the columns of either manifest that
    ``expect_different`` contains as ``column`` or ``query.column``.
    """
    declared = {column.removeprefix(f"{query}.") for column in expect_different}
    known = names_of_columns(query, new) | (names_of_columns(query, old) if old is not None else set())
    named = known & declared
    return tuple(sorted(named | (redefined_columns(old, new) if old is not None else frozenset())))


def names_of_columns(query: str, manifest: Manifest) -> set[str]:
    """Return every name by which ``expect_different`` can refer to a column of this query."""
    names = set(_meanings(manifest))
    return names | {f"{query}.{name}" for name in names}


def output_columns(manifest: Manifest) -> dict[str, StateColumn]:
    """Return the output's columns by name. A column's ``meaning`` is its expression, or empty if none is recorded."""
    unknown = {name: StateColumn(meaning="", type=kind, name=name) for name, kind in columns_of(manifest.output_schema)}
    return unknown | {column.name: column for column in manifest.columns if column.name}


def is_known(canonical: str) -> bool:
    """Whether an expression is recorded completely."""
    return bool(canonical) and "?" not in without_texts(canonical)


def without_texts(canonical: str) -> str:
    """Return an expression without its quoted texts, which are literals and names."""
    return _TEXT.sub("", canonical)


def same_meaning(before: str, after: str, old: Manifest, new: Manifest) -> bool:
    """Whether two expressions are equal, ignoring the numbers by which they refer to Python functions and static
    tables.

    The numbers by which they refer to sources are ignored too if ``new`` has more or fewer sources than ``old``, or the
    same sources in another order, because such a change renumbers the sources.
    """
    moved = [_place(manifest) for manifest in (old, new)]
    pattern = _STATIC_AND_CODE if len(moved[0]) == len(moved[1]) and not _reordered(*moved) else _NUMBERED
    return _unnumbered(before, pattern) == _unnumbered(after, pattern)


def same_static_tables(before: str, after: str) -> bool:
    """Whether two expressions that ``same_meaning`` considers equal also use the same numbers for static tables and
    sources.
    """
    return _unnumbered(before, _CODE) == _unnumbered(after, _CODE)


def renames_state_alone(before: str, after: str) -> bool:
    """Whether two results of stateful code differ only in new names of fields in its state. A name that moved to
    another field is not new: the code would read another field under it.
    """
    (had, old_state), (has, new_state) = _without_state_type(before), _without_state_type(after)
    alike = _unnumbered(had, _CODE) == _unnumbered(has, _CODE)
    old_names, new_names = (_FIELD_NAME.findall(state) for state in (old_state, new_state))
    renamed = [pair for pair in zip(old_names, new_names, strict=False) if pair[0] != pair[1]]
    moved = any(new in old_names for _, new in renamed)
    return alike and bool(renamed) and not moved and _FIELD_NAME.sub("", old_state) == _FIELD_NAME.sub("", new_state)


def _without_state_type(canonical: str) -> tuple[str, str]:
    """Return an expression without the type of its state, and that type; empty if it has none."""
    found = _STATE_TYPE.search(canonical)
    if found is None:
        return canonical, ""
    try:
        _, end = json.JSONDecoder().raw_decode(canonical, found.end())
    except json.JSONDecodeError:
        # A literal has such a text.
        return canonical, ""
    return canonical[: found.end()] + canonical[end:], canonical[found.end() : end]


def told_by_state(before: str, after: str, old: Manifest, new: Manifest, *, keys_alone: bool) -> bool:
    """Whether two expressions differ only in changed keys or values of stateful operators. Other rules report those
    changes.

    ``keys_alone``: whether only the operator's keys count, not its values.
    """
    changed = _changed_in_state(old, new, keys_alone=keys_alone)
    for number, (left, right) in enumerate(sorted(changed, key=lambda pair: -len(pair[0].meaning))):
        before = _without(left.meaning, before, number)
        after = _without(right.meaning, after, number)
    return bool(changed) and before == after


def redefines_state(before: str, after: str, old: Manifest, new: Manifest) -> bool:
    """Whether both expressions contain a key or a value of a stateful operator, and the change redefines that key or
    value.
    """
    return any(
        _without(left.meaning, before, 0) != before and _without(right.meaning, after, 0) != after
        for left, right in _changed_in_state(old, new, keys_alone=False)
    )


def computed_in_other_state(before: str, after: str, old: Manifest, new: Manifest) -> bool:
    """Whether two expressions differ in keys or values of aggregations or joins that no finding compares, because they
    are above a stateful operator whose state differs, or whose state differs in another way.
    """
    pairs = list(zip(old.operators, new.operators, strict=False))
    first = next((number for number, pair in enumerate(pairs) if not same_state(*pair)), len(pairs))
    return any(
        _kept_in(was, before) != _kept_in(now, after) for was, now in pairs[first:] if was.kind in ("aggregate", "join")
    )


def _kept_in(operator: Operator, canonical: str) -> set[str]:
    """Return the keys and values of an operator that an expression contains."""
    kept = (column.meaning for column in (*operator.key_columns, *operator.values))
    return {part for part in kept if part and _without(part, canonical, 0) != canonical}


def _changed_in_state(old: Manifest, new: Manifest, *, keys_alone: bool) -> list[tuple[StateColumn, StateColumn]]:
    kept = [
        pair
        for _, was, now in operator_pairs(old, new)
        for columns in ((was.key_columns, now.key_columns), *([] if keys_alone else [(was.values, now.values)]))
        for pair in zip(*columns, strict=False)
    ]
    return [pair for pair in kept if pair[0].meaning != pair[1].meaning and pair[0].meaning and pair[1].meaning]


def _without(part: str, canonical: str, number: int) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(part)}(?!\w)", f"kept {number}", canonical)


def _place(manifest: Manifest) -> list[tuple[str, str, str]]:
    return [(source.kind, source.location, source.name or "") for source in manifest.sources]


def _reordered(before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]) -> bool:
    return before != after and sorted(before) == sorted(after)


def _meanings(manifest: Manifest) -> dict[str, str]:
    """Return the expression of each column of the output, by column; an expression that is not known is empty."""
    return {name: column.meaning for name, column in output_columns(manifest).items()}


def _differ(*meanings: str) -> bool:
    """Whether all expressions are known and differ, apart from the numbers of sources and tables."""
    known = all(map(is_known, meanings))
    return known and len({_unnumbered(canonical, _NUMBERED) for canonical in meanings}) > 1


def _unnumbered(canonical: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda found: next(filter(None, found.groups())), canonical)
