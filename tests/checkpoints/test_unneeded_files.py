"""Pruning a checkpoint: the files that stay are complete and unchanged, the deleted ones could not be needed, and a
crash does no harm.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from harness.checkpoint_files import QUERY_ID, Tree, state_id
from streamkeeper.checkpoints import trees, unneeded_files
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.growth import Growth, checkpoint_growth, sink_log_growth
from streamkeeper.checkpoints.prune_plan import REMOVING, Extent, PlannedRemoval, Pruned, PrunePlan
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.removal import carry_out, is_being_removed
from streamkeeper.checkpoints.trees import NOT_THERE, LocalTree
from streamkeeper.checkpoints.unneeded_files import MARGIN_S, plan_live, plan_retired, plan_unpublished
from streamkeeper.errors import CheckpointDamaged, InvalidInput, NotFound
from tests.checkpoints import tree_kinds
from tests.checkpoints.tree_kinds import at, write

NOW = 1_800_000_000
KINDS = ["hdfs", "rocksdb", "changelog", "format-2", "stateless"]
STRANGER = state_id(7, 7)


def content(place: Path | trees.Tree) -> dict[str, bytes]:
    """Return every file of a tree, or below a directory, with its content."""
    tree = LocalTree(place) if isinstance(place, Path) else place
    return {path: tree.read(path) for path in sorted(tree.fresh().look().files)}


def needed(tree: trees.Tree, batches: list[int], *, pending: bool = False) -> set[str]:
    found = {path for batch in batches for path in closed_set(tree, batch)}
    return found | set(closed_set(tree, batches[-1], pending=True)) if pending else found


def empty_folders(tree: trees.Tree) -> list[str]:
    """Return the empty folders of a tree, at any depth."""

    def below(folder: str) -> Iterator[str]:
        for name in tree.folders(folder):
            path = f"{folder}/{name}".lstrip("/")
            if tree.names(path):
                yield from below(path)
            else:
                yield path

    return list(below(""))


def age(root: Path, seconds: float) -> None:
    """Make every file this many seconds old."""
    for path in root.rglob("*"):
        os.utime(path, (NOW - seconds, NOW - seconds))


def checkpoint(tmp_path: Path, kind: str, *, batches: int = 12, pending: bool = False) -> Path:
    """Write a checkpoint version that has run for a while, with leftovers of failed attempts and crashes."""
    root = tmp_path / "v0002"
    tree = Tree(root, kind, batches=batches, snapshots=(4, 7, 10))
    if kind == "format-2":
        for version in (7, 10, 11):
            (root / "state/0/0" / f"{version}_{STRANGER}.changelog").write_text("stranger")
        tree.archive(f"state/0/0/11_{STRANGER}.zip", 11)
    if pending:
        tree.plan(batches)
    age(root, 2 * MARGIN_S)
    return root


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_pruning_a_retired_checkpoint_keeps_exactly_its_last_closed_sets(
    tmp_path: Path, kind: str, keep: int, pending: bool
) -> None:
    """Pruning a retired checkpoint leaves exactly the closed sets of the kept batches, byte for byte, and no empty
    folder.
    """
    root = checkpoint(tmp_path, kind, pending=pending)
    batches = list(range(12 - keep, 12))
    tree = at(root)
    before, kept = content(tree), needed(tree, batches, pending=pending)
    plan = plan_retired(tree, keep)
    done = carry_out(tree, plan)
    assert content(tree) == {path: before[path] for path in kept}
    assert needed(tree, batches, pending=pending) == kept
    gone = before.keys() - kept
    assert (done.files, done.bytes) == (len(gone), sum(len(before[path]) for path in gone))
    assert (done.failed, done.left) == ((), ())
    assert empty_folders(tree) == []
    assert all(each.reason == f"not needed for the last {keep} committed batches" for each in plan.files)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_second_prune_of_a_retired_checkpoint_removes_nothing(tmp_path: Path) -> None:
    """A second prune of a retired checkpoint plans no removal."""
    root = checkpoint(tmp_path, "format-2", pending=True)
    tree = at(root)
    carry_out(tree, plan_retired(tree, 2))
    assert plan_retired(tree, 2).files == ()


@pytest.mark.usefixtures("kind_of_tree")
def test_keeping_more_batches_than_exist_deletes_only_unneeded_files(tmp_path: Path) -> None:
    """Keeping more batches than exist deletes only files that no batch needs."""
    root = checkpoint(tmp_path, "hdfs")
    tree = at(root)
    kept = needed(tree, list(range(12)))
    carry_out(tree, plan_retired(tree, 50))
    assert content(tree).keys() == kept


@pytest.mark.usefixtures("kind_of_tree")
def test_no_batches_kept_means_that_the_directory_goes(tmp_path: Path) -> None:
    """Keeping no batches deletes the whole directory, including empty folders, but not its neighbors."""
    root = checkpoint(tmp_path, "changelog")
    (root / "state/0/2/SSTs").mkdir(parents=True)
    (tmp_path / "v0003").mkdir()
    tree = at(root)
    files = content(tree)
    done = carry_out(tree, plan_retired(tree, 0))
    assert (tree.absence(), tree.names("")) == (NOT_THERE, [])
    assert (done.files, done.bytes) == (len(files), sum(map(len, files.values())))
    assert (tmp_path / "v0003").is_dir()


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("keep", [0, 2])
def test_pruning_a_deleted_checkpoint_removes_nothing(tmp_path: Path, keep: int) -> None:
    """Pruning a checkpoint that was already deleted, as in a retry after a crash, plans and removes nothing."""
    tree = at(tmp_path / "v0001")
    plan = plan_retired(tree, keep)
    assert (plan.files, plan.kept_whole) == ((), "")
    assert carry_out(tree, plan) == Pruned()


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("name", ["offsets/11", "state/0/1/12.changelog", "state/0/0/SSTs/000010-a.sst"])
def test_a_damaged_checkpoint_is_kept_whole_with_the_reason(tmp_path: Path, name: str) -> None:
    """A damaged checkpoint is kept whole with the reason, because its unneeded files cannot be determined; it can only
    be deleted as a whole.
    """
    root = checkpoint(tmp_path, "changelog")
    (root / name).unlink()
    tree = at(root)
    before = content(tree)
    plan = plan_retired(tree, 1)
    assert plan.files == ()
    assert plan.kept_whole
    assert carry_out(tree, plan) == Pruned()
    assert content(tree) == before
    assert plan_retired(tree, 0).files


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("lost", ["commits", "plans"])
def test_a_checkpoint_without_a_batch_to_keep_is_not_pruned(tmp_path: Path, lost: str) -> None:
    """A checkpoint without a committed batch, or whose plans run ahead of its commits, is kept whole with the
    reason.
    """
    root = checkpoint(tmp_path, "hdfs", pending=True)
    for batch in range(12) if lost == "commits" else (10, 11):
        (root / "commits" / str(batch)).unlink()
    tree = at(root)
    plan = plan_retired(tree, 1)
    assert (
        "no committed batch"
        if lost == "commits"
        else "open batch 12 does not directly follow the last committed batch 9"
    ) in plan.kept_whole


@pytest.mark.usefixtures("kind_of_tree")
def test_what_is_no_checkpoint_is_never_planned(tmp_path: Path) -> None:
    """A directory that is no checkpoint is refused for pruning, and so is a negative number of batches."""
    (tmp_path / "notes.txt").write_text("mine")
    tree = at(tmp_path)
    for plan in (lambda: plan_retired(tree, 0), lambda: plan_live(tree, now=NOW)):
        with pytest.raises(NotFound, match="not a checkpoint"):
            plan()
    with pytest.raises(InvalidInput, match="-1 batches"):
        plan_retired(tree, -1)


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("change", ["new", "longer", "kept-gone"])
def test_a_retired_checkpoint_that_changed_since_stays_whole(tmp_path: Path, keep: int, change: str) -> None:
    """A retired checkpoint that changed after the plan was made is kept whole, because a driver may still write to
    it.
    """
    root = checkpoint(tmp_path, "hdfs")
    tree = at(root)
    plan = plan_retired(tree, keep)
    match change:
        case "new":
            write(tree, "offsets/12", b"v1")
        case "longer":
            write(tree, "offsets/3", b"v1 and more")
        case "kept-gone":
            write(tree, "commits/12", tree.read("commits/11"))
            tree.delete(["commits/11"])
    before = content(tree)
    done = carry_out(tree, plan)
    assert (done.files, content(tree)) == (0, before)
    assert "is kept whole" in done.left[0]


def test_links_are_neither_followed_nor_counted_as_kept(tmp_path: Path) -> None:
    """A checkpoint with a link inside is not cut back, and deleting it leaves the link's target unchanged."""
    root = checkpoint(tmp_path, "hdfs")
    (root / "state").rename(tmp_path / "elsewhere")
    (root / "state").symlink_to(tmp_path / "elsewhere")
    elsewhere = content(tmp_path / "elsewhere")
    tree = at(root)
    assert plan_retired(tree, 1).kept_whole == "state is not a regular file"
    assert plan_live(tree, now=NOW).left == ("state is not a regular file",)
    assert not any(each.path.startswith("state") for each in plan_live(tree, now=NOW).files)
    carry_out(tree, plan_retired(tree, 0))
    assert not root.exists()
    assert content(tmp_path / "elsewhere") == elsewhere


