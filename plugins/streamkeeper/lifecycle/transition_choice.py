"""Chooses the transition and the rollback path of each query, from its verdicts, checkpoint versions and snapshots.

A handoff keeps the offsets and the output, so the candidate must write the output in the same place. A rebuild needs
sources that still contain all input since the recorded start, and an output that can be written as a shadow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from streamkeeper.lifecycle.recovery import MENDED
from streamkeeper.model.manifests.concern import Concern, concern_of, is_carried_over
from streamkeeper.model.manifests.finding import Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.manifests.manifest import Manifest, Source, is_stateful
from streamkeeper.model.manifests.switching import why_no_handoff, why_no_rebuild
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.diagnosis import Recovery
from streamkeeper.model.requests.request import DeployRequest, Handover, Rollback, Strategy
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sources.known_sources import cleaner_of

_AT_REST = (
    "to continue in the present topic, run `streamkeeper snapshot restore {job}/{query} --id {id}`, and then"
    " `streamkeeper start {job}`, which asks for an approval"
)
_INSTEAD = "to continue where the query is now, deploy this release instead of rolling back to it"
_WITH_APPROVAL = "deploy this release instead of rolling back to it, and a person decides"
_LEFT_BEHIND = (Concern.CHECKPOINT, Concern.RECORD, Concern.REHEARSAL, Concern.SINK_AHEAD, Concern.OUTPUT_LOST)
"""Problems of a checkpoint version that do not affect the version that replaces it."""


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot of a release's last batch, which a rollback to that release can restore.

    ``loses``: a phrase such as ``loses rows: …`` if this restore loses rows whose input is missing; empty otherwise.
    ``blocked``: why no driver could continue from it; empty if one can.
    """

    snapshot: str
    batch: int
    loses: str = ""
    blocked: str = ""


class QueryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts on which the choice of one query's transition depends."""

    deployed: Manifest | None
    """Manifest of the current release; None if there is no current release."""
    candidate: Manifest
    """Manifest of the candidate."""
    judged: QueryAssessment
    """The assessment of the candidate on the current checkpoint."""
    reverse: Verdict = Verdict.RESUME
    """Verdict of the old release on the candidate's checkpoint."""
    current: str = ""
    """The current checkpoint version; empty for a new query."""
    next: str = "v0001"
    """The name of a new checkpoint version."""
    missing_sources: str = ""
    """Why the query's sources cannot be read again from the recorded start; empty if they can."""
    kept: str = ""
    """For a rollback: the version on which the target release last ran; empty if it no longer exists."""
    kept_loses: str = ""
    """The rows that a return to ``kept`` loses, as in ``Boundary``."""
    kept_blocked: str = ""
    """Why no driver could continue in ``kept``; empty if one can."""
    boundary: Boundary | None = None
    """The snapshot of the target release's last batch, or the snapshot that a recovery names; None if there is
    neither.
    """


def choose_transitions(
    request: DeployRequest, facts: Mapping[str, QueryFacts]
) -> tuple[dict[str, QueryTransition], str]:
    """Return the transition of each query, by the query's name, and the reason why the deploy is refused.

    The reason is empty if each query has a transition.
    """
    transitions: dict[str, QueryTransition] = {}
    for name, query_facts in sorted(facts.items()):
        found = (
            _choose(request, query_facts)
            if request.recovery is None
            else _recover(request, request.recovery, name, query_facts)
        )
        if isinstance(found, str):
            return transitions, f"query {name}: {found}"
        transitions[name] = found
    return transitions, ""


