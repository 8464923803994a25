"""Adjusts the texts of a finding to the other findings of its query: a change that is safe by itself has no effect if
the query fails. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from streamkeeper.compatibility.effects import NO_ACTION, UNPROVEN
from streamkeeper.compatibility.rehearsals import FAILURES, OUTPUT_DOES_NOT_FIT
from streamkeeper.model.manifests.finding import Finding, Severity

ALONE = f"{NO_ACTION} for this change alone"
"""The hint of a note if another finding of the query needs an action."""
UNLESS_FAILED = "if the query did not fail, "
"""The beginning of the effect of a change that only a running query would show."""
_MIXED = ", and results might become wrong"
"""The text that replaces ``UNPROVEN`` in an effect if a failure was measured."""
_FOLLOW = "follow the hint of {rule}, which reports the change of {columns}"
"""The hint of a note about output columns that another finding, which needs an action, reports as well."""
_COLUMN_PLACE = re.compile(r"(?:output|sink, \w+) column (.+)")
_COLUMNS_FIRST = re.compile(r"(?:type of )?columns? (?:(?:added|removed): (.*)|([^:]+): .*)", re.DOTALL)
_NAMED = re.compile(r" AS (\w+)")
_OF_PLAN = "plan"
_MEASURED_FAILURES = frozenset({*FAILURES, OUTPUT_DOES_NOT_FIT})


def among_others(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of one query, with texts that remain correct next to the other findings.

    A note does not state that no action is needed if another finding requires an action. If that finding reports the
    same output columns, the note refers to it. If the rehearsal failed, effects that only a running query can have are
    worded as conditional.
    """
    found = tuple(findings)
    if any(each.severity is not Severity.NOTE for each in found):
        found = tuple(_alone(_referring(each, found)) for each in found)
    return tuple(map(_unless_failed, found)) if any(each.rule in _MEASURED_FAILURES for each in found) else found


def _alone(finding: Finding) -> Finding:
    if finding.severity is not Severity.NOTE or not re.match(rf"{NO_ACTION}(?! for this)", finding.hint):
        return finding
    return msgspec.structs.replace(finding, hint=finding.hint.replace(NO_ACTION, ALONE, 1))


def _referring(finding: Finding, among: Iterable[Finding]) -> Finding:
    """Return the finding; the hint of a note refers to another finding that reports the same output columns."""
    if finding.severity is not Severity.NOTE or not finding.hint.startswith(NO_ACTION):
        return finding
    for other in among:
        same = _output_columns(finding) & _output_columns(other)
        if other.severity is not Severity.NOTE and same:
            columns = ", ".join(sorted(same))
            return msgspec.structs.replace(finding, hint=_FOLLOW.format(rule=other.rule, columns=columns))
    return finding


def _output_columns(finding: Finding) -> set[str]:
    """Return the names of the output columns that a finding reports, taken from its place or its evidence."""
    if place := _COLUMN_PLACE.fullmatch(finding.where):
        return {place[1]}
    if finding.where == _OF_PLAN:
        return set(_NAMED.findall(finding.evidence))
    of_output = finding.where == "output columns" or finding.rule == "sink-column-redefined"
    if not of_output or not (listed := _COLUMNS_FIRST.fullmatch(finding.evidence)):
        return set()
    return {name.strip("`") for name in (listed[1] or listed[2]).split(", ")}


def _unless_failed(finding: Finding) -> Finding:
    fails = finding.rule in _MEASURED_FAILURES or finding.severity is Severity.FATAL
    if fails or not finding.effect or finding.unconditional:
        return finding
    return msgspec.structs.replace(finding, effect=f"{UNLESS_FAILED}{finding.effect.replace(UNPROVEN, _MIXED)}")