def test_a_checkpoint_behind_a_link_is_left_alone(tmp_path: Path) -> None:
    """A checkpoint path that is itself a link is never pruned, not even if it became one after the plan; a link further
    up in the path does not matter.
    """
    root = checkpoint(tmp_path / "disk", "hdfs")
    (tmp_path / "v0002").symlink_to(root)
    link = LocalTree(tmp_path / "v0002")
    plans = [plan_retired(link, 0), plan_live(link, now=NOW), plan_unpublished(link)]
    assert {plan.kept_whole for plan in plans} == {"it is a symbolic link"}
    assert [carry_out(link, plan) for plan in plans] == [Pruned()] * 3
    planned = plan_retired(LocalTree(root), 0)
    assert "it is a symbolic link" in carry_out(link, planned).left[0]
    assert content(root).keys() == set(paths(planned))
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    tree = LocalTree(tmp_path / "home" / "v0002")
    assert carry_out(tree, plan_retired(tree, 0)).failed == ()
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_folder_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    """A folder that was replaced by a link after the plan was made is not entered."""
    root = checkpoint(tmp_path, "hdfs")
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    (root / "offsets").rename(tmp_path / "elsewhere")
    (root / "offsets").symlink_to(tmp_path / "elsewhere")
    elsewhere = content(tmp_path / "elsewhere")
    done = carry_out(tree, plan)
    assert any(each.startswith("offsets/") for each in done.failed)
    assert content(tmp_path / "elsewhere") == elsewhere


