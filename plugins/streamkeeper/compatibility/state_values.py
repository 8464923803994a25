"""Rules about the values in state. Spark accepts a stored sum as a maximum of the same type, which is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.effects import GROUPS, IF_INTENDED, NAME, NO_ACTION, OTHER_COLUMNS, STORED, with_effect
from streamkeeper.compatibility.function_names import Named, names_of_both
from streamkeeper.compatibility.nullability import with_cause_of_null
from streamkeeper.compatibility.other_schemas import with_schema_effect
from streamkeeper.compatibility.parser_schemas import changed_schema
from streamkeeper.compatibility.rule import (
    NOT_NULL,
    Rule,
    breaking,
    keeps_python_state,
    note,
    operator_pairs,
)
from streamkeeper.compatibility.shown import ARROW, change, expression_change, expressions_change, typed_change
from streamkeeper.compatibility.state_keys import nullability_changed
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, Operator, StateColumn

_MOST_NAMES = 2
_OTHER_INPUT = "aggregate-input-changed"
_OLD_RESULTS = f"{IF_INTENDED}: groups without new rows keep their old result in the output"
_ZERO_FOR_NULL = re.compile(r"sum\(coalesce\((.*), 0(?:\.0+)?(?:E0)?:\w+(?:\([\d,]+\))?\)\)")

_SOURCE_COLUMN = re.compile(r"source \d+\.\w+")
"""Both sides of a join may have a column with the same name."""
_SOURCE = re.compile(r'\bsource (?:\d+|"(?:[^"\\]|\\.)*")')
_FIELD = re.compile(r'<"(?:[^"\\]|\\.)*">')
_OF_A_STRUCT = re.compile(r"(?:anyvalue|collectlist|collectset|first|last|max|maxby|min|minby)\(struct\(")
"""Aggregates that store a struct unchanged. The fields of the struct are compared by position."""

_READ_NAMES = ("pythonudf(", "pythonudaf(", "structsto", "scalaudf(")
_FIELD_BELOW = re.compile(r"((?:sum|average|count)\(.*[.\]]\S*):(byte|short|integer|long|float|double)\)")
_WIDENS = frozenset(
    {("byte", "short"), ("byte", "integer"), ("byte", "long"), ("short", "integer"), ("short", "long")}
    | {("integer", "long")}
)
_AT_THE_END = re.compile(r"^((?:approximate)?percentile\(.*, )[\d.]+:double(, \d+:(?:integer|long)\b.*)$")
_MOMENTS = frozenset({"stddevpop", "stddevsamp", "variancepop", "variancesamp"})
"""Functions that store count, mean and squared deviations; they differ only in the final computation."""
_SAME_BUFFER = frozenset({("collectlist", "collectset")})
"""Pairs of functions that store the same state. A stored list that is read as a set gives the same set; the reverse is
not true.
"""


def values_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed aggregates and stored columns, compared by their position in the state."""
    for where, before, after in operator_pairs(old, new):
        if not (before.resolved and after.resolved):
            if before.expressions != after.expressions:
                evidence = change(before.expressions, after.expressions)
                yield breaking("state-expressions-changed", where, evidence, "agg_sum_to_max_long, agg_sum_expr")
        elif keeps_python_state(before):
            yield from with_line(
                _python_inputs(where, before, after, names_of_both(old, new)), old, new, *_meanings(before, after)
            )
        elif before.kind == "aggregate":
            yield from _aggregates(where, before, after, old, new)
        else:
            stored = _stored_columns(where, before, after, names_of_both(old, new))
            findings = with_cause_of_null(stored, before, after, old, new)
            yield from with_line(findings, old, new, *_meanings(before, after))


def _meanings(*operators: Operator) -> tuple[list[str], ...]:
    return tuple([value.meaning for value in operator.values] for operator in operators)


