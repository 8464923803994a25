"""Removing from local checkpoint directories what nothing can need any more: observe, plan, and carry out the plan.

A retired checkpoint version is cut back to its last batches, or goes whole. In a live one only that goes which no
version of its state, written or still to come, refers to. Symbolic links are never followed.
"""

from __future__ import annotations

import json
import os
import re
import stat
import uuid
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath

import msgspec
from msgspec.structs import replace

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.facts import must_be_checkpoint
from streamkeeper.checkpoints.layout import last_committed, last_planned, numbered, open_batch
from streamkeeper.checkpoints.trees import LocalTree, check_inside
from streamkeeper.crash_points import crash_point
from streamkeeper.errors import CheckpointDamaged, InvalidInput

MARGIN_S = 3600
_REMOVED = re.compile(r"\.removed-.+-[0-9a-f]{32}")
_IMMUTABLE = re.compile(r"(state/[^/]+/\d+(?:/[^/]+)?)/(?:SSTs/[^/.][^/]*\.sst|logs/[^/.][^/]*\.log)")
_TEMPORARY = re.compile(r"\.(\d*).*\.tmp")
_DESCRIPTION = re.compile(r"(.*/)?(_metadata|_stateSchema)/(.*/)?[^./][^/]*")
_STAGES = {"state": 0, "sources": 1, "offsets": 2, "commits": 3}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Extent(Enum):
    """How much of a directory a plan takes."""

    WHOLE = "whole"
    OLD_BATCHES = "old batches"
    LEFTOVERS = "leftovers"


class PlannedRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A file to remove, by its path in the directory, if it is still of that size (bytes) and time (ns since 1970).

    ``subject``: name of the file beside it whose checksum it is, if it may go only when that one is gone.
    """

    path: str
    size: int
    modified: int
    reason: str
    subject: str = ""


class PrunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes from a directory, in the order in which it goes.

    ``kept``: the files that stay in a retired checkpoint that is cut back. ``kept_whole``: why nothing goes at all;
    ``left``: what was left alone, each with the reason.
    """

    directory: str
    extent: Extent
    files: tuple[PlannedRemoval, ...] = ()
    kept: tuple[str, ...] = ()
    kept_whole: str = ""
    left: tuple[str, ...] = ()


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What went: files and bytes. ``failed``: what could not be removed; ``left``: what stays for another reason."""

    files: int = 0
    bytes: int = 0
    failed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How large a directory has become; ``files`` and ``bytes`` with checksums. ``largest_compact``: bytes."""

    files: int
    bytes: int
    crc_files: int
    crc_bytes: int
    batches: int
    oldest_batch: int | None
    newest_batch: int | None
    largest_compact: int = 0


class _Seen(msgspec.Struct, frozen=True):
    """A directory as it was found, by paths. ``files``: all that is no folder; ``odd``: no regular file either."""

    files: dict[str, os.stat_result]
    odd: list[str]


def plan_retired(directory: Path, keep_batches: int) -> PrunePlan:
    """Cut a retired checkpoint back to the closed sets of its last committed batches, and its pending plan.

    No checksum is kept, for none is needed. 0 batches: the directory goes whole, damaged or not. A checkpoint of which
    a batch to keep is not complete is left whole; for one that is gone already there is nothing to do. Raises
    InvalidInput for a negative number, NotFound for a directory that is no checkpoint.
    """
    if keep_batches < 0:
        raise InvalidInput(f"{keep_batches} batches cannot be kept", hint="keep 0 or more")
    plan = PrunePlan(directory=str(directory), extent=Extent.OLD_BATCHES if keep_batches else Extent.WHOLE)
    if directory.is_symlink():
        return replace(plan, kept_whole="it is a symbolic link")
    seen = _look(directory)
    if seen.files:
        must_be_checkpoint(directory)
    if keep_batches == 0 or not seen.files:
        return replace(_whole(directory, seen), extent=plan.extent)
    if seen.odd:
        return replace(plan, kept_whole=f"{seen.odd[0]} is no regular file")
    try:
        kept = _needed(directory, keep_batches)
    except CheckpointDamaged as error:
        return replace(plan, kept_whole=str(error))
    reason = f"not needed for the last {keep_batches} committed batches"
    files = [_planned(path, found, reason) for path, found in seen.files.items() if path not in kept]
    return replace(plan, files=tuple(sorted(files, key=_order)), kept=tuple(sorted(kept)))


