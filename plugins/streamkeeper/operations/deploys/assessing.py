"""The assessment of a deploy: the verdicts in both directions, each query's transition, and the cost of a replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.checkpoints.reach import missing_files
from streamkeeper.compatibility.assess import accept_output_losses, assess, assess_evidence
from streamkeeper.compatibility.observations import has_other_topics
from streamkeeper.compatibility.output_columns import names_of_columns
from streamkeeper.compatibility.report import told_way
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, Unsupported
from streamkeeper.lifecycle.transition_choice import Boundary, QueryFacts, choose_transitions
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.evidence import Evidence, Look, QueryEvidence
from streamkeeper.model.manifests.finding import Assessment, Finding, Verdict
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.names import refuse_unknown
from streamkeeper.model.records.checkpoint_version import topics_at
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Assessed
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.snapshot import Snapshot, series_of_query, snapshot_number
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest, Rollback, Strategy
from streamkeeper.model.settings.release_conf import check_described_confs
from streamkeeper.operations.deploys.blast_radius import told_replay
from streamkeeper.operations.deploys.catching_up import estimate
from streamkeeper.operations.deploys.kept_versions import describe_other_writer, is_kept
from streamkeeper.operations.deploys.version_acts import free_version
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.missing_input import missing_for_way
from streamkeeper.operations.jobs.old_input import told_old_input
from streamkeeper.operations.jobs.registered import recorded_findings, stored_manifests
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.sources.contract import recreated


def assess_candidate(installation: Installation, state: JobState, operation: OperationState, release: str) -> Assessed:
    """Assess the candidate, store the report, and return the journal's record of the assessment.

    Raises JobUnusable if the candidate may not run.
    """
    serving = state.serving_release
    candidate = stored_manifests(installation, state, release)
    check_described_confs(manifest.confs for manifest in candidate.values())
    deployed = stored_manifests(installation, state, serving) if serving else None
    described = [*candidate.items(), *(deployed or {}).items()]
    columns = {name for query, manifest in described for name in names_of_columns(query, manifest)}
    refuse_unknown("expect_different: column", operation.request.expect_different, columns)
    evidence = evidence_of(installation, state, operation.operation, release)
    forward, lacks = judge(evidence, operation.request)
    backward = assess(candidate, deployed) if deployed is not None else forward
    topics = {query: found.topics for query, found in evidence.queries.items()}
    transitions, refusal = find_transitions(
        installation, state, operation.request, release, deployed or {}, candidate, forward, backward, topics=topics
    )
    asked = {query: found for query, found in topics.items() if _has_other_topics(forward, query)}
    transitions = {
        query: way
        if way.way is Transition.REBUILD
        else _with_losses(way, lacks.get(query), asked.get(query), operation.request)
        for query, way in transitions.items()
    }
    if unknown := sorted(query for query, way in transitions.items() if way.other_topics and not way.approved_topics):
        refusal = refusal or f"query {unknown[0]}: the brokers did not report the ids of its topics (deploy again)"
    if not refusal and isinstance(operation.request.kind, Rollback) and not serving:
        refusal = "there is no current release to roll back"
    return Assessed(
        operation=operation.operation,
        verdict=forward.verdict,
        reverse=backward.verdict,
        sentence=_sentence(
            installation, state, _word(operation.request, forward, refusal), release, transitions, refusal
        ),
        report=put_object(installation.store, state.job, "reports", to_json(forward), ".json"),
        transitions=transitions,
        refusal=refusal,
        evidence=put_object(installation.store, state.job, "evidence", to_json(evidence), ".json"),
    )


def _has_other_topics(forward: Assessment, query: str) -> bool:
    judged = forward.queries.get(query)
    return judged is not None and has_other_topics(judged.findings)


def _with_losses(
    way: QueryTransition, output_lacks: int | None, topics: dict[str, str] | None, request: DeployRequest
) -> QueryTransition:
    """Return the transition, with the losses and topics that a person accepts by approving it.

    ``topics``: topic -> its id, if a topic was recreated since the current version read it; else None. A rollback that
    leaves this version needs no approval: it is refused if the older position is in another topic.
    """
    if topics is None or (isinstance(request.kind, Rollback) and way.way.replays):
        return msgspec.structs.replace(way, output_lacks=output_lacks)
    return msgspec.structs.replace(way, output_lacks=output_lacks, other_topics=True, approved_topics=topics)


def judge(evidence: Evidence, request: DeployRequest) -> tuple[Assessment, dict[str, int]]:
    """Return the assessment, and query -> the newest batch that the query's output may lack.

    The second result has only the queries whose loss of output the request accepts.
    """
    if not request.accept_output_loss:
        return assess_evidence(evidence), {}
    accepted, lacks = accept_output_losses(evidence)
    return assess_evidence(accepted), lacks


def find_transitions(
    installation: Installation,
    state: JobState,
    request: DeployRequest,
    release: str,
    deployed: Mapping[str, Manifest],
    candidate: Mapping[str, Manifest],
    forward: Assessment,
    backward: Assessment,
    *,
    topics: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[dict[str, QueryTransition], str]:
    """Return query -> its transition, and a refusal, which is empty if every query has a transition.

    ``installation``: the installation; ``state``: the state of the job; ``request``: the request of the deploy;
    ``release``: the name of the candidate, which a rollback needs; ``deployed`` and ``candidate``: query -> manifest of
    the current release and of the candidate; ``forward`` and ``backward``: the assessments of the change and of its
    reversal; ``topics``: query -> Kafka topic -> its id now, for a rollback and a recovery.
    """
    now, assessed = topics or {}, (forward, backward)
    facts = {
        query: _facts(
            installation, state, request, release, query, deployed.get(query), manifest, *assessed, now.get(query, {})
        )
        for query, manifest in candidate.items()
    }
    return choose_transitions(request, facts)


def _told_other_topics(read: Mapping[str, str], now: Mapping[str, str], place: str) -> str:
    """Return which topics were recreated since ``place`` read them, as a clause; empty if none was."""
    others = recreated(read, now)
    if not others:
        return ""
    topics = f"topic {others[0]} was" if len(others) == 1 else f"topics {', '.join(others)} were"
    return f"{topics} deleted and created again since {place}, so its offsets do not belong to the present records"


def evidence_of(installation: Installation, state: JobState, operation: str, release: str) -> Evidence:
    """Return the evidence that the operation's newest instance with this release gathered.

    Findings that come from records are replaced by current ones. If the instance gathered no evidence, or compared with
    a release that is no longer current, return an Evidence with the reason why no query was inspected.
    """
    mine = [
        instance
        for instance in state.instances.values()
        if instance.operation == operation and instance.release == release
    ]
    found = Control(installation.store, state.job, mine[-1].instance).read_evidence() if mine else None
    if found is None or found.against != state.serving_release:
        found = _not_gathered(installation, state, release)
    record = recorded_findings(installation, state)
    queries = {
        # A query that the candidate no longer has does not resume.
        query: gathered if gathered.candidate is None else _with_record(gathered, record.get(query, ()))
        for query, gathered in found.queries.items()
    }
    return msgspec.structs.replace(found, queries=queries)


def _with_record(query: QueryEvidence, record: tuple[Finding, ...]) -> QueryEvidence:
    return msgspec.structs.replace(query, found={**query.found, Look.RECORD: record})


def _not_gathered(installation: Installation, state: JobState, release: str) -> Evidence:
    """Return evidence that contains only the manifests, and why each inspection of a checkpoint was not made."""
    serving = state.serving_release
    candidate = stored_manifests(installation, state, release)
    deployed = stored_manifests(installation, state, serving) if serving else {}
    why = "the candidate's driver has left no evidence against the current release"
    looks = [look for look in Look if look is not Look.RECORD]
    queries = {
        query: QueryEvidence(
            deployed=deployed.get(query),
            candidate=candidate.get(query),
            not_looked=dict.fromkeys(looks, why) if query in candidate and state.current_version(query) else {},
        )
        for query in {**deployed, **candidate}
    }
    return Evidence(against=serving, first=not serving, queries=queries)


def _facts(
    installation: Installation,
    state: JobState,
    request: DeployRequest,
    release: str,
    query: str,
    deployed: Manifest | None,
    candidate: Manifest,
    forward: Assessment,
    backward: Assessment,
    topics: Mapping[str, str],
) -> QueryFacts:
    current = state.current_version(query)
    facts = QueryFacts(
        deployed=deployed,
        candidate=candidate,
        judged=forward.queries[query],
        reverse=backward.queries[query].verdict,
        current=current.version if current is not None else "",
        next=free_version(installation, state, query),
    )
    if current is None:
        return facts
    if isinstance(request.kind, Rollback):
        return _ways_to_go_back(installation, state, release, query, facts, topics)
    recover = request.recovery
    if recover is not None and query in recover.snapshots:
        # A person approves the topics that were created again since the current version read them, and no other ones.
        asked = recreated(state.offset_topics(query, current.version), topics)
        others = {topic: identity for topic, identity in topics.items() if topic not in asked}
        return msgspec.structs.replace(
            facts, boundary=_named(installation, state, query, recover.snapshots[query], others)
        )
    rebuilt = request.strategy is Strategy.REBUILD or (recover is not None and query in recover.rebuilt)
    if facts.judged.verdict is Verdict.SWITCH or rebuilt:
        return msgspec.structs.replace(
            facts, missing_sources=gone_of_sources(installation, state, query, current.version)
        )
    return facts


def _ways_to_go_back(
    installation: Installation, state: JobState, release: str, query: str, facts: QueryFacts, topics: Mapping[str, str]
) -> QueryFacts:
    """Add the version and the snapshot that a rollback can use, and the loss of each.

    ``installation``, ``state`` and ``query``: the query and its job; ``release``: the target of the rollback;
    ``facts``: the facts without these rollback paths; ``topics``: Kafka topic -> its id now.
    """
    if facts.judged.verdict is Verdict.RESUME:
        # The rollback resumes from the last commit.
        return facts
    manifest = facts.deployed or facts.candidate

    def loses(way: QueryTransition) -> str:
        return missing_for_way(installation, state, query, way, manifest).loss

    kept = state.served.get(release, {}).get(query, "")
    if kept and kept != facts.current and is_kept(installation, state, query, kept):
        way = QueryTransition(way=Transition.RETURN, before=facts.current, version=kept)
        blocked = _told_other_topics(state.offset_topics(query, kept), topics, kept)
        blocked = blocked or describe_other_writer(installation, state, query, kept, facts.candidate.sink)
        facts = msgspec.structs.replace(facts, kept=kept, kept_loses=loses(way), kept_blocked=blocked)
    boundary = _boundary_of(installation, state, query, release, topics)
    if boundary is not None and (not facts.kept or facts.kept_loses or facts.kept_blocked):
        way = QueryTransition(way=Transition.RESTORE, before=facts.current, snapshot=boundary.snapshot)
        boundary = msgspec.structs.replace(boundary, loses=loses(way))
    return msgspec.structs.replace(facts, boundary=boundary)


def gone_of_sources(installation: Installation, state: JobState, query: str, version: str) -> str:
    """Return why the input that this version of a query has read cannot be read again completely; empty if it can."""
    try:
        tree = installation.checkpoint(state, query, version).fresh()
        missing, total = missing_files(tree, unseen=unseen_input(installation, state, query))
    except (CheckpointDamaged, CheckpointChanged, Unsupported) as error:
        return f"the input read so far is unknown: {error}"
    if not missing:
        return ""
    until = f" to {missing[-1]}" if len(missing) > 1 else ""
    return f"{len(missing)} of the {total} files that were read are missing: {missing[0]}{until}"


def _boundary_of(
    installation: Installation, state: JobState, query: str, release: str, topics: Mapping[str, str]
) -> Boundary | None:
    """Return the snapshot of a release's last batch; None without one. ``topics``: Kafka topic -> its id now."""
    catalogue = Catalogue(installation.snapshots, series_of_query(state.job, query))
    found = [snapshot for snapshot in catalogue.snapshots() if snapshot.release == release]
    if not found:
        return None
    last = max(found, key=lambda snapshot: (snapshot.version, snapshot.batch, snapshot.number))
    return _as_boundary(state, query, last, topics)


