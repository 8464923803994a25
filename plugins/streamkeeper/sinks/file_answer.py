"""Query an output directory for its newest batch, its own record and its fence, without the job that writes it."""

from __future__ import annotations

from streamkeeper.checkpoints.layout import is_version_name
from streamkeeper.errors import InvalidInput, NotFound, StoreUnavailable, StreamkeeperError
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.file_locations import folder_at, output_location
from streamkeeper.sinks.file_serving import newest_epoch, read_epochs
from streamkeeper.sinks.sink_log import listed_files, newest_batch


def answer(question: OutputQuestion) -> OutputAnswer:
    """Return the version's newest batch and the output's record, from the first of ``question.places`` that matches."""
    root = question.directory
    try:
        record = read_file_record(root)
        if absence := folder_at(root).absence():
            return OutputAnswer(unknown=f"{root} {absence}", record=record)
        return OutputAnswer(batch=newest_batch(f"{root}/{question.version}"), record=record)
    except (OSError, StoreUnavailable) as error:
        return OutputAnswer(unknown=f"{root} cannot be read: {_reason(error)}", down=True)
    except StreamkeeperError as error:
        return OutputAnswer(unknown=f"{root} cannot be read: {error}")


def read_file_record(root: str, *, shadow: str = "") -> OutputRecord:
    """Return the record that an output directory keeps of its claims and batches. ``shadow``: the version that is
    written in shadow and claims no epoch, if any.
    """
    needed = folder_at(root, *([shadow] if shadow else []))
    if needed.absence():
        return OutputRecord(gone=f"directory {needed.where('')} is missing", every_version=True)
    newest = newest_epoch(root)
    versions = filter(is_version_name, folder_at(root).folders(""))
    found = {version: newest_batch(f"{root}/{version}") for version in versions}
    return OutputRecord(
        gone=f"directory {root} has lost its epoch log" if newest is None and not shadow else "",
        epoch=newest.epoch if newest is not None else 0,
        last={version: batch for version, batch in found.items() if batch is not None},
        every_version=True,
    )


def refuse_cut(question: OutputQuestion, batch: int) -> str:
    """Return why readers cannot be limited to the version's batches up to ``batch``; empty if they can. They cannot if
    Spark's sink log no longer separates these batches from later ones.
    """
    try:
        listed_files(f"{question.directory}/{question.version}", last=batch)
    except InvalidInput as error:
        return error.message
    except (OSError, StoreUnavailable) as error:
        return f"{question.sink.output} cannot be read: {_reason(error)}"
    return ""


def read_fences(place: str) -> list[Fence]:
    """Return the fence in a FileSink's directory; see ``fences.read_fences``."""
    root = output_location(place)
    try:
        claims = read_epochs(root)
        folders = list(filter(is_version_name, folder_at(root).folders(""))) if claims else []
        if not claims:
            raise NotFound(
                f"{root} contains no epoch log of a FileSink",
                hint="give the directory that is the path of the FileSink",
            )
        newest = claims[-1]
        fence = Fence(
            output=root,
            owner=newest.owner,
            epoch=newest.epoch,
            claimed=newest.epoch,
            version=newest.version,
            batch=newest_batch(f"{root}/{newest.version}"),
            serving=newest.segments,
            versions=tuple(sorted({*folders, *(claim.version for claim in claims)})),
            installation=newest.installation,
        )
    except OSError as error:
        raise StoreUnavailable(f"output {root} cannot be read: {error.strerror}") from error
    return [fence]


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
