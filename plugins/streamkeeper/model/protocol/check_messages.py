"""The request to the compatibility check, and the check's answer."""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Verdict
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.output_history import OutputHistory


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is defined in a file."""

    root: str
    """Directory of the bundle."""
    entry: str
    """The job's file, relative to ``root``."""
    name: str
    """The job's name."""
    params: dict[str, ParamValue] = {}
    """Its params; they may contain secret references."""
    conf: dict[str, str] = {}
    """Its Spark conf."""


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to check whether ``candidate`` can resume from ``checkpoints`` in place of ``deployed``."""

    candidate: JobFile
    """The job to check."""
    checkpoints: dict[str, str]
    """Query -> directory; the empty name means the only query."""
    deployed: JobFile | None = None
    """The current job as a file; None if ``manifests`` describe it."""
    manifests: dict[str, Manifest] | None = None
    """The current job's stored manifests."""
    query: str = ""
    """The only query to check; empty for all."""
    findings: dict[str, tuple[Finding, ...]] = {}
    """Query -> findings about its checkpoint that were made before this check."""
    served: bool = False
    """Whether a driver writes the checkpoints during the check."""
    histories: dict[str, OutputHistory] = {}
    """Query -> the batches that its output must contain."""
    topics: dict[str, dict[str, str]] = {}
    """Query -> the ids of the Kafka topics to which the checkpoint's offsets belong."""
    first_topics: dict[str, dict[str, str]] = {}
    """Query -> the ids of the Kafka topics from which the oldest rows in its output came."""
    rehearse: bool = True
    """Whether to run the last batch on a clone."""
    timeout_s: float = 120.0
    """Seconds for the rehearsal."""


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Durations of a check, in seconds; ``rehearse`` covers all examinations, of which the rehearsal takes longest."""

    describe: float
    rehearse: float
    total: float


class CheckAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The assessment with its evidence, or the reason why there is no assessment."""

    assessment: Assessment | None = None
    """Verdict and findings; None after an error."""
    evidence: Evidence | None = None
    """The evidence behind the assessment."""
    seconds: Seconds | None = None
    """Durations of the check."""
    error: str = ""
    """Why there is no assessment; empty otherwise."""


def answer_json(answer: CheckAnswer) -> dict[str, object]:
    """Return the answer as the values that ``streamkeeper check --json`` prints."""
    if answer.assessment is None:
        return {"error": answer.error}
    queries = {name: _query(query) for name, query in answer.assessment.queries.items()}
    seconds = msgspec.to_builtins(answer.seconds) if answer.seconds else {}
    shown = {key: round(value, 3) for key, value in seconds.items()}
    return {"verdict": answer.assessment.verdict.name, "queries": queries, "seconds": shown}


def _query(query: QueryAssessment) -> dict[str, object]:
    switch = {"switch": query.switch.value} if query.verdict is Verdict.SWITCH else {}
    return {"verdict": query.verdict.name, **switch, "findings": [_finding(found) for found in query.findings]}


def _finding(found: Finding) -> dict[str, str]:
    return {
        "rule": found.rule,
        "severity": found.severity.value,
        "where": found.where,
        "effect": found.effect,
        "evidence": found.evidence,
        "hint": found.hint,
        "line": found.line,
        "reference": found.reference,
    }
