"""Rules about the rows that reach state: filters, joins, unions and generators below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.effects import IF_INTENDED, NO_ACTION
from streamkeeper.compatibility.function_names import names_of_both
from streamkeeper.compatibility.other_schemas import with_schema_effect
from streamkeeper.compatibility.output_keys import output_keys_redefined
from streamkeeper.compatibility.output_values import redefined_values
from streamkeeper.compatibility.plan_changes import SAME_WORDS, lines_change
from streamkeeper.compatibility.rule import (
    APPROVE,
    NEW_CHECKPOINT,
    Rule,
    breaking,
    keeps_python_state,
    note,
    operator_pairs,
    same_kinds,
    same_state,
)
from streamkeeper.compatibility.shown import (
    expression_change,
    expressions_change,
    text_change,
)
from streamkeeper.compatibility.terms import split
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, Operator, is_stateful
from streamkeeper.model.settings.spark_confs import ConfRole, role

_ABOVE = {
    "update": "each group's result would be computed by the changed query from its next row on; a result that is not "
    "written again stays in the output as it is",
    "complete": "the next batch would write every group again, computed by the changed query",
}
_WHERE, _NULL_CHECK = "where ", "isnotnull("
_SIDE = re.compile(r"^(?:(?:left|right|branch \d+): )*")
_OF_SPARK = (
    f"{IF_INTENDED}. A check `… is not null` may also come from Spark, which derives it from keys, windows, joins and "
    "other filters"
)
_ID = re.compile(r"#\d+L?")
_WATERMARK_MARK = re.compile(r"-T\d+ms")
_BRANCH = re.compile(r"^[\s:|]*:-", re.MULTILINE)
"""Matches the beginning of the first input of a node with several inputs, in a plan's text."""
_INDENT = re.compile(r"^[\s:|+-]*")


def filter_below_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed filter below the state. The filter decides which new rows reach the state; rows that are already
    in the state stay there.

    Below a join, the finding is breaking, because the join still matches the old rows. Below Python code, the finding
    is opaque, because it is unknown how the code handles rows of a new kind, or missing rows. Below any other operator,
    the finding is a note.
    """
    named = names_of_both(old, new)
    for where, before, after in operator_pairs(old, new):
        if not (before.resolved and after.resolved) or before.rows == after.rows:
            continue
        removed = [row for row in before.rows if row not in after.rows]
        added = [row for row in after.rows if row not in before.rows]
        if keeps_python_state(before):
            found = Finding(
                rule="filter-below-code-changed",
                severity=Severity.OPAQUE,
                where=f"below the {where}",
                evidence=expressions_change(removed, added, "filter", named),
                hint=f"{APPROVE}. Approve if the code stays correct with this filter. If it does not, {NEW_CHECKPOINT}",
            )
        elif before.kind == "join":
            found = breaking(
                "filter-below-join-changed", f"below the {where}", expressions_change(removed, added, "filter", named)
            )
        else:
            measured = "agg_filter_before_removed"
            evidence = expressions_change(removed, added, "filter", named)
            hint = _OF_SPARK if any(_checks_null(row) for row in (*removed, *added)) else ""
            found = note("filter-below-state-changed", f"below the {where}", evidence, measured, hint)
        yield from with_line(with_schema_effect([found], removed, added), old, new, removed, added)


def way_into_state_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed joins, unions or generators (such as ``explode``) below the state. New rows would pass other
    joins, unions or generators than the rows that are already in the state.
    """
    named = names_of_both(old, new)
    for where, before, after in operator_pairs(old, new):
        if not (before.resolved and after.resolved):
            if before.upstream != after.upstream and (before.keys, before.expressions) == (
                after.keys,
                after.expressions,
            ):
                text = _plan_change(before.upstream, after.upstream) or SAME_WORDS
                yield breaking("upstream-changed", f"below the {where}", text)
            continue
        if before.shape != after.shape and _columns(before) == _columns(after):
            removed = [part for part in before.shape if part not in after.shape]
            added = [part for part in after.shape if part not in before.shape]
            visible = _without_null_checks(removed, added)
            sides = visible if any(visible) else (removed, added) if removed or added else (before.shape, after.shape)
            evidence = expressions_change(sides[0], sides[1], named=named)
            found = breaking("upstream-changed", f"below the {where}", evidence, "op_dedup_before_agg_added, src_add")
            yield from with_line(
                with_schema_effect([found], removed or before.shape, added or after.shape), old, new, removed, added
            )


