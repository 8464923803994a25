"""Takes queries over: each gets its claim, its checkpoint, a writer with a raised fence, and its gate."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec import structs

from streamkeeper.checkpoints.identity import must_be_there
from streamkeeper.checkpoints.layout import last_planned
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.seeding import seed_beginning
from streamkeeper.checkpoints.source_starts import places_read
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.driver.continuity import Continuity
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import (
    Claim,
    checkpoint_of,
    claim_epoch,
    known_at,
    look_before_claim,
    open_writer,
    shadow_claim,
)
from streamkeeper.driver.gate import Gate
from streamkeeper.driver.handoff import hand_over
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.newest_claims import keep_claim, see_claims
from streamkeeper.driver.progress import StatusReporter
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.driver.session import Session
from streamkeeper.driver.timings import Timings
from streamkeeper.driver.wakeups import Wakeups
from streamkeeper.errors import Fenced, SourceOutOfReach
from streamkeeper.inspection import source_readers
from streamkeeper.jvm.batch_files import check_batch
from streamkeeper.model.manifests.trigger import parse_trigger
from streamkeeper.model.protocol.driver_messages import Command, LaunchSpec, QueryStatus
from streamkeeper.model.protocol.output_history import AcceptedLoss, OutputHistory
from streamkeeper.model.protocol.signals import QuerySignals
from streamkeeper.model.records.checkpoint_version import topics_of_the_first_rows
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint
from streamkeeper.sinks.contract import SinkWriter
from streamkeeper.sources.contract import recreated
from streamkeeper.sources.known_sources import source_of
from streamkeeper.system.crash_points import crash_point


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """The context of one generation of a driver."""

    spec: LaunchSpec
    """The launch specification."""
    generation: int
    """This generation's number."""
    session: Session
    """The Spark session."""
    channel: DriverChannel
    """The access to the store."""
    status_reporter: StatusReporter
    """Composes the status."""
    timings: Timings
    """The timings."""
    wakeups: Wakeups
    """Wakes the main thread."""
    root: Path
    """The directory of the release's code."""


def take_over(context: DriverContext, planned: PlannedQuery, order: Command) -> ServedQuery:
    """Take a query over, so that it can write the current output, but do not start it yet.

    Raises CheckpointLost, Fenced, OtherTopic, OutputLost, SinkAhead or another PermanentError. Raises SourceOutOfReach
    if no ids of its Kafka topics are recorded and the brokers do not answer.
    """
    state = context.channel.look()
    checkpoint = checkpoint_of(state, context.spec.checkpoints, planned.query.name, order.versions)
    known = _known(context, state, planned, checkpoint)
    # These checks come first, because a claim moves the sink's fence, and a handoff creates a missing directory.
    must_be_there(checkpoint.fresh(), known)
    name = planned.query.name
    own, approved = _own_topics(context, state, name, checkpoint), _approved_topics(state, name, order)
    topics = _topics_of(planned, must_answer=not own and not approved)
    expected = _expected_topics(own, approved, topics)
    source_readers.must_be_the_same(name, expected, topics)
    accepted = _accepted_loss(state, name, checkpoint.name, order)
    # If the brokers did not answer, the ids with which the start will compare count as read.
    claim, writer = claim_and_fence(context, planned, checkpoint, accepted=accepted, topics={**expected, **topics})
    return _behind_its_gate(context, planned, claim, checkpoint, known, writer, topics, expected=expected)


def _accepted_loss(state: JobState, query: str, version: str, order: Command) -> AcceptedLoss | None:
    """Return the loss of output that the order accepts; None if the order accepts none.

    A restarted generation gets the same order, possibly long after the version has continued. If the order's operation
    created this version, the result names it in ``made``, so that the acceptance does not cover its batches.
    """
    batch = order.output_losses.get(query)
    if batch is None:
        return None
    known = state.version(query, version)
    made = known is not None and known.operation == order.operation
    return AcceptedLoss(batch=batch, made=version if made else "")


