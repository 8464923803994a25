"""The assessment of a deploy: the verdicts both ways, the way of each query, and what a replay would write again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamkeeper.checkpoints.reach import missing_files
from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.output_columns import names_of_columns
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, Unsupported
from streamkeeper.lifecycle.ways import Boundary, QueryFacts, choose_ways
from streamkeeper.model.coding import to_json
from streamkeeper.model.finding import Assessment, Finding, Verdict
from streamkeeper.model.job_state import JobState, OperationState
from streamkeeper.model.journal import Assessed, Strategy
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.names import refuse_unknown
from streamkeeper.model.release_conf import check_described_confs
from streamkeeper.model.snapshot import series_of_query
from streamkeeper.model.ways import QueryWay, Way
from streamkeeper.operations.blast_radius import told_replay
from streamkeeper.operations.catching_up import estimate
from streamkeeper.operations.registered import (
    checkpoint_directory,
    find_version_loss,
    recorded_findings,
    stored_manifests,
)
from streamkeeper.operations.sites import Site
from streamkeeper.operations.version_acts import free_version
from streamkeeper.registry.control import Control
from streamkeeper.registry.objects import put_object
from streamkeeper.snapshots.catalogue import Catalogue


def assess_candidate(site: Site, state: JobState, operation: OperationState, release: str) -> Assessed:
    """What is to be recorded of the candidate; the report is stored. Raises JobUnusable for one that may not run."""
    serving = state.serving_release
    candidate = stored_manifests(site, state, release)
    check_described_confs(each.confs for each in candidate.values())
    deployed = stored_manifests(site, state, serving) if serving else None
    described = [*candidate.items(), *(deployed or {}).items()]
    columns = {name for query, each in described for name in names_of_columns(query, each)}
    refuse_unknown("expect_different: column", operation.request.expect_different, columns)
    observed = observed_by(site, state, operation.operation, release)
    # Of a query that the candidate has not any more, nothing is gone on from.
    recorded = {query: each for query, each in recorded_findings(site, state).items() if query in candidate}
    observed = {query: (*observed.get(query, ()), *recorded.get(query, ())) for query in {*observed, *recorded}}
    forward = assess(deployed, candidate, observed)
    backward = assess(candidate, deployed) if deployed is not None else forward
    ways, refusal = choose_ways(
        operation.request,
        {
            query: _facts(site, state, operation, release, query, (deployed or {}).get(query), each, forward, backward)
            for query, each in candidate.items()
        },
    )
    if not refusal and operation.request.rollback and not serving:
        refusal = "nothing serves that could be rolled back"
    return Assessed(
        operation=operation.operation,
        verdict=forward.verdict,
        reverse=backward.verdict,
        sentence=_sentence(site, state, forward, release, ways, refusal),
        report=put_object(site.store, state.job, "reports", to_json(forward), ".json"),
        ways=ways,
        refusal=refusal,
    )


def observed_by(site: Site, state: JobState, operation: str, release: str) -> dict[str, tuple[Finding, ...]]:
    """What the standby's rehearsal found, of the instance that was launched for this operation last."""
    mine = [each for each in state.instances.values() if each.operation == operation and each.release == release]
    status = Control(site.store, state.job, mine[-1].instance).read_status() if mine else None
    return status.observed if status is not None else {}


def _facts(
    site: Site,
    state: JobState,
    operation: OperationState,
    release: str,
    query: str,
    deployed: Manifest | None,
    candidate: Manifest,
    forward: Assessment,
    backward: Assessment,
) -> QueryFacts:
    current = state.current_version(query)
    facts = QueryFacts(
        deployed=deployed,
        candidate=candidate,
        judged=forward.queries[query],
        reverse=backward.queries[query].verdict,
        current=current.version if current is not None else "",
        next=free_version(site, state, query),
    )
    if current is None:
        return facts
    request = operation.request
    if request.rollback:
        kept = state.served.get(release, {}).get(query, "")
        return msgspec.structs.replace(
            facts,
            kept=kept if kept and _is_kept(site, state, query, kept) else "",
            boundary=_boundary_of(site, state.job, query, release),
        )
    if facts.judged.verdict is Verdict.SWITCH or request.strategy is Strategy.REBUILD:
        return msgspec.structs.replace(facts, gone=_gone(checkpoint_directory(site, state, query, current.version)))
    return facts


def _is_kept(site: Site, state: JobState, query: str, version: str) -> bool:
    """Whether a version that was left is still all that it was."""
    there = (checkpoint_directory(site, state, query, version) / "metadata").is_file()
    return there and not find_version_loss(site, state, query, version)


def _gone(checkpoint: Path) -> str:
    """Why not everything that was ever read can be read again; empty if it can."""
    try:
        gone, total = missing_files(checkpoint)
    except (CheckpointDamaged, CheckpointChanged, Unsupported) as error:
        return f"what was read so far is not known: {error}"
    if not gone:
        return ""
    until = f" to {gone[-1]}" if len(gone) > 1 else ""
    return f"{len(gone)} of the {total} files that were read are gone: {gone[0]}{until}"


def _boundary_of(site: Site, job: str, query: str, release: str) -> Boundary | None:
    """The snapshot of the last batch of a release that there is."""
    catalogue = Catalogue(site.snapshots, series_of_query(job, query))
    found = [each for each in catalogue.snapshots() if each.release == release]
    if not found:
        return None
    last = max(found, key=lambda each: (each.version, each.batch, each.number))
    return Boundary(snapshot=last.name, batch=last.batch)


def _sentence(
    site: Site, state: JobState, forward: Assessment, release: str, ways: dict[str, QueryWay], refusal: str
) -> str:
    """One line that says the verdict, the way of each query and what is written again; or why there is no way."""
    serving = state.serving_release
    if refusal:
        return f"{forward.verdict.name}: {refusal}"
    if not serving:
        return f"{release} is the first release: it starts in a new checkpoint version"
    if all(each.way in (Way.RESUME, Way.START) for each in ways.values()):
        opaque = sorted(query for query, each in ways.items() if each.opaque)
        told = f"{forward.verdict.name}: {release} takes over the checkpoint of {serving}"
        return told + (f"; nothing proves what it means to {', '.join(opaque)}" if opaque else "")
    told = "; ".join(f"query {query}: {_way_told(each)}" for query, each in sorted(ways.items()))
    replays = [told_replay(site, state, query, each) for query, each in sorted(ways.items()) if each.way.replays]
    rebuilt = [(query, each) for query, each in sorted(ways.items()) if each.way is Way.REBUILD]
    takes = [
        f"query {query} " + estimate(checkpoint_directory(site, state, query, each.before), state.releases[release])
        for query, each in rebuilt
    ]
    return "; ".join([f"{forward.verdict.name}: {told}", *replays, *takes])


def _way_told(way: QueryWay) -> str:
    match way.way:
        case Way.START:
            return f"starts in {way.version}"
        case Way.RESUME:
            return f"goes on in {way.version}"
        case Way.HANDOFF:
            lost = ", its state is given up" if way.state_given_up else ""
            return f"handoff from {way.before} to {way.version}{lost}"
        case Way.REBUILD:
            return f"rebuild in {way.version}, beside {way.before}"
        case Way.RETURN:
            return f"back from {way.before} to {way.version}"
        case Way.RESTORE:
            return f"back from {way.before} to batch {way.batch} ({way.snapshot}), as {way.version}"
