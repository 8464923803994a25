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
    if writer is None or writer.sink.same_place(sink):
        return ""
    if writer.sink.kind == sink.kind and not capabilities_of(sink.kind).names_place:
        return ""
    return f"{owner.release} continued {version} in {writer.sink.output}, so {sink.output} lacks rows of {version}"
