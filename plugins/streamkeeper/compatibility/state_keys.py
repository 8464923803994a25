"""Rules about the keys of state. Spark compares only their types; these rules compare their expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.function_names import UNNAMED, Named, names_of_both
from streamkeeper.compatibility.nullability import with_cause_of_null
from streamkeeper.compatibility.other_schemas import with_schema_effect
from streamkeeper.compatibility.rule import NOT_NULL, Rule, breaking, note, operator_pairs
from streamkeeper.compatibility.shown import (
    ARROW,
    OTHER_WINDOW,
    WIDTH,
    change,
    expression,
    expression_change,
    expressions_change,
    type_change,
    typed_change,
)
from streamkeeper.compatibility.sql_words import duration
from streamkeeper.compatibility.terms import leaf, pieces
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, Operator, StateColumn

_NOUNS = {"deduplicate": "deduplication-key", "deduplicate-within-watermark": "deduplication-key", "join": "join-key"}
_WINDOW = "window("
_CAST = re.compile(r"cast\(([^(),]+), (?:in [^(),]+, )?dataType=(\w+)\)")
"""A key that is a cast of a column."""
NULL_REPLACED = "-null-replaced"
"""Suffix of the rule that depends on whether any key in the state is null. A search of the state can determine that."""


def null_questions(old: Manifest, new: Manifest) -> list[tuple[int, int]]:
    """Return the position of the operator, and of the key column in that operator, for each key column in which the
    state must be searched for nulls. Positions count from 0.
    """
    return [
        (number, position)
        for number, (before, after) in enumerate(zip(old.operators, new.operators, strict=False))
        for position, pair in enumerate(zip(before.key_columns, after.key_columns, strict=False))
        if fills_nulls(*pair) and pair[0].may_hold_null
    ]


def without_nulls(manifest: Manifest, operator: int, position: int) -> Manifest:
    """Return the manifest with a mark that the state contains no null in the key column at ``position`` of the operator
    at position ``operator``. Positions count from 0.
    """
    found = manifest.operators[operator]
    columns = list(found.key_columns)
    columns[position] = msgspec.structs.replace(columns[position], may_hold_null=False)
    operators = list(manifest.operators)
    operators[operator] = msgspec.structs.replace(found, key_columns=tuple(columns))
    return msgspec.structs.replace(manifest, operators=tuple(operators))


def keys_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed key columns of an operator. Rows in the state are found by their keys, so a query with other keys
    would not find them or would match wrong rows.
    """
    named = names_of_both(old, new)
    for where, before, after in operator_pairs(old, new):
        noun = _NOUNS.get(before.kind, "grouping-key")
        if not (before.resolved and after.resolved):
            if before.keys != after.keys:
                yield breaking(f"{noun}s-changed", where, change(before.keys, after.keys), "agg_swap_key_col")
            continue
        removed = [canonical for canonical in _meanings(before) if canonical not in _meanings(after)]
        added = [canonical for canonical in _meanings(after) if canonical not in _meanings(before)]
        yield from with_line(
            _number_changed(noun, where, before, after, removed, added, named), old, new, removed, added
        )
        if len(before.key_columns) != len(after.key_columns):
            continue
        if not removed and not added and _meanings(before) != _meanings(after):
            evidence = expressions_change(_meanings(before), _meanings(after), "order of the key columns", named)
            yield breaking(f"{noun}s-reordered", where, evidence, "win_key_order")
            continue
        for left, right in zip(before.key_columns, after.key_columns, strict=True):
            found: Iterable[Finding] = (
                _in_words(each, before, after) for each in _one_changed(noun, where, left, right, named)
            )
            found = with_cause_of_null(found, before, after, old, new)
            found = with_schema_effect(found, [left.meaning], [right.meaning])
            yield from with_line(found, old, new, [left.meaning], [right.meaning])


def _in_words(finding: Finding, before: Operator, after: Operator) -> Finding:
    """Return the finding. If its windows render equally, or if a session window lacks its gap, the evidence shows the
    windows as they are in the plans.
    """
    incomplete = finding.evidence.endswith(OTHER_WINDOW) or SESSION in finding.evidence
    shown = window_change(before.upstream, after.upstream) if incomplete else ""
    return msgspec.structs.replace(finding, evidence=shown or finding.evidence)


def _number_changed(
    noun: str, where: str, before: Operator, after: Operator, removed: list[str], added: list[str], named: Named
) -> Iterator[Finding]:
    if len(before.key_columns) < len(after.key_columns):
        yield breaking(
            f"{noun}-added",
            where,
            expressions_change(removed, added, "key column", named),
            "agg_add_key, agg_global_to_keyed",
        )
    elif len(before.key_columns) > len(after.key_columns):
        yield breaking(
            f"{noun}-removed",
            where,
            expressions_change(removed, added, "key column", named),
            "agg_drop_key, join_key_dropped",
        )


