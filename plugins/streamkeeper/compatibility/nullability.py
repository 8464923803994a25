"""Adds the causing change to findings about columns that may now be null. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from streamkeeper.compatibility.shown import change, expression
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, Operator

BECAME_NULLABLE = "-became-nullable"
"""The end of the names of the rules about columns that may now be null."""
_NULL_CHECK = re.compile(r"(?:(?:left|right|branch \d+): )*isnotnull\(")
_MOST = 3


def with_cause_of_null(
    findings: Iterable[Finding], before: Operator, after: Operator, old: Manifest, new: Manifest
) -> Iterator[Finding]:
    """Yield the findings. The cause is added to each finding about a column that may now be null.

    ``before``, ``after``: the operator that stores the column, in the deployed query and in the candidate.
    """
    for found in findings:
        if found.rule.endswith(BECAME_NULLABLE):
            cause = _cause(before, after, old, new)
            yield msgspec.structs.replace(found, evidence=f"{found.evidence}, {cause}")
        else:
            yield found


def _cause(before: Operator, after: Operator, old: Manifest, new: Manifest) -> str:
    """Return the cause as a clause. A removed filter can be the cause, because Spark removes rows with a null early if
    a join or a filter rejects them anyway.
    """
    for left, right in zip(old.operators, new.operators, strict=False):
        was, now = left.detail.get("type", ""), right.detail.get("type", "")
        if left.kind == right.kind == "join" and was != now:
            return f"because of the join type {change(was, now)}"
    dropped = [row for row in before.rows if row not in after.rows and _NULL_CHECK.match(row)]
    if dropped:
        filters = change([*map(expression, dropped[:_MOST])], "", "filter")
        return f"because rows with a null there are no longer removed: {filters}"
    if any(was.schema != now.schema for was, now in zip(old.sources, new.sources, strict=False)):
        return "because of the changed columns of a source"
    return "which Spark derives from the changed plan"
