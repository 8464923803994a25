"""The closed file set of a batch, for each kind of state."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness.checkpoint_files import Tree, state_id
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.model.records.snapshot import Stamp
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")


def names(root: Path, batch: int, *, pending: bool = False) -> set[str]:
    return set(closed_set(at(root), batch, pending=pending))


COMMON = {"metadata", "state/0/_metadata/metadata", "state/0/0/_metadata/schema", "state/0/1/_metadata/schema"}


def test_hdfs_takes_the_newest_snapshot_and_the_deltas_after_it(tmp_path: Path) -> None:
    """State of the HDFS provider after batch 11, which is version 12, needs snapshot 10, deltas 11 and 12, and the
    source log since its last compaction.
    """
    Tree(tmp_path, "hdfs", batches=14, snapshots=(5, 10, 14))
    state = {f"state/0/{p}/{name}" for p in (0, 1) for name in ("10.snapshot", "11.delta", "12.delta")}
    logs = {"sources/0/9.compact", "sources/0/10", "sources/0/11"}
    assert names(tmp_path, 11) == COMMON | state | logs | {"offsets/10", "offsets/11", "commits/11"}


def test_without_a_snapshot_every_delta_is_needed(tmp_path: Path) -> None:
    """Without a snapshot, all deltas and all entries of the source log are needed."""
    Tree(tmp_path, "hdfs", batches=3)
    state = {f"state/0/{p}/{v}.delta" for p in (0, 1) for v in (1, 2)}
    logs = {"sources/0/0", "sources/0/1"}
    assert names(tmp_path, 1) == COMMON | state | logs | {"offsets/0", "offsets/1", "commits/1"}


def test_rocksdb_takes_one_archive_and_the_files_it_names(tmp_path: Path) -> None:
    """RocksDB state needs one archive and the SST and log files that it lists, not the files of other versions in the
    same folder.
    """
    Tree(tmp_path, "rocksdb", batches=4)
    files = ("3.zip", "SSTs/000003-a.sst", "logs/000003-a.log")
    assert {each for each in names(tmp_path, 2) if each.startswith("state/0/0/")} == {
        "state/0/0/_metadata/schema",
        *(f"state/0/0/{name}" for name in files),
    }


def test_changelogs_continue_the_newest_archive(tmp_path: Path) -> None:
    """RocksDB state with changelogs needs the newest archive, its files, and the changelogs after it."""
    Tree(tmp_path, "changelog", batches=8, snapshots=(3, 5))
    found = {each for each in names(tmp_path, 6) if each.startswith("state/0/1/")}
    base = {"state/0/1/5.zip", "state/0/1/SSTs/000005-a.sst", "state/0/1/logs/000005-a.log"}
    assert found == base | {"state/0/1/_metadata/schema", "state/0/1/6.changelog", "state/0/1/7.changelog"}


def test_format_2_follows_the_ids_of_the_commits(tmp_path: Path) -> None:
    """In format 2 only files with the ids in the commits are taken; archives and changelogs of failed attempts have
    different ids and are left out.
    """
    tree = Tree(tmp_path, "format-2", batches=8, snapshots=(3, 5))
    stranger = state_id(7, 7)
    tree.archive(f"state/0/0/6_{stranger}.zip", 6)
    (tmp_path / "state/0/0" / f"7_{stranger}.changelog").write_text("c")
    found = {each for each in names(tmp_path, 6) if each.startswith("state/0/0/")}
    assert found == {
        "state/0/0/_metadata/schema",
        f"state/0/0/5_{state_id(0, 5)}.zip",
        "state/0/0/SSTs/000005-a.sst",
        "state/0/0/logs/000005-a.log",
        f"state/0/0/6_{state_id(0, 6)}.changelog",
        f"state/0/0/7_{state_id(0, 7)}.changelog",
    }


def test_a_pending_batch_is_included_with_its_plan_but_without_its_commit(tmp_path: Path) -> None:
    """With a pending batch, the set has the state before that batch, its offsets and its source log entry, but not its
    commit or its state.
    """
    Tree(tmp_path, "format-2", batches=3)
    found = names(tmp_path, 1, pending=True)
    assert {"offsets/1", "offsets/2", "commits/1", "sources/0/2"} <= found
    assert "commits/2" not in found
    assert not any(f"3_{state_id(p, 3)}" in each for p in (0, 1) for each in found)


def test_before_the_first_batch_there_is_no_state(tmp_path: Path) -> None:
    """With batch 0 pending, the set has its plan and the schemas that Spark compares, but no state files."""
    Tree(tmp_path, "format-2", batches=2)
    assert names(tmp_path, -1, pending=True) == COMMON | {"offsets/0", "sources/0/0"}


@pytest.mark.parametrize("kind", ["hdfs", "changelog", "format-2"])
def test_a_gap_in_the_state_is_found(tmp_path: Path, kind: str) -> None:
    """A missing state file of an intermediate version is reported as damage, because a resume would lose rows."""
    Tree(tmp_path, kind, batches=6, snapshots=(2,))
    for path in (tmp_path / "state/0/1").iterdir():
        if path.name.startswith("4") and path.is_file():
            path.unlink()
    with pytest.raises(CheckpointDamaged, match="lacks version 4"):
        closed_set(at(tmp_path), 5)


@pytest.mark.parametrize("name", ["metadata", "offsets/4", "offsets/5", "commits/5"])
def test_a_missing_log_entry_is_named(tmp_path: Path, name: str) -> None:
    """A missing log entry, without which Spark would not start or would rerun a batch, is reported by name."""
    Tree(tmp_path, "hdfs", batches=6)
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointDamaged, match=name):
        closed_set(at(tmp_path), 5)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut"])
def test_an_unreadable_archive_is_named(tmp_path: Path, damage: bytes) -> None:
    """An empty or truncated archive is reported as damage, not read as empty state."""
    Tree(tmp_path, "rocksdb", batches=3)
    (tmp_path / "state/0/0/3.zip").write_bytes(damage)
    with pytest.raises(CheckpointDamaged, match=r"3\.zip"):
        closed_set(at(tmp_path), 2)


def state_of(root: Path, batch: int) -> set[str]:
    prefix = "state/0/0/"
    return {each.removeprefix(prefix) for each in names(root, batch) if each.startswith(prefix)} - {"_metadata/schema"}


def forget_commits(root: Path, newest: int) -> None:
    for batch in range(newest + 1):
        (root / "commits" / str(batch)).unlink()


def test_unidentified_archives_are_included_if_their_commit_was_cleaned_up(tmp_path: Path) -> None:
    """If the commit that would identify an archive was cleaned up, the archive might be of a failed attempt, so both it
    and the files that lead past it are taken.
    """
    tree = Tree(tmp_path, "format-2", batches=8, snapshots=(3,))
    stranger = f"5_{state_id(7, 5)}"
    tree.archive(f"state/0/0/{stranger}.zip", 5)
    forget_commits(tmp_path, 5)
    own = {f"{version}_{state_id(0, version)}.changelog" for version in (4, 5, 6, 7)} | {f"3_{state_id(0, 3)}.zip"}
    named = {f"{folder}/00000{version}-a.{folder[:3].lower()}" for folder in ("SSTs", "logs") for version in (3, 5)}
    assert state_of(tmp_path, 6) == own | named | {f"{stranger}.zip"}


def test_a_changelog_of_a_failed_attempt_does_not_hide_the_archive(tmp_path: Path) -> None:
    """A changelog of a failed attempt whose earlier files are missing does not hide the archive of the same version."""
    Tree(tmp_path, "format-2", batches=8, snapshots=(5,))
    (tmp_path / f"state/0/0/5_{state_id(7, 5)}.changelog").write_text("c")
    forget_commits(tmp_path, 5)
    for version in (1, 2, 3, 4):
        (tmp_path / f"state/0/0/{version}_{state_id(0, version)}.changelog").unlink()
    assert f"5_{state_id(0, 5)}.zip" in state_of(tmp_path, 6)


def test_a_commit_removed_during_the_scan_is_treated_as_removed_earlier(tmp_path: Path) -> None:
    """A commit that a live query removes while the set is determined is treated like one that was removed before."""
    Tree(tmp_path, "format-2", batches=8, snapshots=(3,))

    class CleanedUp(LocalTree):
        def read(self, path: str) -> bytes:
            if path == "commits/5":
                (self.root / path).unlink(missing_ok=True)
            return super().read(path)

    before = names(tmp_path, 6)
    assert set(closed_set(CleanedUp(tmp_path), 6)) == before


def test_each_folder_is_listed_once_and_no_file_is_statted(tmp_path: Path) -> None:
    """Determining the set lists every folder once, reads every needed file once and stats no file, because each of
    these is a request on an object store.
    """
    Tree(tmp_path, "format-2", batches=20, snapshots=(5, 15))
    tree = CountingTree(tmp_path)
    closed_set(tree, 18, pending=True)
    assert max(Counter(tree.listed).values()) == 1
    assert tree.looked_at == []
    archives = {f"state/0/{partition}/15_{state_id(partition, 15)}.zip" for partition in (0, 1)}
    assert set(tree.opened) == archives | {f"commits/{batch}" for batch in range(14, 19)} | {"offsets/19"}
    assert max(Counter(tree.opened).values()) == 1


def plan(root: Path, batch: int, *ends: str) -> None:
    (root / f"offsets/{batch}").write_text("\n".join(["v1", '{"batchWatermarkMs":0,"conf":{}}', *ends]))


def logs(root: Path, batch: int, source: str = "0") -> set[str]:
    prefix = f"sources/{source}/"
    return {each.removeprefix(prefix) for each in names(root, batch) if each.startswith(prefix)}


def log(root: Path, source: str, *entries: str) -> None:
    for entry in entries:
        path = root / "sources" / source / entry
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1\n")


def test_source_log_entries_are_selected_by_offset_and_not_by_batch_number(tmp_path: Path) -> None:
    """The entries of a source log are taken by the offset in the plan, not by the batch number, because a batch may
    write no entry or, after a crash, two.
    """
    Tree(tmp_path, "stateless", batches=8)
    plan(tmp_path, 5, '{"logOffset":3}')
    assert logs(tmp_path, 5) == {"0", "1", "2", "3"}
    plan(tmp_path, 5, '{"logOffset":7}')
    assert logs(tmp_path, 5) == {str(each) for each in range(8)}


def test_a_later_compacted_entry_replaces_removed_log_entries(tmp_path: Path) -> None:
    """A later compacted entry replaces log entries that Spark has removed; without one, missing entries are damage."""
    Tree(tmp_path, "stateless", batches=12)
    for entry in range(9):
        (tmp_path / f"sources/0/{entry}").unlink()
    assert logs(tmp_path, 7) == {"9.compact"}
    (tmp_path / "sources/0/9.compact").unlink()
    with pytest.raises(CheckpointDamaged, match="sources/0 lacks entry 0"):
        closed_set(at(tmp_path), 7)


def test_the_closed_set_includes_the_last_two_compacted_entries(tmp_path: Path) -> None:
    """The set includes the last two compacted entries, because from a single one Spark guesses the interval and refuses
    the log if it guesses wrong.
    """
    Tree(tmp_path, "stateless", batches=32)
    assert logs(tmp_path, 21) == {"9.compact", "19.compact", "20", "21"}
    assert logs(tmp_path, 30) == {"19.compact", "29.compact", "30"}
    (tmp_path / "sources/0/9.compact").unlink()
    assert logs(tmp_path, 21) == {"19.compact", "20", "21"}


def test_sources_without_numbered_log_entries_keep_their_start_entry(tmp_path: Path) -> None:
    """Sources without numbered log entries, such as Kafka and rate, keep the entry that states where they began, also
    if they have not begun yet.
    """
    Tree(tmp_path, "stateless", batches=4)
    plan(tmp_path, 3, '{"logOffset":2}', '{"topic":{"0":17}}', "-", '{"logOffset":0}')
    log(tmp_path, "1", "0")
    log(tmp_path, "2", "0")
    log(tmp_path, "3", "0", "1")
    assert [logs(tmp_path, 3, source) for source in "0123"] == [{"0", "1", "2"}, {"0"}, {"0"}, {"0"}]


def test_a_shared_source_log_is_included_up_to_the_higher_offset(tmp_path: Path) -> None:
    """If a source is read twice, its single log is taken up to the higher offset, because the plan does not show which
    log belongs to which offset.
    """
    Tree(tmp_path, "stateless", batches=6)
    plan(tmp_path, 5, '{"logOffset":4}', '{"logOffset":4}', '{"logOffset":1}', '{"topic":{"0":17}}')
    log(tmp_path, "1", "0", "1", "2")
    log(tmp_path, "2", "0")
    assert [logs(tmp_path, 5, source) for source in "012"] == [{"0", "1", "2", "3", "4"}, {"0", "1"}, {"0"}]


def test_named_sources_have_logs_of_their_name(tmp_path: Path) -> None:
    """With offset log format 2, the log of a named source is found under its name."""
    Tree(tmp_path, "stateless", batches=4)
    (tmp_path / "sources/0").rename(tmp_path / "sources/left")
    log(tmp_path, "right", "0", "1")
    ends = ("v2", '{"batchWatermarkMs":0,"conf":{}}', 'left:{"logOffset":2}', 'right:{"logOffset":0}')
    (tmp_path / "offsets/3").write_text("\n".join(ends))
    assert [logs(tmp_path, 3, source) for source in ("left", "right")] == [{"0", "1", "2"}, {"0"}]


def test_later_descriptions_of_an_operator_are_left_out(tmp_path: Path) -> None:
    """Operator descriptions that are newer than the batch are left out, because in a rewound checkpoint they belong to
    a different run.
    """
    Tree(tmp_path, "changelog", batches=6, snapshots=(2,))
    described = {f"state/0/{name}" for name in ("_metadata/v2/0", "_metadata/v2/4", "_stateSchema/default/0_a")}
    later = {"state/0/_metadata/v2/5", "state/0/_stateSchema/default/5_b", "state/0/_metadata/v2/.4.crc"}
    for name in described | later:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("v2")
    found = {each for each in names(tmp_path, 4) if each.startswith(("state/0/_metadata/v2", "state/0/_stateSchema"))}
    assert found == described


class CountingTree(LocalTree):
    """A local tree that records every call."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listed: list[str] = []
        self.opened: list[str] = []
        self.looked_at: list[str] = []

    def names(self, folder: str) -> list[str]:
        self.listed.append(folder)
        return super().names(folder)

    def read(self, path: str) -> bytes:
        self.opened.append(path)
        return super().read(path)

    def stamp(self, path: str) -> Stamp:
        self.looked_at.append(path)
        return super().stamp(path)