def _named(installation: Installation, state: JobState, query: str, name: str, topics: Mapping[str, str]) -> Boundary:
    """Return the snapshot that a recovery names; raises NotFound, SnapshotDamaged. ``topics``: topic -> its id now."""
    snapshot = Catalogue(installation.snapshots, series_of_query(state.job, query)).read(snapshot_number(name))
    return _as_boundary(state, query, snapshot, topics)


def _as_boundary(state: JobState, query: str, snapshot: Snapshot, topics: Mapping[str, str]) -> Boundary:
    read = topics_at(state.versions.get(query, ()), snapshot.version, snapshot.batch)
    blocked = _told_other_topics(read, topics, f"batch {snapshot.batch}")
    return Boundary(snapshot=snapshot.name, batch=snapshot.batch, blocked=blocked)


def _word(request: DeployRequest, forward: Assessment, refusal: str) -> str:
    """Return the first word of the sentence, usually the verdict.

    For a recovery, return the name of its action. For a rollback that proceeds despite a REFUSE, return ``ROLLBACK``.
    In both cases the verdict is about files that the operation leaves behind.
    """
    if request.recovery is not None and not refusal:
        return request.recovery.asked_for.name
    if isinstance(request.kind, Rollback) and not refusal and forward.verdict is Verdict.REFUSE:
        return "ROLLBACK"
    return forward.verdict.name