@pytest.mark.parametrize("path", ["../v0001/metadata", "/etc/passwd", "a/../../b", ""])
def test_a_plan_that_leaves_the_directory_is_refused(tmp_path: Path, path: str) -> None:
    """A stored plan with a path that is empty or leads outside the checkpoint is refused."""
    one = PlannedRemoval(path=path, size=0, modified=0, reason="")
    with pytest.raises(InvalidInput):
        carry_out(at(tmp_path), PrunePlan(directory=str(tmp_path), extent=Extent.LEFTOVERS, files=(one,)))


def test_the_commit_of_a_file_that_cannot_be_removed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be removed is reported, and its commit is kept, because only the commit distinguishes a failed
    attempt's file from the one to restore.
    """
    root = checkpoint(tmp_path, "format-2")
    kept = needed(LocalTree(root), [11])
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        if name == f"11_{STRANGER}.zip":
            raise PermissionError(13, "Permission denied")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    tree = LocalTree(root)
    done = carry_out(tree, plan_retired(tree, 1))
    assert done.failed == (f"state/0/0/11_{STRANGER}.zip: Permission denied",)
    assert "commits/10: the files it describes could not be removed" in done.left
    assert needed(LocalTree(root), [11]) == kept
    monkeypatch.undo()
    carry_out(tree, plan_retired(tree, 1))
    assert content(root).keys() == kept


PRUNE = """
import sys
from pathlib import Path
from streamkeeper.checkpoints.unneeded_files import plan_retired
from streamkeeper.checkpoints.removal import carry_out
from streamkeeper.checkpoints.trees import LocalTree
tree = LocalTree(Path(sys.argv[1]))
carry_out(tree, plan_retired(tree, int(sys.argv[2])))
"""


def prune_and_die(root: Path, keep: int, at: str) -> None:
    """Prune in a process that is killed at a crash point."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "STREAMKEEPER_CRASH": at}
    ended = subprocess.run([sys.executable, "-c", PRUNE, root, str(keep)], env=environment, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("nth", [1, 2, 40, 80, 110, 130])
def test_a_prune_that_dies_leaves_the_kept_batches_restorable(tmp_path: Path, nth: int) -> None:
    """A prune that is killed after any number of files leaves the kept batches complete, and a rerun finishes it."""
    root = checkpoint(tmp_path, "format-2", pending=True)
    tree = at(root)
    before, kept = content(tree), needed(tree, [10, 11], pending=True)
    prune_and_die(root, 2, f"prune.batch.after:{nth}")
    assert len(content(tree)) == len(before) - nth
    assert needed(tree, [10, 11], pending=True) == kept
    carry_out(tree, plan_retired(tree, 2))
    assert content(tree) == {path: before[path] for path in kept}


REMOVALS = {
    "prune.directory.before": 0,
    "prune.directory.after": 1,
    "prune.batch.before": 1,
    "prune.batch.after:30": 31,
}
"""Crash points of a removal -> the number of files that are deleted before the crash."""


def check_begun(root: Path, before: dict[str, bytes], gone: int) -> None:
    """Check that a removal that was killed after this many files has left either a published version, or none and its
    mark.
    """
    left = content(root)
    assert len(before.keys() - left.keys()) == gone
    assert is_published(LocalTree(root)) == (gone == 0)
    assert is_being_removed(LocalTree(root), QUERY_ID) == (gone > 0)
    assert left.get(REMOVING) == (before["metadata"] if gone else None)


@pytest.mark.parametrize("point", REMOVALS)
def test_a_killed_removal_leaves_no_partial_version_and_is_finished_later(tmp_path: Path, point: str) -> None:
    """A removal that is killed leaves either the complete version or none: metadata is deleted first, the mark
    identifies the rest, and the next prune finishes it.
    """
    root = checkpoint(tmp_path, "hdfs")
    before = content(root)
    prune_and_die(root, 0, point)
    check_begun(root, before, REMOVALS[point])
    tree = LocalTree(root)
    again = plan_unpublished(tree) if REMOVALS[point] else plan_retired(tree, 0)
    assert carry_out(tree, again).failed == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("order", ["as it is", "rest first", "no mark"])
def test_a_removal_in_a_wrong_order_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """Negative control: a removal that keeps the metadata to the end or writes no mark is found, as it leaves an
    incomplete version or one that seems to have lost its metadata.
    """
    root = checkpoint(tmp_path, "hdfs")
    before, tree, delete = content(root), LocalTree(root), LocalTree.delete
    plan = plan_retired(tree, 0)

    def one_of_each(self: LocalTree, paths: Iterable[str]) -> dict[str, str]:
        first = [*paths][:1]
        return {} if order == "rest first" and first == ["metadata"] else delete(self, first)

    monkeypatch.setattr(LocalTree, "delete", one_of_each)
    if order == "no mark":
        monkeypatch.setattr(LocalTree, "create", lambda *_: None)
    carry_out(tree, plan)
    gone = len(before.keys() - content(root).keys())
    assert gone == (1 if order == "rest first" else 2)
    with nullcontext() if order == "as it is" else pytest.raises(AssertionError):
        check_begun(root, before, gone)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_removal_continues_only_if_its_mark_names_this_query(tmp_path: Path) -> None:
    """A removal counts as begun only if its mark names this query and the metadata is missing; a published version or a
    different query's mark does not count.
    """
    tree = at(checkpoint(tmp_path, "hdfs"))
    metadata = tree.read("metadata")
    tree.create(REMOVING, [metadata])
    assert not is_being_removed(tree, QUERY_ID)
    tree.delete(["metadata"])
    assert [is_being_removed(tree, id) for id in (QUERY_ID, "", "another")] == [True, True, False]
    write(tree, REMOVING, b"not a query's")
    assert [is_being_removed(tree, id) for id in (QUERY_ID, "")] == [False, False]
    tree.delete([REMOVING])
    assert not is_being_removed(tree, QUERY_ID)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_file_written_during_a_removal_is_reported_and_keeps_the_mark(tmp_path: Path) -> None:
    """A file that is written into a version during its removal is reported and the mark is kept, and the next prune
    deletes both.
    """
    tree = at(checkpoint(tmp_path, "hdfs"))
    plan, delete = plan_retired(tree, 0), tree.delete

    def meanwhile(paths: Iterable[str]) -> dict[str, str]:
        write(tree, "commits/12", b"v1")
        return delete(paths)

    fresh = tree.fresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(tree), "fresh", lambda self: fresh)
        patch.setattr(fresh, "delete", meanwhile)
        assert carry_out(fresh, plan).left == ("commits/12 is new",)
    assert content(tree).keys() == {"commits/12", REMOVING}
    assert carry_out(tree, plan_unpublished(tree)).files == 2
    assert content(tree) == {}


