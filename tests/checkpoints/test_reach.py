"""How far one checkpoint has read compared with another, and the batches at which both have read the same."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkpoint_files import CONF
from streamkeeper.checkpoints import file_sources, positions
from streamkeeper.checkpoints.reach import Position, compare, equal_batches, missing_files, position
from streamkeeper.checkpoints.seeding import seed_start
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound, Unsupported
from streamkeeper.sources.contract import NothingRead
from streamkeeper.sources.files import ReadFiles
from streamkeeper.sources.kafka import ReadTopics
from tests.checkpoints.tree_kinds import at

NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f11"


class Written:
    """A checkpoint in Spark's format, written batch by batch; ``interval`` is that of log compactions, which delete the
    compacted entries.
    """

    def __init__(self, root: Path, *, interval: int = 3, named: bool = False) -> None:
        self.root = root
        self._interval = interval
        self._named = named
        self._entries: dict[str, list[list[str]]] = {}
        self.batches = 0

    def list(self, source: str, *paths: str) -> str:
        """Add an entry to a source's log and return the offset that refers to it."""
        log = self.root / "sources" / source
        log.mkdir(parents=True, exist_ok=True)
        entries = self._entries.setdefault(source, [])
        number = len(entries)
        encoded = [f"file://{quote(path)}" if path.startswith("/") else path for path in paths]
        entries.append([json.dumps({"path": path, "timestamp": 1, "batchId": number}) for path in encoded])
        if number % self._interval == self._interval - 1:
            lines = [line for entry in entries for line in entry]
            (log / f"{number}.compact").write_text("\n".join(["v1", *lines]))
            for each in log.iterdir():
                if each.name != f"{number}.compact":
                    each.unlink()
        else:
            (log / str(number)).write_text("\n".join(["v1", *entries[-1]]))
        return json.dumps({"logOffset": number})

    def begin(self, source: str, offsets: dict[str, dict[str, int]]) -> None:
        """Write the start offsets of a Kafka source."""
        log = self.root / "sources" / source
        log.mkdir(parents=True)
        (log / "0").write_bytes(b"\0v1\n" + json.dumps(offsets).encode())

    def plan(self, *ends: str) -> int:
        """Plan the next batch; ends of named sources are written ``name:offset``."""
        folder = self.root / "offsets"
        folder.mkdir(parents=True, exist_ok=True)
        head = ["v2" if self._named else "v1", json.dumps({"batchWatermarkMs": 0, "conf": CONF})]
        (folder / str(self.batches)).write_text("\n".join([*head, *ends]))
        self.batches += 1
        return self.batches - 1

    def commit(self, *ends: str) -> int:
        """Plan and commit the next batch."""
        batch = self.plan(*ends)
        (self.root / "commits").mkdir(exist_ok=True)
        (self.root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        return batch


def kafka(**topics: dict[int, int]) -> str:
    return json.dumps({topic: {str(p): at for p, at in ends.items()} for topic, ends in topics.items()})


def files(*names: str) -> Position:
    return Position(batch=0, sources={"0": ReadFiles(frozenset(names))})


def topics(starts: dict[str, dict[str, int]] | None = None, **offsets: dict[str, int]) -> Position:
    return Position(batch=0, sources={"0": ReadTopics(offsets, starts or {})})


@pytest.mark.usefixtures("kind_of_tree")
def test_a_file_source_position_has_the_files_of_committed_batches_only(tmp_path: Path) -> None:
    """The position of a file source has the files of committed batches only, read through compacted entries and with
    their URL escapes resolved.
    """
    written = Written(tmp_path / "c")
    for number in range(4):
        written.commit(written.list("0", f"/in put/ä{number}.csv", f"/in put/100%{number}"))
    written.plan(written.list("0", "/in put/planned"))
    written.list("0", "s3a://bucket/a%20b")
    read = {f"/in put/ä{n}.csv" for n in range(4)} | {f"/in put/100%{n}" for n in range(4)}
    assert position(at(written.root)) == Position(batch=3, sources={"0": ReadFiles(frozenset(read))})
    assert position(at(written.root), 4).sources == {"0": ReadFiles(frozenset(read | {"/in put/planned"}))}
    written.commit('{"logOffset":5}')
    assert position(at(written.root)).sources == {
        "0": ReadFiles(frozenset(read | {"/in put/planned", "s3a://bucket/a b"}))
    }


@pytest.mark.usefixtures("kind_of_tree")
def test_an_older_batch_position_is_read_from_a_newer_compacted_entry(tmp_path: Path) -> None:
    """The position of an older batch is read from a newer compacted entry, whose lines state the entry in which each
    file was listed.
    """
    written = Written(tmp_path / "c", interval=5)
    for number in range(5):
        written.commit(written.list("0", f"/in/{number}"))
    for batch in range(5):
        expected = frozenset(f"/in/{n}" for n in range(batch + 1))
        assert position(at(written.root), batch).sources == {"0": ReadFiles(expected)}


@pytest.mark.usefixtures("kind_of_tree")
def test_a_checkpoint_without_a_commit_has_an_empty_position(tmp_path: Path) -> None:
    """A missing checkpoint and one with only a planned batch have an empty position, which every other position
    holds.
    """
    assert position(at(tmp_path / "none")) == Position()
    written = Written(tmp_path / "c")
    written.plan(written.list("0", "/in/0"))
    assert position(at(written.root)) == Position()
    with pytest.raises(NotFound, match="no batch 7"):
        position(at(written.root), 7)
    nothing = compare(Position(), files("/in/0"))
    assert (nothing.comparable, nothing.holds, nothing.equal, nothing.sources[0].ahead) == (True, True, False, 1)
    everything = compare(files("/in/0", "/in/1"), Position())
    assert (everything.holds, everything.equal, everything.sentence) == (False, False, "source 0: 0 of 2 files")
    assert compare(Position(), Position()).equal
    assert compare(Position(), Position()).lacking == "nothing"


@pytest.mark.usefixtures("kind_of_tree")
def test_a_checkpoint_holds_another_only_if_it_read_all_its_files(tmp_path: Path) -> None:
    """A checkpoint holds an earlier one only if it has read all its files: a superset holds, an equal set is equal, and
    missing files are counted.
    """
    old = files(*(f"/in/{n}" for n in range(400)))
    half = compare(old, files(*(f"/in/{n}" for n in range(120)), "/in/new"))
    assert (half.holds, half.equal, half.sentence, half.lacking) == (
        False, False, "source 0: 120 of 400 files", "280 files",
    )  # fmt: skip
    assert (half.sources[0].missing, half.sources[0].ahead, half.sources[0].total) == (280, 1, 400)
    more = compare(old, files(*(f"/in/{n}" for n in range(401))))
    assert (more.holds, more.equal, more.sources[0].ahead) == (True, False, 1)
    assert compare(old, old).equal
    assert not compare(old, files(*(f"/in/{n}" for n in range(1, 402)))).holds


def test_a_checkpoint_holds_another_only_if_every_partition_is_as_far() -> None:
    """A checkpoint holds an earlier one only if every partition is as far; a partition that is behind or missing is
    counted in records.
    """
    old = topics(t={"0": 10_000, "1": 5_000, "2": 7_000, "3": 9_000})
    new = topics({"t": {"3": 1_000}}, t={"0": 10_000, "1": 5_001, "2": 7_000, "3": 2_000})
    behind = compare(old, new)
    assert (behind.holds, behind.equal, behind.sentence) == (
        False, False, "topic t: 3 of 4 partitions, 7,000 records to go",
    )  # fmt: skip
    assert (behind.sources[0].missing, behind.sources[0].ahead, behind.sources[0].total) == (7_000, 1, 30_000)
    unknown = compare(old, topics(t={"0": 10_000, "1": 5_000, "2": 7_000}))
    assert (unknown.holds, unknown.lacking) == (False, "9,000 records")
    assert compare(old, topics({"t": {"0": 3}}, t=dict(old.sources["0"].offsets["t"]))).equal  # type: ignore[union-attr]
    assert not compare(old, topics(t={"0": 10_000}, u={"0": 5})).holds
    assert compare(topics(t={"0": 5}), topics(t={"0": 5}, u={"0": 1})).holds


@pytest.mark.usefixtures("kind_of_tree")
def test_a_kafka_source_position_has_planned_and_start_offsets(tmp_path: Path) -> None:
    """The position of a Kafka source has the offsets of the plan and the start offsets of the source's own file, also
    beside a file source.
    """
    written = Written(tmp_path / "c")
    written.begin("0", {"t": {"0": 100, "1": 0}})
    written.commit(kafka(t={0: 150, 1: 7}), written.list("1", "/in/0"))
    assert position(at(written.root)).sources == {
        "0": ReadTopics({"t": {"0": 150, "1": 7}}, {"t": {"0": 100, "1": 0}}),
        "1": ReadFiles(frozenset({"/in/0"})),
    }
    reach = compare(position(at(written.root)), Position())
    assert reach.sentence == "topic t: 0 of 2 partitions, 57 records to go; source 1: 0 of 1 file"
    assert reach.lacking == "57 records and 1 file"


@pytest.mark.usefixtures("kind_of_tree")
def test_a_source_without_a_planned_offset_has_read_nothing(tmp_path: Path) -> None:
    """A source without an offset in the plan has read nothing, whatever its kind."""
    written = Written(tmp_path / "c")
    written.commit(kafka(t={0: 5}), "-")
    found = position(at(written.root))
    assert found.sources["1"] == NothingRead()
    further = Position(batch=1, sources={**found.sources, "1": ReadFiles(frozenset({"/in/0"}))})
    assert (compare(found, further).holds, compare(found, further).equal) == (True, False)
    assert not compare(further, found).holds


def test_checkpoints_with_unmatched_sources_are_not_comparable() -> None:
    """Checkpoints whose sources differ in number, names or kind are not comparable, with the reason, and never hold one
    another.
    """
    one, two = ReadFiles(frozenset({"/a"})), ReadFiles(frozenset())
    pairs = [
        (files("/a"), Position(batch=0, sources={"0": one, "1": two}), "one checkpoint has 1 source, the other 2"),
        (files("/a"), topics(t={"0": 9}), "source 0 is files in one checkpoint and Kafka in the other"),
        (
            Position(batch=0, named=True, sources={"a": one}),
            Position(batch=0, named=True, sources={"b": one}),
            "one checkpoint reads a, the other b",
        ),
        (
            Position(batch=0, named=True, sources={"a": one, "b": two}),
            Position(batch=0, sources={"0": one, "1": two}),
            "one checkpoint names its sources, the other numbers them",
        ),
    ]
    for old, new, why in pairs:
        reach = compare(old, new)
        assert (reach.comparable, reach.holds, reach.equal, reach.why, reach.sentence) == (
            False, False, False, why, why,
        )  # fmt: skip
    ordered = [Position(batch=0, named=True, sources=dict(each)) for each in ([("a", one), ("b", two)],
                                                                             [("b", two), ("a", one)])]  # fmt: skip
    assert compare(*ordered).equal


@pytest.mark.usefixtures("kind_of_tree")
def test_offsets_of_an_unknown_source_kind_are_compared_for_equality_only(tmp_path: Path) -> None:
    """Offsets of an unknown kind of source can only be compared for equality."""
    for name, end in (("a", "17"), ("b", "17"), ("c", "18")):
        Written(tmp_path / name).commit(end)
    a, b, c = (position(at(tmp_path / name)) for name in "abc")
    assert compare(a, b).equal
    assert not compare(a, c).comparable
    assert equal_batches(at(tmp_path / "a"), at(tmp_path / "b")) == (0, 0)
    assert equal_batches(at(tmp_path / "a"), at(tmp_path / "c")) is None


@pytest.mark.usefixtures("kind_of_tree")
def test_the_newest_pair_of_equal_batches_is_found(tmp_path: Path) -> None:
    """The newest pair of committed batches at which two checkpoints have read the same is found, even if their batches
    have different sizes.
    """
    old, new = Written(tmp_path / "old"), Written(tmp_path / "new", interval=4)
    for number in range(9):
        old.commit(old.list("0", f"/in/{number}"))
    for number in range(0, 8, 2):
        new.commit(new.list("0", f"/in/{number + 1}", f"/in/{number}"))
    new.commit('{"logOffset":3}')
    new.plan(new.list("0", "/in/8"))
    assert equal_batches(at(old.root), at(new.root)) == (7, 4)
    assert equal_batches(at(new.root), at(old.root)) == (4, 7)
    for each in (5, 7):
        (old.root / "offsets" / str(each)).unlink()
    assert equal_batches(at(old.root), at(new.root)) == (3, 1)
    assert equal_batches(at(old.root), at(tmp_path / "none")) is None


@pytest.mark.usefixtures("kind_of_tree")
def test_equal_batches_are_searched_only_among_the_last_200(tmp_path: Path) -> None:
    """Equal batches are only searched among the last 200 of a checkpoint."""
    old, new = Written(tmp_path / "old"), Written(tmp_path / "new")
    for number in range(202):
        old.commit(kafka(t={0: number}))
    new.commit(kafka(t={0: 1}))
    assert equal_batches(at(old.root), at(new.root)) is None
    new.commit(kafka(t={0: 2}))
    assert equal_batches(at(old.root), at(new.root)) == (2, 1)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_version_equals_the_one_it_continues_until_it_reads_more(tmp_path: Path) -> None:
    """A version that starts where an earlier one stopped is equal to it from its first batch on, as long as it has read
    nothing new.
    """
    old = Written(tmp_path / "old")
    for number in range(5):
        old.commit(old.list("0", f"/in/{number}"))
    seed_start(at(old.root), LocalTree(tmp_path / "new"), 4, query_id=NEW_ID)
    new = Written(tmp_path / "new")
    assert position(at(new.root)) == Position()
    new.commit('{"logOffset":0}')
    assert compare(position(at(old.root)), position(at(new.root))).equal
    assert equal_batches(at(old.root), at(new.root)) == (4, 0)


@pytest.mark.usefixtures("kind_of_tree")
def test_missing_input_files_are_listed_with_their_total_number(tmp_path: Path) -> None:
    """Input files that were read and no longer exist are listed with the total number; files on s3a are refused as
    unsupported.
    """
    written = Written(tmp_path / "c")
    places = [tmp_path / "in put" / f"100% {n}" for n in range(4)]
    places[0].parent.mkdir()
    for each in places[:3]:
        each.touch()
        written.commit(written.list("0", str(each)))
    written.plan(written.list("0", str(places[3])))
    assert missing_files(at(written.root)) == ([], 3)
    places[1].unlink()
    assert missing_files(at(written.root)) == ([str(places[1])], 3)
    assert missing_files(at(tmp_path / "none")) == ([], 0)
    written.commit(written.list("0", "s3a://bucket/x"))
    with pytest.raises(Unsupported, match="s3a://bucket/x"):
        missing_files(at(written.root))


def test_a_log_entry_compacted_during_the_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that the owner compacts while its log is read is found in the compacted one; if reads keep failing, the
    change is reported.
    """
    written = Written(tmp_path / "c")
    written.commit(written.list("0", "/in/0"))
    written.commit(written.list("0", "/in/1"))
    read = file_sources.read_source_entry
    pending = [lambda: written.list("0", "/in/2")]

    def compact_and_read(tree: Tree, path: str) -> object:
        if pending:
            pending.pop()()
        return read(tree, path)

    with monkeypatch.context() as patch:
        patch.setattr(file_sources, "read_source_entry", compact_and_read)
        assert position(at(written.root)).sources == {"0": ReadFiles(frozenset({"/in/0", "/in/1"}))}
    assert pending == []

    def never(tree: Tree, path: str) -> object:
        raise CheckpointChanged(f"{path} was removed")

    monkeypatch.setattr(file_sources, "read_source_entry", never)
    with pytest.raises(CheckpointChanged):
        position(at(written.root))


def test_a_missing_log_entry_is_reported_only_after_a_second_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A truncated log entry is reported as damage, and a missing one is reported after a second read has not found it
    either.
    """
    written = Written(tmp_path / "c", interval=10)
    for number in range(3):
        written.commit(written.list("0", f"/in/{number}"))
    (written.root / "sources" / "0" / "1").write_text('v1\n{"path":"file')
    with pytest.raises(CheckpointDamaged, match="0/1 is cut short"):
        position(at(written.root))
    (written.root / "sources" / "0" / "1").unlink()
    looks: list[object] = []
    history = positions.PositionHistory

    def counted(*args: object) -> object:
        looks.append(args)
        return history(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(positions, "PositionHistory", counted)
    with pytest.raises(CheckpointDamaged, match="lacks entry 1"):
        position(at(written.root))
    assert len(looks) == 2


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.tuples(*[st.lists(st.integers(0, 3), min_size=1, max_size=9)] * 2),
    intervals=st.tuples(*[st.integers(2, 6)] * 2),
)
def test_positions_and_equal_batches_are_correct_for_any_batch_sizes(
    sizes: tuple[list[int], list[int]], intervals: tuple[int, int]
) -> None:
    """For any batch sizes and compaction intervals, each batch's files, the comparison of two checkpoints and their
    newest equal batches are correct.
    """
    with tempfile.TemporaryDirectory() as folder:
        roots, ends = [], []
        for name, batches, interval in zip("ab", sizes, intervals, strict=True):
            written = Written(Path(folder) / name, interval=interval)
            read, reached = 0, []
            for size in batches:
                written.commit(written.list("0", *(f"/in/{read + n}" for n in range(size))))
                read += size
                reached.append(read)
            roots.append(written.root)
            ends.append(reached)
        for root, reached in zip(roots, ends, strict=True):
            for batch, read in enumerate(reached):
                expected = frozenset(f"/in/{n}" for n in range(read))
                assert position(at(root), batch).sources == {"0": ReadFiles(expected)}
        reach = compare(position(at(roots[0])), position(at(roots[1])))
        assert (reach.holds, reach.equal) == (ends[1][-1] >= ends[0][-1], ends[0][-1] == ends[1][-1])
        pairs = [(i, j) for i, a in enumerate(ends[0]) for j, b in enumerate(ends[1]) if a == b]
        assert equal_batches(*map(at, roots)) == max(pairs, default=None)
