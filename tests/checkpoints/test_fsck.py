"""Examining a checkpoint names every shape of damage and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from harness.checkpoint_files import OPERATOR, Tree, state_id
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.hdfs_tree import HdfsTree
from streamkeeper.checkpoints.log_damage import commit_damage, offset_damage
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.checkpoints.shapes import SHAPES
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.compatibility.checkpoint_damage import damage_findings
from streamkeeper.errors import CheckpointChanged, NotFound
from streamkeeper.model.manifests.finding import Severity, Verdict, verdict_of
from streamkeeper.model.protocol.damage import Damage
from tests.checkpoints.damaging import (
    Damaging,
    cut,
    in_turn,
    last,
    move_offset,
    relabel,
    remove,
    write,
    write_checksum,
)
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")

KINDS = ("stateless", "hdfs", "rocksdb", "changelog", "format-2")
BATCHES = 5


def tree(root: Path, kind: str, *, batches: int = BATCHES) -> Tree:
    """Write the checkpoint of a query that stopped in good order."""
    return Tree(root, kind, batches=batches, snapshots=(2,), leftovers=False)


def shapes(root: Path, *, stateful: bool = False) -> list[str]:
    return [each.shape for each in examine(at(root), stateful=stateful)]


def clean_up(root: Path) -> None:
    """Remove the state files that the snapshot of version 2 makes superfluous, as Spark does."""
    remove(*(f"state/0/*/{version}{rest}" for version in (1, 2) for rest in (".delta", ".changelog", "_*.changelog")))(
        root
    )


def forget_checksums(root: Path) -> None:
    """Remove log entries but leave their checksums."""
    for log in ("offsets", "commits"):
        (root / log / "4").unlink()


def leave_half_a_file(root: Path) -> None:
    (root / "offsets" / ".5.tmp").write_text("v1")


def skip_a_commit(root: Path) -> None:
    (root / "commits" / "4").unlink()


def repeat_the_last_plan(root: Path) -> None:
    move_offset(-1)(root)


def plan_the_watermark_only(root: Path) -> None:
    """Add a batch without new data, which only stateful queries plan, but no state for it."""
    plan = json.dumps({"batchWatermarkMs": 9, "conf": {}})
    (root / "offsets" / "5").write_text(f"v1\n{plan}\n" + '{"logOffset": 4}')
    (root / "commits" / "5").write_text("v1\n{}")


def log_the_metadata(root: Path) -> None:
    (root / "state/0/_stateSchema").mkdir()
    remove("state/0/_metadata")(root)


def edit_and_keep_the_checksum(root: Path) -> None:
    write_checksum(root / "offsets" / "4")
    content = (root / "offsets" / "4").read_text()
    (root / "offsets" / "4").write_text(content.replace('"conf"', '"fnoc"'))


def share_the_log(root: Path) -> None:
    for path in (root / "offsets").glob("[0-9]"):
        path.write_text(path.read_text() + "\n" + path.read_text().split("\n")[2])


def drop_a_source(root: Path) -> None:
    """Plan two sources in all batches but the last, which has only one."""
    share_the_log(root)
    path = root / "offsets" / "4"
    path.write_text("\n".join(path.read_text().split("\n")[:3]))


def lengthen_a_table(root: Path) -> None:
    for path in root.glob("state/0/1/SSTs/000005-a.sst"):
        path.write_text("sst and more")


def shorten_a_written_file(root: Path) -> None:
    (root / "state/0/1/5.delta.crc").write_text('{"algorithm":"CRC32C","value":1,"mainFileSize":99}')


def lz4(*blocks: bytes) -> bytes:
    """Encode blocks in the format of Spark's LZ4 streams, with an empty block at the end."""
    head = b"LZ4Block\x25"
    found = [head + len(each).to_bytes(4, "little") * 2 + b"\0\0\0\0" + each for each in (*blocks, b"")]
    return b"".join(found)


