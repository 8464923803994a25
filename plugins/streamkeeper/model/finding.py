"""Findings and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum

import msgspec

from streamkeeper.model.redaction import Structure

FORMAT = 1


class Verdict(IntEnum):
    """What a deploy may do, from the mildest to the strictest; a verdict is the maximum over its findings."""

    RESUME = 0
    BACKUP = 1
    SWITCH = 2
    REFUSE = 3


class Severity(Enum):
    """What one finding asks for."""

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
    """One fact about a change.

    ``rule`` is its name as a fact; ``evidence``: the old and the new text, between backticks; ``effect``: the result of
    a RESUME, empty in what an older release recorded; ``hint``: the remedy and its cost; ``line``: ``file:line`` of the
    candidate's changed expression or function, empty where it is not known.
    """

    rule: Structure
    severity: Severity
    where: str
    evidence: str
    hint: str = ""
    reference: Structure = ""
    effect: str = ""
    line: str = ""


class QueryAssessment(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one query and the findings it comes from."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a job: the maximum over its queries."""

    format: int = FORMAT
    verdict: Verdict
    queries: dict[str, QueryAssessment]


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The maximum that any finding asks for; RESUME when there is none."""
    return max((_ASKS_FOR[finding.severity] for finding in findings), default=Verdict.RESUME)
