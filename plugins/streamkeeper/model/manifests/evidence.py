"""The evidence about a candidate: everything that a verdict is based on, as one stored value."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.redaction import Structure

FORMAT = 1


class Look(StrEnum):
    """The examinations of one query, in their order. Each yields findings, or the reason why it was skipped."""

    RECORD = "record"
    """The recorded checkpoint version."""
    PROMISES = "promises"
    """What the job must guarantee for its kinds of sources."""
    DETERMINISM = "determinism"
    """Whether building the job a second time yields the same query."""
    DAMAGE = "damage"
    """The checkpoint's files."""
    SOURCES = "sources"
    """Whether the sources still have the input that a start needs."""
    SINK = "sink"
    """The newest batch in the output compared with the newest batch in the checkpoint."""
    REHEARSAL = "rehearsal"
    """A run of the last batch on a clone."""
    STATE = "state"
    """Facts that were read from the state itself. The manifests store them."""


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
    """The result of the rehearsal, as a phrase; empty without one."""
    topics: dict[str, str] = {}
    """Kafka topic -> its id before the examinations; empty without earlier ids, or if the brokers did not answer."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all examinations, in the order of ``Look``."""
        return tuple(finding for look in Look for finding in self.found.get(look, ()))

    @property
    def rehearsal(self) -> str:
        """The result of the rehearsal of the query, or of its sink if the query has no batch to rerun, or why the
        rehearsal was skipped; empty without a rehearsal, or if the output of a new query did not answer.
        """
        why = self.not_looked.get(Look.REHEARSAL, "")
        return f"not rehearsed: {why}" if why else self.rehearsed

    @property
    def is_fatal(self) -> bool:
        """Whether any finding forbids running the candidate."""
        return any(finding.severity is Severity.FATAL for finding in self.findings)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence about every query of the candidate, and about the queries that the candidate removes."""

    format: int = FORMAT
    """Format version of the record."""
    against: Structure = ""
    """The deployed release with which the candidate is compared; empty if it has no name."""
    first: bool = False
    """Whether no release is deployed."""
    queries: dict[str, QueryEvidence]
    """Query -> its evidence."""

    @property
    def deployed(self) -> dict[str, Manifest]:
        """Query -> its deployed manifest, for the queries that are deployed."""
        return {
            query: query_evidence.deployed
            for query, query_evidence in self.queries.items()
            if query_evidence.deployed is not None
        }

    @property
    def candidate(self) -> dict[str, Manifest]:
        """Query -> its manifest in the candidate, for the queries of the candidate."""
        return {
            query: query_evidence.candidate
            for query, query_evidence in self.queries.items()
            if query_evidence.candidate is not None
        }