def plan_leftovers(root: Path) -> tuple[PrunePlan, ...]:
    """Plans for what removals that died have left in ``root``: directories that were renamed and not yet deleted."""
    found = [each for each in sorted(root.iterdir()) if _REMOVED.fullmatch(each.name)] if root.is_dir() else []
    return tuple(_whole(each, _look(each)) for each in found if each.is_dir() and not each.is_symlink())


def plan_live(directory: Path, *, now: float) -> PrunePlan:
    """What the owner of a running checkpoint has lost sight of; ``now``: seconds since 1970. Raises NotFound.

    Everything is older than MARGIN_S, and one of these:

    - A temporary file: Spark writes it, renames it, and never looks for one again. One of a state version that is not
      committed stays: its task may have it open for as long as the batch takes.
    - A checksum, of Hadoop or Spark, whose file is gone: it is read only with its file, and written with it anew.
      Those of log entries from the newest one on stay: they are the traces by which a rewound checkpoint is known.
    - An SST or archived log of RocksDB that no archive of its store names, and that is older than all of them. Files
      go up before the archive that names them, and never change. A version still to come is built on one whose archive
      is there, so its files are named by that archive or went up after it: a file of an upload under way is never older
      than the oldest archive, however long the upload takes. This holds while a store has one writer at a time, on
      which Spark's own cleanup relies, too. As in Spark, a store with a single archive is left alone: if its version
      was written twice, its time tells nothing of the first attempt's files.

    Where an archive cannot be read, or names a file that is missing, the SSTs of its store are left alone.
    """
    plan = PrunePlan(directory=str(directory), extent=Extent.LEFTOVERS)
    if directory.is_symlink():
        return replace(plan, kept_whole="it is a symbolic link")
    must_be_checkpoint(directory)
    seen = _look(directory)
    left = [f"{path} is no regular file" for path in seen.odd]
    before = (now - MARGIN_S) * 1e9
    old = {path: at for path, at in seen.files.items() if at.st_mtime_ns < before and path not in seen.odd}
    going = dict.fromkeys(_unfinished(directory, old), "left by a write that did not finish")
    immutable = sorted((path.rsplit("/", 2)[0], path) for path in old if _IMMUTABLE.fullmatch(path))
    for store, paths in groupby(immutable, key=itemgetter(0)):
        try:
            going |= _unnamed(directory, store, {path: seen.files[path] for _, path in paths})
        except CheckpointDamaged as error:
            left.append(f"the SSTs of {store}: {error}")
    files = {path: _planned(path, old[path], reason) for path, reason in going.items()}
    _add_orphaned_checksums(files, directory, old, seen)
    return replace(plan, files=tuple(sorted(files.values(), key=_order)), left=tuple(left))


def carry_out(plan: PrunePlan) -> Pruned:
    """Remove what is planned, as far as it still is what was planned; a retired checkpoint that changed stays whole.

    A whole directory is renamed first, so that what a crash leaves is no checkpoint: ``plan_leftovers`` finds it. Of
    old batches the state goes before the commits, which tell it from what failed attempts left: so the batches that
    stay can be restored at any time. Where a file cannot be removed, the logs after it stay. Empty folders go, too.
    Raises InvalidInput for a path that leaves the directory.
    """
    directory = Path(plan.directory).absolute()
    directory = directory.parent.resolve() / directory.name
    for each in plan.files:
        check_inside(each.path)
    if plan.kept_whole or not directory.is_dir() or directory.is_symlink():
        return Pruned()
    if plan.extent is not Extent.LEFTOVERS and not _REMOVED.fullmatch(directory.name):
        if changed := _changed(directory, plan):
            return Pruned(left=(f"{directory} stays whole: {changed}",))
        if plan.extent is Extent.WHOLE:
            directory = _rename(directory)
    done = _remove_files(directory, plan)
    if plan.extent is Extent.LEFTOVERS:
        return done
    for _, folders, _, at in os.fwalk(directory, topdown=False):
        for name in folders:
            with suppress(OSError):
                os.rmdir(name, dir_fd=at)
    if plan.extent is Extent.WHOLE:
        try:
            os.rmdir(directory)
        except OSError as error:
            return replace(done, failed=(*done.failed, f"{directory}: {error.strerror}"))
    return done


