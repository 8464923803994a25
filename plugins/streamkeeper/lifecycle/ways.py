"""Which way each query goes, and which way back there is: decided from the verdicts and what is known of its places.

What a handoff can carry over: offsets, and an output that the candidate writes in the same place. What a rebuild asks
for: a source that still holds everything since the recorded start, and an output that can be written unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from streamkeeper.lifecycle.recovery import KNOWS_ITS_BATCHES, MENDED
from streamkeeper.model.finding import Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.journal import DeployRequest, Handover, Strategy
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.recovery import Recovery
from streamkeeper.model.trigger import parse_trigger
from streamkeeper.model.ways import QueryWay, Way

REPLAYING_SINKS = frozenset({"table", "file"})
"""Sinks that take rows a second time without doubling them: by key, or in an output of the version's own."""
SHADOWED_SINKS = frozenset({"table", "file"})
"""Sinks that can be written beside the serving output, unseen."""

_OUTPUT_RULES, _COLUMN_RULES = frozenset({"sink-option-changed", "output-does-not-fit"}), "output-column"
_OTHER_SOURCES = frozenset(
    f"source-{each}-changed" for each in ("count", "order", "naming", "kind", "location", "selection")
) | {"source-renamed"}
_HISTORY_GONE = "history-gone"
_LEFT_BEHIND = frozenset({"sink-ahead-of-checkpoint", "open-batch-of-named-sources", "input-of-open-batch-gone"})
"""What is wrong with a checkpoint version, and not with the one that takes its place."""
_ON_RECORD = frozenset({"checkpoint-lost", "checkpoint-of-another-installation", "checkpoint-elsewhere"})
_UNEXPLAINED = frozenset({"refused-by-spark", "unexplained-difference", "output-changes-hands"})


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of the last batch of a release, by which one can get back to it."""

    snapshot: str
    batch: int


class QueryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that the choice for one query rests on.

    ``gone``: why its sources cannot be read again from the recorded start, empty if they can; ``kept``: the version on
    which the release of a rollback served last, if it is still there; ``boundary``: its last snapshot.
    """

    deployed: Manifest | None
    candidate: Manifest
    judged: QueryAssessment
    reverse: Verdict = Verdict.RESUME
    current: str = ""
    next: str = "v0001"
    gone: str = ""
    kept: str = ""
    boundary: Boundary | None = None


def choose_ways(request: DeployRequest, facts: Mapping[str, QueryFacts]) -> tuple[dict[str, QueryWay], str]:
    """Query -> its way; and why there is none for one of them, which refuses the whole deploy."""
    ways: dict[str, QueryWay] = {}
    for name, each in sorted(facts.items()):
        found = _choose(request, each) if request.recover is None else _recover(request, request.recover, name, each)
        if isinstance(found, str):
            return ways, f"query {name}: {found}"
        ways[name] = found
    return ways, ""


def _choose(request: DeployRequest, at: QueryFacts) -> QueryWay | str:
    if at.judged.verdict is Verdict.REFUSE and not (request.rollback and _only_of_the_present(at.judged.findings)):
        return _refusal(at.judged.findings)
    if not at.current:
        return QueryWay(way=Way.START, version=at.next)
    if request.rollback:
        return _roll_back(request, at)
    match request.strategy:
        case Strategy.RESUME:
            return _resume(request, at)
        case Strategy.HANDOFF:
            return _against_handoff(request, at) or _handoff(request, at)
        case Strategy.REBUILD:
            return _against_rebuild(request, at) or _rebuild(request, at)
        case Strategy.AUTO:
            return _follow(request, at)


def _recover(request: DeployRequest, asked: Recovery, query: str, at: QueryFacts) -> QueryWay | str:
    """As it was announced. What is wrong with the files that are left behind is the reason, and no objection."""
    left = query in asked.snapshots or query in asked.rebuilt
    refuse = at.judged.verdict is Verdict.REFUSE
    if refuse and not _may_recover(at, left=left):
        return _refusal(at.judged.findings)
    if not at.current:
        return QueryWay(way=Way.START, version=at.next)
    gone_bad = "what it leaves is damaged; recover again, from another snapshot"
    back = (None, gone_bad) if refuse else (Way.RETURN, "")
    if query in asked.snapshots:
        if at.boundary is None:
            return f"there is no snapshot {asked.snapshots[query]} to restore it from"
        # That its output gets batches again was announced, and accepted where it does not know them.
        return QueryWay(
            way=Way.RESTORE,
            before=at.current,
            version=at.next,
            batch=at.boundary.batch,
            snapshot=at.boundary.snapshot,
            back=back[0],
            no_way_back=back[1],
        )
    if query in asked.rebuilt:
        way = _against_rebuild(request, at) or _rebuild(request, at)
        if isinstance(way, str) or not refuse:
            return way
        return msgspec.structs.replace(way, back=None, no_way_back=gone_bad)
    return _resume(request, at)


