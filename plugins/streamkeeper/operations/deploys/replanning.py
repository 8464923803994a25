"""Replan an open batch whose plan is unreadable: the query continues after its last commit.

The damaged directory is not changed. Its last committed batch becomes a snapshot without the damaged plan, and that
snapshot becomes the next checkpoint version (docs/decisions/0032). The output must report that it does not contain the
open batch, because the replanned batch has the same number and perhaps other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamkeeper.checkpoints.file_sources import file_sources, logged_files
from streamkeeper.checkpoints.input_files import look_for_files
from streamkeeper.checkpoints.layout import read_offsets
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE
from streamkeeper.checkpoints.positions import local_path
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound, OperationRefused
from streamkeeper.lifecycle.unreadable_plans import may_replan
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.requests.diagnosis import QueryLook, Replan
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.outputs import ask
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue


def look_at_replan(installation: Installation, state: JobState, query: QueryLook, directory: Tree) -> Replan | None:
    """Return the input that Spark would read if it replanned the open batch; None if a replan is not possible."""
    if may_replan(query) or query.committed is None:
        return None
    try:
        listed = _listed_since(directory.fresh(), query.committed)
        found = look_for_files(listed, unseen=unseen_input(installation, state, query.query))
    except (CheckpointDamaged, CheckpointChanged, NotFound) as error:
        return Replan(
            batch=query.committed + 1, unknown=f"the list of its input files cannot be read ({error.message})"
        )
    files = "files that the source had listed for it"
    return Replan(
        batch=query.committed + 1,
        reads=f"{len(listed)} {files}" if listed else "the current content of the sources",
        gone=found.gone_clause(files),
        unknown=found.unchecked_clause(files),
    )


def copy_without_plans(installation: Installation, job: str, batches: Mapping[str, int]) -> dict[str, str]:
    """Take a snapshot of each query at its last commit, without the damaged plan. Return the snapshots' names by query.

    ``batches``: query -> the batch whose plan is damaged. Idempotent. Raises the errors of ``capture``.
    """
    found = {}
    for query, batch in sorted(batches.items()):
        target = query_target(installation, job, query)
        catalogue = Catalogue(installation.snapshots, target.series)
        taken = capture(target.open(), catalogue, batch=batch - 1, origin=target.origin, pending=False)
        found[query] = taken.snapshot.name
    return found


def must_not_hold(installation: Installation, state: JobState, batches: Mapping[str, int]) -> None:
    """Raise OperationRefused unless every output provably lacks the batch that its query is to replan.

    ``batches``: query -> the batch to replan. Call this only after all drivers have terminated.
    """
    manifests = stored_manifests(installation, state, state.serving_release) if batches else {}
    for query, batch in sorted(batches.items()):
        current, sink = state.current_version(query), manifests[query].sink
        holds = ask(
            installation, state, state.serving_release, query, sink, current.version if current is not None else ""
        )
        lacks = capabilities_of(sink.kind).knows_batches and not holds.unknown
        if not lacks or holds.batch is None or holds.batch >= batch:
            unproven = holds.unknown or ("the output records no batch" if holds.batch is None else "")
            contents = f"may contain this batch: {unproven}" if unproven else f"contains batch {holds.batch}"
            raise OperationRefused(
                f"query {query}: batch {batch} must not be planned again, because output {sink.output} {contents}",
                hint=f"run `streamkeeper recover {state.job}` to see the remaining actions",
            )


def _listed_since(tree: Tree, batch: int) -> list[str]:
    """Return the files that the sources' own logs list after a batch's plan. They are the input of the
    unreadable plan.
    """
    found: list[str] = []
    for source in file_sources(tree, read_offsets(tree, batch), None):
        newest = source.entries.newest
        if newest > source.end:
            files = logged_files(tree, source, newest, first=source.end + 1)
            found += _paths(file.path for file in files if file.batch_id != SEEN_BEFORE)
    return found


def _paths(urls: Iterable[str]) -> list[str]:
    return [local_path(url) for url in urls]