@pytest.mark.usefixtures("kind_of_tree")
def test_a_version_published_after_the_plan_is_not_removed_as_incomplete(tmp_path: Path) -> None:
    """A version that a slow writer publishes after the plan was made is neither planned for removal as incomplete nor
    removed.
    """
    tree = at(checkpoint(tmp_path, "hdfs"))
    metadata = tree.read("metadata")
    tree.delete(["metadata"])
    plan = plan_unpublished(tree)
    write(tree, "metadata", metadata)
    before = content(tree)
    assert plan_unpublished(tree).kept_whole == "it is published now, because its metadata exists"
    assert "metadata is new" in carry_out(tree, plan).left[0]
    assert content(tree) == before


@pytest.mark.usefixtures("kind_of_tree")
def test_a_live_prune_deletes_the_mark_of_an_unstarted_removal(tmp_path: Path) -> None:
    """A live prune deletes the mark of a removal that did not begin, so that the version is not taken for a removed one
    if it ever loses its metadata.
    """
    root = checkpoint(tmp_path, "hdfs")
    (root / REMOVING).write_bytes((root / "metadata").read_bytes())
    age(root, 2 * MARGIN_S)
    tree = at(root)
    assert REMOVING in paths(plan_live(tree, now=NOW))
    assert carry_out(tree, plan_live(tree, now=NOW)).failed == ()
    assert not tree.has(REMOVING)