def _one_changed(noun: str, where: str, before: StateColumn, after: StateColumn, named: Named) -> Iterator[Finding]:
    if before.meaning != after.meaning:
        if _WINDOW in before.meaning and _WINDOW in after.meaning:
            rule, measured = "window-changed", "win_size_10_to_20, win_start_offset, win_slide_added"
        elif fills_nulls(before, after) and not before.may_hold_null:
            evidence = expression_change(before.meaning, after.meaning, named=named)
            yield note(f"{noun}{NULL_REPLACED}", where, evidence, "agg_key_nullable_to_notnull")
            return
        elif fills_nulls(before, after):
            rule, measured = f"{noun}{NULL_REPLACED}", "agg_key_nullable_to_notnull"
        elif _bare(before.type) != _bare(after.type):
            measured = "agg_key_widen, agg_key_type_int_to_string, agg_collation"
            shown = _with_cast(before.meaning, after.meaning, named)
            types = type_change(before.type, after.type)
            kinds = [f"({_bare(column.type)})" for column in (before, after)]
            changes = all(kind in side for kind, side in zip(kinds, shown.split(ARROW), strict=False))
            evidence = shown if changes or not types else f"{shown}; {types}"
            yield breaking(f"{noun}-type-changed", where, evidence, measured)
            return
        else:
            rule, measured = (
                f"{noun}-changed",
                "agg_swap_key_col, agg_key_expr, dedup_key_content, join_key_other_same_type",
            )
        yield breaking(rule, where, expression_change(before.meaning, after.meaning, named=named), measured)
    elif _bare(before.type) != _bare(after.type):
        evidence = typed_change((before.meaning, before.type), (after.meaning, after.type), named)
        yield breaking(f"{noun}-type-changed", where, evidence, "agg_key_widen, agg_key_type_int_to_string")
    elif before.type != after.type:
        yield nullability_changed(noun, where, before, after, named)


def _with_cast(before: str, after: str, named: Named) -> str:
    """Return the evidence of two keys of different types. A key that is a cast of a column is shown as a cast."""
    sides = [
        (f"cast({expression(found[1], names)} as {found[2]})" if (found := _CAST.fullmatch(canonical)) else "")
        for canonical, names in ((before, named.before), (after, named.after))
    ]
    if not any(sides):
        return expression_change(before, after, named=named)
    return change(sides[0] or expression(before, named.before), sides[1] or expression(after, named.after))


def nullability_changed(
    noun: str, where: str, before: StateColumn, after: StateColumn, named: Named = UNNAMED
) -> Finding:
    """Return the finding for a column whose nullability changed.

    Spark accepts the state if a nullable column has become not nullable, and rejects it in the reverse case.
    """
    evidence = typed_change((before.meaning, before.type), (after.meaning, after.type), named)
    if after.type.endswith(NOT_NULL):
        return note(f"{noun}-became-not-null", where, evidence, "agg_key_nullable_to_notnull")
    return breaking(f"{noun}-became-nullable", where, evidence, "agg_key_notnull_to_nullable")


def fills_nulls(before: StateColumn, after: StateColumn) -> bool:
    """Whether the new column is the old one with a constant in place of null."""
    prefix = f"coalesce({before.meaning}, "
    rest = after.meaning.removeprefix(prefix)
    return after.meaning.startswith(prefix) and "source" not in rest and "(" not in rest


RULES: tuple[Rule, ...] = (keys_changed,)


def _meanings(operator: Operator) -> list[str]:
    return [column.meaning for column in operator.key_columns]


def _bare(kind: str) -> str:
    return kind.removesuffix(NOT_NULL)


SESSION = "session_window("
_TIME = re.compile(r"precisetimestampconversion\(((?:(?!precisetimestampconversion).)+?), TimestampType, LongType\)")
_START = re.compile(r" - (-?\d+)\) % (\d+)\)")
_ID = re.compile(r"#\d+L?(?:-T\d+ms)?")


def window_change(before: str, after: str) -> str:
    """Return the evidence of the first window that differs between the texts of two plans. Return an empty text if no
    window differs.
    """
    for old, new in zip(_windows(before), _windows(after), strict=False):
        if old != new:
            return change(*pieces(leaf(old), leaf(new), WIDTH))
    return ""


def _windows(plan: str) -> list[str]:
    lines = [_ID.sub("", line) for line in plan.splitlines() if "precisetimestampconversion(" in line]
    return [text for line in lines if (text := _window(line))]


def _window(line: str) -> str:
    times = list(dict.fromkeys(_TIME.findall(line)))
    if not times:
        return ""
    gap = next((time[len(times[0]) :] for time in times[1:] if time.startswith(f"{times[0]} + ")), "")
    if gap:
        return f"{SESSION}{times[0]}, {gap.removeprefix(' + ')})"
    start = _START.search(line)
    if start is None:
        return ""
    offset = "" if start[1] == "0" else f", start {duration(int(start[1]))}"
    return f"window({times[0]}, every {duration(int(start[2]))}{offset})"