def _aggregates(where: str, before: Operator, after: Operator, old: Manifest, new: Manifest) -> Iterator[Finding]:
    had, has = _meanings(before, after)
    named = names_of_both(old, new)
    removed, appeared = (
        [canonical for canonical in had if canonical not in has],
        [canonical for canonical in has if canonical not in had],
    )
    if len(had) < len(has):
        evidence = expressions_change(removed, appeared, "aggregate", named)
        added = breaking("aggregate-added", where, evidence, "agg_schemacheck_off_val")
        yield from with_line([added], old, new, removed, appeared)
    elif len(had) > len(has):
        yield breaking("aggregate-removed", where, expressions_change(removed, appeared, "aggregate", named))
    elif had != has and not removed and not appeared:
        yield from _reordered(where, before, after, old, named)
    else:
        yield from _changed_aggregates(where, before, after, old, new)


def _changed_aggregates(
    where: str, before: Operator, after: Operator, old: Manifest, new: Manifest
) -> Iterator[Finding]:
    """Report aggregates that differ at their positions. All that differ only in the same change of a schema are
    reported in one finding.
    """
    named, groups = names_of_both(old, new), _groups(after)
    alike: dict[tuple[str, ...], list[tuple[StateColumn, StateColumn]]] = {}
    for number, (left, right) in enumerate(zip(before.values, after.values, strict=True)):
        found = list(_one_aggregate(where, left, right, new.output_mode, named))
        schema = changed_schema(left.meaning, right.meaning)
        joins = schema and [each.rule for each in found] == [_OTHER_INPUT]
        alike.setdefault((schema,) if joins else (schema, str(number)), []).append((left, right))
    for pairs in alike.values():
        had, has = ([column.meaning for column in side] for side in zip(*pairs, strict=True))
        names = list(dict.fromkeys(name for canonical in has for name in _output_names(canonical, new)))
        place = f"{where}, {_columns(names)}" if names else where
        listed = _listed([f"`{name}`" for name in names]) if names else NAME
        found = [
            msgspec.structs.replace(each, evidence=expressions_change(had, has, named=named))
            if len(pairs) > 1
            else each
            for each in _one_aggregate(place, *pairs[0], new.output_mode, named)
        ]
        findings = with_schema_effect(found, had, has, groups=groups, name=listed)
        findings = with_cause_of_null(findings, before, after, old, new)
        for each in with_line(findings, old, new, had, has):
            yield with_effect(each, groups=groups, name=listed)


def _reordered(where: str, before: Operator, after: Operator, old: Manifest, named: Named) -> Iterator[Finding]:
    meanings = _meanings(before, after)
    columns = [[[f"`{name}`" for name in _output_names(canonical, old)] for canonical in side] for side in meanings]
    names = [list(map(_listed, side)) for side in columns]
    known = all(names[0]) and len(set(names[0])) == len(names[0])
    shown = f"order of the aggregates, by their deployed columns: {ARROW.join(map(', '.join, names))}"
    evidence = shown if known else expressions_change(meanings[0], meanings[1], "order of the aggregates", named)
    yield breaking("aggregates-reordered", where, evidence, "agg_reorder_aggs_same_type")


