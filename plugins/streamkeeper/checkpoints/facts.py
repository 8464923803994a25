"""What a checkpoint directory says about its query: batches, offsets, watermark, pinned confs, operators. No Spark."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.entries import NO_OFFSET, Trouble, read_commit, read_offsets
from streamkeeper.checkpoints.file_sources import file_sources, files_of, log_offset
from streamkeeper.checkpoints.layout import (
    ANOTHER_DIRECTORY,
    last_committed,
    last_planned,
    must_be_directory,
    numbered,
    open_batch,
    query_id,
)
from streamkeeper.checkpoints.operator_metadata import OperatorFacts, metadata_file, operator_folders, operator_in
from streamkeeper.checkpoints.parsing import parse_json
from streamkeeper.errors import CheckpointDamaged, NotFound

_NAMED_SOURCES = 2


class CheckpointFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as of its newest plan; what no batch has told yet is None or empty.

    ``conf``: the settings that Spark pins to the checkpoint, of the newest plan. ``watermark_ms``: UTC epoch
    milliseconds, 0 where no watermark has been reached. ``sources``: how many there are. ``source_names``: only in
    offset log format 2, where sources are named instead of counted. ``checkpoint_format``: 2 where commits name the
    state files, else 1. ``operators``: by operator id.
    """

    query_id: str
    last_committed: int | None
    last_planned: int | None
    open_batch: int | None
    conf: dict[str, str]
    watermark_ms: int | None
    sources: int
    source_names: tuple[str, ...]
    offset_log_format: int | None
    commit_log_format: int | None
    checkpoint_format: int | None
    operators: dict[str, OperatorFacts]


class SourceOffset(msgspec.Struct, frozen=True, kw_only=True):
    """Where one source stands after a batch: ``source`` is its position or name, ``offset`` None before its first.

    ``files``: URLs of the files that the batch reads of a file source, empty for another one.
    """

    source: str
    offset: str | None
    files: tuple[str, ...] = ()


def read_facts(checkpoint: Path) -> CheckpointFacts:
    """Everything that the newest entries of a checkpoint's logs tell; raises NotFound or CheckpointDamaged."""
    must_be_checkpoint(checkpoint)
    planned, committed = last_planned(checkpoint), last_committed(checkpoint)
    plan = read_offsets(checkpoint, planned) if planned is not None else None
    commit = read_commit(checkpoint, committed) if committed is not None else None
    return CheckpointFacts(
        query_id=query_id(checkpoint),
        last_committed=committed,
        last_planned=planned,
        open_batch=open_batch(checkpoint),
        conf=plan.conf if plan else {},
        watermark_ms=plan.watermark_ms if plan else None,
        sources=len(plan.ends) if plan else 0,
        source_names=tuple(plan.ends) if plan and plan.version == _NAMED_SOURCES else (),
        offset_log_format=plan.version if plan else None,
        commit_log_format=commit.version if commit else None,
        checkpoint_format=(2 if commit.partitions else 1) if commit else None,
        operators=_operators(checkpoint),
    )


def offsets_at(checkpoint: Path, batch: int | None = None) -> tuple[SourceOffset, ...]:
    """Where every source stands after a batch, by default the last committed one, else the last planned.

    Raises NotFound when there is no such batch, CheckpointDamaged when a file it needs is gone or unreadable.
    """
    must_be_checkpoint(checkpoint)
    number = batch_of(checkpoint, batch)
    plan = read_offsets(checkpoint, number)
    reads_files = any(log_offset(end) is not None for end in plan.ends.values())
    previous = read_offsets(checkpoint, number - 1) if reads_files and number > 0 else None
    files = {each.name: files_of(checkpoint, each) for each in file_sources(checkpoint, plan, previous)}
    return tuple(
        SourceOffset(source=source, offset=None if end == NO_OFFSET else end, files=files.get(source, ()))
        for source, end in plan.ends.items()
    )


def batch_of(checkpoint: Path, batch: int | None) -> int:
    """``batch`` if it is planned; without one the last committed, else the last planned. Raises NotFound."""
    planned, committed = numbered(checkpoint / "offsets"), last_committed(checkpoint)
    if batch is None:
        if not planned:
            raise NotFound(f"{checkpoint} has no batch yet")
        return committed if committed in planned else max(planned)
    if batch not in planned:
        known = f"its batches: {min(planned)} to {max(planned)}" if planned else "it has no batch yet"
        raise NotFound(f"{checkpoint} has no batch {batch}", hint=known)
    return batch


def can_restart_open(checkpoint: Path) -> bool:
    """Whether Spark could start from a batch that is planned and not committed.

    Spark 4.2.0 cannot where sources are named: measured, ``NoSuchElementException: None.get`` in
    ``OfflineStateRepartitionUtils.isRepartitionBatch``, at every start.
    """
    planned = last_planned(checkpoint)
    return planned is None or read_offsets(checkpoint, planned).version != _NAMED_SOURCES


def must_be_checkpoint(checkpoint: Path) -> None:
    """Raise NotFound unless there is a directory with metadata or offsets in it."""
    must_be_directory(checkpoint)
    if not (checkpoint / "metadata").exists() and not (checkpoint / "offsets").exists():
        raise NotFound(f"{checkpoint} is not a checkpoint", hint=ANOTHER_DIRECTORY)


def _operators(checkpoint: Path) -> dict[str, OperatorFacts]:
    found = {}
    for number, folder in operator_folders(checkpoint).items():
        path = metadata_file(folder)
        if path is None:
            continue
        operator = operator_in(path)
        if isinstance(operator, Trouble):
            raise CheckpointDamaged(f"{path} {operator.value}")
        found[str(number)] = operator
    return found


def kafka_offsets(offset: str) -> str | None:
    """An offset of a Kafka source as one line, fit for ``startingOffsets``; None for another kind of source.

    Spark's offsets are exclusive ends: topic -> partition -> the next offset to read.
    """
    try:
        found = parse_json(offset)
    except ValueError:
        return None
    if not isinstance(found, dict) or not found:
        return None
    if not all(isinstance(each, dict) and each and _are_positions(each) for each in found.values()):
        return None
    return json.dumps(found, separators=(",", ":"))


def _are_positions(partitions: dict[str, object]) -> bool:
    return all(name.isdecimal() and type(at) is int for name, at in partitions.items())