def _sentence(
    installation: Installation,
    state: JobState,
    word: str,
    release: str,
    transitions: dict[str, QueryTransition],
    refusal: str,
) -> str:
    """Return one line with the verdict, each query's transition and the replayed data; or with the refusal.

    ``installation`` and ``state``: the installation and the job's state; ``word``: the first word of the line;
    ``release``: the name of the candidate; ``transitions``: query -> transition; ``refusal``: may be empty.
    """
    if refusal:
        return f"{word}{'' if word == Verdict.REFUSE.name else ', refused'}: {refusal}"
    if not state.predecessor:
        return f"{release} is the first release: it starts in a new checkpoint version"
    lacks = [
        f"the output of query {query} continues after batch {way.output_lacks} without its missing rows"
        for query, way in sorted(transitions.items())
        if way.output_lacks is not None
    ]
    if all(way.way in (Transition.RESUME, Transition.START) for way in transitions.values()):
        approve = [*_told_opaque(transitions)]
        return "; ".join([f"{word}: {release} continues the checkpoint of {state.predecessor}", *approve, *lacks])
    described = "; ".join(f"query {query}: {told_way(way)}" for query, way in sorted(transitions.items()))
    replays = [
        told_replay(installation, state, query, way) for query, way in sorted(transitions.items()) if way.way.replays
    ]
    rebuilt = [(query, way) for query, way in sorted(transitions.items()) if way.way is Transition.REBUILD]
    takes = [
        f"query {query} {told_cost(installation, state, query, way, state.releases[release].content.conf)}"
        for query, way in rebuilt
    ]
    return "; ".join([f"{word}: {described}", *_told_opaque(transitions), *replays, *takes, *lacks])


