"""Rules about stateful operators. Spark compares the types of keys and values only; what they mean is compared here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkeeper.compatibility.rule import NEW_CHECKPOINT, SPARK_GUIDE, Rule, change, is_stateful
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import Manifest, Operator

UNKNOWN = "unknown "
"""Prefix of the kind of an operator that nobody has measured."""

_ID = re.compile(r"#\d+L?")
_WATERMARK_MARK = re.compile(r"-T\d+ms")
_INDENT = re.compile(r"^[\s:|+-]*")
_OWN_LINES = ("Project ", "~Project ", "structure ", "StreamingRelation")
_WINDOW = ("precisetimestampconversion(", "session_window")


def stateful_operators_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """State directories are numbered by operator: one more, one fewer or another kind gets another's state."""
    before, after = [each.kind for each in old.operators], [each.kind for each in new.operators]
    if before == after:
        return
    if len(before) == len(after):
        rule = "stateful-operator-replaced"
    else:
        rule = "stateful-operator-removed" if len(before) > len(after) else "stateful-operator-added"
    yield Finding(
        rule=rule,
        severity=Severity.BREAKING,
        where="stateful operators",
        evidence=change(before, after),
        hint=NEW_CHECKPOINT,
        reference=f"{SPARK_GUIDE}; measured: op_agg_removed, dedup_added, join_join_to_union",
    )


def grouping_keys_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """State rows are keyed by these columns; new keys orphan the rows, or are taken for the old ones."""
    for where, before, after in _pairs(old, new):
        if before.keys != after.keys:
            yield Finding(
                rule="grouping-keys-changed",
                severity=Severity.BREAKING,
                where=where,
                evidence=change(before.keys, after.keys),
                hint=NEW_CHECKPOINT,
                reference="measured: agg_swap_key_col, dedup_other_key_same_type, join_key_other_same_type",
            )


def state_expressions_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """A stored sum read as a maximum of the same type is accepted, and wrong."""
    for where, before, after in _pairs(old, new):
        if before.expressions != after.expressions:
            yield Finding(
                rule="state-expressions-changed",
                severity=Severity.BREAKING,
                where=where,
                evidence=change(
                    [each for each in before.expressions if each not in after.expressions] or before.expressions,
                    [each for each in after.expressions if each not in before.expressions] or after.expressions,
                ),
                hint=NEW_CHECKPOINT,
                reference="measured: agg_sum_to_max_long, agg_sum_expr, agg_set_to_list_k2",
            )


def operator_settings_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Join type, state schema, timeout, time mode: what an operator is apart from its keys and expressions."""
    for where, before, after in _pairs(old, new):
        for key in sorted(before.detail.keys() | after.detail.keys()):
            if key != "rows" and before.detail.get(key) != after.detail.get(key):
                yield Finding(
                    rule=f"operator-{key}-changed",
                    severity=Severity.BREAKING,
                    where=where,
                    evidence=change(before.detail.get(key), after.detail.get(key)),
                    hint=NEW_CHECKPOINT,
                    reference="measured: apws_state_type, tws_timemode",
                )


def watermark_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """The old watermark lives in the checkpoint and goes on judging late rows; without state it judges nothing."""
    if old.watermarks != new.watermarks:
        stateful = is_stateful(old, new)
        yield Finding(
            rule="watermark-changed",
            severity=Severity.BREAKING if stateful else Severity.NOTE,
            where="watermarks",
            evidence=change(old.watermarks, new.watermarks),
            hint=NEW_CHECKPOINT if stateful else "the query keeps no state: a watermark has no effect",
            reference="measured: win_delay_up_late, win_wm_removed_late, dedup_within_delay",
        )


def upstream_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """What flows into the state from now on means something else than what is in it."""
    explained = False
    for where, before, after in _pairs(old, new):
        if before.upstream == after.upstream:
            continue
        own = before.keys != after.keys or before.expressions != after.expressions or _details_differ(before, after)
        gone, come = _differing_lines(before.upstream, after.upstream, skip_own=own)
        watermark_only = old.watermarks != new.watermarks and not (gone or come)
        if (gone or come or not (own or watermark_only)) and not explained:
            window = any(mark in line for line in (*gone, *come) for mark in _WINDOW)
            yield Finding(
                rule="window-changed" if window else "upstream-changed",
                severity=Severity.BREAKING,
                where=f"below {where}",
                evidence=change(gone, come) if gone or come else "the same text -> another type, literal or structure",
                hint=NEW_CHECKPOINT,
                reference="measured: agg_unit_change_upstream, win_size_10_to_20, dedup_key_content",
            )
        explained = True


def plan_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """A change outside of every stateful operator touches neither state nor offsets."""
    if old.plan == new.plan or _states(old) != _states(new):
        return
    gone, come = _differing_lines(old.plan, new.plan, skip_own=False)
    yield Finding(
        rule="above-state-changed" if is_stateful(new) else "stateless-change",
        severity=Severity.NOTE,
        where="plan",
        evidence=change(gone, come) if gone or come else "the same text -> another type, literal or structure",
        hint="holds for new rows; what was written before is not computed again",
        reference="measured: proj_filter_remove, proj_repartition, agg_filter_after_hides",
    )


RULES: tuple[Rule, ...] = (
    stateful_operators_changed,
    grouping_keys_changed,
    state_expressions_changed,
    operator_settings_changed,
    watermark_changed,
    upstream_changed,
    plan_changed,
)


def _pairs(old: Manifest, new: Manifest) -> Iterator[tuple[str, Operator, Operator]]:
    """Operators by position; none where their kinds already say why they differ."""
    if [each.kind for each in old.operators] != [each.kind for each in new.operators]:
        return
    for number, (before, after) in enumerate(zip(old.operators, new.operators, strict=True)):
        yield f"stateful operator {number} ({before.kind})", before, after


def _states(manifest: Manifest) -> list[tuple[str, str]]:
    return [(each.kind, each.upstream) for each in manifest.operators]


def _details_differ(before: Operator, after: Operator) -> bool:
    return {**before.detail, "rows": ""} != {**after.detail, "rows": ""}


def _differing_lines(before: str, after: str, *, skip_own: bool) -> tuple[list[str], list[str]]:
    """Lines that only one of two plans has; ``skip_own``: without the operator itself and what follows from it."""
    old, new = _lines(before, skip_own), _lines(after, skip_own)
    return [each for each in old if each not in new], [each for each in new if each not in old]


def _lines(plan: str, skip_own: bool) -> list[str]:
    lines = [_WATERMARK_MARK.sub("", _ID.sub("", _INDENT.sub("", line))) for line in plan.splitlines()]
    kept = lines[1:] if skip_own else lines
    return [
        line
        for line in kept
        if "EventTimeWatermark" not in line
        and not line.startswith(("structure ", "whole query "))
        and not (skip_own and line.startswith(_OWN_LINES))
    ]
