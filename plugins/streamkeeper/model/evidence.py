"""The evidence about a candidate: the complete basis of a verdict, as one stored value."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.redaction import Structure

FORMAT = 1


class Look(StrEnum):
    """The examinations of one query, in this order. Each has findings, or the reason why it was skipped."""

    RECORD = "record"
    """The recorded checkpoint version."""
    PROMISES = "promises"
    """The promises of its kinds of sources."""
    DETERMINISM = "determinism"
    """Whether a second build is the same query."""
    DAMAGE = "damage"
    """The checkpoint's files."""
    SOURCES = "sources"
    """Whether sources still have the input that a start needs."""
    SINK = "sink"
    """The sink's position compared with the checkpoint's."""
    REHEARSAL = "rehearsal"
    """The last batch once more, on a clone."""
    STATE = "state"
    """Facts of the state itself; the manifests contain them."""


class QueryEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence about one query."""

    deployed: Manifest | None = None
    """The deployed manifest, with the facts of the state; None without one."""
    candidate: Manifest | None = None
    """The candidate's manifest, with the facts of the state; None without one."""
    checkpoint: Structure = ""
    """The checkpoint that was examined."""
    batch: int | None = None
    """The last committed batch of the checkpoint at the start of the examinations."""
    found: dict[Look, tuple[Finding, ...]] = {}
    """Examination -> its findings."""
    not_looked: dict[Look, str] = {}
    """Examination -> why it was skipped."""
    rehearsed: str = ""
    """The result of the rehearsal, as a clause."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all examinations, in their order."""
        return tuple(finding for look in Look for finding in self.found.get(look, ()))

    @property
    def rehearsal(self) -> str:
        """The result of the rehearsal, or why there was none; empty if there was no batch to repeat."""
        why = self.not_looked.get(Look.REHEARSAL, "")
        return f"not rehearsed: {why}" if why else self.rehearsed

    @property
    def is_fatal(self) -> bool:
        """Whether any finding forbids running the candidate."""
        return any(finding.severity is Severity.FATAL for finding in self.findings)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence about every query of the candidate, and about removed queries."""

    format: int = FORMAT
    """Format version of the record."""
    against: Structure = ""
    """The deployed release; empty if it has no name."""
    first: bool = False
    """Whether no release is deployed."""
    queries: dict[str, QueryEvidence]
    """Query -> its evidence."""

    @property
    def deployed(self) -> dict[str, Manifest]:
        """Query -> its deployed manifest, for deployed queries."""
        return {
            query: query_evidence.deployed
            for query, query_evidence in self.queries.items()
            if query_evidence.deployed is not None
        }

    @property
    def candidate(self) -> dict[str, Manifest]:
        """Query -> the candidate's manifest, for queries of the candidate."""
        return {
            query: query_evidence.candidate
            for query, query_evidence in self.queries.items()
            if query_evidence.candidate is not None
        }