def _choose(request: DeployRequest, facts: QueryFacts) -> QueryTransition | str:
    if facts.judged.verdict is Verdict.REFUSE and not (
        isinstance(request.kind, Rollback) and _only_of_the_present(facts.judged.findings)
    ):
        if request.strategy is Strategy.REBUILD and _only_the_output_is_lost(facts.judged.findings):
            way = _against_rebuild(request, facts) or _rebuild(request, facts)
            return way if isinstance(way, str) else _without_way_back(way, "the output before the rebuild is lost")
        return _refusal(facts.judged.findings)
    if not facts.current:
        if facts.deployed is None and facts.judged.verdict is Verdict.SWITCH:
            return f"it cannot start: {_causes(facts.judged.findings, Severity.BREAKING)}"
        renamed = _may_be_renamed(facts.judged.findings)
        if renamed and isinstance(request.kind, Rollback):
            return f"it may be a renamed query, which a rollback does not ask about: {_WITH_APPROVAL}"
        return QueryTransition(way=Transition.START, version=facts.next, opaque=renamed)
    if isinstance(request.kind, Rollback):
        return _roll_back(request, facts)
    match request.strategy:
        case Strategy.RESUME:
            return _resume(request, facts)
        case Strategy.HANDOFF:
            return _against_handoff(request, facts) or _handoff(request, facts)
        case Strategy.REBUILD:
            return _against_rebuild(request, facts) or _rebuild(request, facts)
        case Strategy.AUTO:
            return _follow(request, facts)


def _recover(request: DeployRequest, asked: Recovery, query: str, facts: QueryFacts) -> QueryTransition | str:
    """Return the transition that the recovery announced, or the reason why it is refused.

    Damage to a version that the recovery leaves does not block the transition, because that damage is the reason for
    the recovery.
    """
    left = query in asked.snapshots or query in asked.rebuilt
    refuse = facts.judged.verdict is Verdict.REFUSE
    if refuse and not _may_recover(facts, left=left):
        return _refusal(facts.judged.findings)
    if not facts.current:
        return QueryTransition(way=Transition.START, version=facts.next)
    gone_bad = "the checkpoint that it leaves is damaged; recover again, from another snapshot"
    back = (None, gone_bad) if refuse else (Transition.RETURN, "")
    if query in asked.snapshots:
        if facts.boundary is None:
            return f"there is no snapshot {asked.snapshots[query]} from which to restore it"
        if facts.boundary.blocked:
            return (
                f"{facts.boundary.blocked}"
                f" ({_AT_REST.format(job=request.job, query=query, id=facts.boundary.snapshot)})"
            )
        # The replay was announced, and a person accepted it if the output does not recognise repeated batches.
        return QueryTransition(
            way=Transition.RESTORE,
            before=facts.current,
            version=facts.next,
            batch=facts.boundary.batch,
            snapshot=facts.boundary.snapshot,
            back=back[0],
            no_way_back=back[1],
        )
    if query in asked.rebuilt:
        way = _against_rebuild(request, facts) or _rebuild(request, facts)
        return way if isinstance(way, str) or not refuse else _without_way_back(way, gone_bad)
    return _resume(request, facts)


def _without_way_back(way: QueryTransition, why: str) -> QueryTransition:
    return msgspec.structs.replace(way, back=None, no_way_back=why)


def _may_recover(facts: QueryFacts, *, left: bool) -> bool:
    """Whether the recovery leaves behind, or a start repairs, every problem that forbids a resume."""
    fatal = [finding for finding in facts.judged.findings if finding.severity is Severity.FATAL]
    if left:
        return all(concern_of(finding) in _LEFT_BEHIND for finding in fatal)
    mended = {f"checkpoint-{shape}" for shape in MENDED}
    return capabilities_of(facts.candidate.sink.kind).knows_batches and all(finding.rule in mended for finding in fatal)


def _follow(request: DeployRequest, facts: QueryFacts) -> QueryTransition | str:
    if facts.judged.verdict is not Verdict.SWITCH:
        return _resume(request, facts)
    no_handoff = _against_handoff(request, facts)
    if not no_handoff:
        return _handoff(request, facts)
    no_rebuild = _against_rebuild(request, facts)
    if not no_rebuild:
        return _rebuild(request, facts)
    causes = _causes(facts.judged.findings, Severity.BREAKING)
    return f"{causes}. No handoff is possible, because {no_handoff}. No rebuild is possible, because {no_rebuild}"


