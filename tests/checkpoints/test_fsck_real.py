"""Checkpoints that Spark made: sound ones pass, every measured damage is named, and a start has the predicted
effect.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streamkeeper.checkpoints.facts import offsets_at, read_facts
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.protocol.damage import Damage
from tests.checkpoints.damaging import Damaging, cut, in_turn, last, move_offset, relabel, remove, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STATE = "org.apache.spark.sql.execution.streaming.state."
HDFS = {"providerClass": f"{STATE}HDFSBackedStateStoreProvider", "checkpointFormatVersion": "1"}
ROCKSDB = {
    "providerClass": f"{STATE}RocksDBStateStoreProvider",
    "checkpointFormatVersion": "1",
    "rocksdb.changelogCheckpointing.enabled": "false",
}
FORMAT_2 = {
    "providerClass": f"{STATE}RocksDBStateStoreProvider",
    "checkpointFormatVersion": "2",
    "rocksdb.changelogCheckpointing.enabled": "true",
}
CONFS = {
    "hdfs": HDFS,
    "rocksdb": ROCKSDB,
    "format-2": FORMAT_2,
    "stateless": HDFS,
    "twice": HDFS,
    "watermark": FORMAT_2,
}
BATCHES = 4
ROWS = 2


class Start(msgspec.Struct, frozen=True):
    """The result of a start: the rows of each batch (emitted by the stateless query, read by the others), and its
    error.
    """

    rows: dict[int, int]
    error: str


class House:
    """Queries over one input folder, whose checkpoints were copied to ``at/<kind>/<batches>`` after every batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        (root / "in").mkdir()

    def put(self, number: int) -> None:
        """Add one input file of ``ROWS`` rows."""
        path = self.root / "in" / f"f{number}.csv"
        path.write_text(f"a,{number}\nb,{number}\n")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def at(self, kind: str, batches: int) -> Path:
        return self.root / "at" / kind / str(batches)

    def make(self) -> None:
        """Run a batch of every query per input file."""
        for number in range(BATCHES):
            self.put(number)
            for kind in CONFS:
                live = self.root / "live" / kind
                assert self.start(kind, live).error == ""
                shutil.copytree(live, self.at(kind, number + 1))

    def start(self, kind: str, checkpoint: Path) -> Start:
        """Run a query on a checkpoint until it has read all input or fails."""
        session = self.spark.newSession()
        for key, value in CONFS[kind].items():
            session.conf.set(f"spark.sql.streaming.stateStore.{key}", value)
        session.conf.set("spark.sql.shuffle.partitions", "2")
        frame = QUERIES.get(kind, counted)(lambda: self._read(session))
        rows: dict[int, int] = {}
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        if kind == "stateless":
            writer = writer.foreachBatch(lambda batch, number: rows.update({number: batch.count()}))
        else:
            writer = writer.format("noop").outputMode("append" if kind == "twice" else "update")
        try:
            query = writer.start()
        except Exception as error:
            return Start({}, str(error))
        error = ""
        try:
            assert query.awaitTermination(120)
        except Exception as raised:
            error = str(raised)
        return Start(rows or {each["batchId"]: each["numInputRows"] for each in query.recentProgress}, error)

    def _read(self, session: SparkSession) -> DataFrame:
        reader = session.readStream.schema("word string, number int").option("maxFilesPerTrigger", 1)
        return reader.csv(str(self.root / "in"))


def counted(read: Callable[[], Any]) -> Any:
    return read().groupBy("word").count()


def with_watermark(read: Callable[[], Any]) -> Any:
    rows = read().selectExpr("word", "timestamp_seconds(number * 100) AS at")
    return rows.withWatermark("at", "1 second").groupBy("at").count()


def read_twice(read: Callable[[], Any]) -> Any:
    rows = read()
    return rows.union(rows)


QUERIES: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "stateless": lambda read: read(),
    "twice": read_twice,
    "watermark": with_watermark,
}


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """All checkpoints, made once, and then one more input file that every start finds."""
    made = House(spark, tmp_path_factory.mktemp("checkpoints"))
    made.make()
    made.put(BATCHES)
    return made


def damaged(house: House, kind: str, batches: int, damaging: Damaging, target: Path) -> Path:
    shutil.copytree(house.at(kind, batches), target)
    damaging(target)
    return target


def another_id(root: Path) -> None:
    write(json.dumps({"id": "f1d59810-eaab-48e1-8081-cfb9a2991009"}))("metadata")(root)


@pytest.mark.parametrize("kind", CONFS)
@pytest.mark.parametrize("batches", range(1, BATCHES + 1))
def test_a_sound_checkpoint_has_no_damage(house: House, kind: str, batches: int) -> None:
    """A sound checkpoint has no damage at any batch and with any kind of state; a source that is read twice yields only
    a note.
    """
    found = examine(LocalTree(house.at(kind, batches)), stateful=kind not in ("stateless", "twice"))
    assert [each.shape for each in found] == (["source-log-shared"] if kind == "twice" else [])