def paths(plan: PrunePlan) -> list[str]:
    return [each.path for each in plan.files]


@pytest.mark.usefixtures("kind_of_tree")
def test_a_live_prune_deletes_only_checksums_of_missing_files(tmp_path: Path) -> None:
    """A live prune deletes Hadoop's and Spark's checksums of files that no longer exist, and keeps those of existing
    files.
    """
    root = tmp_path / "v0001"
    Tree(root, "hdfs", batches=3, leftovers=False)
    folder = root / "state/0/1"
    for name in (".1.delta.crc", "1.delta.crc", ".1.delta.crc.crc", ".2.delta.crc.crc", "2.delta.crc"):
        (folder / name).write_text("sum")
    (folder / "1.delta").unlink()
    age(root, 2 * MARGIN_S)
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    assert paths(plan) == [f"state/0/1/{name}" for name in (".1.delta.crc", "1.delta.crc", ".1.delta.crc.crc")]
    assert {each.reason for each in plan.files} == {
        "the checksum of 1.delta, which no longer exists",
        "the checksum of 1.delta.crc, which no longer exists",
    }
    assert carry_out(tree, plan).files == 3


@pytest.mark.usefixtures("kind_of_tree")
def test_a_checksum_whose_file_was_rewritten_after_the_plan_is_kept(tmp_path: Path) -> None:
    """A checksum whose file Spark rewrote after the plan was made is kept."""
    root = tmp_path / "v0001"
    Tree(root, "hdfs", batches=3, leftovers=False)
    (root / "state/0/1/1.delta").unlink()
    age(root, 2 * MARGIN_S)
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    write(tree, "state/0/1/1.delta", b"again")
    done = carry_out(tree, plan)
    assert (done.files, done.left) == (0, ("state/0/1/.1.delta.crc no longer matches the plan",))


@pytest.mark.usefixtures("kind_of_tree")
def test_checksums_that_prove_a_rewound_checkpoint_are_kept(tmp_path: Path) -> None:
    """Checksums that prove that newer log entries were removed are kept, so the checkpoint is still reported as
    rewound; older orphaned checksums are deleted.
    """
    root = checkpoint(tmp_path, "hdfs")
    for name in ("offsets/11", "commits/11", "commits/10", "offsets/2", "commits/2"):
        (root / name).unlink()
    shapes = {each.shape for each in examine(at(root))}
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    carry_out(tree, plan)
    assert {"offsets/.2.crc", "commits/.2.crc"} <= set(paths(plan))
    assert {"offsets/.11.crc", "commits/.11.crc", "commits/.10.crc"}.isdisjoint(paths(plan))
    assert "rewound" in shapes
    assert {each.shape for each in examine(tree)} == shapes


