"""Reads a query's facts from its checkpoint, without Spark: batches, offsets, watermark, pinned confs, operators."""

from __future__ import annotations

import msgspec

from streamkeeper.checkpoints.file_sources import file_sources, files_of
from streamkeeper.checkpoints.layout import (
    last_committed,
    last_planned,
    must_be_checkpoint,
    numbered,
    open_batch,
    query_id,
    read_commit,
    read_offsets,
)
from streamkeeper.checkpoints.log_codec import whole
from streamkeeper.checkpoints.operator_metadata import OperatorFacts, metadata_file, operator_folders, operator_in
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import NotFound
from streamkeeper.sources.contract import NO_OFFSET
from streamkeeper.sources.files import log_offset


class CheckpointFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a checkpoint as of its newest planned batch. A fact that no batch has recorded yet is None or
    empty.
    """

    query_id: str
    """Spark's id of the query."""
    last_committed: int | None
    """The newest committed batch."""
    last_planned: int | None
    """The newest planned batch."""
    open_batch: int | None
    """The batch that is planned and not committed."""
    conf: dict[str, str]
    """The settings of the newest plan, which Spark pins to the checkpoint."""
    watermark_ms: int | None
    """The watermark in UTC epoch milliseconds; 0 before the query has a watermark."""
    sources: int
    """The number of sources."""
    source_names: tuple[str, ...]
    """The sources' names; only in offset log format 2, where sources are named instead of numbered."""
    offset_log_format: int | None
    """The format of the offset log."""
    commit_log_format: int | None
    """The format of the commit log."""
    checkpoint_format: int | None
    """2 if commits name the state files, else 1."""
    operators: dict[str, OperatorFacts]
    """The facts about each stateful operator, by operator id."""


class SourceOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The offset of one source after a batch.

    ``source``: the source's name, or its number in the plan if the sources have no names.
    ``offset``: None if the source has no offset yet.
    ``files``: URLs of the files that the batch reads from a file source; empty for another kind of source.
    """

    source: str
    offset: str | None
    files: tuple[str, ...] = ()


def read_facts(tree: Tree) -> CheckpointFacts:
    """Return all facts from the newest entries of a checkpoint's logs. Raises NotFound if there is no checkpoint,
    CheckpointDamaged if the metadata or an entry cannot be read.
    """
    must_be_checkpoint(tree)
    planned, committed = last_planned(tree), last_committed(tree)
    plan = read_offsets(tree, planned) if planned is not None else None
    commit = read_commit(tree, committed) if committed is not None else None
    return CheckpointFacts(
        query_id=query_id(tree),
        last_committed=committed,
        last_planned=planned,
        open_batch=open_batch(tree),
        conf=plan.conf if plan else {},
        watermark_ms=plan.watermark_ms if plan else None,
        sources=len(plan.ends) if plan else 0,
        source_names=tuple(plan.ends) if plan and plan.named else (),
        offset_log_format=plan.version if plan else None,
        commit_log_format=commit.version if commit else None,
        checkpoint_format=(2 if commit.state_ids else 1) if commit else None,
        operators=_operators(tree),
    )


def offsets_at(tree: Tree, batch: int | None = None) -> tuple[SourceOffset, ...]:
    """Return the offset of every source after ``batch``.

    ``batch``: None for the last committed batch, or for the last planned batch if the last committed one has no plan.

    Raises NotFound when there is no such batch, CheckpointDamaged when a required file is missing or unreadable.
    """
    must_be_checkpoint(tree)
    number = batch_of(tree, batch)
    plan = read_offsets(tree, number)
    reads_files = any(log_offset(end) is not None for end in plan.ends.values())
    previous = read_offsets(tree, number - 1) if reads_files and number > 0 else None
    files = {source.name: files_of(tree, source) for source in file_sources(tree, plan, previous)}
    return tuple(
        SourceOffset(source=source, offset=None if end == NO_OFFSET else end, files=files.get(source, ()))
        for source, end in plan.ends.items()
    )


def batch_of(tree: Tree, batch: int | None) -> int:
    """Return ``batch`` if its plan exists. If ``batch`` is None, return the last committed batch if its plan exists,
    else the last planned batch. Raises NotFound if there is no such batch.
    """
    planned, committed = numbered(tree, "offsets"), last_committed(tree)
    if batch is None:
        if not planned:
            raise NotFound(f"{tree.where('')} has no batch yet")
        return committed if committed in planned else max(planned)
    if batch not in planned:
        known = f"name a batch from {min(planned)} to {max(planned)}" if planned else "wait for its first batch"
        raise NotFound(f"{tree.where('')} has no batch {batch}", hint=known)
    return batch


def _operators(tree: Tree) -> dict[str, OperatorFacts]:
    found = {}
    for number, folder in operator_folders(tree).items():
        path = metadata_file(tree, folder)
        if path is None:
            continue
        found[str(number)] = whole(operator_in(tree, path), tree.where(path))
    return found
