"""Defines a rule: a pure function from the deployed and the candidate manifest of one query to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, Operator, Source
from streamkeeper.model.manifests.quoting import quoted_name

Rule = Callable[[Manifest, Manifest], Iterator[Finding]]

SPARK_GUIDE = "Spark's guide, 'Recovery Semantics after Changes in a Streaming Query'"
NEW_CHECKPOINT = "switch to a new checkpoint version, or revert the change"
"""The hint to switch; ``way_out`` replaces it by the cost for the query, which follows from both manifests."""
RECOMPUTE = "recompute the rows already written"
"""The hint to recompute rows; ``way_out`` replaces it by whether a deploy can do that, and how."""

AS_NEW_QUERY = (
    "run it as a new query with its own output; that one reads its sources from their beginning, because it cannot "
    "know which rows the deployed query has read"
)
NO_SWITCH = "no switch is possible for this change, so the deploy is refused"
"""The hint for a change after which a new checkpoint version could neither continue at the offsets nor determine when
it has caught up.
"""
NEW_QUERY = f"{NO_SWITCH}: revert the change, or {AS_NEW_QUERY}"
APPROVE = "the deploy takes a snapshot and waits until a person approves"
IF_READERS_ACCEPT = f"{APPROVE}. Approve if the output's readers accept this effect; otherwise revert the change"
NOT_NULL = " not null"

PYTHON_STATE = ("pandas-with-state", "transform-with-state")
"""Kinds of operators whose state Python code keeps; in an operator's kind, the second is followed by the class of the
code.
"""

_CALLED = {
    "aggregate": "aggregation",
    "deduplicate": "deduplication",
    "deduplicate-within-watermark": "deduplication within the watermark",
    "join": "join of two streams",
    "limit": "limit",
    "pandas-with-state": "applyInPandasWithState",
}


def breaking(
    rule: str,
    where: str,
    evidence: str,
    measured: str = "",
    hint: str = NEW_CHECKPOINT,
    effect: str = "",
    *,
    unconditional: bool = False,
) -> Finding:
    """Return a finding about a change after which state or offsets cannot be used.

    ``measured``: the names of the experiments in which Spark showed this effect; ``effect``: a sentence that is more
    specific than the one that the module ``effects`` has for the rule; ``unconditional``: whether this effect also
    holds for a query that fails.
    """
    return _finding(Severity.BREAKING, rule, where, evidence, measured, hint, effect, unconditional)


def note(
    rule: str,
    where: str,
    evidence: str,
    measured: str = "",
    hint: str = "",
    effect: str = "",
    *,
    unconditional: bool = False,
) -> Finding:
    """Return a finding about a safe change. The parameters are those of ``breaking``."""
    return _finding(Severity.NOTE, rule, where, evidence, measured, hint, effect, unconditional)


def _finding(
    severity: Severity,
    rule: str,
    where: str,
    evidence: str,
    measured: str,
    hint: str,
    effect: str,
    unconditional: bool,
) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        where=where,
        evidence=evidence,
        hint=hint,
        reference=f"measured: {measured}" if measured else "",
        effect=effect,
        unconditional=unconditional,
    )


def same_context(old: Manifest, new: Manifest) -> bool:
    """Whether both manifests were built in the same context: from the same bundle and in the same environment.

    False if the context of either manifest is unknown. If the context is the same, Python objects that the check cannot
    inspect are the same in both.
    """
    same = old.confs == new.confs and old.spark_version == new.spark_version
    return same and bool(old.context) and old.context == new.context


RISK_INTENDED = "remove this conf or option, unless its effect is intended"


def with_risk(finding: Finding, effect: str) -> Finding:
    """Return the finding about a changed setting or option. If it is a note, its effect is replaced by ``effect``.

    ``effect``: how the new value puts rows at risk; empty for a safe value.
    """
    if finding.severity is not Severity.NOTE or not effect:
        return finding
    return msgspec.structs.replace(finding, effect=effect, hint=RISK_INTENDED, unconditional=True)


def is_rows(function: str) -> bool:
    """Whether a name in ``Manifest.functions`` refers to rows that the job creates, rather than to a function."""
    return function.endswith(" rows")


def source_label(number: int, source: Source) -> str:
    """Return the name of a source in expressions: its own name if it has one, else its position."""
    return f'source "{source.name}"' if source.name else f"source {number}"


def source_column(number: int, source: Source, name: str) -> str:
    """Return the name of a source's column in expressions."""
    return f"{source_label(number, source)}.{quoted_name(name)}"


def state_uses(column: str, *manifests: Manifest) -> bool:
    """Whether any state is, or might be, computed from a source's column.

    ``column``: the column's name in expressions, as ``source_column`` returns it.
    """
    return not all_resolved(*manifests) or any(column in text for text in state_texts(*manifests))


def all_resolved(*manifests: Manifest) -> bool:
    """Whether the expressions of every operator's state are known."""
    return all(operator.resolved for manifest in manifests for operator in manifest.operators)


def state_texts(*manifests: Manifest) -> Iterator[str]:
    """Return the known expressions from which state is computed, and those that decide when state is evicted."""
    for manifest in manifests:
        for operator in manifest.operators:
            yield from _texts(operator)
        if manifest.operators:
            yield from (delay.column for delay in manifest.delays)


def _texts(operator: Operator) -> Iterator[str]:
    yield from (kept.meaning for kept in (*operator.key_columns, *operator.values))
    yield from operator.rows
    yield from operator.shape
    yield operator.detail.get("condition", "")


def keeps_python_state(operator: Operator) -> bool:
    """Whether the operator's state is kept by Python code."""
    return operator.kind.startswith(PYTHON_STATE)


def same_kinds(old: Manifest, new: Manifest) -> bool:
    """Whether both manifests have the same kinds of operators, so that the operators' state can be compared one
    by one.
    """
    return [operator.kind for operator in old.operators] == [operator.kind for operator in new.operators]


def operator_pairs(old: Manifest, new: Manifest) -> Iterator[tuple[str, Operator, Operator]]:
    """Yield each stateful operator's name for findings, the operator in ``old``, and the operator at the same position
    in ``new``, up to and including the first pair whose state differs. The operators above that pair are left out,
    because their state depends on the state that differs.

    Yields nothing if the kinds of operators differ.
    """
    if not same_kinds(old, new):
        return
    for number, (before, after) in enumerate(zip(old.operators, new.operators, strict=True), 1):
        place = f" (stateful operator {number} of {len(old.operators)})" if len(old.operators) > 1 else ""
        yield f"{operator_name(before.kind)}{place}", before, after
        if not same_state(before, after):
            return


def operator_name(kind: str) -> str:
    """Return the name of a kind of stateful operator, as shown to the author of a query."""
    return _CALLED.get(kind) or ("transformWithState" if kind.startswith(PYTHON_STATE) else kind)


def same_state(before: Operator, after: Operator) -> bool:
    """Whether both operators keep the same state. If the expressions of both operators are known, differences in
    filters and in names are ignored.
    """
    if not (before.resolved and after.resolved):
        return before.upstream == after.upstream
    return (
        before.key_columns == after.key_columns
        and [value.meaning for value in before.values] == [value.meaning for value in after.values]
        and before.shape == after.shape
    )
