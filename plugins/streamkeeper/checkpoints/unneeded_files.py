"""Plans which files of checkpoints are no longer needed; it removes nothing itself.

A retired checkpoint version is cut back to its last batches, or removed as a whole. From a live version, only files are
removed to which no version of the state refers, neither an existing nor a future one. Symbolic links are never
followed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from msgspec.structs import replace

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.layout import last_committed, last_planned, must_be_checkpoint, numbered, open_batch
from streamkeeper.checkpoints.prune_plan import REMOVING, Extent, PlannedRemoval, PrunePlan, order_of
from streamkeeper.checkpoints.publishing import METADATA, is_published
from streamkeeper.checkpoints.state_files import files_named_in
from streamkeeper.checkpoints.trees import Seen, Tree
from streamkeeper.errors import CheckpointDamaged, InvalidInput
from streamkeeper.model.records.snapshot import Stamp

MARGIN_S = 3600
_IMMUTABLE = re.compile(r"(state/[^/]+/\d+(?:/[^/]+)?)/(?:SSTs/[^/.][^/]*\.sst|logs/[^/.][^/]*\.log)")
_TEMPORARY = re.compile(r"\.(\d*).*\.tmp")
_DESCRIPTION = re.compile(r"(.*/)?(_metadata|_stateSchema)/(.*/)?[^./][^/]*")


def plan_retired(tree: Tree, keep_batches: int) -> PrunePlan:
    """Plan to cut a retired checkpoint back to the files of its last ``keep_batches`` committed batches and the plan of
    its open batch.

    Checksums are removed too, because a start does not need them. If ``keep_batches`` is 0, the whole checkpoint is
    removed, damaged or not. If ``keep_batches`` is greater and a file of a kept batch is missing, the whole checkpoint
    is kept. The plan is empty if the checkpoint no longer exists. Raises InvalidInput for a negative number, NotFound
    if the directory is not a checkpoint.
    """
    if keep_batches < 0:
        raise InvalidInput(f"{keep_batches} batches cannot be kept", hint="keep 0 or more")
    plan, seen = _begun(tree, Extent.OLD_BATCHES if keep_batches else Extent.WHOLE)
    if plan.kept_whole:
        return plan
    if seen.files:
        must_be_checkpoint(tree)
    if keep_batches == 0 or not seen.files:
        return _whole(plan, seen)
    if seen.odd:
        return replace(plan, kept_whole=f"{seen.odd[0]} is not a regular file")
    try:
        kept = _needed(tree, keep_batches)
    except CheckpointDamaged as error:
        return replace(plan, kept_whole=str(error))
    reason = f"not needed for the last {keep_batches} committed batches"
    files = [_planned(path, found, reason) for path, found in seen.files.items() if path not in kept]
    return replace(plan, files=tuple(sorted(files, key=order_of)), kept=tuple(sorted(kept)))


def plan_unpublished(tree: Tree) -> PrunePlan:
    """Plan to remove a version without metadata, which a terminated writer or an interrupted removal left
    incomplete.
    """
    plan, seen = _begun(tree, Extent.WHOLE)
    if not plan.kept_whole and is_published(tree):
        return replace(plan, kept_whole="it is published now, because its metadata exists")
    return plan if plan.kept_whole else _whole(plan, seen)


def plan_live(tree: Tree, *, now: float) -> PrunePlan:
    """Plan to remove files that a running query no longer needs; ``now``: seconds since 1970. Raises NotFound.

    Every such file is older than ``MARGIN_S`` seconds and is of one of these kinds:

    - A temporary file, which Spark writes, renames, and never reads again. A temporary file of an uncommitted state
      version stays, because the task that writes it may keep it open as long as the batch runs.
    - A checksum of Hadoop or Spark whose file is missing, because a checksum is read and rewritten only with its file.
      Checksums of the newest log entry and of later entries stay, as evidence that reveals a rewound checkpoint.
    - An SST or archived log of RocksDB that no archive of its store names, and that is older than all archives of that
      store.
    - The marker of a removal that did not start.

    Removing files of the third kind is safe, because a file of a running upload is never older than the oldest archive,
    however long the upload takes. Files are uploaded before the archive that names them, and never change. A future
    version is based on a version whose archive exists. Every file of the future version is therefore either named in
    that archive or uploaded after it. The removal requires that a store has one writer at a time, as does Spark's own
    cleanup.

    If a store has a single archive, the SSTs and logs of that store stay, as in Spark, because the archive may have
    been written twice. The archive's time then does not show when the first attempt's files were written. If an archive
    cannot be read or names a missing file, the SSTs and logs of its store stay too.
    """
    plan, seen = _begun(tree, Extent.LEFTOVERS)
    if plan.kept_whole:
        return plan
    must_be_checkpoint(tree)
    left = [f"{path} is not a regular file" for path in seen.odd]
    before = (now - MARGIN_S) * 1e9
    old = {path: stamp for path, stamp in seen.files.items() if stamp.modified < before and path not in seen.odd}
    going = dict.fromkeys(_unfinished(tree, old), "left by an unfinished write")
    if REMOVING in old and METADATA in seen.files:
        going[REMOVING] = "the marker of a removal that did not start"
    immutable = sorted((path.rsplit("/", 2)[0], path) for path in old if _IMMUTABLE.fullmatch(path))
    for store, paths in groupby(immutable, key=itemgetter(0)):
        try:
            going |= _unnamed(tree, store, {path: seen.files[path] for _, path in paths})
        except CheckpointDamaged as error:
            left.append(f"the SSTs of {store}: {error}")
    files = {path: _planned(path, old[path], reason) for path, reason in going.items()}
    _add_orphaned_checksums(files, tree, old, seen)
    return replace(plan, files=tuple(sorted(files.values(), key=order_of)), left=tuple(left))


def _begun(tree: Tree, extent: Extent) -> tuple[PrunePlan, Seen]:
    """Return an empty plan and the directory's files. A symbolic link is kept, as its target may belong to others."""
    seen = tree.look()
    return PrunePlan(
        directory=tree.where(""), extent=extent, kept_whole="it is a symbolic link" if "" in seen.odd else ""
    ), seen