def _may_recover(at: QueryFacts, *, left: bool) -> bool:
    """Whether all that forbids to go on is what the recovery leaves behind, or what a start mends by itself."""
    fatal = [each for each in at.judged.findings if each.severity is Severity.FATAL]
    if left:
        return all(
            each.where.startswith("rehearsal") or each.rule.startswith("checkpoint-") or each.rule in _LEFT_BEHIND
            for each in fatal
        )
    mended = {f"checkpoint-{each}" for each in MENDED}
    return at.candidate.sink.kind in KNOWS_ITS_BATCHES and all(each.rule in mended for each in fatal)


def _follow(request: DeployRequest, at: QueryFacts) -> QueryWay | str:
    if at.judged.verdict is not Verdict.SWITCH:
        return _resume(request, at)
    no_handoff = _against_handoff(request, at)
    if not no_handoff:
        return _handoff(request, at)
    no_rebuild = _against_rebuild(request, at)
    if not no_rebuild:
        return _rebuild(request, at)
    causes = _causes(at.judged.findings, Severity.BREAKING)
    return f"{causes}; no handoff: {no_handoff}; no rebuild: {no_rebuild}"


def _resume(request: DeployRequest, at: QueryFacts) -> QueryWay | str:
    if at.judged.verdict is Verdict.SWITCH:
        return f"it cannot resume: {_causes(at.judged.findings, Severity.BREAKING)}"
    back, no_way_back = _back_from_resume(request, at)
    return QueryWay(
        way=Way.RESUME,
        before=at.current,
        version=at.current,
        opaque=at.judged.verdict is Verdict.BACKUP,
        back=back,
        no_way_back=no_way_back,
    )


def _handoff(request: DeployRequest, at: QueryFacts) -> QueryWay:
    back, no_way_back = _back_by_replay(request, at, Way.RETURN)
    return QueryWay(
        way=Way.HANDOFF,
        before=at.current,
        version=at.next,
        state_given_up=_keeps_state(at),
        back=back,
        no_way_back=no_way_back,
    )


def _rebuild(request: DeployRequest, at: QueryFacts) -> QueryWay:
    back, no_way_back = _back_by_replay(request, at, Way.RETURN)
    return QueryWay(
        way=Way.REBUILD,
        before=at.current,
        version=at.next,
        opaque_code=any(each.severity is Severity.OPAQUE for each in at.judged.findings),
        back=back,
        no_way_back=no_way_back,
    )


def _roll_back(request: DeployRequest, at: QueryFacts) -> QueryWay | str:
    """Forward from the last commit if the old release takes it; else back to the version it served on, or to its last
    snapshot."""
    if at.judged.verdict is Verdict.RESUME:
        return _resume(request, at)
    cannot = _against_replay(request, at.candidate.sink.kind)
    if at.kept and at.kept != at.current:
        if cannot:
            return f"it cannot go back to {at.kept}: {cannot}"
        return QueryWay(way=Way.RETURN, before=at.current, version=at.kept, back=Way.RETURN)
    if at.boundary is not None:
        if cannot:
            return f"it cannot go back to batch {at.boundary.batch}: {cannot}"
        return QueryWay(
            way=Way.RESTORE,
            before=at.current,
            version=at.next,
            batch=at.boundary.batch,
            snapshot=at.boundary.snapshot,
            back=Way.RETURN,
        )
    causes = _causes(at.judged.findings, Severity.BREAKING, Severity.OPAQUE)
    return f"{causes}; and there is neither a checkpoint version that this release served on nor a snapshot of its last"