def checkpoint_growth(directory: Path) -> Growth:
    """Measure a checkpoint and its committed batches; what disappears meanwhile is left out. Raises NotFound."""
    must_be_checkpoint(directory)
    return _growth(_look(directory).files, numbered(directory / "commits"))


def sink_log_growth(directory: Path) -> Growth:
    """Measure the ``_spark_metadata`` of a file sink's output, which has an entry per batch, some of them compacted."""
    files = _look(directory).files
    entries = {int(found[1]) for path in files if (found := re.fullmatch(r"(\d+)(\.compact)?", path))}
    compacts = [found.st_size for path, found in files.items() if re.fullmatch(r"\d+\.compact", path)]
    return replace(_growth(files, entries), largest_compact=max(compacts, default=0))


def _growth(files: dict[str, os.stat_result], batches: Collection[int]) -> Growth:
    checksums = [found.st_size for path, found in files.items() if path.endswith(".crc")]
    return Growth(
        files=len(files),
        bytes=sum(found.st_size for found in files.values()),
        crc_files=len(checksums),
        crc_bytes=sum(checksums),
        batches=len(batches),
        oldest_batch=min(batches, default=None),
        newest_batch=max(batches, default=None),
    )


def _needed(directory: Path, keep_batches: int) -> set[str]:
    """Files of the last committed batches; raises CheckpointDamaged unless each of them is complete."""
    committed = sorted(numbered(directory / "commits"))[-keep_batches:]
    if not committed:
        raise CheckpointDamaged(f"{directory} has no committed batch")
    tree, pending = LocalTree(directory), open_batch(directory)
    if pending not in (None, committed[-1] + 1):
        raise CheckpointDamaged(f"{directory} has planned batch {pending} after committed batch {committed[-1]}")
    ahead = [] if pending is None else closed_set(tree, committed[-1], pending=True)
    return {*ahead, *(path for batch in committed for path in closed_set(tree, batch))}


def _whole(directory: Path, seen: _Seen) -> PrunePlan:
    files = tuple(_planned(path, found, "the directory goes") for path, found in sorted(seen.files.items()))
    return PrunePlan(directory=str(directory), extent=Extent.WHOLE, files=files)


def _unfinished(directory: Path, old: Iterable[str]) -> list[str]:
    committed = last_committed(directory)
    newest = 0 if committed is None else committed + 1
    found = [(path, told[1]) for path in old if (told := _TEMPORARY.fullmatch(path.rpartition("/")[2]))]
    return [path for path, version in found if not (path.startswith("state/") and int(version or 0) > newest)]


def _unnamed(directory: Path, store: str, files: dict[str, os.stat_result]) -> dict[str, str]:
    """SSTs and logs that no version refers to -> why they go; raises CheckpointDamaged where that cannot be told."""
    archives = [each for each in sorted((directory / store).glob("*.zip")) if not each.name.startswith(".")]
    told = [_archive(each) for each in archives]
    named = {f"{store}/{name}" for _, names in told for name in names}
    for path in sorted(named):
        if not (directory / path).is_file():
            raise CheckpointDamaged(f"{path} is named by an archive, and missing")
    times = [modified for modified, _ in told] if len(told) > 1 else [0]
    unnamed = [path for path, at in files.items() if path not in named and _is_before_all(at.st_mtime_ns, times)]
    return dict.fromkeys(unnamed, "no archive of its store names it, and all are newer")


def _is_before_all(modified: int, archives: list[int]) -> bool:
    return modified < min(archives)


def _archive(path: Path) -> tuple[int, list[str]]:
    """When an archive was written, and the SSTs and logs it names; one that is just being removed is torn, too."""
    try:
        modified = path.stat().st_mtime_ns
        with zipfile.ZipFile(path) as opened:
            found = json.loads(opened.read("metadata").decode().partition("\n")[2])
        ssts = [f"SSTs/{each['dfsSstFileName']}" for each in found["sstFiles"] or ()]
        return modified, [*ssts, *(f"logs/{each['dfsLogFileName']}" for each in found.get("logFiles") or ())]
    except (OSError, zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError) as error:
        raise CheckpointDamaged(f"{path.name} cannot be read") from error


