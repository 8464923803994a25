"""Query a Delta table for its newest batch, its own record and its fence, without the job that writes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from streamkeeper.checkpoints.layout import is_version_name
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import NotFound, StoreUnavailable, StreamkeeperError
from streamkeeper.locations import storage_location
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.delta_record import SHADOWS, DeltaLogFiles, DeltaRecord, read_record, retried
from streamkeeper.sinks.storage_access import remove_folder

_AT_ONCE = 8
"""How many files are checked at once."""
_FEW = 500
"""Up to how many files are checked one by one. For more, the whole table is listed."""


def answer(question: OutputQuestion) -> OutputAnswer:
    """Return the version's newest batch and the table's record, from the first of ``question.places`` that matches."""
    path = question.directory
    try:
        found = read_record(tree_at(path))
        record = _as_output_record(path, path, found)
    except (OSError, StoreUnavailable) as error:
        return OutputAnswer(unknown=f"{path} cannot be read: {_reason(error)}", down=True)
    except StreamkeeperError as error:
        return OutputAnswer(unknown=f"{path} cannot be read: {error}")
    if found is None:
        return OutputAnswer(unknown=f"{path} contains no Delta table", record=record)
    return OutputAnswer(batch=found.last(question.version), record=record)


def read_table_record(path: str, *, shadow: str = "") -> OutputRecord:
    """Return the record that a table keeps of its epochs and batches. ``shadow``: the version that is written in
    shadow, if any, whose table is then the one to look for.
    """
    where = f"{path}/{SHADOWS}/{shadow}" if shadow else path
    return _as_output_record(path, where, read_record(tree_at(where)))


def _as_output_record(path: str, where: str, found: DeltaRecord | None) -> OutputRecord:
    """Return ``found``, the record of the table in ``where``, with the batches in the shadows of the table ``path``."""
    beside = {name: record.batch for name, record in _shadows(path) if record is not None and record.batch is not None}
    if found is None:
        return OutputRecord(gone=f"{where} contains no Delta table", last=beside, every_version=True)
    if found.writer is None:
        lost = f"table {where} has lost the record of its writers"
        return OutputRecord(gone=lost, last=beside, every_version=True)
    return OutputRecord(epoch=found.writer.epoch, last={**beside, **found.batches}, every_version=True)


def refuse_cut(question: OutputQuestion, batch: int) -> str:
    """Return why the table cannot be set back to the version's batches up to ``batch``; empty if it can."""
    try:
        found = look_back(question.directory, question.version, batch)
    except (OSError, StreamkeeperError) as error:
        return f"{question.sink.output} cannot be read: {_reason(error)}"
    return found.why


class EarlierContent(NamedTuple):
    """An earlier content of a table."""

    commit: int | None
    """The newest commit with this content; None if the log has none (any more)."""
    why: str
    """Why the table cannot be set back to the content, as a sentence; empty if it can."""
    checked: int
    """The newest commit that was examined."""


def look_back(path: str, version: str, batch: int | None) -> EarlierContent:
    """Find the content of a table with a version's batches up to ``batch``; None for the version's newest batch.

    Raises the same errors as ``read_record``.
    """
    return retried(lambda: _look_back(path, version, batch))


def _look_back(path: str, version: str, batch: int | None) -> EarlierContent:
    table = tree_at(path)
    log = DeltaLogFiles.listed(table)
    commit = log.content_after(version, batch)
    if commit is None:
        which = "a batch" if batch is None else f"batch {batch}"
        return EarlierContent(None, f"the log of table {path} does not contain {which} of {version} (any more)", -1)
    if foreign := log.foreign_changes(commit):
        commits = ", ".join(map(str, foreign[:3])) + (" and others" if len(foreign) > 3 else "")
        why = f"others changed rows of table {path} since then (commits {commits}): their changes would be lost"
        return EarlierContent(commit, why, log.newest)
    missing = _missing(table, [unquote(name) for name in log.removed_files(commit)])
    why = f"table {path} no longer has {len(missing)} files of that time: VACUUM deleted them" if missing else ""
    return EarlierContent(commit, why, log.newest)


def _missing(table: Tree, names: list[str]) -> list[str]:
    """Return the files that a table no longer has."""
    if len(names) > _FEW and not isinstance(table, LocalTree):
        present = table.look().files
        return [name for name in names if name not in present]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [name for name, there in zip(names, pool.map(table.has, names), strict=True) if not there]


def read_fences(place: str) -> list[Fence]:
    """Return the fence in a Delta table; see ``fences.read_fences``."""
    path = storage_location("output", place)
    try:
        found = read_record(tree_at(path))
        beside = [version for version, _ in _shadows(path)]
    except OSError as error:
        raise StoreUnavailable(f"output {path} cannot be read: {_reason(error)}") from error
    if found is None or found.writer is None:
        raise NotFound(f"{path} contains no Delta table of a DeltaSink", hint="give the path of the DeltaSink")
    writer = found.writer
    return [
        Fence(
            output=path,
            owner=writer.owner,
            epoch=writer.epoch,
            claimed=writer.epoch,
            version=writer.version,
            batch=found.batch,
            versions=tuple(sorted({*found.ended, writer.version, *beside})),
            installation=writer.installation,
        )
    ]


def _shadows(path: str) -> list[tuple[str, DeltaRecord | None]]:
    """Return each version that has a folder for a shadow table, and the record in it; None without a table."""
    names = tree_at(f"{path}/{SHADOWS}").folders("")
    return [(name, _shadow_record(path, name)) for name in names if is_version_name(name)]


def _shadow_record(path: str, version: str) -> DeltaRecord | None:
    # A shadow that is being removed, or that is damaged, concerns only the driver that writes it.
    with suppress(OSError, StoreUnavailable):
        return read_record(tree_at(f"{path}/{SHADOWS}/{version}"))
    return None


def remove_shadow(path: str, version: str) -> None:
    """Remove a version's shadow table below the table ``path``. A removal that was interrupted can be repeated."""
    shadow = tree_at(f"{path}/{SHADOWS}/{version}")
    # Without its beginning a log is incomplete, so that no reader takes half of a table for a table.
    remove_folder(shadow, first=DeltaLogFiles.listed(shadow).beginning)
    if not (shadows := tree_at(f"{path}/{SHADOWS}")).names(""):
        shadows.drop_empty_folders()


def is_delta_table(table: Tree) -> bool:
    """Whether a folder has the log of a Delta table."""
    return retried(lambda: DeltaLogFiles.from_checkpoint(table)).exists


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