def claim_and_fence(
    context: DriverContext,
    planned: PlannedQuery,
    checkpoint: Tree,
    *,
    topics: Mapping[str, str],
    accepted: AcceptedLoss | None = None,
) -> tuple[Claim, SinkWriter]:
    """Claim the query's next epoch, and raise the output's fence to that epoch. Return the claim and a writer with that
    claim. From then on, the claimed version determines the output.

    ``topics``: Kafka topic -> its id, which is recorded with the claim; ``accepted``: the loss of output that a person
    accepted.
    """
    spec, query = context.spec, planned.query
    history = context.channel.look().output_history(query.name, checkpoint.name)
    # Before the claim, which would count as the newest epoch of a version that has never raised its fence.
    look_before_claim(spec.job, query, history, checkpoint, accepted=accepted)
    with context.timings.measure("claim"):
        seen = see_claims(spec.job, query, checkpoint, installation=spec.installation)
        claim, state = claim_epoch(
            context.channel,
            spec.job,
            spec.instance,
            context.generation,
            query,
            checkpoint,
            installation=spec.installation,
            seen=seen,
            topics=topics,
        )
        keep_claim(claim, checkpoint)
        state = hand_over(context.channel, query, claim, checkpoint, spec.checkpoints, state, accepted=accepted)
        now = state.output_history(query.name, checkpoint.name)
        history = structs.replace(history, inherited=now.inherited, parent=now.parent, parent_batch=now.parent_batch)
        return claim, open_writer(query, claim, checkpoint, state, history, accepted=accepted)


def _own_topics(context: DriverContext, state: JobState, query: str, checkpoint: Tree) -> dict[str, str]:
    """Return, for each Kafka topic, the id of the topic to which the checkpoint's offsets belong; empty if no ids are
    recorded.
    """
    known = state.offset_topics(query, checkpoint.name)
    if not known and is_published(checkpoint.fresh()):
        # A rebuilt version that was not claimed has read the topics of the first rows.
        return _topics_rebuilt_from(context, state, query, checkpoint)
    return _read_so_far(known, checkpoint)


def _approved_topics(state: JobState, query: str, order: Command) -> dict[str, str] | None:
    """Return, for each Kafka topic, the id that a person has approved; None without an approval.

    The approval applies to the ids in the order. An older order contains no ids; it approves any topic, and the result
    is empty. Once an instance of the same operation has claimed an epoch, the ids of that claim are returned instead,
    because a restarted generation and a fall-back get the same order.
    """
    if query not in order.other_topics:
        return None
    newest = state.epochs.get(query)
    claimer = state.instances.get(newest.instance) if newest is not None else None
    if newest is None or claimer is None or claimer.operation != order.operation:
        return order.approved_topics.get(query, {})
    return state.offset_topics(query, newest.version)


def _expected_topics(own: dict[str, str], approved: dict[str, str] | None, topics: Mapping[str, str]) -> dict[str, str]:
    """Return, for each Kafka topic, the id of the topic in which the query may continue.

    ``own``: the ids of the checkpoint; ``approved``: as returned by ``_approved_topics``; ``topics``: the present ids,
    empty if the brokers did not answer. A version that has read the present topics needs no approval, for example if an
    old release returns to its own topic.
    """
    if approved is None or (topics and not recreated(own, topics)):
        return own
    return own | approved if approved else {}


def _topics_rebuilt_from(context: DriverContext, state: JobState, query: str, checkpoint: Tree) -> dict[str, str]:
    """Return, for each Kafka topic, the id of the topic that a rebuilt version must read: the topic that the current
    version has read since its first batch. Empty without a current version.
    """
    serving = context.spec.rehearse_on.get(query)
    if serving is None:
        return {}
    return _read_so_far(topics_of_the_first_rows(state.versions.get(query, ()), tree_at(serving).name), checkpoint)


def _topics_of(planned: PlannedQuery, *, must_answer: bool) -> dict[str, str]:
    """Return the id of each Kafka topic that the query reads.

    ``must_answer``: whether to raise SourceOutOfReach if the brokers temporarily do not answer. If not, the result is
    then empty, and the query's start waits for the brokers and compares the ids.
    """
    if not any(source_of(source.kind).has_identities for source in planned.manifest.sources):
        return {}
    try:
        return source_readers.identities(planned.query)
    except SourceOutOfReach as error:
        # Spark reports wrong options or credentials better than a client of ours.
        if must_answer and error.passing:
            raise
        return {}


def _read_so_far(known: Mapping[str, str], checkpoint: Tree) -> dict[str, str]:
    """Return those of the known topics that occur in the checkpoint's newest offsets. Before the checkpoint's first
    batch, return all known topics.

    ``known``: topic -> its id; ``checkpoint``: the directory of its version.
    """
    tree = checkpoint.fresh()
    if not known or not is_published(tree):
        return dict(known)
    needed = places_read(tree, last_planned(tree))
    return {topic: identity for topic, identity in known.items() if topic in needed}