def _needed(tree: Tree, keep_batches: int) -> set[str]:
    """Return the files of the last committed batches; raises CheckpointDamaged unless each of them is complete."""
    committed = sorted(numbered(tree, "commits"))[-keep_batches:]
    if not committed:
        raise CheckpointDamaged(f"{tree.where('')} has no committed batch")
    pending = open_batch(tree)
    if pending not in (None, committed[-1] + 1):
        where = tree.where("")
        raise CheckpointDamaged(
            f"{where}: open batch {pending} does not directly follow the last committed batch {committed[-1]}"
        )
    ahead = [] if pending is None else closed_set(tree, committed[-1], pending=True)
    return {*ahead, *(path for batch in committed for path in closed_set(tree, batch))}


def _whole(plan: PrunePlan, seen: Seen) -> PrunePlan:
    files = tuple(
        _planned(path, found, "the whole checkpoint is removed") for path, found in sorted(seen.files.items())
    )
    return replace(plan, files=files)


def _unfinished(tree: Tree, old: Iterable[str]) -> list[str]:
    committed = last_committed(tree)
    newest = 0 if committed is None else committed + 1
    found = [(path, matched[1]) for path in old if (matched := _TEMPORARY.fullmatch(path.rpartition("/")[2]))]
    return [path for path, version in found if not (path.startswith("state/") and int(version or 0) > newest)]


def _unnamed(tree: Tree, store: str, files: Mapping[str, Stamp]) -> dict[str, str]:
    """Return the reason for removal of each SST or log that no version refers to, by file. Raises CheckpointDamaged if
    an archive cannot be read or names a missing file.
    """
    archives = [name for name in tree.files(store) if name.endswith(".zip") and not name.startswith(".")]
    entries = [_archive(tree, f"{store}/{name}") for name in archives]
    named = {f"{store}/{name}" for _, names in entries for name in names}
    for path in sorted(named):
        if not tree.has(path):
            raise CheckpointDamaged(f"state file {path} is missing, although a state archive (.zip) refers to it")
    times = [modified for modified, _ in entries] if len(entries) > 1 else [0]
    unnamed = [path for path, stamp in files.items() if path not in named and _is_before_all(stamp.modified, times)]
    return dict.fromkeys(unnamed, "no archive of its store names it, and every archive is newer")


def _is_before_all(modified: int, archives: list[int]) -> bool:
    return modified < min(archives)


def _archive(tree: Tree, path: str) -> tuple[int, list[str]]:
    """Return an archive's time, and the SSTs and logs that it names. An archive that is removed during the call counts
    as unreadable.
    """
    try:
        return tree.stamp(path).modified, files_named_in(io.BytesIO(tree.read(path)), path)
    except OSError as error:
        raise CheckpointDamaged(f"{path} cannot be read") from error


def _add_orphaned_checksums(going: dict[str, PlannedRemoval], tree: Tree, old: Mapping[str, Stamp], seen: Seen) -> None:
    """Add the checksums whose file is missing or planned for removal. Shorter names come first, because a checksum may
    have a checksum itself.
    """
    entries = [batch for batch in (last_planned(tree), last_committed(tree)) if batch is not None]
    newest = min(entries) if len(entries) == 2 else -1
    for path in sorted((checksum for checksum in old if checksum.endswith(".crc")), key=len):
        folder, slash, name = path.rpartition("/")
        subject = name.removeprefix(".").removesuffix(".crc")
        beside = f"{folder}{slash}{subject}"
        is_kept = beside in seen.files and beside not in going
        is_trace = folder in ("offsets", "commits") and subject.isdecimal() and int(subject) >= newest
        if not (is_kept or is_trace or _DESCRIPTION.fullmatch(path)):
            going[path] = _planned(path, old[path], f"the checksum of {subject}, which no longer exists", subject)


def _planned(path: str, found: Stamp, reason: str, subject: str = "") -> PlannedRemoval:
    return PlannedRemoval(path=path, size=found.size, modified=found.modified, reason=reason, subject=subject)