@pytest.mark.usefixtures("kind_of_tree")
def test_temporary_files_are_deleted_only_for_committed_versions(tmp_path: Path) -> None:
    """Temporary files of committed versions are deleted, while those of a version that is still being written are
    kept.
    """
    root = checkpoint(tmp_path, "changelog", pending=True)
    for name in ("12.changelog", "13.changelog", "13.zip"):
        (root / "state/0/0" / f".{name}.{STRANGER}.tmp").write_text("half")
        (root / "state/0/0" / f"..{name}.{STRANGER}.tmp.crc").write_text("sum")
    age(root, 2 * MARGIN_S)
    tree = at(root)
    temporary = {path for path in paths(plan_live(tree, now=NOW)) if ".tmp" in path}
    there = {path for path in content(tree) if ".tmp" in path}
    assert there - temporary == {
        f"state/0/0/{dots}{name}.{STRANGER}.tmp{end}"
        for name in ("13.changelog", "13.zip")
        for dots, end in ((".", ""), ("..", ".crc"))
    }


@pytest.mark.usefixtures("kind_of_tree")
def test_no_file_younger_than_the_margin_is_deleted(tmp_path: Path) -> None:
    """No file that was written within the margin, or by a clock that is ahead, is deleted."""
    root = checkpoint(tmp_path, "changelog")
    tree = at(root)
    assert plan_live(tree, now=NOW).files
    for seconds in (MARGIN_S - 1, 0, -10_000):
        age(root, seconds)
        assert plan_live(at(root), now=NOW).files == ()


@pytest.mark.usefixtures("kind_of_tree")
def test_a_live_prune_deletes_only_planned_and_unchanged_files(tmp_path: Path) -> None:
    """A live prune keeps a planned file that has changed, skips one that no longer exists, and deletes no folders."""
    root = checkpoint(tmp_path, "changelog")
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    grown, gone = [each for each in paths(plan) if each.endswith(".tmp")][:2]
    write(tree, grown, b"half and more")
    tree.delete([gone])
    folders = {path for path in root.rglob("*") if path.is_dir()}
    done = carry_out(tree, plan)
    assert tree.has(grown)
    assert done.left == (f"{grown} no longer matches the plan",)
    assert done.files == len(plan.files) - 2
    assert {path for path in root.rglob("*") if path.is_dir()} == folders


def archive(path: Path, names: list[str], at: float) -> None:
    """Write a RocksDB snapshot that names SSTs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": name} for name in names]}))
    os.utime(path, (at, at))


def upload(path: Path, at: float) -> None:
    """Write an SST or archived log with its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in (path, path.with_name(f".{path.name}.crc")):
        each.write_text(path.name)
        os.utime(each, (at, at))


def store_with_an_orphan(tmp_path: Path, store: str) -> tuple[Path, Path]:
    """Write two archives of one SST each, and an older SST and log that neither archive names."""
    root = tmp_path / "v0001"
    Tree(root, "stateless", batches=2, leftovers=False)
    start = NOW - 10 * MARGIN_S
    for second, name in enumerate(("SSTs/000001-a.sst", "logs/000002-a.log", "SSTs/000003-a.sst", "SSTs/000005-a.sst")):
        upload(root / store / name, start + second)
    archive(root / store / "1.zip", ["000003-a.sst"], start + 10)
    archive(root / store / "2.zip", ["000003-a.sst", "000005-a.sst"], start + 20)
    return root, root / store


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("store", ["state/0/0", "state/0/3/left-keyToNumValues"])
def test_unreferenced_ssts_and_logs_older_than_all_archives_are_deleted(tmp_path: Path, store: str) -> None:
    """SSTs and archived logs that no archive names and that are older than all archives are deleted with their
    checksums, in every store.
    """
    root, folder = store_with_an_orphan(tmp_path, store)
    upload(folder / "SSTs/000007-a.sst", NOW - 10 * MARGIN_S + 15)
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    wanted = ("SSTs/000001-a.sst", "logs/000002-a.log", "SSTs/.000001-a.sst.crc", "logs/.000002-a.log.crc")
    assert set(paths(plan)) == {f"{store}/{name}" for name in wanted}
    assert paths(plan)[-1].endswith(".crc")
    assert carry_out(tree, plan).files == 4


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("harm", ["unreadable", "empty", "no-metadata", "other-metadata", "missing"])
def test_ssts_of_a_store_with_an_unreadable_archive_are_kept_and_reported(tmp_path: Path, harm: str) -> None:
    """The SSTs of a store with an unreadable archive or a missing SST are kept and reported, while other stores are
    still pruned.
    """
    root, folder = store_with_an_orphan(tmp_path, "state/0/0")
    store_with_an_orphan(tmp_path, "state/0/1")
    match harm:
        case "unreadable" | "empty":
            (folder / "1.zip").write_bytes(b"PK\x03\x04 cut" if harm == "unreadable" else b"")
        case "no-metadata" | "other-metadata":
            with zipfile.ZipFile(folder / "1.zip", "w") as opened:
                opened.writestr("metadata" if harm == "other-metadata" else "other", "v9\n[]")
        case "missing":
            (folder / "SSTs/000005-a.sst").unlink()
    tree = at(root)
    plan = plan_live(tree, now=NOW)
    gone = {"state/0/0/SSTs/.000005-a.sst.crc"} if harm == "missing" else set()
    assert {path for path in paths(plan) if path.startswith("state/0/0/")} == gone
    assert "state/0/1/SSTs/000001-a.sst" in paths(plan)
    assert len(plan.left) == 1
    assert "the SSTs of state/0/0: " in plan.left[0]