def shadow(context: DriverContext, planned: PlannedQuery, versions: Mapping[str, str]) -> ServedQuery:
    """Take a rebuilt query over, so that it can write a shadow in addition to the current output, but do not start it
    yet.

    Raises Fenced once the query's dual run is over, OtherTopic if the current version has read a topic that was deleted
    and created anew, and SourceOutOfReach if the Kafka brokers do not answer.
    """
    spec, query = context.spec, planned.query
    state = context.channel.look()
    checkpoint = checkpoint_of(state, spec.checkpoints, query.name, versions)
    claim = shadow_claim(
        spec.job, spec.instance, context.generation, query, checkpoint.name, installation=spec.installation
    )
    superseded = claim.superseded_by(state)
    if superseded:
        raise Fenced(f"query {query.name}: {superseded}")
    known, topics = _known(context, state, planned, checkpoint), _topics_of(planned, must_answer=True)
    must_be_there(checkpoint.fresh(), known)
    first = _topics_rebuilt_from(context, state, query.name, checkpoint)
    source_readers.must_be_the_same(query.name, first, topics)
    _begin_where_it_began(context, planned, checkpoint)
    crash_point("driver.shadow.fence.before")
    with context.timings.measure("claim"):
        writer = open_writer(query, claim, checkpoint, state, OutputHistory(version=checkpoint.name))
    crash_point("driver.shadow.fence.after")
    return _behind_its_gate(context, planned, claim, checkpoint, known, writer, topics, expected=first)


def _known(context: DriverContext, state: JobState, planned: PlannedQuery, checkpoint: Tree) -> KnownCheckpoint:
    """Return the recorded facts about the version, from the journal and from the last status of the previous driver."""
    query, version = planned.query.name, checkpoint.name
    recorded = state.version(query, version)
    own = recorded is None or recorded.claimed_by in ("", context.spec.instance)
    return known_at(
        context.channel,
        state,
        context.spec.job,
        query,
        version,
        commits=context.status_reporter.commits if own else None,
    )


def _begin_where_it_began(context: DriverContext, planned: PlannedQuery, checkpoint: Tree) -> None:
    """Make a rebuilt version read its topics from the offsets at which the current version started, whatever the
    query's options are.
    """
    serving = context.spec.rehearse_on.get(planned.query.name)
    if (
        serving is None
        or is_published(checkpoint.fresh())
        or not source_readers.reads_all_of(planned.query, tree_at(serving))
    ):
        return
    crash_point("driver.shadow.seed.before")
    seed_beginning(tree_at(serving), checkpoint.fresh(), query_id=str(uuid.uuid4()))
    crash_point("driver.shadow.seed.after")


def _behind_its_gate(
    context: DriverContext,
    planned: PlannedQuery,
    claim: Claim,
    checkpoint: Tree,
    known: KnownCheckpoint,
    writer: SinkWriter,
    topics: Mapping[str, str],
    *,
    expected: Mapping[str, str],
) -> ServedQuery:
    """Return the query with a gate in front of its writer.

    ``context``: the driver's context.
    ``planned``: how the job built the query.
    ``claim``: its epoch.
    ``checkpoint``: the directory of its version.
    ``known``: the recorded facts of its checkpoint.
    ``writer``: writes its batches.
    ``topics``: Kafka topic -> its id; empty if the brokers did not answer.
    ``expected``: Kafka topic -> id of the topic in which the query may continue.
    """
    continuity = Continuity(checkpoint, known)
    name = claim.query
    began = partial(context.status_reporter.note_batch, name)
    gate = Gate(
        name,
        writer,
        context.channel,
        claim.superseded_by,
        continuity,
        context.timings,
        context.wakeups,
        began,
        check_batch,
    )
    signals = QuerySignals(trigger_s=parse_trigger(planned.query.trigger).interval_s)
    context.status_reporter.put(QueryStatus(query=name, version=claim.version, epoch=claim.epoch, signals=signals))
    policy, kills = context.spec.restarts, context.session.kills
    # A topic that does not exist now may come back as another one.
    ids, compared = {**expected, **topics}, expected.keys() <= topics.keys()
    return ServedQuery(
        planned, claim, checkpoint, gate, continuity, context.root, policy, kills, ids, compared=compared
    )
