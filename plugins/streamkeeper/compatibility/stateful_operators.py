"""Rules about stateful operators: their number and kinds, and their settings apart from keys and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.function_names import Named, names_of_both
from streamkeeper.compatibility.rule import (
    APPROVE,
    NEW_CHECKPOINT,
    SPARK_GUIDE,
    Rule,
    breaking,
    keeps_python_state,
    note,
    operator_name,
    operator_pairs,
    same_context,
)
from streamkeeper.compatibility.shown import change, expression_change, expressions_change, schema_change
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest

UNKNOWN = "unknown "
"""Prefix of the kind of an operator that was never measured."""

_SYMMETRIC = frozenset({"INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER"})
"""Join types that keep every row of both sides, with a mark for rows that found a match."""

_KEPT_BY_ALL = _SYMMETRIC | {"LEFT SEMI"}
_CONDITION, _DEFINITION, _STATE = "condition", "definition", "state"
_COMPARED_ELSEWHERE = frozenset({"rows", "type"})


def stateful_operators_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report operators that were added, removed, replaced or reordered.

    State directories are numbered by operator, so an operator would get the state of another operator.
    """
    before, after = [operator.kind for operator in old.operators], [operator.kind for operator in new.operators]
    if before == after:
        return
    if len(before) == len(after):
        rule = "stateful-operator-replaced" if sorted(before) != sorted(after) else "stateful-operators-reordered"
    else:
        rule = "stateful-operator-removed" if len(before) > len(after) else "stateful-operator-added"
    measured = "op_agg_removed, dedup_added, join_join_to_union"
    evidence = change(list(map(operator_name, before)), list(map(operator_name, after)))
    yield breaking(rule, "stateful operators", evidence, f"{measured}; {SPARK_GUIDE}")


