"""Adjusts the texts of a finding to the other findings of its query: a change that is safe alone does nothing if the
query fails. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from streamkeeper.compatibility.effects import NO_ACTION
from streamkeeper.compatibility.rehearsals import FAILURES, OUTPUT_DOES_NOT_FIT
from streamkeeper.model.manifests.finding import Finding, Severity

ALONE = f"{NO_ACTION} for this change alone"
"""Hint of a note beside a finding that needs an action."""
UNLESS_FAILED = "if the query did not fail, "
"""Begins the effect of a change that would show only in a query that runs."""
_MEASURED_FAILURES = frozenset({*FAILURES, OUTPUT_DOES_NOT_FIT})


def among_others(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of one query, with texts that also hold beside the other findings.

    A note does not state that no action is needed if another finding requires one. If the rehearsal failed, effects
    that only a running query has become conditional.
    """
    found = tuple(findings)
    if any(each.severity is not Severity.NOTE for each in found):
        found = tuple(map(_alone, found))
    return tuple(map(_unless_failed, found)) if any(each.rule in _MEASURED_FAILURES for each in found) else found


def _alone(finding: Finding) -> Finding:
    if finding.severity is not Severity.NOTE or not re.match(rf"{NO_ACTION}(?! for this)", finding.hint):
        return finding
    return msgspec.structs.replace(finding, hint=finding.hint.replace(NO_ACTION, ALONE, 1))


def _unless_failed(finding: Finding) -> Finding:
    fails = finding.rule in _MEASURED_FAILURES or finding.severity is Severity.FATAL
    if fails or not finding.effect or finding.unconditional:
        return finding
    return msgspec.structs.replace(finding, effect=f"{UNLESS_FAILED}{finding.effect}")
