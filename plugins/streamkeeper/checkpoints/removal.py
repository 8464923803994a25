"""Removes planned files from a checkpoint. An interrupted removal can be planned and carried out again.

A version's metadata is deleted first, so the files that a crash leaves are not a checkpoint. A copy of the metadata
marks the removal; it is made first and deleted last. Without it, the remaining files would look like a version that has
lost its metadata. Symbolic links are never followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby

from streamkeeper.checkpoints.log_codec import query_id_from
from streamkeeper.checkpoints.prune_plan import (
    REMOVING,
    STAGES,
    Extent,
    PlannedRemoval,
    Pruned,
    PrunePlan,
    order_of,
)
from streamkeeper.checkpoints.publishing import METADATA, is_published
from streamkeeper.checkpoints.trees import Tree, check_inside
from streamkeeper.system.crash_points import crash_point


def carry_out(tree: Tree, plan: PrunePlan) -> Pruned:
    """Remove the planned files that still match the plan. If a retired checkpoint has changed, keep the whole
    checkpoint.

    The state of old batches is removed before their commits, because only a commit distinguishes a batch's state from
    the leftovers of failed attempts. Even if the removal is interrupted, the remaining batches can therefore be
    restored. If a file cannot be removed, the log files that describe it, which are later in the plan, stay. Empty
    folders are removed too, except in a live checkpoint. Raises InvalidInput for a path outside the tree.
    """
    tree = tree.fresh()
    for file in plan.files:
        check_inside(file.path)
    if plan.kept_whole:
        return Pruned()
    if plan.extent is Extent.LEFTOVERS:
        return _remove_files(tree, plan)
    if changed := _changed(tree, plan):
        return Pruned(left=(f"{tree.where('')} is kept whole: {changed}",))
    done = _remove_version(tree, plan) if plan.extent is Extent.WHOLE else _remove_files(tree, plan)
    if not done.failed:
        tree.drop_empty_folders()
    return done


def is_being_removed(tree: Tree, query_id: str) -> bool:
    """Whether the removal of the version in ``tree`` has started and not finished.

    ``query_id``: the id of the query to which the version must belong; empty if it may belong to any query.
    """
    if is_published(tree):
        return False
    try:
        found = query_id_from(tree.read(REMOVING))
    except FileNotFoundError:
        return False
    return found is not None and query_id in ("", found)


def _changed(tree: Tree, plan: PrunePlan) -> str:
    """Return how a retired checkpoint differs from the plan, because a process writes there; empty if it does not
    differ.
    """
    seen, planned, kept = tree.look(), {file.path: file for file in plan.files}, set(plan.kept)
    if "" in seen.odd:
        return "it is a symbolic link"
    for path, found in seen.files.items():
        if path in planned and not planned[path].is_still(found):
            return f"{path} changed since it was planned"
        if path not in planned and path not in kept:
            return f"{path} is new"
    return next((f"{path} is missing" for path in plan.kept if path not in seen.files), "")


def _remove_version(tree: Tree, plan: PrunePlan) -> Pruned:
    there = tree.look().files
    crash_point("prune.directory.before")
    if METADATA in there:
        # On a full disk the marker cannot be written; an interrupted removal then leaves files for a person to inspect.
        with suppress(OSError):
            tree.create(REMOVING, [tree.read(METADATA)])
        if kept := tree.delete([METADATA]):
            return _pruned([], kept, [])
    crash_point("prune.directory.after")
    rest = [file for file in plan.files if file.path in there and file.path not in (METADATA, REMOVING)]
    kept = tree.delete(_one_by_one(rest))
    others = tree.look().files.keys() - {REMOVING}
    if not others:
        tree.delete([REMOVING])
    removed = [file for file in plan.files if file.path in there and file.path not in kept]
    new = sorted(others - kept.keys())
    return _pruned(removed, kept, [f"{path} is new" for path in new])


def _remove_files(tree: Tree, plan: PrunePlan) -> Pruned:
    asked: list[PlannedRemoval] = []
    left: list[str] = []
    failed: dict[str, str] = {}
    last = len(STAGES)
    for (stage, _), files in groupby(plan.files, key=lambda file: order_of(file)[:2]):
        if plan.extent is Extent.OLD_BATCHES and stage > last:
            left += [f"{file.path}: the files it describes could not be removed" for file in files]
            continue
        kept = tree.delete(_one_by_one(_unchanged(tree, files, asked, left)))
        failed |= kept
        last = min(last, stage) if kept else last
    return _pruned([file for file in asked if file.path not in failed], failed, left)


def _unchanged(
    tree: Tree, files: Iterable[PlannedRemoval], asked: list[PlannedRemoval], left: list[str]
) -> Iterator[PlannedRemoval]:
    """Yield the files that still match the plan, and add each of them to ``asked``. Each file is checked just before
    its removal.
    """
    for file in files:
        try:
            found = tree.stamp(file.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        folder = file.path.rpartition("/")[0]
        if not file.is_still(found) or (file.subject and tree.has(f"{folder}/{file.subject}".lstrip("/"))):
            left.append(f"{file.path} no longer matches the plan")
            continue
        asked.append(file)
        yield file


def _one_by_one(files: Iterable[PlannedRemoval]) -> Iterator[str]:
    for file in files:
        crash_point("prune.batch.before")
        yield file.path
        crash_point("prune.batch.after")


def _pruned(removed: Collection[PlannedRemoval], failed: Mapping[str, str], left: Iterable[str]) -> Pruned:
    failures = tuple(f"{path}: {why}" for path, why in failed.items())
    return Pruned(files=len(removed), bytes=sum(file.size for file in removed), failed=failures, left=tuple(left))