def operator_unknown(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a stateful operator of a kind that Streamkeeper does not recognise. It is unknown after which changes the
    operator's state is still usable.
    """
    for operator in new.operators:
        if operator.kind.startswith(UNKNOWN):
            yield Finding(
                rule="unknown-operator",
                severity=Severity.OPAQUE,
                where="stateful operators",
                evidence=f"Streamkeeper does not know the operator {operator.kind.removeprefix(UNKNOWN)}",
                hint=f"{APPROVE}. Approve if nothing changed in or below this operator. Otherwise {NEW_CHECKPOINT}",
            )


def plan_part_unknown(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a part of the plan whose content cannot be compared, if rows pass this part before they reach the state.

    The part counts as changed unless both manifests were built from the same bundle in the same environment.
    """
    if same_context(old, new):
        return
    for where, before, after in operator_pairs(old, new):
        found = sorted({*before.unknown, *after.unknown})
        if found:
            yield Finding(
                rule="unknown-in-plan",
                severity=Severity.OPAQUE,
                where=f"in or below the {where}",
                evidence=f"Streamkeeper cannot compare {', '.join(found)}",
                hint=f"{APPROVE}. Approve if this part of the query gives the same rows as before. Otherwise "
                f"{NEW_CHECKPOINT}",
            )


def join_type_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed join type.

    Inner and outer joins keep the same rows in the state, with a mark for rows that found a match, so a change between
    them is a note. A left semi join keeps fewer rows: a change from an inner or outer join to a left semi join is a
    note, and the reverse is breaking.
    """
    for where, before, after in operator_pairs(old, new):
        was, now = before.detail.get("type"), after.detail.get("type")
        if was == now:
            continue
        measured = "join_inner_to_left, join_left_to_inner, join_inner_to_semi, join_left_to_inner_flush"
        if was in _SYMMETRIC and now in _KEPT_BY_ALL:
            yield note("join-type-changed", where, change(was, now, "join type"), measured)
        else:
            yield breaking("join-type-changed", where, change(was, now, "join type"))


def operator_settings_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed settings of an operator, such as state schema, timeout, time mode or join condition.

    Other rules report changes of the operator's keys and values.
    """
    for where, before, after in operator_pairs(old, new):
        for key in sorted((before.detail.keys() | after.detail.keys()) - _COMPARED_ELSEWHERE):
            if before.detail.get(key) == after.detail.get(key):
                continue
            was, now = before.detail.get(key, ""), after.detail.get(key, "")
            evidence = _detail_change(key, was, now, names_of_both(old, new))
            if key == _CONDITION and narrows(was, now):
                found = note("join-range-narrowed", where, evidence, "join_range_narrowed")
            else:
                measured = "join_range_widened, apws_state_type, tws_timemode"
                found = breaking(f"operator-{key}-changed", where, evidence, measured)
            yield from with_line([found], old, new, [was], [now])


def settings_apart(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield evidence of each changed setting of an operator, for operators whose state is kept by Python code."""
    named = names_of_both(old, new)
    for where, before, after in operator_pairs(old, new):
        for key in sorted(before.detail.keys() | after.detail.keys()) if keeps_python_state(after) else ():
            was, now = before.detail.get(key, ""), after.detail.get(key, "")
            if key not in _COMPARED_ELSEWHERE and was != now:
                change = _detail_change(key, was, now, named)
                yield change if change.startswith(_label(key)) else f"{_label(key)} of {where}: {change}"


def limit_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed limit. The state counts the rows that passed, and the new limit continues from that count."""
    for where, before, after in operator_pairs(old, new):
        if before.kind == "limit" and before.expressions != after.expressions:
            evidence = change(_without_types(before.expressions), _without_types(after.expressions), "limit")
            yield note("limit-changed", where, evidence, "op_limit_changed")


def _without_types(expressions: Sequence[str]) -> list[str]:
    return [expression.partition(" ")[0] for expression in expressions]


def _label(key: str) -> str:
    return key.replace("-", " ")


def _detail_change(key: str, before: str | None, after: str | None, named: Named) -> str:
    if key == _CONDITION:
        had, has = (text.split(" and ") if text else [] for text in (before, after))
        removed, added = [part for part in had if part not in has], [part for part in has if part not in had]
        return expressions_change(*((removed, added) if removed or added else (had, has)), named=named)
    if before and after and key == _STATE:
        return schema_change(before, after)
    if before and after and key == _DEFINITION:
        return expression_change(before, after, named=named)
    return change(before, after, _label(key))


RULES: tuple[Rule, ...] = (
    stateful_operators_changed,
    operator_unknown,
    plan_part_unknown,
    join_type_changed,
    operator_settings_changed,
    limit_changed,
)


_ADDED = (
    r"timestampaddinterval\((?P<column>[^()]*), (?P<length>-?\d+):(?P<kind>interval[^,()]*)(?P<zone>, in [^()]*)?\)"
)
_AT_MOST = re.compile(rf"(?P<how>lessthan(?:orequal)?)\((?P<other>[^()]*), {_ADDED}\)")
_AT_LEAST = re.compile(rf"(?P<how>lessthan(?:orequal)?)\({_ADDED}, (?P<other>[^()]*)\)")


def narrows(before: str, after: str) -> bool:
    """Whether two join conditions differ at most in bounds, and no bound of ``after`` is looser than in ``before``."""
    old, new = _bounds(before), _bounds(after)
    if old.keys() != new.keys():
        return False
    return all(_is_tighter(key, old[key], new[key]) for key in old)


def _bounds(condition: str) -> dict[tuple[str, str], int | None]:
    """Map each part of a join condition to its length. The key is the side of the bound and the part without its
    length; the length is None for a part that is not a bound.
    """
    found: dict[tuple[str, str], int | None] = {}
    for part in condition.split(" and "):
        for side, pattern in (("most", _AT_MOST), ("least", _AT_LEAST)):
            bound = pattern.fullmatch(part)
            if bound is not None:
                found[side, part[: bound.start("length")] + part[bound.end("length") :]] = int(bound["length"])
                break
        else:
            found["", part] = None
    return found


def _is_tighter(key: tuple[str, str], before: int | None, after: int | None) -> bool:
    if before is None or after is None:
        return before == after
    return after <= before if key[0] == "most" else after >= before