@pytest.mark.usefixtures("kind_of_tree")
@pytest.mark.parametrize("name", ["1.zip", "2.zip"])
def test_a_store_with_a_single_archive_is_left_alone(tmp_path: Path, name: str) -> None:
    """A store with a single archive is not pruned, because its version may have been written twice and its time proves
    nothing.
    """
    root, folder = store_with_an_orphan(tmp_path, "state/0/0")
    (folder / name).unlink()
    tree = at(root)
    assert [path for path in paths(plan_live(tree, now=NOW)) if not path.endswith(".crc")] == []


class Timeline:
    """The history of one RocksDB store: uploads, failed uploads and cleanups; ``under_way``: SSTs of the next version.

    Times are seconds since the store began. ``archives``: version -> (time, SSTs).
    """

    def __init__(self) -> None:
        self.now = 0
        self.uploaded: dict[str, int] = {}
        self.archives: dict[int, tuple[int, list[str]]] = {}
        self.under_way: list[str] = []

    def upload(self, count: int, seconds: int) -> list[str]:
        names = [f"{len(self.uploaded) + each:06d}-a.sst" for each in range(count)]
        for name in names:
            self.now += seconds
            self.uploaded[name] = self.now
        return names

    def __repr__(self) -> str:
        return f"Timeline(now={self.now}, {self.uploaded}, {self.archives}, under_way={self.under_way})"


COUNT, SECONDS = st.integers(0, 2), st.sampled_from([0, 1, 60, 5000])


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Generate histories with archives, failed uploads that are reused or not, versions written twice, compactions and
    a cleanup.
    """
    line = Timeline()
    current: list[str] = []
    for version in range(1, draw(st.integers(1, 5)) + 1):
        if draw(st.booleans()):
            failed = line.upload(draw(COUNT), draw(SECONDS))
            current = current + failed if draw(st.booleans()) else current
        for _ in range(draw(st.integers(1, 2))):
            kept = [name for name in current if draw(st.integers(0, 3))]
            named = kept + line.upload(draw(COUNT), draw(SECONDS))
            line.now += draw(SECONDS)
            line.archives[version] = (line.now, named)
        current = named
    for version in sorted(line.archives)[: draw(st.integers(0, len(line.archives) - 1))]:
        _, names = line.archives.pop(version)
        still = {name for _, others in line.archives.values() for name in others}
        for name in names:
            if name not in still and draw(st.booleans()):
                line.uploaded.pop(name, None)
    kept = [name for name in current if draw(st.integers(0, 3))]
    line.under_way = kept + line.upload(draw(COUNT), draw(SECONDS))
    line.now += draw(SECONDS)
    return line


def lay_out(root: Path, store: str, line: Timeline, start: float) -> None:
    for name, uploaded in line.uploaded.items():
        upload(root / store / "SSTs" / name, start + uploaded)
    for version, (archived, names) in line.archives.items():
        archive(root / store / f"{version}.zip", names, start + archived)
    for version in range(min(line.archives) + 1, max(line.archives) + 1):
        (root / store / f"{version}.changelog").write_text("c")


def lost_by_a_live_prune(lines: list[Timeline]) -> list[str]:
    """Return what a live prune deletes of existing batches, and of the version whose archives are being written."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "v0001"
        newest = max(version for line in lines for version in line.archives)
        Tree(root, "stateless", batches=newest)
        age(root, 50 * MARGIN_S)
        for number, line in enumerate(lines):
            lay_out(root, f"state/0/{number}", line, NOW - line.now)
            for version in range(max(line.archives) + 1, newest + 1):
                (root / f"state/0/{number}/{version}.changelog").write_text("c")
        tree = LocalTree(root)
        before = {batch: found for batch in range(newest) if (found := complete(root, batch)) is not None}
        assert newest - 1 in before
        done = carry_out(tree, plan_live(tree, now=NOW))
        assert (done.failed, done.left) == ((), ())
        lost = [f"batch {batch}" for batch, files in before.items() if complete(root, batch) != files]
        for number, line in enumerate(lines):
            there = {path.name for path in (root / f"state/0/{number}/SSTs").glob("*.sst")}
            lost += [f"state/0/{number}: {name}" for name in line.under_way if name not in there]
        return lost