def rewritten_below_state(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report that only names, order, unused columns or spelling differ below the state. The state is computed from the
    same values as before.
    """
    for where, before, after in operator_pairs(old, new):
        if old.watermarks != new.watermarks or (before.kind == "limit" and before.expressions != after.expressions):
            # The rules about these report the difference.
            continue
        same = same_state(before, after) and before.rows == after.rows and _details(before) == _details(after)
        if not same or _types(before) != _types(after) or _own(before) == _own(after) or _differs_above(old, new):
            continue
        texts = _without_zone(before.upstream, old), _without_zone(after.upstream, new)
        evidence = _plan_change(*texts) or _operator_change(before, after)
        if before.resolved and after.resolved and (evidence or not _has_own_findings(old, new)):
            yield note(
                "rewritten-below-state",
                where,
                evidence or SAME_WORDS,
                "agg_rename_key, join_payload_renamed",
                f"{NO_ACTION}: the old and the new plan compute the same values for the state",
            )


def plan_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed plan outside of all stateful operators. The change affects neither state nor offsets."""
    same_way = _way_out(old) is not None and _way_out(old) == _way_out(new)
    if old.plan == new.plan or (same_way and redefined_values(old, new)):
        return
    if _states(old) != _states(new) and not _same_below_another_way(old, new):
        return
    texts = _without_zone(old.plan, old), _without_zone(new.plan, new)
    evidence = _plan_change(*texts) or _columns_change(old, new)
    if not evidence and _has_own_findings(old, new):
        return
    found = note(
        "above-state-changed" if is_stateful(new) else "stateless-change",
        "plan",
        evidence or SAME_WORDS,
        "proj_filter_remove, proj_repartition, agg_filter_after_hides",
        effect=_ABOVE.get(new.output_mode, "") if is_stateful(new) else "",
    )
    yield from with_line([found], old, new, old.written, new.written)


RULES: tuple[Rule, ...] = (
    filter_below_state_changed,
    way_into_state_changed,
    rewritten_below_state,
    plan_changed,
)


def _without_null_checks(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the parts of each side that differ from the other side in more than checks for null. Spark moves these
    checks if, for instance, the type of a join changes.
    """
    bare = [{part: _bare(part) for part in side} for side in (before, after)]
    return (
        [part for part, text in bare[0].items() if text not in bare[1].values()],
        [part for part, text in bare[1].items() if text not in bare[0].values()],
    )


def _bare(part: str) -> str:
    steps = split(part, "; ")
    return "; ".join(step for step in steps if not _only_checks_null(step))


def _checks_null(row: str) -> bool:
    return _SIDE.sub("", row).startswith(_NULL_CHECK)


def _only_checks_null(step: str) -> bool:
    return step.startswith(_WHERE) and all(
        test.startswith(_NULL_CHECK) for test in split(step.removeprefix(_WHERE), " and ")
    )


def _way_out(manifest: Manifest) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the filters that the output's rows pass, and the joins and similar nodes; None if the manifest does not
    record them.
    """
    if manifest.output_rows is None or manifest.output_shape is None:
        return None
    return manifest.output_rows, manifest.output_shape


def _same_states(old: Manifest, new: Manifest) -> bool:
    """Whether every operator keeps the same state of the same rows, whatever the spelling."""
    return (
        same_kinds(old, new)
        and old.watermarks == new.watermarks
        and all(_same(*pair) for pair in zip(old.operators, new.operators, strict=True))
    )


def _same(before: Operator, after: Operator) -> bool:
    same_limit = before.kind != "limit" or before.expressions == after.expressions
    details = _details(before) == _details(after)
    return same_limit and details and same_state(before, after) and before.rows == after.rows


def _same_below_another_way(old: Manifest, new: Manifest) -> bool:
    """Whether the state is the same, whatever its spelling, but its results pass other filters or joins than before."""
    known = None not in (_way_out(old), _way_out(new))
    return known and _way_out(old) != _way_out(new) and _same_states(old, new)


def _differs_above(old: Manifest, new: Manifest) -> bool:
    """Whether columns or rows of the output are known to differ although the state is the same. Spark may compute the
    state and the output in one node of the plan.
    """
    if not _same_states(old, new):
        return False
    redefined = bool(redefined_values(old, new)) or any(output_keys_redefined(old, new))
    return redefined or _same_below_another_way(old, new)


def _details(operator: Operator) -> dict[str, str]:
    return {key: value for key, value in operator.detail.items() if key != "rows"}


def _columns(operator: Operator) -> tuple[list[str], list[str]]:
    return [column.meaning for column in operator.key_columns], [value.meaning for value in operator.values]


def _own(operator: Operator) -> tuple[object, ...]:
    """Return the parts of an operator that may differ although its state is the same."""
    return (operator.upstream, operator.keys, operator.expressions, operator.detail.get("rows"), operator.values)


def _states(manifest: Manifest) -> list[tuple[str, str]]:
    return [(operator.kind, operator.upstream) for operator in manifest.operators]


def _types(operator: Operator) -> list[str]:
    return [column.type for column in (*operator.key_columns, *operator.values)]


def _has_own_findings(old: Manifest, new: Manifest) -> bool:
    """Whether sources or settings differ. Other rules report such differences; a plan contains them only in
    its digest.
    """
    keys = {key for key in old.confs.keys() | new.confs.keys() if old.confs.get(key) != new.confs.get(key)}
    sources = [[(source.name, source.schema) for source in manifest.sources] for manifest in (old, new)]
    return sources[0] != sources[1] or any(role(key) is ConfRole.MEANING for key in keys)


def _without_zone(plan: str, manifest: Manifest) -> str:
    """A plan without the session's time zone, which another rule compares."""
    zone = manifest.confs.get("spark.sql.session.timeZone", "")
    return plan.replace(f", Some({zone})", "") if zone else plan


def _plan_change(before: str, after: str) -> str:
    """Evidence from lines that only one of two plans has; empty if the texts are equal."""
    old, new = _lines(before), _lines(after)
    removed, added = [line for line in old if line not in new], [line for line in new if line not in old]
    shown = lines_change(removed, added, linear=_is_linear(before, after)) if removed or added else ""
    return "" if shown == SAME_WORDS else shown


def _is_linear(*plans: str) -> bool:
    """Whether each node of these plans has at most one input."""
    return not any(_BRANCH.search(plan) for plan in plans)


def _operator_change(before: Operator, after: Operator) -> str:
    """Evidence from keys and expressions that are spelled differently."""
    old, new = ((*operator.keys, *operator.expressions) for operator in (before, after))
    return _first_change(list(zip(old, new, strict=False)), text_change)


def _columns_change(old: Manifest, new: Manifest) -> str:
    """Evidence from output columns that are computed differently."""
    had = {column.name: column.meaning for column in old.columns}
    pairs = [(had[column.name], column.meaning) for column in new.columns if column.name in had]
    return _first_change(pairs, expression_change)


def _first_change(pairs: list[tuple[str, str]], show: Callable[[str, str], str]) -> str:
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    return f"{show(*differing[0])}{more}" if differing else ""


def _lines(plan: str) -> list[str]:
    lines = [_WATERMARK_MARK.sub("", _ID.sub("", _INDENT.sub("", line))) for line in plan.splitlines()]
    return [line for line in lines if not line.startswith(("structure ", "whole query "))]