def _add_orphaned_checksums(
    going: dict[str, PlannedRemoval], directory: Path, old: dict[str, os.stat_result], seen: _Seen
) -> None:
    """Add the checksums whose file is gone, or goes; shorter names first, for a checksum may have one itself."""
    entries = [each for each in (last_planned(directory), last_committed(directory)) if each is not None]
    newest = min(entries) if len(entries) == 2 else -1
    for path in sorted((each for each in old if each.endswith(".crc")), key=len):
        folder, slash, name = path.rpartition("/")
        subject = name.removeprefix(".").removesuffix(".crc")
        beside = f"{folder}{slash}{subject}"
        is_kept = beside in seen.files and beside not in going
        is_trace = folder in ("offsets", "commits") and subject.isdecimal() and int(subject) >= newest
        if not (is_kept or is_trace or _DESCRIPTION.fullmatch(path)):
            going[path] = _planned(path, old[path], f"the checksum of {subject}, which is gone", subject)


def _planned(path: str, found: os.stat_result, reason: str, subject: str = "") -> PlannedRemoval:
    return PlannedRemoval(path=path, size=found.st_size, modified=found.st_mtime_ns, reason=reason, subject=subject)


def _order(one: PlannedRemoval) -> tuple[int, int, str]:
    """State before the logs that tell of it, a file before its checksum."""
    return _STAGES.get(one.path.partition("/")[0], len(_STAGES)), one.path.count(".crc"), one.path


def _look(directory: Path) -> _Seen:
    """All below a directory; what disappears meanwhile is left out, and of a directory that is gone all."""
    files: dict[str, os.stat_result] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with suppress(FileNotFoundError), os.scandir(directory / folder) as entries:
            for each in entries:
                path = f"{folder}/{each.name}".lstrip("/")
                if each.is_dir(follow_symlinks=False):
                    waiting.append(path)
                    continue
                with suppress(FileNotFoundError):
                    files[path] = each.stat(follow_symlinks=False)
    return _Seen(files, sorted(path for path, found in files.items() if not stat.S_ISREG(found.st_mode)))


def _changed(directory: Path, plan: PrunePlan) -> str:
    """What in a retired checkpoint is not as it was planned: somebody writes there. Empty where all is."""
    seen, planned, kept = _look(directory).files, {each.path: each for each in plan.files}, set(plan.kept)
    for path, found in seen.items():
        if path in planned and (found.st_size, found.st_mtime_ns) != (planned[path].size, planned[path].modified):
            return f"{path} changed since it was planned"
        if path not in planned and path not in kept:
            return f"{path} is new"
    return next((f"{path} is gone" for path in plan.kept if path not in seen), "")


def _rename(directory: Path) -> Path:
    target = directory.with_name(f".removed-{directory.name}-{uuid.uuid4().hex}")
    crash_point("prune.directory.before")
    os.rename(directory, target)
    with _folder(target.parent) as parent:
        os.fsync(parent)
    crash_point("prune.directory.after")
    return target


def _remove_files(directory: Path, plan: PrunePlan) -> Pruned:
    files, size, failed, left = 0, 0, [], []
    last = len(_STAGES)
    for each in plan.files:
        if plan.extent is Extent.OLD_BATCHES and _order(each)[0] > last:
            left.append(f"{each.path}: what it tells of could not be removed")
            continue
        try:
            if _remove(directory, each):
                files, size = files + 1, size + each.size
            else:
                left.append(f"{each.path} is not as it was planned")
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{each.path}: {error.strerror}")
            last = min(last, _order(each)[0])
    return Pruned(files=files, bytes=size, failed=tuple(failed), left=tuple(left))


def _remove(directory: Path, one: PlannedRemoval) -> bool:
    """Whether it was as planned and went; raises OSError, FileNotFoundError where it is gone already."""
    path = PurePosixPath(one.path)
    with _folder(directory, *path.parent.parts) as at:
        has_subject = one.subject != "" and os.access(one.subject, os.F_OK, dir_fd=at, follow_symlinks=False)
        found = os.stat(path.name, dir_fd=at, follow_symlinks=False)
        if has_subject or (found.st_size, found.st_mtime_ns) != (one.size, one.modified):
            return False
        crash_point("prune.batch.before")
        os.unlink(path.name, dir_fd=at)
        crash_point("prune.batch.after")
        return True


@contextmanager
def _folder(directory: Path, *below: str) -> Iterator[int]:
    """A descriptor of a folder; raises OSError where a link leads to it from ``directory``."""
    at = os.open(directory, _FOLDER)
    try:
        for name in below:
            upper, at = at, os.open(name, _FOLDER, dir_fd=at)
            os.close(upper)
        yield at
    finally:
        os.close(at)
