"""Findings and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum

import msgspec

from streamkeeper.model.redaction import Structure

FORMAT = 1


class Verdict(IntEnum):
    """How a change can be deployed, from the mildest to the strictest. The strictest finding decides."""

    RESUME = 0
    BACKUP = 1
    SWITCH = 2
    REFUSE = 3


class Severity(Enum):
    """The consequence of one finding for the deploy."""

    NOTE = "note"
    OPAQUE = "opaque"
    BREAKING = "breaking"
    FATAL = "fatal"


_ASKS_FOR = {
    Severity.NOTE: Verdict.RESUME,
    Severity.OPAQUE: Verdict.BACKUP,
    Severity.BREAKING: Verdict.SWITCH,
    Severity.FATAL: Verdict.REFUSE,
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a change."""

    rule: Structure
    """The name of the rule, phrased as a fact."""
    severity: Severity
    """The consequence."""
    where: str
    """The part of the query that the finding is about."""
    evidence: str
    """The evidence, usually the old and the new text between backticks."""
    hint: str = ""
    """The remedy and its cost."""
    reference: Structure = ""
    """The measurement or the documentation behind the rule."""
    effect: str = ""
    """What happens if the query resumes (RESUME) despite the finding; empty in findings of older versions."""
    line: str = ""
    """The ``file:line`` of the changed expression or function in the candidate; empty if unknown."""
    unconditional: bool = False
    """Whether the effect also occurs for a query that fails, for instance because the effect is that failure."""


class Switch(Enum):
    """Whether a deploy can bring a query with the verdict SWITCH to a new checkpoint version, from the mildest to the
    strictest.
    """

    POSSIBLE = "possible"
    """The deploy can do so without any loss. This is also the value for any other verdict."""
    WITHOUT_STATE = "without-state"
    """The deploy can do so only if the request accepts the loss of the query's state."""
    IMPOSSIBLE = "impossible"
    """The deploy cannot do so, and is refused."""


class QueryAssessment(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one query, with its findings."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    switch: Switch = Switch.POSSIBLE
    """What a deploy with the default strategy can do after the verdict SWITCH."""


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a job, which is the strictest verdict on any of its queries."""

    format: int = FORMAT
    verdict: Verdict
    queries: dict[str, QueryAssessment]


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Return the strictest verdict that any finding requires; RESUME if there are no findings."""
    return max((_ASKS_FOR[finding.severity] for finding in findings), default=Verdict.RESUME)