def _one_aggregate(
    where: str, before: StateColumn, after: StateColumn, output_mode: str, named: Named
) -> Iterator[Finding]:
    if before.meaning == after.meaning:
        if before.type != after.type:
            yield _retyped(where, before, after, named)
        return
    evidence = expression_change(before.meaning, after.meaning, named=named)
    function, other = before.meaning.partition("(")[0], after.meaning.partition("(")[0]
    if before.type == after.type and _fields_renamed(before, after):
        yield note(
            "fields-renamed",
            where,
            evidence,
            "tws_field_renamed_unsafe",
            f"{NO_ACTION}: no code of the query reads these fields by name",
        )
    elif _kept_alike(function, other) and _same_buffer(before, after):
        hint = _OLD_RESULTS if output_mode == "update" else ""
        yield note("aggregate-function-changed", where, evidence, "agg_stddev_to_variance, agg_list_to_set", hint)
    elif (function, other) == ("first", "last") and _same_buffer(before, after) and output_mode == "update":
        yield note(
            "first-became-last",
            where,
            evidence,
            "agg_first_to_last",
        )
    elif before.type == after.type and _field_widened(before.meaning, after.meaning):
        hint = f"{IF_INTENDED}: values that did not fit the narrower type were null, and are counted from now on"
        yield note("aggregated-field-widened", where, evidence, "real_schema_used_widened", hint)
    elif before.type == after.type and _AT_THE_END.sub(r"\1\2", before.meaning) == _AT_THE_END.sub(
        r"\1\2", after.meaning
    ):
        hint = _OLD_RESULTS if output_mode == "update" else ""
        yield note("percentile-changed", where, evidence, "real_rule_percentile_point", hint)
    elif function != other:
        measured = "agg_sum_to_max_long, agg_max_to_min, agg_set_to_list_k2, agg_count_to_countdistinct_hll"
        yield breaking("aggregate-function-changed", where, evidence, measured)
    elif before.type == after.type and output_mode == "update" and _zero_for_null(before, after):
        yield note("null-summed-as-zero", where, evidence, "agg_val_nullable_to_notnull")
    elif before.type != after.type:
        yield _retyped(where, before, after, named)
    else:
        measured = "agg_sum_expr, agg_unit_change_upstream, agg_count_star_to_count_col, agg_struct_fields_reordered"
        yield breaking(_OTHER_INPUT, where, evidence, measured)


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return " and ".join(names)


def _output_names(canonical: str, manifest: Manifest) -> list[str]:
    """Return the names of the output columns that equal an aggregate. If there are none, return those that
    contain it.
    """
    same = [column.name for column in manifest.columns if column.meaning == canonical]
    made = [column.name for column in manifest.columns if canonical in column.meaning]
    return same or made


def _groups(operator: Operator) -> str:
    windowed = any(column.meaning.startswith("window(") for column in operator.key_columns)
    return "open windows" if windowed else GROUPS


def _fields_renamed(before: StateColumn, after: StateColumn) -> bool:
    """Whether only names inside structs differ, and no code reads them by name."""
    read = any(name in text for name in _READ_NAMES for text in (before.meaning, after.meaning))
    return (
        not read
        and _OF_A_STRUCT.match(before.meaning) is not None
        and _FIELD.sub("", before.meaning) == _FIELD.sub("", after.meaning)
    )


def _field_widened(before: str, after: str) -> bool:
    """Whether a field of parsed text is read as a wider number of the same kind, below a sum, a mean or a count."""
    had, has = _FIELD_BELOW.fullmatch(before), _FIELD_BELOW.fullmatch(after)
    return had is not None and has is not None and had[1] == has[1] and (had[2], has[2]) in _WIDENS


def _kept_alike(function: str, other: str) -> bool:
    """Whether two functions store the same state for the same input."""
    return (function, other) in _SAME_BUFFER or (function in _MOMENTS and other in _MOMENTS)


def _same_buffer(before: StateColumn, after: StateColumn) -> bool:
    """Whether two aggregates differ only in their function: input, options and buffer are the same."""
    return before.type == after.type and before.meaning.partition("(")[2] == after.meaning.partition("(")[2]


def _retyped(where: str, before: StateColumn, after: StateColumn, named: Named) -> Finding:
    if before.type.replace(NOT_NULL, "") == after.type.replace(NOT_NULL, ""):
        return nullability_changed("state-value", where, before, after, named)
    evidence = typed_change((before.meaning, before.type), (after.meaning, after.type), named)
    return breaking("aggregate-type-changed", where, evidence, "agg_sum_long_to_double, agg_sum_decimal_precision")


def _zero_for_null(before: StateColumn, after: StateColumn) -> bool:
    found = _ZERO_FOR_NULL.fullmatch(after.meaning)
    return found is not None and before.meaning == f"sum({found[1]})"


