"""Checks before a start whether sources, topics and outputs still fit the checkpoint. Changes nothing and runs
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.layout import can_restart_open, is_version_name, last_committed, last_planned, open_batch
from streamkeeper.checkpoints.open_input import doubling_files, open_input
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility import observations
from streamkeeper.errors import NotFound, SourceOutOfReach, StoreUnavailable
from streamkeeper.jvm.batch_files import doubling_names
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.output_history import OutputHistory, find_output_loss
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.fences import read_fences


def look_at_sources(
    query: Query, checkpoint: Tree, *, served: bool, topics: Mapping[str, str] | None = None
) -> Iterator[Finding]:
    """Yield a finding for each problem with the input that the next start reads, such as missing files.

    ``served``: whether a driver is running. If so, the open batch is not examined, because the driver completes it.
    ``topics``: Kafka topic -> id of the topic to which the checkpoint's offsets belong.
    """
    yield from _topics(query, checkpoint, topics)
    batch = open_batch(checkpoint.fresh())
    if batch is None or served:
        return
    yield from _open_input(query, checkpoint, batch)
    if not can_restart_open(checkpoint.fresh()):
        yield observations.open_batch_cannot_restart(batch)


def present_topics(query: Query) -> dict[str, str]:
    """Return Kafka topic -> its id, of all topics that the query reads; empty if the brokers do not answer."""
    from streamkeeper.inspection.source_readers import identities

    try:
        return identities(query)
    except SourceOutOfReach:
        return {}


def look_at_history(
    query: Query,
    checkpoint: Tree,
    *,
    topics: Mapping[str, str] | None = None,
    present: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Yield a finding for each topic that no longer has all records since the checkpoint's first offsets.

    ``topics``: Kafka topic -> id of the topic from which the oldest rows in the output came. A topic with another id
    has none of these records. ``present``: topic -> its present id, if already determined.
    """
    from streamkeeper.inspection.source_readers import missing_after, replaced_places

    try:
        clauses_text = ""
        for source, gaps in missing_after(query, checkpoint, None, ids=topics).items():
            clauses_text += (clauses := "; ".join(gap.sentence for gap in gaps))
            yield observations.history_gone(source, clauses)
        # Also a topic that joined after the checkpoint's first batch.
        for kind, clause in replaced_places(query, topics, present) if topics else ():
            if clause not in clauses_text:
                yield observations.history_gone(kind, clause)
    except SourceOutOfReach as error:
        yield observations.history_gone(f"({error.kind})", f"the content of the topics is unknown: {error}")


def look_at_owner(job: str, query: Query, installation: str) -> Iterator[Finding]:
    """Yield a finding if another query, job or installation writes the output, so that this query could not raise the
    output's fence.

    ``installation``: this installation's id, empty if unknown. An output that does not answer is checked later, when
    its fence is raised.
    """
    place, output = query.sink.fence_place, query.sink.describe().output
    if not place:
        return
    try:
        fence = next((fence for fence in read_fences(place) if fence.output == output), None)
    except (NotFound, StoreUnavailable):
        return
    if fence is None:
        return
    mine = f"{job}/{query.name}"
    if installation and fence.installation not in ("", installation):
        yield observations.output_of_another(output, fence.installation, installation)
    elif fence.owner != mine:
        yield observations.output_of_another_query(output, fence.owner, mine)


def look_at_names(query: Query, deployed: Manifest | None) -> Iterator[Finding]:
    """Yield a finding if a name that the output or its internal tables and directories need is already taken."""
    described = query.sink.describe()
    serves = deployed is not None and deployed.sink.same_place(described)
    if conflict := query.sink.find_conflict(serves=serves):
        yield observations.output_name_taken(described.output, conflict)


def look_at_sink(job: str, query: Query, checkpoint: Tree, history: OutputHistory | None) -> Iterator[Finding]:
    """Yield the findings from comparing this checkpoint version's batches in the sink with the checkpoint. Raises
    StreamkeeperError if the sink cannot be queried.

    ``history``: the batches that the output must have; None if unknown, or if the deployed job writes another output.
    """
    version = checkpoint.name if is_version_name(checkpoint.name) else query.sink.newest_version()
    if version:
        yield from _sink(job, query, checkpoint, version, history)


def _open_input(query: Query, checkpoint: Tree, batch: int) -> Iterator[Finding]:
    """Check that files of the planned, uncommitted batch still exist, because Spark would run without missing files."""
    from streamkeeper.inspection.input_look import unseen_by

    if doubling := doubling_files(checkpoint.fresh(), batch):
        yield observations.input_names_unreadable(doubling_names(batch, doubling).message)
    found = open_input(checkpoint.fresh(), batch, unseen=unseen_by(query))
    if found.missing:
        yield observations.input_gone(found.missing, pending=True)
    if found.unchecked:
        yield observations.input_not_checked(found.unchecked)


def _topics(query: Query, checkpoint: Tree, ids: Mapping[str, str] | None) -> Iterator[Finding]:
    """Check that topics still have the next input, and the input of an open batch."""
    from streamkeeper.inspection.source_readers import missing_after

    try:
        for source, gaps in missing_after(query, checkpoint, last_committed(checkpoint.fresh()), ids=ids).items():
            gaps_text = "; ".join(gap.sentence for gap in gaps)
            if all(gap.again for gap in gaps):
                yield observations.topic_created_again(source, gaps_text)
            elif all(gap.passed_over for gap in gaps):
                yield observations.topic_passed_over(source, gaps_text)
            else:
                dropped = all(gap.dropped for gap in gaps)
                yield observations.topic_short(source, gaps_text, answered=True, dropped=dropped)
    except SourceOutOfReach as error:
        yield observations.topic_short(f"({error.kind})", str(error), answered=False)


def _sink(job: str, query: Query, checkpoint: Tree, version: str, history: OutputHistory | None) -> Iterator[Finding]:
    """Compare the sink's content of this checkpoint version with the checkpoint.

    ``job``: the job.
    ``query``: the query.
    ``checkpoint``: its checkpoint.
    ``version``: the checkpoint version.
    ``history``: the batches that the output must have.
    """
    context = SinkContext(job=job, query=query.name, version=version, epoch=0, looks=True)
    # A running driver plans a batch, writes it, and commits it: therefore these reads are in the reverse order.
    committed = last_committed(checkpoint.fresh())
    writer = query.sink.open(context)
    try:
        record = writer.read_record() if history is not None else None
        written = writer.last_batch()
    finally:
        writer.close()
    planned = last_planned(checkpoint.fresh())
    loss = find_output_loss(history, committed, record) if history is not None and record is not None else ""
    if loss:
        yield observations.output_lost(query.sink.describe().output, loss)
        return
    if written is not None and (planned is None or written > planned):
        yield observations.sink_ahead(query.sink.describe().output, written, planned)
    if committed is not None and (directory := query.sink.lost_log(version)):
        yield observations.sink_log_gone(directory, committed)