def test_facts_are_those_of_spark(house: House) -> None:
    """Formats, pinned confs, watermark, operators and files are read correctly from checkpoints that Spark wrote."""
    facts = read_facts(LocalTree(house.at("watermark", BATCHES)))
    assert (facts.checkpoint_format, facts.offset_log_format, facts.open_batch) == (2, 1, None)
    assert facts.conf["spark.sql.streaming.stateStore.providerClass"] == FORMAT_2["providerClass"]
    assert facts.watermark_ms == (BATCHES - 1) * 100_000 - 1000
    assert [(each.name, each.partitions) for each in facts.operators.values()] == [("stateStoreSave", 2)]
    assert read_facts(LocalTree(house.at("hdfs", 1))).checkpoint_format == 1
    (source,) = offsets_at(LocalTree(house.at("stateless", BATCHES)))
    assert [Path(url).name for url in source.files] == [f"f{BATCHES - 1}.csv"]


LAST_STATE = {"hdfs": "state/0/*/2.delta", "rocksdb": "state/0/*/2.zip"}
FIRST_STATE = {"hdfs": "state/0/*/1.delta", "rocksdb": "state/0/*/1.zip"}
BOTH = ("hdfs", "rocksdb")
MEASURED: list[tuple[str, tuple[str, ...], Callable[[str], Damaging], str]] = [
    ("ckpt_all_offsets_gone_agg", BOTH, lambda _: remove("offsets/*"), "offsets-gone"),
    ("ckpt_sources_gone_agg", BOTH, lambda _: remove("sources/0"), "source-log-missing"),
    ("ckpt_no_last_offset_stateless", ("stateless",), lambda _: last("offsets"), "last-offset-missing"),
    ("ckpt_no_metadata_stateless", ("stateless",), lambda _: remove("metadata"), "metadata-missing"),
    (
        "ckpt_offsets_commits_gone_stateless",
        ("stateless",),
        lambda _: remove("offsets/*", "commits/*"),
        "offsets-and-commits-gone",
    ),
    ("ckpt_sources_last_gone_stateless", ("stateless",), lambda _: remove("sources/0/1"), "source-log-entry-missing"),
    ("ckpt_no_middle_offset", ("stateless",), lambda _: remove("offsets/0"), "offset-missing-in-the-middle"),
    (
        "ckpt_no_middle_offset_no_last_commit",
        ("hdfs",),
        lambda _: remove("offsets/0", "commits/1"),
        "offset-missing-in-the-middle",
    ),
    ("ckpt_offset_empty", ("stateless",), lambda _: last("offsets", write("")), "offset-empty"),
    ("ckpt_offset_ahead", ("stateless",), lambda _: move_offset(4), "source-offset-ahead"),
    ("ckpt_commit_empty", ("stateless",), lambda _: last("commits", write("")), "commit-empty"),
    ("ckpt_metadata_newid", ("hdfs",), lambda _: another_id, ""),
    ("ckpt_state_gone", BOTH, lambda _: remove("state"), "state-missing"),
    ("ckpt_state_op_gone", BOTH, lambda _: remove("state/0"), "state-operator-missing"),
    ("ckpt_state_first_delta_gone", ("hdfs",), lambda kind: remove(FIRST_STATE[kind]), "state-file-missing"),
    ("ckpt_state_first_delta_gone", ("rocksdb",), lambda kind: remove(FIRST_STATE[kind]), ""),
    ("ckpt_state_part_gone", BOTH, lambda _: remove("state/0/1"), "state-partition-missing"),
    ("ckpt_state_meta_gone", BOTH, lambda _: remove("state/0/_metadata"), "state-metadata-missing"),
    ("ckpt_state_zero", BOTH, lambda kind: write("")(LAST_STATE[kind]), "state-file-empty"),
    ("ckpt_crc_files_gone", BOTH, lambda _: remove("**/*.crc"), "checksums-missing"),
    ("ckpt_rewind_one", BOTH, lambda _: remove("offsets/1", "commits/1", "sources/0/1"), "rewound"),
    ("ckpt_copied", BOTH, lambda _: in_turn(), ""),
]
NAMED = [(name, kind, damaging, shape) for name, kinds, damaging, shape in MEASURED for kind in kinds]


@pytest.mark.parametrize(
    ("name", "kind", "damaging", "shape"), NAMED, ids=[f"{name}-{kind}" for name, kind, _, _ in NAMED]
)
def test_damage_with_a_measured_effect_is_reported_with_its_shape(
    house: House, tmp_path: Path, name: str, kind: str, damaging: Callable[[str], Damaging], shape: str
) -> None:
    """Every damage whose effect was measured is reported with its shape; damage without a trace or without harm is not
    reported.
    """
    root = damaged(house, kind, 2, damaging(kind), tmp_path / "damaged")
    found = {each.shape for each in examine(LocalTree(root), stateful=kind != "stateless")}
    assert found - {"open-batch"} == ({shape} if shape else set())


