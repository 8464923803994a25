"""The evidence of a candidate: all that a verdict rests on, as one stored value."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.redaction import Structure

FORMAT = 1


class Look(StrEnum):
    """What is looked at for one query, in this order; each look finds what it finds, or says why it was not taken."""

    RECORD = "record"
    """What is on record of the checkpoint version."""
    PROMISES = "promises"
    """What its kinds of sources promise."""
    DETERMINISM = "determinism"
    """Whether a second build is the same query."""
    DAMAGE = "damage"
    """The checkpoint's files."""
    SOURCES = "sources"
    """Whether sources still hold what a start needs."""
    SINK = "sink"
    """The sink's position against the checkpoint's."""
    REHEARSAL = "rehearsal"
    """The last batch again, on a clone."""
    STATE = "state"
    """Facts of the state itself; they are told in the manifests."""


class QueryEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one query.

    ``deployed``, ``candidate``: its manifests, with the facts of the state, None where there is none; ``batch``: the
    last committed one of its ``checkpoint`` when the looks began; ``not_looked``: why a look was not taken;
    ``rehearsed``: how the rehearsal went, in a clause.
    """

    deployed: Manifest | None = None
    candidate: Manifest | None = None
    checkpoint: Structure = ""
    batch: int | None = None
    found: dict[Look, tuple[Finding, ...]] = {}
    not_looked: dict[Look, str] = {}
    rehearsed: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of all looks, in their order."""
        return tuple(finding for look in Look for finding in self.found.get(look, ()))

    @property
    def rehearsal(self) -> str:
        """How the rehearsal went, or why there was none; empty where there was nothing to run again."""
        why = self.not_looked.get(Look.REHEARSAL, "")
        return f"not rehearsed: {why}" if why else self.rehearsed

    @property
    def is_fatal(self) -> bool:
        """Whether anything found forbids to run the candidate."""
        return any(finding.severity is Severity.FATAL for finding in self.findings)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Of every query of the candidate, and of those that it has not any more.

    ``against``: the release that is deployed, empty where it has no name; ``first``: nothing is deployed.
    """

    format: int = FORMAT
    against: Structure = ""
    first: bool = False
    queries: dict[str, QueryEvidence]

    @property
    def deployed(self) -> dict[str, Manifest]:
        """Query -> its deployed manifest, of those that are deployed."""
        return {
            query: query_evidence.deployed
            for query, query_evidence in self.queries.items()
            if query_evidence.deployed is not None
        }

    @property
    def candidate(self) -> dict[str, Manifest]:
        """Query -> the candidate's manifest, of those that it has."""
        return {
            query: query_evidence.candidate
            for query, query_evidence in self.queries.items()
            if query_evidence.candidate is not None
        }