def _resume(request: DeployRequest, facts: QueryFacts) -> QueryTransition | str:
    if facts.judged.verdict is Verdict.SWITCH:
        return f"it cannot resume: {_causes(facts.judged.findings, Severity.BREAKING)}"
    back, no_way_back = _back_from_resume(request, facts)
    return QueryTransition(
        way=Transition.RESUME,
        before=facts.current,
        version=facts.current,
        opaque=facts.judged.verdict is Verdict.BACKUP,
        back=back,
        no_way_back=no_way_back,
    )


def _handoff(request: DeployRequest, facts: QueryFacts) -> QueryTransition:
    back, no_way_back = _back_by_replay(request, facts, Transition.RETURN)
    return QueryTransition(
        way=Transition.HANDOFF,
        before=facts.current,
        version=facts.next,
        opaque=any(is_carried_over(finding, keeps_state=_keeps_state(facts)) for finding in facts.judged.findings),
        state_given_up=_keeps_state(facts),
        back=back,
        no_way_back=no_way_back,
    )


def _rebuild(request: DeployRequest, facts: QueryFacts) -> QueryTransition:
    back, no_way_back = _back_by_replay(request, facts, Transition.RETURN)
    return QueryTransition(
        way=Transition.REBUILD,
        before=facts.current,
        version=facts.next,
        opaque_code=any(finding.severity is Severity.OPAQUE for finding in facts.judged.findings),
        back=back,
        no_way_back=no_way_back,
    )


def _roll_back(request: DeployRequest, facts: QueryFacts) -> QueryTransition | str:
    """Resume from the last commit if the old release can resume; otherwise return to its kept version or its last
    snapshot.

    Of these two, the first that loses no rows is chosen. If both lose rows, the kept version is chosen and requires
    ``accept_loss``.
    """
    if facts.judged.verdict is Verdict.RESUME:
        return _resume(request, facts)
    back = [way for way in (_to_kept(facts), _to_boundary(facts)) if way is not None]
    if not back:
        causes = _causes(facts.judged.findings, Severity.BREAKING, Severity.OPAQUE)
        neither = "there is neither a checkpoint version on which this release ran nor a snapshot of its last batch"
        blocked = _blocked(facts)
        return f"{causes}; {f'{blocked} ({_INSTEAD})' if blocked else neither}"
    way, place, loses = next((each for each in back if not each[2]), back[0])
    if cannot := _against_replay(request, facts.candidate, facts.deployed):
        instead = f"; {_INSTEAD}" if facts.judged.verdict is Verdict.BACKUP else ""
        return f"it cannot go back to {place}: {cannot}{instead}"
    if loses and not request.accept_loss:
        return f"going back to {place} {loses}; put the files back, or accept the loss with accept_loss"
    return way


def _blocked(facts: QueryFacts) -> str:
    """Return why the query cannot go back to its kept version or its snapshot; empty if no such reason is recorded."""
    return "; ".join(filter(None, (facts.kept_blocked, facts.boundary.blocked if facts.boundary is not None else "")))


def _to_kept(facts: QueryFacts) -> tuple[QueryTransition, str, str] | None:
    """Return the transition, its target, and the rows that it loses; None if no kept version can continue."""
    if not facts.kept or facts.kept == facts.current or facts.kept_blocked:
        return None
    return (
        QueryTransition(way=Transition.RETURN, before=facts.current, version=facts.kept, back=Transition.RETURN),
        facts.kept,
        facts.kept_loses,
    )


def _to_boundary(facts: QueryFacts) -> tuple[QueryTransition, str, str] | None:
    if facts.boundary is None or facts.boundary.blocked:
        return None
    way = QueryTransition(
        way=Transition.RESTORE,
        before=facts.current,
        version=facts.next,
        batch=facts.boundary.batch,
        snapshot=facts.boundary.snapshot,
        back=Transition.RETURN,
    )
    return way, f"batch {facts.boundary.batch}", facts.boundary.loses


def _back_from_resume(request: DeployRequest, facts: QueryFacts) -> tuple[Transition | None, str]:
    if facts.reverse is Verdict.RESUME:
        return Transition.RESUME, ""
    return _back_by_replay(request, facts, Transition.RESTORE)


