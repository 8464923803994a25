"""Removing what was planned from a checkpoint directory; may be cut off anywhere, and be planned and done again.

Symbolic links are never followed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from streamkeeper.checkpoints.prune_plan import (
    REMOVED,
    STAGES,
    Extent,
    PlannedRemoval,
    Pruned,
    PrunePlan,
    look_at,
    order_of,
    removed_path,
)
from streamkeeper.checkpoints.trees import check_inside, open_folder
from streamkeeper.crash_points import crash_point


def carry_out(plan: PrunePlan) -> Pruned:
    """Remove what is planned, as far as it still is what was planned; a retired checkpoint that changed stays whole.

    A whole directory is renamed first, so that what a crash leaves is no checkpoint: ``plan_leftovers`` finds it. Of
    old batches the state goes before the commits, which tell it from what failed attempts left: so the batches that
    stay can be restored at any time. Where a file cannot be removed, the logs after it stay. Empty folders go, too.
    Raises InvalidInput for a path that leaves the directory.
    """
    directory = Path(plan.directory).absolute()
    directory = directory.parent.resolve() / directory.name
    for file in plan.files:
        check_inside(file.path)
    if plan.kept_whole or not directory.is_dir() or directory.is_symlink():
        return Pruned()
    if plan.extent is not Extent.LEFTOVERS and not REMOVED.fullmatch(directory.name):
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


def _changed(directory: Path, plan: PrunePlan) -> str:
    """What in a retired checkpoint is not as it was planned: somebody writes there. Empty where all is."""
    seen, planned, kept = look_at(directory).files, {file.path: file for file in plan.files}, set(plan.kept)
    for path, found in seen.items():
        if path in planned and (found.st_size, found.st_mtime_ns) != (planned[path].size, planned[path].modified):
            return f"{path} changed since it was planned"
        if path not in planned and path not in kept:
            return f"{path} is new"
    return next((f"{path} is gone" for path in plan.kept if path not in seen), "")


def _rename(directory: Path) -> Path:
    target = removed_path(directory)
    crash_point("prune.directory.before")
    os.rename(directory, target)
    with open_folder(target.parent) as parent:
        os.fsync(parent)
    crash_point("prune.directory.after")
    return target


def _remove_files(directory: Path, plan: PrunePlan) -> Pruned:
    files, size, failed, left = 0, 0, [], []
    last = len(STAGES)
    for file in plan.files:
        if plan.extent is Extent.OLD_BATCHES and order_of(file)[0] > last:
            left.append(f"{file.path}: what it tells of could not be removed")
            continue
        try:
            if _remove(directory, file):
                files, size = files + 1, size + file.size
            else:
                left.append(f"{file.path} is not as it was planned")
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{file.path}: {error.strerror}")
            last = min(last, order_of(file)[0])
    return Pruned(files=files, bytes=size, failed=tuple(failed), left=tuple(left))


def _remove(directory: Path, one: PlannedRemoval) -> bool:
    """Whether it was as planned and went; raises OSError, FileNotFoundError where it is gone already."""
    path = PurePosixPath(one.path)
    with open_folder(directory, path.parent.parts) as at:
        has_subject = one.subject != "" and os.access(one.subject, os.F_OK, dir_fd=at, follow_symlinks=False)
        found = os.stat(path.name, dir_fd=at, follow_symlinks=False)
        if has_subject or (found.st_size, found.st_mtime_ns) != (one.size, one.modified):
            return False
        crash_point("prune.batch.before")
        os.unlink(path.name, dir_fd=at)
        crash_point("prune.batch.after")
        return True
