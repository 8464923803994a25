"""Query an output directory for its newest batch, its own record and its fence, without the job that writes it."""

from __future__ import annotations

import os
from pathlib import Path

from streamkeeper.checkpoints.layout import is_version_name
from streamkeeper.errors import InvalidInput, NotFound, StoreUnavailable
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.file_serving import local_directory, newest_epoch, read_epochs
from streamkeeper.sinks.sink_log import listed_files, newest_batch


def answer(question: OutputQuestion) -> OutputAnswer:
    """Return the version's newest batch and the output's record, from the first of ``question.places`` that matches."""
    root = Path(question.directory)
    try:
        record = read_file_record(root)
        if not root.is_dir():
            return OutputAnswer(unknown=f"{root} does not exist", record=record)
        return OutputAnswer(batch=newest_batch(root / question.version), record=record)
    except OSError as error:
        return OutputAnswer(unknown=f"{root} cannot be read: {error.strerror}", down=True)


def read_file_record(root: Path, *, shadow: str = "") -> OutputRecord:
    """Return the record that an output directory keeps of its claims and batches. ``shadow``: the version that is
    written in shadow and claims no epoch, if any.
    """
    if not (root / shadow).is_dir():
        return OutputRecord(gone=f"directory {root / shadow} is missing", every_version=True)
    newest = newest_epoch(root)
    versions = [name for name in os.listdir(root) if is_version_name(name)]
    found = {version: newest_batch(root / version) for version in versions}
    return OutputRecord(
        gone=f"directory {root} has lost its epoch log" if newest is None and not shadow else "",
        epoch=newest.epoch if newest is not None else 0,
        last={version: batch for version, batch in found.items() if batch is not None},
        every_version=True,
    )


def refuse_cut(sink: SinkDescription, version: str, batch: int) -> str:
    """Return why readers cannot be limited to ``version``'s batches up to ``batch``; empty if they can. They cannot if
    Spark's sink log no longer separates these batches from later ones.
    """
    try:
        listed_files(Path(sink.output) / version, last=batch)
    except InvalidInput as error:
        return error.message
    except OSError as error:
        return f"{sink.output} cannot be read: {error.strerror}"
    return ""


def read_fences(place: str) -> list[Fence]:
    """Return the fence in a FileSink's directory; see ``fences.read_fences``."""
    root = local_directory(place)
    try:
        claims = read_epochs(root)
        folders = [name for name in os.listdir(root) if is_version_name(name)] if claims else []
        if not claims:
            raise NotFound(
                f"{root} contains no epoch log of a FileSink",
                hint="give the directory that is the path of the FileSink",
            )
        newest = claims[-1]
        fence = Fence(
            output=str(root),
            owner=newest.owner,
            epoch=newest.epoch,
            claimed=newest.epoch,
            version=newest.version,
            batch=newest_batch(root / newest.version),
            serving=newest.segments,
            versions=tuple(sorted({*folders, *(claim.version for claim in claims)})),
            installation=newest.installation,
        )
    except OSError as error:
        raise StoreUnavailable(f"output {root} cannot be read: {error.strerror}") from error
    return [fence]
