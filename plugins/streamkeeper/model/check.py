"""One question to the compatibility check, and its answer."""

from __future__ import annotations

import msgspec

from streamkeeper.model.evidence import Evidence
from streamkeeper.model.finding import Assessment, Finding
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.output_history import OutputHistory
from streamkeeper.model.release import ParamValue


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a file: ``entry`` is relative to ``root``; ``params`` may hold secret references."""

    root: str
    entry: str
    name: str
    params: dict[str, ParamValue] = {}
    conf: dict[str, str] = {}


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Would ``candidate`` go on from ``checkpoints`` as ``deployed`` does?

    ``deployed``: a job file, or its stored ``manifests``. ``checkpoints``: query -> directory; the empty name stands
    for the only query. ``query``: look at this one only. ``findings``: query -> what is known of its checkpoint.
    ``served``: a driver goes on writing the checkpoints meanwhile. ``histories``: query -> what its output must hold.
    """

    candidate: JobFile
    checkpoints: dict[str, str]
    deployed: JobFile | None = None
    manifests: dict[str, Manifest] | None = None
    query: str = ""
    findings: dict[str, tuple[Finding, ...]] = {}
    served: bool = False
    histories: dict[str, OutputHistory] = {}
    rehearse: bool = True
    timeout_s: float = 120.0


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """What a check took, seconds; ``rehearse``: all the looks, of which the rehearsal takes longest."""

    describe: float
    rehearse: float
    total: float


class CheckAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The assessment and the evidence that it rests on, or why there is none."""

    assessment: Assessment | None = None
    evidence: Evidence | None = None
    seconds: Seconds | None = None
    error: str = ""


def answer_json(answer: CheckAnswer) -> dict[str, object]:
    """The answer as ``streamkeeper check --json`` prints it."""
    if answer.assessment is None:
        return {"error": answer.error}
    queries = {
        name: {"verdict": query.verdict.name, "findings": [_finding(found) for found in query.findings]}
        for name, query in answer.assessment.queries.items()
    }
    seconds = msgspec.to_builtins(answer.seconds) if answer.seconds else {}
    shown = {key: round(value, 3) for key, value in seconds.items()}
    return {"verdict": answer.assessment.verdict.name, "queries": queries, "seconds": shown}


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