def _stored_columns(where: str, before: Operator, after: Operator, named: Named) -> Iterator[Finding]:
    """Report changed stored columns. A join stores the whole rows of both sides; the order of the columns matters,
    their names do not.
    """
    had, has = [value.meaning for value in before.values], [value.meaning for value in after.values]
    noun = "join-column" if before.kind == "join" else "state-column"
    if had == has:
        for left, right in zip(before.values, after.values, strict=True):
            side = _on_side(left.meaning, before).removesuffix(left.meaning).removesuffix(": ")
            place = f"{where}, {side} side" if side else where
            place = f"{place}, column {left.meaning}" if _SOURCE_COLUMN.fullmatch(left.meaning) else place
            if left.type.removesuffix(NOT_NULL) != right.type.removesuffix(NOT_NULL):
                evidence = typed_change((left.meaning, left.type), (right.meaning, right.type), named)
                yield breaking(f"{noun}-type-changed", place, evidence)
            elif left.type != right.type:
                yield nullability_changed(noun, place, left, right, named)
        return
    removed, added = (
        [canonical for canonical in had if canonical not in has],
        [canonical for canonical in has if canonical not in had],
    )
    rule = "changed" if removed and added else "added" if added else "removed" if removed else "reordered"
    suffix = f"s-{rule}" if rule == "reordered" else f"-{rule}"
    both = (removed, added) if removed or added else (had, has)
    sides = [[_on_side(each, of) for each in side] for side, of in zip(both, (before, after), strict=True)]
    shown = "stored columns" if rule == "reordered" else "stored column"
    evidence = expressions_change(sides[0], sides[1], shown, named)
    effect = ""
    if rule == "changed" and len(removed) != len(added):
        evidence = "; ".join(
            (expressions_change(sides[0], [], shown, named), expressions_change([], sides[1], shown, named))
        )
        if len(had) != len(has):
            effect = OTHER_COLUMNS.format(rows=STORED[noun])
    found = breaking(
        f"{noun}{suffix}",
        where,
        evidence,
        "join_col_added_left, join_col_swapped_same_type",
        effect=effect,
        unconditional=True,
    )
    yield from with_schema_effect([found], removed, added)


def _on_side(canonical: str, operator: Operator) -> str:
    """Return a column that a join stores, with the side of the join that it comes from, if the column's sources
    identify the side.
    """
    sources = [set(_SOURCE.findall(value.meaning)) for value in operator.values]
    if operator.kind != "join" or not sources or sources[0] & sources[-1]:
        return canonical
    of = set(_SOURCE.findall(canonical))
    side = "left" if of and of <= sources[0] else "right" if of and of <= sources[-1] else ""
    return f"{side}: {canonical}" if side else canonical


def _python_inputs(where: str, before: Operator, after: Operator, named: Named) -> Iterator[Finding]:
    """Report changed input columns of stateful code. Code reads its columns by name, so another expression under a name
    changes the values in the state.
    """
    had, has = ({value.name: value for value in side.values} for side in (before, after))
    for name in had.keys() & has.keys():
        if had[name].meaning != has[name].meaning:
            evidence = expression_change(had[name].meaning, has[name].meaning, named=named)
            found = breaking("input-of-stateful-code-changed", f"{where}, column {name}", evidence)
            yield from with_schema_effect([found], [had[name].meaning], [has[name].meaning])
        elif had[name].type != has[name].type:
            evidence = change(had[name].type, has[name].type, f"type of {name}")
            yield breaking("input-of-stateful-code-retyped", where, evidence)
    removed, added = sorted(had.keys() - has.keys()), sorted(has.keys() - had.keys())
    if removed or added:
        hint = (
            f"{NO_ACTION} if the code reads no removed column; the rehearsal, which runs the code on the last batch, "
        )
        hint += "would show such a read as an error"
        yield note("columns-of-stateful-code-changed", where, change(removed, added, "column of the input"), hint=hint)


RULES: tuple[Rule, ...] = (values_changed,)