def test_a_commit_in_the_middle_is_not_needed(house: House, tmp_path: Path) -> None:
    """A missing commit in the middle is reported as safe."""
    (found,) = examine(LocalTree(damaged(house, "stateless", 3, remove("commits/1"), tmp_path / "damaged")))
    assert (found.shape, found.safe) == ("commit-missing-in-the-middle", True)


def refuses(seen: Start) -> bool:
    return bool(seen.error) and not seen.rows


def goes_on(seen: Start) -> bool:
    return seen == Start({BATCHES: ROWS}, "")


def runs_the_last_batch_again(seen: Start) -> bool:
    return seen == Start({BATCHES - 1: ROWS, BATCHES: ROWS}, "")


def reads_everything_again(seen: Start) -> bool:
    return seen == Start({0: (BATCHES + 1) * ROWS}, "")


def reads_the_last_file_again(seen: Start) -> bool:
    return seen == Start({BATCHES: 2 * ROWS}, "")


def plans_it_with_other_content(seen: Start) -> bool:
    return seen == Start({BATCHES - 1: 2 * ROWS}, "")


def duplicates_and_dies(seen: Start) -> bool:
    return "CONCURRENT_STREAM_LOG_UPDATE" in seen.error and seen.rows == {BATCHES - 2: ROWS}


def dies_of_its_state(seen: Start) -> bool:
    return "state" in seen.error.lower() and not any(seen.rows.values())


STARTS: list[tuple[str, Damaging, str, str, Callable[[Start], bool]]] = [
    ("stateless", in_turn(), "", "", goes_on),
    ("hdfs", in_turn(), "", "", goes_on),
    ("format-2", in_turn(), "", "", goes_on),
    ("format-2", last("commits"), "open-batch", "Spark runs the planned batch again", runs_the_last_batch_again),
    ("hdfs", last("commits", write("")), "commit-empty", "Spark refuses to start", refuses),
    ("stateless", last("offsets", cut(60)), "offset-cut-short", "Spark refuses to start", refuses),
    ("stateless", last("commits", relabel("v9")), "newer-format", "Spark 4.2 refuses to start", refuses),
    ("stateless", write("{{")("metadata"), "metadata-garbage", "Spark refuses to start", refuses),
    (
        "hdfs",
        remove("offsets", "commits"),
        "offsets-and-commits-gone-beside-state",
        "Spark refuses to start",
        refuses,
    ),
    (
        "stateless",
        remove("offsets", "commits"),
        "offsets-and-commits-gone",
        "Spark starts at batch 0 and reads its sources from their beginning",
        reads_everything_again,
    ),
    (
        "stateless",
        last("offsets"),
        "last-offset-missing",
        "Spark emits the last planned batch again, then fails because that batch is already committed",
        duplicates_and_dies,
    ),
    (
        "hdfs",
        remove("*/3"),
        "rewound",
        "Spark starts and plans a batch that has already run",
        plans_it_with_other_content,
    ),
    (
        "stateless",
        move_offset(-1, with_checksum=True),
        "checksum-mismatch",
        "Spark starts and reads the changed file",
        reads_the_last_file_again,
    ),
    ("hdfs", remove("offsets/1"), "older-offset-unusable", "Spark starts", goes_on),
    ("hdfs", remove("commits/1"), "commit-missing-in-the-middle", "Spark starts", goes_on),
    ("hdfs", write("v1\n{")("state/0/_metadata/metadata"), "state-metadata-damaged", "Spark starts", goes_on),
    (
        "twice",
        in_turn(),
        "source-log-shared",
        "Spark starts if the query reads one source twice: both reads share one log",
        lambda seen: seen == Start({BATCHES: 2 * ROWS}, ""),
    ),
    (
        "hdfs",
        cut(0.5)("state/0/*/4.delta"),
        "state-file-cut-short",
        "Spark plans one batch and fails",
        dies_of_its_state,
    ),
    (
        "format-2",
        remove("state/0/1"),
        "state-partition-missing",
        "Spark plans one batch and fails",
        dies_of_its_state,
    ),
    ("format-2", last("commits", write("v2")), "commit-cut-short", "Spark refuses to start", dies_of_its_state),
]


@pytest.mark.parametrize(
    ("kind", "damaging", "shape", "told", "done"), STARTS, ids=[f"{each[2] or 'sound'}-{each[0]}" for each in STARTS]
)
def test_starting_a_damaged_checkpoint_has_the_predicted_effect(
    house: House,
    tmp_path: Path,
    kind: str,
    damaging: Damaging,
    shape: str,
    told: str,
    done: Callable[[Start], bool],
) -> None:
    """Starting a damaged checkpoint has the effect that the check predicts."""
    root = damaged(house, kind, BATCHES, damaging, tmp_path / "damaged")
    found: dict[str, Damage] = {each.shape: each for each in examine(LocalTree(root))}
    assert set(found) >= ({shape} if shape else set())
    assert not shape or found[shape].on_start.startswith(told)
    seen = house.start(kind, root)
    assert done(seen), seen
