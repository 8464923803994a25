"""When a person has to see a rebuilt output before it serves: pure, and said in one place."""

from __future__ import annotations

from streamkeeper.model.operation import OperationState
from streamkeeper.model.ways import Way


def reasons_to_review(operation: OperationState) -> tuple[str, ...]:
    """Why, one sentence a query; none when nobody has to be asked, or when the outputs are still to be compared.

    Outputs that differ by more than was asked for, that could not be compared, and code that changed of which nothing
    proves what it means. Each can be said beforehand: thresholds and columns, ``compare=false``, ``accept_risk``.
    """
    request = operation.request
    reasons: list[str] = []
    for query, way in sorted(operation.ways.items()):
        if way.way is not Way.REBUILD:
            continue
        if way.opaque_code and not request.accept_risk:
            reasons.append(f"query {query}: its code changed, and nothing proves what that means to its output")
        found = operation.compared.get(query)
        if found is None or not request.compare:
            continue
        if not found.comparable:
            reasons.append(f"query {query}: {found.sentence}")
        elif excess := found.exceeds(request.most_missing, request.most_differing):
            reasons.append(f"query {query}: the outputs differ: {excess}")
    return tuple(reasons)
