"""Decides whether a person must review a rebuilt output before it becomes current. Pure, and the only place of this
rule.
"""

from __future__ import annotations

from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import Transition


def reasons_to_review(operation: OperationState) -> tuple[str, ...]:
    """Return why a person must review the outputs, one sentence per query; empty if no review is needed yet.

    A review is needed for outputs that differ by more than the request's thresholds and columns allow, for outputs that
    could not be compared, and for changed code whose effect no rule proves. A request can accept the first two reasons
    in advance with ``compare=false``, and the third with ``accept_risk``.
    """
    request = operation.request
    reasons: list[str] = []
    for query, way in sorted(operation.transitions.items()):
        if way.way is not Transition.REBUILD:
            continue
        if way.opaque_code and not request.accept_risk:
            reasons.append(f"query {query}: its code changed, and the effect on its output is not proven")
        found = operation.compared.get(query)
        if found is None or not request.compare:
            continue
        if not found.comparable:
            reasons.append(f"query {query}: {found.sentence}")
        elif excess := found.exceeds(request.most_missing, request.most_differing):
            reasons.append(f"query {query}: the outputs differ: {excess}")
    return tuple(reasons)