def complete(root: Path, batch: int) -> list[str] | None:
    try:
        return closed_set(LocalTree(root), batch)
    except CheckpointDamaged:
        return None


LINES = st.lists(timelines(), min_size=1, max_size=2)
QUIET = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEARCH = settings(QUIET, max_examples=1000, phases=[Phase.generate], database=None)


@QUIET
@given(lines=LINES)
def test_a_live_prune_deletes_nothing_that_a_batch_needs(lines: list[Timeline]) -> None:
    """A live prune deletes nothing that a batch needs, for any history of uploads, failures, rewritten versions and
    cleanups.
    """
    assert lost_by_a_live_prune(lines) == []


def test_a_live_prune_without_the_age_rule_deletes_uploads_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the rule about age, a live prune deletes uploads in progress, and the search finds a
    history with that loss.
    """
    monkeypatch.setattr(unneeded_files, "_is_before_all", lambda modified, archives: True)
    lines = find(LINES, lambda found: bool(lost_by_a_live_prune(found)), settings=SEARCH)
    assert lost_by_a_live_prune(lines)


def test_a_live_prune_that_ignores_archives_deletes_ssts_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if the SST names in archives are ignored, a live prune deletes SSTs in use, and the search
    finds a history with that loss.
    """
    real = unneeded_files._archive
    monkeypatch.setattr(unneeded_files, "_archive", lambda tree, path: (real(tree, path)[0], []))
    lines = find(LINES, lambda found: bool(lost_by_a_live_prune(found)), settings=SEARCH)
    assert lost_by_a_live_prune(lines)


@pytest.mark.usefixtures("kind_of_tree")
def test_growth_counts_files_checksums_and_batches(tmp_path: Path) -> None:
    """The size of a checkpoint is reported as its files, bytes, checksums and range of batches; a directory that is no
    checkpoint is refused.
    """
    root = tmp_path / "v0001"
    Tree(root, "stateless", batches=3, leftovers=False)
    (root / "commits/0").unlink()
    files = content(root)
    checksums = [data for path, data in files.items() if path.endswith(".crc")]
    assert checkpoint_growth(tree_kinds.at(root)) == Growth(
        files=len(files),
        bytes=sum(map(len, files.values())),
        crc_files=len(checksums),
        crc_bytes=3 * len(checksums),
        batches=2,
        oldest_batch=1,
        newest_batch=2,
    )
    with pytest.raises(NotFound):
        checkpoint_growth(tree_kinds.at(tmp_path))


def test_a_checkpoint_with_a_cyclic_link_is_measured_and_examined(tmp_path: Path) -> None:
    """Measuring and examining a checkpoint with a cyclic link both finish."""
    Tree(tmp_path, "hdfs", batches=1)
    (tmp_path / "state" / "0" / "again").symlink_to(tmp_path)
    assert checkpoint_growth(LocalTree(tmp_path)).batches == 1
    assert {each.safe for each in examine(LocalTree(tmp_path))} == {True}


@pytest.mark.usefixtures("kind_of_tree")
def test_growth_of_a_sink_log_shows_its_largest_compacted_entry(tmp_path: Path) -> None:
    """The size of a sink log includes its largest compacted entry, which grows without limit because it is rewritten
    every few batches.
    """
    for name, size in (("8", 10), ("9.compact", 500), ("19.compact", 900), ("20", 20), (".20.crc", 12)):
        (tmp_path / name).write_bytes(b"x" * size)
    found = sink_log_growth(tree_kinds.at(tmp_path))
    assert found == Growth(
        files=5, bytes=1442, crc_files=1, crc_bytes=12, batches=4, oldest_batch=8, newest_batch=20, largest_compact=900
    )
    assert sink_log_growth(tree_kinds.at(tmp_path / "nowhere")).files == 0