CASES: dict[str, list[tuple[str, Damaging, str]]] = {
    "checksum-mismatch": [("hdfs", edit_and_keep_the_checksum, "offsets/4")],
    "checksums-missing": [("hdfs", remove("*/.*.crc", "state/0/*/.*.crc"), ".")],
    "commit-cut-short": [
        ("stateless", last("commits", cut(8)), "commits/4"),
        ("format-2", last("commits", cut(2)), "commits/4"),
        ("format-2", last("commits", write('v2\n{"nextBatchWatermarkMs":0}')), "commits/4"),
    ],
    "commit-empty": [
        ("format-2", last("commits", write("")), "commits/4"),
        ("hdfs", last("commits", cut(0)), "commits/4"),
    ],
    "commit-missing-in-the-middle": [("hdfs", remove("commits/1", "commits/3"), "commits/1")],
    "commit-of-unknown-version": [("hdfs", last("commits", relabel("version 1")), "commits/4")],
    "commits-behind": [
        ("stateless", remove("commits/4", "commits/3"), "commits/3"),
        ("hdfs", remove("commits"), "commits/3"),
    ],
    "last-commit-missing": [
        ("stateless", skip_a_commit, "commits/4"),
        ("hdfs", in_turn(last("commits"), lambda root: Tree.list_files(root, 5)), "commits/4"),
    ],
    "last-offset-missing": [("stateless", last("offsets"), "offsets/4"), ("hdfs", last("offsets"), "offsets/4")],
    "leftover-temporary-files": [("hdfs", leave_half_a_file, "offsets/.5.tmp")],
    "metadata-empty": [("stateless", write("")("metadata"), "metadata")],
    "metadata-garbage": [
        ("stateless", write("{{")("metadata"), "metadata"),
        ("stateless", write('{"id":"x"}')("metadata"), "metadata"),
        ("stateless", write(b"\xff\xfe")("metadata"), "metadata"),
    ],
    "metadata-missing": [("stateless", remove("metadata"), "metadata"), ("hdfs", remove("metadata"), "metadata")],
    "newer-format": [
        ("stateless", last("offsets", relabel("v3")), "offsets/4"),
        ("stateless", last("commits", relabel("v4")), "commits/4"),
        ("stateless", relabel("v2")("sources/0/3"), "sources/0/3"),
        ("hdfs", write("\0\2v4")("state/0/0/_metadata/schema"), "state/0/0/_metadata/schema"),
    ],
    "not-a-checkpoint": [("stateless", remove("metadata", "offsets", "commits", "sources"), ".")],
    "offset-cut-short": [
        ("stateless", last("offsets", cut(0.5)), "offsets/4"),
        ("stateless", last("offsets", cut(2)), "offsets/4"),
        ("stateless", cut(0.98)("offsets/3"), "offsets/3"),
        ("stateless", drop_a_source, "offsets/4"),
    ],
    "offset-empty": [
        ("stateless", last("offsets", write("")), "offsets/4"),
        ("hdfs", cut(0)("offsets/3"), "offsets/3"),
    ],
    "offset-missing-in-the-middle": [
        ("stateless", remove("offsets/3"), "offsets/3"),
        ("hdfs", in_turn(remove("offsets/3"), last("commits")), "offsets/3"),
    ],
    "offset-of-unknown-version": [
        ("stateless", last("offsets", relabel("v0")), "offsets/4"),
        ("stateless", last("offsets", write(b"\0\0\xff")), "offsets/4"),
    ],
    "offsets-and-commits-gone": [
        ("stateless", remove("offsets", "commits"), "offsets"),
        ("stateless", remove("offsets/*", "commits/*"), "offsets"),
    ],
    "offsets-and-commits-gone-beside-state": [("hdfs", remove("offsets", "commits"), "offsets")],
    "offsets-gone": [("hdfs", remove("offsets/*"), "offsets"), ("stateless", remove("offsets"), "offsets")],
    "older-offset-unusable": [
        ("hdfs", remove("offsets/1", "offsets/2"), "offsets/1"),
        ("hdfs", write("")("offsets/0"), "offsets/0"),
    ],
    "open-batch": [("hdfs", last("commits"), "offsets/4"), ("stateless", last("commits"), "offsets/4")],
    "rewound": [
        ("hdfs", in_turn(last("commits"), last("offsets"), remove("sources/0/4")), "offsets/4"),
        ("format-2", in_turn(last("commits"), last("offsets")), "offsets/4"),
        ("stateless", remove("*/4", "*/3"), "offsets/3"),
        ("stateless", in_turn(forget_checksums, remove("sources/0/4")), "offsets/4"),
    ],
    "source-log-entry-damaged": [
        ("stateless", cut(20)("sources/0/3"), "sources/0/3"),
        ("stateless", relabel("one")("sources/0/4"), "sources/0/4"),
    ],
    "source-log-entry-empty": [("hdfs", write("")("sources/0/1"), "sources/0/1")],
    "source-log-entry-missing": [
        ("stateless", remove("sources/0/4"), "sources/0/4"),
        ("hdfs", remove("sources/0/1"), "sources/0/1"),
        ("stateless", remove("sources/0/3", "sources/0/4"), "sources/0/3"),
    ],
    "source-log-missing": [("hdfs", remove("sources/0"), "sources/0"), ("stateless", remove("sources"), "sources/0")],
    "source-log-shared": [("stateless", share_the_log, "sources/1")],
    "source-offset-ahead": [("stateless", move_offset(5), "sources/0"), ("hdfs", move_offset(1), "sources/0")],
    "source-offset-back": [("stateless", repeat_the_last_plan, "offsets")],
    "source-offset-before-previous": [("stateless", move_offset(-3), "offsets"), ("hdfs", move_offset(-2), "offsets")],
    "state-file-cut-short": [
        ("rocksdb", cut(0.5)("state/0/0/5.zip"), "state/0/0/5.zip"),
        ("rocksdb", lengthen_a_table, "state/0/1/SSTs/000005-a.sst"),
        ("hdfs", shorten_a_written_file, "state/0/1/5.delta"),
        ("hdfs", write(lz4(b"rows")[:-4])("state/0/1/5.delta"), "state/0/1/5.delta"),
        ("changelog", write(lz4(b"rows")[:25])("state/0/1/4.changelog"), "state/0/1/4.changelog"),
    ],
    "state-file-empty": [
        ("hdfs", write("")("state/0/1/5.delta"), "state/0/1/5.delta"),
        ("rocksdb", write("")("state/0/1/5.zip"), "state/0/1/5.zip"),
        ("changelog", write("")("state/0/1/5.changelog"), "state/0/1/5.changelog"),
        ("changelog", write("")("state/0/1/SSTs/000002-a.sst"), "state/0/1/SSTs/000002-a.sst"),
        ("format-2", write("")(f"state/0/1/5_{state_id(1, 5)}.changelog"), f"state/0/1/5_{state_id(1, 5)}.changelog"),
    ],
    "state-file-missing": [
        ("hdfs", remove("state/0/0/3.delta"), "state/0/0"),
        ("rocksdb", remove("state/0/0/SSTs/000005-a.sst"), "state/0/0/SSTs/000005-a.sst"),
        ("rocksdb", remove("state/0/0/*.zip"), "state/0/0"),
        ("changelog", remove("state/0/0/2.zip", "state/0/0/1.changelog"), "state/0/0"),
        ("format-2", remove(f"state/0/1/5_{state_id(1, 5)}.changelog"), "state/0/1"),
    ],
    "state-metadata-damaged": [
        ("hdfs", write("v1\n{")("state/0/_metadata/metadata"), "state/0/_metadata/metadata"),
        ("hdfs", relabel("v9")("state/0/_metadata/metadata"), "state/0/_metadata/metadata"),
        ("hdfs", write("")("state/0/_metadata/metadata"), "state/0/_metadata/metadata"),
    ],
    "state-metadata-log-damaged": [("hdfs", log_the_metadata, "state/0/_metadata")],
    "state-metadata-missing": [("hdfs", remove("state/0/_metadata"), "state/0/_metadata")],
    "state-missing": [
        ("format-2", remove("state"), "state"),
        ("stateless", plan_the_watermark_only, "state"),
    ],
    "state-operator-missing": [
        ("hdfs", remove("state/0"), "state/0"),
        ("format-2", remove("state/0"), "state/0"),
    ],
    "state-partition-missing": [
        ("hdfs", remove("state/0/1"), "state/0/1"),
        ("format-2", remove("state/0/0", "state/0/_metadata"), "state/0/0"),
    ],
    "state-schema-damaged": [("hdfs", write("")("state/0/0/_metadata/schema"), "state/0/0/_metadata/schema")],
    "unplanned-source-entry": [("hdfs", lambda root: Tree.list_files(root, 5), "sources/0/5")],
}
EXPECTED = [(shape, *case) for shape, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(
    ("shape", "kind", "damaging", "where"),
    EXPECTED,
    ids=[f"{each[0]}-{each[1]}-{n}" for n, each in enumerate(EXPECTED)],
)
def test_each_shape_of_damage_is_reported_with_place_effect_and_remedy(
    tmp_path: Path, shape: str, kind: str, damaging: Damaging, where: str
) -> None:
    """Each shape of damage is reported with its place, its effect on a start and a way out, and no unrelated unsafe
    damage is reported.
    """
    tree(tmp_path, kind)
    if shape == "not-a-checkpoint":
        (tmp_path / "part-0000.parquet").write_text("rows")
    damaging(tmp_path)
    found = {each.shape: each for each in examine(at(tmp_path))}
    assert shape in found
    assert found[shape].where == where
    assert all([found[shape].evidence, found[shape].on_start, found[shape].hint])
    unsafe = {name for name, each in found.items() if not each.safe}
    assert unsafe <= {shape, *ALSO.get(shape, ())}


ALSO = {"source-offset-before-previous": ("rewound",), "open-batch": (), "older-offset-unusable": ()}


def test_every_shape_has_a_case() -> None:
    """Every shape of damage that the check can report has a case in this test."""
    assert set(CASES) == SHAPES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batches", [0, 1, 2, 12])
def test_an_undamaged_checkpoint_yields_no_damage(tmp_path: Path, kind: str, batches: int) -> None:
    """An undamaged checkpoint, young or old and with any kind of state, yields no damage."""
    tree(tmp_path, kind, batches=batches)
    if batches == 0:
        remove("state")(tmp_path)
    assert shapes(tmp_path) == []
    assert shapes(tmp_path, stateful=kind != "stateless") == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batches", [0, 1, 9, 12])
def test_an_open_batch_after_a_crash_yields_only_a_note(tmp_path: Path, kind: str, batches: int) -> None:
    """A planned batch without its commit, with or without its state, is what a crash leaves and yields only the note
    ``open-batch``.
    """
    made = tree(tmp_path, kind, batches=batches)
    made.plan(batches)
    assert shapes(tmp_path) == ["open-batch"]
    made.commit(batches)
    remove(f"commits/{batches}")(tmp_path)
    assert shapes(tmp_path) == ["open-batch"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_without_its_oldest_entries_is_whole(tmp_path: Path, kind: str) -> None:
    """Log entries that Spark purged or compacted are not reported as damage."""
    tree(tmp_path, kind, batches=25)
    remove(*(f"{log}/{batch}" for batch in range(20) for log in ("offsets", "commits")))(tmp_path)
    remove(*(f"sources/0/{entry}" for entry in range(19)), "sources/0/9.compact")(tmp_path)
    assert shapes(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pending", [False, True])
def test_no_file_that_a_start_needs_goes_unnoticed(tmp_path: Path, kind: str, pending: bool) -> None:
    """Removing any single file of the closed set is noticed, except for schemas, which Spark only compares."""
    for name in ("sound", "damaged"):
        made = tree(tmp_path / name, kind, batches=12)
        clean_up(tmp_path / name)
        if pending:
            made.plan(12)
    calm = shapes(tmp_path / "damaged")
    for path in closed_set(at(tmp_path / "sound"), 11, pending=pending):
        if path.endswith("/schema") or path.startswith("offsets/12"):
            continue
        remove(path)(tmp_path / "damaged")
        assert shapes(tmp_path / "damaged") != calm, path
        shutil.copyfile(tmp_path / "sound" / path, tmp_path / "damaged" / path)
    assert calm == (["open-batch"] if pending else [])


def test_missing_format_1_state_is_reported_only_for_stateful_queries(tmp_path: Path) -> None:
    """In format 1, missing state is reported only if the query is known to be stateful, because nothing else in the
    checkpoint shows it.
    """
    tree(tmp_path, "hdfs")
    remove("state")(tmp_path)
    assert shapes(tmp_path) == []
    assert shapes(tmp_path, stateful=True) == ["state-missing"]


def test_a_missing_named_state_store_is_reported_by_its_path(tmp_path: Path) -> None:
    """A missing named store of an operator with several stores, such as a join, is reported by its path."""
    tree(tmp_path, "hdfs", batches=2)
    stores = [{"storeName": name, "numColsPrefixKey": 0, "numPartitions": 2} for name in ("left", "right")]
    (tmp_path / "state/0/_metadata/metadata").write_text("v1\n" + json.dumps({**OPERATOR, "stateStoreInfo": stores}))
    for partition in (0, 1):
        folder = tmp_path / f"state/0/{partition}"
        for name in ("left", "right"):
            (folder / name).mkdir()
            for version in (1, 2):
                (folder / name / f"{version}.delta").write_text("d")
        remove(f"state/0/{partition}/*.delta")(tmp_path)
    assert shapes(tmp_path) == []
    remove("state/0/1/right")(tmp_path)
    (found,) = examine(at(tmp_path))
    assert (found.shape, found.where) == ("state-file-missing", "state/0/1/right")


def test_complete_compressed_files_and_damage_to_unread_versions_are_ignored(tmp_path: Path) -> None:
    """A compressed file with its end mark is complete, and damage to a version that no start reads is ignored."""
    tree(tmp_path, "changelog")
    write(lz4(b"rows", b"more rows"))("state/0/1/5.changelog")(tmp_path)
    write("")("state/0/1/1.changelog")(tmp_path)
    assert shapes(tmp_path) == []


def test_correct_checksum_files_yield_no_damage(tmp_path: Path) -> None:
    """Correct checksum files beside all files yield no damage."""
    tree(tmp_path, "hdfs")
    for path in [each for each in tmp_path.rglob("*") if each.is_file() and not each.name.startswith(".")]:
        write_checksum(path)
    assert shapes(tmp_path) == []


def test_repeated_offsets_in_a_stateful_watermark_batch_are_not_damage(tmp_path: Path) -> None:
    """In a stateful query, a batch that only moved the watermark and repeats the offsets is not reported as damage."""
    tree(tmp_path, "hdfs")
    plan_the_watermark_only(tmp_path)
    for partition in (0, 1):
        (tmp_path / f"state/0/{partition}/6.delta").write_text("d")
    assert shapes(tmp_path) == []


def test_an_empty_directory_is_fine_and_a_missing_one_is_named(tmp_path: Path) -> None:
    """An empty directory, in which a query may start, has no damage, while a missing directory is refused."""
    (tmp_path / "empty").mkdir()
    assert examine(LocalTree(tmp_path / "empty")) == ()
    with pytest.raises(NotFound, match="does not exist"):
        examine(at(tmp_path / "none"))


def test_checking_a_damaged_checkpoint_changes_no_file(tmp_path: Path) -> None:
    """Examining a damaged checkpoint changes no file."""
    tree(tmp_path, "format-2")
    remove("commits/4", "state/0/1/SSTs")(tmp_path)
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    examine(at(tmp_path))
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


def test_safe_damage_is_a_note_and_unsafe_damage_refuses_a_deploy() -> None:
    """Unsafe damage becomes a fatal finding that refuses a deploy, safe damage becomes a note, and both cite the
    measurement they are based on.
    """
    unsafe = Damage(shape="commit-empty", where="commits/4", evidence="0 bytes", on_start="Spark refuses", safe=False)
    note = msgspec.structs.replace(unsafe, shape="checksums-missing", safe=True, hint="nothing to do")
    first, second = damage_findings((unsafe, note))
    assert (first.rule, first.severity, first.where) == ("checkpoint-commit-empty", Severity.FATAL, "commits/4")
    assert (first.effect, first.evidence) == ("Spark refuses", "0 bytes")
    assert first.reference == "measured: ckpt_commit_empty"
    assert (second.severity, second.hint, second.reference) == (
        Severity.NOTE,
        "no action is needed for this alone",
        "measured: ckpt_crc_files_gone",
    )
    assert (verdict_of([first, second]), verdict_of([second])) == (Verdict.REFUSE, Verdict.RESUME)
    assert damage_findings(()) == ()


def test_checksums_are_missed_only_where_they_are_made(tmp_path: Path) -> None:
    """Missing checksums are reported only on trees that have them, not on S3 or in HDFS."""

    class Elsewhere(LocalTree):
        checksums = False

    root = tree(tmp_path / "cp", "hdfs").root
    remove("*/.*.crc", "state/0/*/.*.crc")(root)
    assert [each.shape for each in examine(LocalTree(root))] == ["checksums-missing"]
    assert [each.shape for each in examine(Elsewhere(root))] == []
    assert (S3Tree.checksums, HdfsTree.checksums) == (False, False)


def test_a_newest_commit_deleted_during_the_check_is_reported_as_a_change(tmp_path: Path) -> None:
    """If the newest log entries are deleted during the check, missing offsets are reported as damage and a missing
    commit as a change during the check.
    """
    assert [each.where for each in offset_damage(at(tmp_path), 7)] == ["offsets/6", "offsets/7"]
    with pytest.raises(CheckpointChanged, match="commits/7 was removed during the check"):
        list(commit_damage(at(tmp_path), 7))
