"""Whether a rollback can return to a checkpoint version that the query has left."""

from __future__ import annotations

from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import find_version_loss, stored_manifests
from streamkeeper.sinks.kinds.known_kinds import capabilities_of


def is_kept(installation: Installation, state: JobState, query: str, version: str) -> bool:
    """Whether a version that the query has left still exists unchanged."""
    there = is_published(installation.checkpoint(state, query, version))
    return there and not find_version_loss(installation, state, query, version)


def describe_other_writer(
    installation: Installation, state: JobState, query: str, version: str, sink: SinkDescription
) -> str:
    """Return which release continued a version in another output than ``sink``, as a clause; empty if none did.

    Its batches are in the version's checkpoint, so a return to the version would skip their rows for ``sink``. Where a
    function writes is unknown: functions of different names count as one output.
    """
    known = state.version(query, version)
    owner = state.instances.get(known.claimed_by) if known is not None else None
    if owner is None or owner.release not in state.described:
        return ""
    writer = stored_manifests(installation, state, owner.release).get(query)
    place = _place_elsewhere(writer.sink, sink) if writer is not None else ""
    if not place:
        return ""
    wrote = f"{owner.release} resumed {version} and wrote to {place}"
    return f"{wrote}, so {sink.output} lacks the rows that {owner.release} wrote"


def _place_elsewhere(other: SinkDescription, sink: SinkDescription) -> str:
    """Return the place of the other output; empty if it is that of ``sink``, or if both are functions."""
    if other.kind != sink.kind:
        return other.output
    can = capabilities_of(sink.kind)
    if not can.names_place:
        return ""
    if not other.same_place(sink):
        return other.output
    theirs, ours = ([each.options.get(name, "") for name in can.server_options] for each in (other, sink))
    return f"{other.output} at {', '.join(theirs)}" if theirs != ours else ""