def _back_from_resume(request: DeployRequest, at: QueryFacts) -> tuple[Way | None, str]:
    if at.reverse is Verdict.RESUME:
        return Way.RESUME, ""
    return _back_by_replay(request, at, Way.RESTORE)


def _back_by_replay(request: DeployRequest, at: QueryFacts, way: Way) -> tuple[Way | None, str]:
    kind = at.deployed.sink.kind if at.deployed is not None else at.candidate.sink.kind
    cannot = _against_replay(request, kind)
    return (None, cannot) if cannot else (way, "")


def _against_replay(request: DeployRequest, kind: str) -> str:
    if kind in REPLAYING_SINKS or request.accept_risk:
        return ""
    return f"its {kind} output would get batches a second time (accept_risk, if it takes them)"


def _keeps_state(at: QueryFacts) -> bool:
    return bool(at.candidate.operators or (at.deployed is not None and at.deployed.operators))


def _against_handoff(request: DeployRequest, at: QueryFacts) -> str:
    """Why the offsets or the output cannot be carried over; empty if they can."""
    old, new = at.deployed, at.candidate
    if old is None:
        return "nothing is known of what it would take over"
    if _keeps_state(at) and not request.accept_state_loss:
        return "its state would be lost (accept_state_loss)"
    if (old.sink.kind, old.sink.output) != (new.sink.kind, new.sink.output):
        return f"what was written to {old.sink.output} would be missing in {new.sink.output}"
    breaking = [each for each in at.judged.findings if each.severity is Severity.BREAKING]
    if new.sink.kind == "table" and any(map(_about_output, breaking)):
        return "the table that is there does not take its rows"
    others = sorted({each.rule for each in breaking if _about_offsets(each, state_given_up=_keeps_state(at))})
    return f"its offsets do not carry over: {', '.join(others)}" if others else ""


def _against_rebuild(request: DeployRequest, at: QueryFacts) -> str:
    """Why it cannot be rebuilt beside the serving driver; empty if it can."""
    if request.handover is Handover.COLD:
        return "a dual run needs room for two drivers (handover warm)"
    if at.candidate.sink.kind not in SHADOWED_SINKS:
        return f"its {at.candidate.sink.kind} output cannot be written unseen"
    if parse_trigger(at.candidate.trigger).available_now:
        return "an availableNow query ends before it could be cut over"
    other = sorted({each.rule for each in at.judged.findings if _reads_other_sources(each)})
    if other:
        return f"when it has read what was read cannot be told: {', '.join(other)}"
    history = [each.evidence for each in at.judged.findings if each.rule == _HISTORY_GONE]
    return at.gone or "; ".join(history)


def _about_output(finding: Finding) -> bool:
    return finding.rule in _OUTPUT_RULES or finding.rule.startswith(_COLUMN_RULES)


def _about_offsets(finding: Finding, *, state_given_up: bool) -> bool:
    """Whether it may concern what a source's offsets mean; what Spark refuses of state is given up with the state."""
    return finding.where.startswith("source") or (finding.rule in _UNEXPLAINED and not state_given_up)


def _reads_other_sources(finding: Finding) -> bool:
    return finding.severity is Severity.BREAKING and finding.rule in _OTHER_SOURCES


def _only_of_the_present(findings: Iterable[Finding]) -> bool:
    """What is wrong with the files that serve now, or with a rehearsal on them, is no word on those that a rollback
    goes back to."""
    fatal = [each for each in findings if each.severity is Severity.FATAL]
    return all(each.where.startswith("rehearsal") or _about_files(each) for each in fatal)


def _about_files(finding: Finding) -> bool:
    named = finding.rule in ("open-batch-of-named-sources", "input-of-open-batch-gone")
    return named or (finding.rule.startswith("checkpoint-") and finding.rule not in _ON_RECORD)


def _refusal(findings: Iterable[Finding]) -> str:
    """Every fatal finding, each with what a start would do and its way out."""
    fatal = [each for each in findings if each.severity is Severity.FATAL]
    return "; ".join(
        ": ".join(filter(None, (_causes([each], each.severity), each.effect, each.hint))) for each in fatal
    )


def _causes(findings: Iterable[Finding], *severities: Severity) -> str:
    return "; ".join(f"{each.rule} ({each.evidence})" for each in findings if each.severity in severities)