def _back_by_replay(request: DeployRequest, facts: QueryFacts, way: Transition) -> tuple[Transition | None, str]:
    cannot = _against_replay(request, facts.deployed or facts.candidate, facts.candidate)
    return (None, cannot) if cannot else (way, "")


def _against_replay(request: DeployRequest, target: Manifest, left: Manifest | None) -> str:
    """Return why the output of a rollback's target may not receive the replayed batches; empty if it may.

    ``left``: the manifest that the rollback leaves, whose output may be another one; None if unknown.
    """
    kind, can = target.sink.kind, capabilities_of(target.sink.kind)
    if can.takes_again or request.accept_risk:
        return ""
    if left is not None and can.names_place and not target.sink.same_place(left.sink):
        return (
            f"{target.sink.output} would also receive the batches that {left.sink.output} has received (use accept_risk"
            " if the readers of both accept that)"
        )
    once = f"; {can.read_once_by}" if can.read_once_by else ""
    if can.delivers:
        return (
            f"{can.receiver} {target.sink.output} would receive batches a second time (use accept_risk if its readers"
            f" accept that{once})"
        )
    return f"its {kind} output would receive batches a second time (use accept_risk if it accepts them{once})"


def _keeps_state(facts: QueryFacts) -> bool:
    return is_stateful(*filter(None, (facts.deployed, facts.candidate)))


def _against_handoff(request: DeployRequest, facts: QueryFacts) -> str:
    """Return why the offsets or the output cannot be kept; empty if they can."""
    old, new = facts.deployed, facts.candidate
    if old is None:
        return "the query that it would continue is unknown"
    return why_no_handoff(
        facts.judged.findings,
        old,
        new,
        capabilities_of(new.sink.kind),
        accept_state_loss=request.accept_state_loss,
    )


def _against_rebuild(request: DeployRequest, facts: QueryFacts) -> str:
    """Return why the query cannot be rebuilt next to the current driver; empty if it can."""
    if request.handover is Handover.COLD:
        return "a dual run needs two drivers at once (use a warm handover)"
    new, cleaners = facts.candidate, set(filter(None, map(cleaner_of, _sources(facts))))
    return why_no_rebuild(facts.judged.findings, new, capabilities_of(new.sink.kind), cleaners) or facts.missing_sources


def _sources(facts: QueryFacts) -> tuple[Source, ...]:
    return facts.candidate.sources + (facts.deployed.sources if facts.deployed is not None else ())


def _may_be_renamed(findings: Iterable[Finding]) -> bool:
    """Whether a new query may be a removed query under another name, which would write the same rows again."""
    return any(concern_of(each) is Concern.OWNER and each.severity is Severity.OPAQUE for each in findings)


def _only_of_the_present(findings: Iterable[Finding]) -> bool:
    """Whether all fatal findings are about the current files or a rehearsal on them, which a rollback does not use."""
    fatal = [finding for finding in findings if finding.severity is Severity.FATAL]
    return all(concern_of(finding) in (Concern.CHECKPOINT, Concern.REHEARSAL) for finding in fatal)


def _only_the_output_is_lost(findings: Iterable[Finding]) -> bool:
    """Whether a lost output is the only fatal finding: a rebuild writes the output from the beginning."""
    fatal = [finding for finding in findings if finding.severity is Severity.FATAL]
    return all(concern_of(finding) is Concern.OUTPUT_LOST for finding in fatal)


def _refusal(findings: Iterable[Finding]) -> str:
    """Return every fatal finding, each with the effect of a start and its remedy."""
    fatal = [finding for finding in findings if finding.severity is Severity.FATAL]
    return "; ".join(
        ": ".join(filter(None, (_causes([finding], finding.severity), finding.effect, finding.hint)))
        for finding in fatal
    )


def _causes(findings: Iterable[Finding], *severities: Severity) -> str:
    return "; ".join(f"{finding.rule} ({finding.evidence})" for finding in findings if finding.severity in severities)