def _told_opaque(transitions: Mapping[str, QueryTransition]) -> Iterator[str]:
    """Yield what a person must approve, as clauses."""
    opaque = [query for query, way in sorted(transitions.items()) if way.opaque]
    resumed = [query for query in opaque if transitions[query].way is not Transition.START]
    if resumed:
        yield f"the effect on {', '.join(resumed)} is not proven"
    yield from (f"query {query} may be a renamed query" for query in opaque if query not in resumed)
    others = [query for query, way in sorted(transitions.items()) if way.other_topics]
    if others:
        yield f"{', '.join(others)} would continue in a topic that was created again"


def told_cost(
    installation: Installation, state: JobState, query: str, way: QueryTransition, conf: Mapping[str, str]
) -> str:
    """Return the cost of a transition, as a phrase.

    ``installation``, ``state`` and ``query``: the query and its job; ``way``: the transition; ``conf``: the Spark conf
    of the candidate.
    """
    match way.way:
        case Transition.START:
            return "reads its sources from the beginning"
        case Transition.REBUILD:
            tree, deployed = installation.checkpoint(state, query, way.before), state.serving_release
            manifest = stored_manifests(installation, state, deployed)[query]
            return estimate(tree, conf, beside=told_old_input(tree, manifest, unseen_input(installation, state, query)))
        case Transition.RESTORE | Transition.RETURN:
            return told_replay(installation, state, query, way)
        case Transition.RESUME | Transition.HANDOFF:
            asked = "takes a snapshot, exports any state and needs a person's approval; " if way.opaque else ""
            return f"{asked}reads no input again"
