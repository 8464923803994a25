"""What a checkpoint states about its query, read without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.checkpoint_files import CONF, OPERATOR, QUERY_ID, Tree
from streamkeeper.checkpoints.facts import batch_of, offsets_at, read_facts
from streamkeeper.errors import CheckpointDamaged, NotFound
from streamkeeper.sources.known_sources import offset_line
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")

PLAN = {"batchWatermarkMs": 1234, "batchTimestampMs": 9, "conf": CONF}


def write_plan(root: Path, batch: int, *ends: str, version: str = "v1") -> None:
    """Write an offset entry with these offsets, whatever their sources are."""
    (root / "offsets").mkdir(parents=True, exist_ok=True)
    (root / "offsets" / str(batch)).write_text("\n".join([version, json.dumps(PLAN), *ends]))


def test_batches_identity_and_operators_are_read(tmp_path: Path) -> None:
    """Query id, batches, confs, log formats and operators are read from a checkpoint of format 2, which the ids in its
    commits identify.
    """
    Tree(tmp_path, "format-2", batches=3).plan(3)
    facts = read_facts(at(tmp_path))
    assert (facts.query_id, facts.last_committed, facts.last_planned, facts.open_batch) == (QUERY_ID, 2, 3, 3)
    assert (facts.conf, facts.watermark_ms, facts.sources, facts.source_names) == (CONF, 0, 1, ())
    assert (facts.offset_log_format, facts.commit_log_format, facts.checkpoint_format) == (1, 2, 2)
    (operator,) = facts.operators.values()
    assert (operator.name, operator.stores, operator.partitions, operator.format) == (
        "stateStoreSave",
        ("default",),
        2,
        1,
    )


def test_the_older_format_has_no_state_ids(tmp_path: Path) -> None:
    """A checkpoint whose commits contain no state ids has format 1, and no batch is open after a commit."""
    Tree(tmp_path, "hdfs", batches=3)
    facts = read_facts(at(tmp_path))
    assert (facts.open_batch, facts.commit_log_format, facts.checkpoint_format) == (None, 1, 1)


def test_a_query_that_never_ran_has_a_query_id_only(tmp_path: Path) -> None:
    """A checkpoint whose query never ran a batch contains only the query id."""
    Tree(tmp_path, "stateless", batches=0)
    facts = read_facts(at(tmp_path))
    assert (facts.last_committed, facts.last_planned, facts.watermark_ms, facts.sources) == (None, None, None, 0)
    assert (facts.conf, facts.operators, facts.checkpoint_format) == ({}, {}, None)


def test_operator_metadata_is_read_from_the_highest_numbered_file(tmp_path: Path) -> None:
    """With several operator metadata files, the one with the highest number is used, compared as a number and not as
    text.
    """
    Tree(tmp_path, "hdfs", batches=1)
    (tmp_path / "state/0/_metadata/v2").mkdir()
    for batch, name in ((0, "left"), (10, "right"), (9, "middle")):
        stores = [{"storeName": f"{name}-{kind}", "numColsPrefixKey": 0, "numPartitions": 5} for kind in ("a", "b")]
        found = {**OPERATOR, "stateStoreInfo": stores, "operatorPropertiesJson": "{}"}
        (tmp_path / f"state/0/_metadata/v2/{batch}").write_text("v2\n" + json.dumps(found))
    operator = read_facts(at(tmp_path)).operators["0"]
    assert (operator.stores, operator.partitions, operator.format) == (("right-a", "right-b"), 5, 2)


def test_offset_and_files_of_a_file_source_belong_to_the_requested_batch(tmp_path: Path) -> None:
    """The offset and the files of a file source are those of the requested batch, by default of the last committed one
    even if a newer batch is open.
    """
    Tree(tmp_path, "hdfs", batches=12).plan(12)
    (source,) = offsets_at(at(tmp_path))
    assert (source.source, source.offset, source.files) == ("0", '{"logOffset": 11}', ("file:///in/f11.json",))
    assert offsets_at(at(tmp_path), 12)[0].files == ("file:///in/f12.json",)
    assert offsets_at(at(tmp_path), 0)[0].files == ("file:///in/f0.json",)
    assert batch_of(at(tmp_path), None) == 11


def test_files_are_found_after_spark_removed_their_entry(tmp_path: Path) -> None:
    """The files of a batch are found in the compacted entry after Spark removed the original one."""
    Tree(tmp_path, "stateless", batches=12)
    for entry in range(9):
        (tmp_path / "sources" / "0" / str(entry)).unlink()
    assert offsets_at(at(tmp_path), 3)[0].files == ("file:///in/f3.json",)


def test_offsets_and_files_of_named_sources_are_read_by_name(tmp_path: Path) -> None:
    """In offset log v2, the offsets and files of sources are read by the source's name."""
    Tree(tmp_path, "stateless", batches=1)
    (tmp_path / "sources" / "0").rename(tmp_path / "sources" / "orders")
    write_plan(tmp_path, 0, 'orders:{"logOffset":0}', "clicks:-", version="v2")
    assert read_facts(at(tmp_path)).source_names == ("orders", "clicks")
    orders, clicks = offsets_at(at(tmp_path), 0)
    assert (orders.source, orders.offset, orders.files) == ("orders", '{"logOffset":0}', ("file:///in/f0.json",))
    assert (clicks.source, clicks.offset, clicks.files) == ("clicks", None, ())


def test_a_source_that_is_read_twice_has_one_log(tmp_path: Path) -> None:
    """If a query reads one source twice, both offsets refer to the same files, because Spark lists them in one log."""
    Tree(tmp_path, "stateless", batches=2)
    for batch in (0, 1):
        write_plan(tmp_path, batch, f'{{"logOffset":{batch}}}', f'{{"logOffset":{batch}}}')
    assert [each.files for each in offsets_at(at(tmp_path), 1)] == [("file:///in/f1.json",)] * 2


def test_kafka_and_rate_offsets_are_read_without_the_previous_batch(tmp_path: Path) -> None:
    """Offsets of Kafka and rate sources are read without the previous batch, which only file sources need."""
    Tree(tmp_path, "stateless", batches=0)
    write_plan(tmp_path, 7, '{"orders":{"0":23,"1":-1}}', "51")
    kafka, rate = offsets_at(at(tmp_path))
    assert (kafka.offset, kafka.files, rate.offset) == ('{"orders":{"0":23,"1":-1}}', (), "51")
    assert read_facts(at(tmp_path)).watermark_ms == 1234


@pytest.mark.parametrize(
    ("offset", "line"),
    [
        ('{"orders": {"0": 23, "1": 5}}', '{"orders":{"0":23,"1":5}}'),
        ('{"logOffset": 3}', None),
        ('{"shard": {"0": "AT_SEQUENCE"}}', None),
        ("51", None),
        ("{}", None),
        ("not JSON", None),
    ],
)
def test_only_kafka_offsets_are_offered_as_starting_offsets(offset: str, line: str | None) -> None:
    """Only an offset of topics, partitions and numbers is offered as ``startingOffsets``."""
    assert offset_line(offset) == line


@pytest.mark.parametrize(("batch", "line"), [(9, "name a batch from 0 to 2"), (-1, "name a batch from 0 to 2")])
def test_an_unknown_batch_is_named_with_the_known_ones(tmp_path: Path, batch: int, line: str) -> None:
    """A batch that is not in the checkpoint is refused with the range of the batches that are."""
    Tree(tmp_path, "hdfs", batches=3)
    with pytest.raises(NotFound, match=line):
        offsets_at(at(tmp_path), batch)


def test_directories_without_a_checkpoint_are_refused_with_distinct_messages(tmp_path: Path) -> None:
    """A missing directory, an unrelated directory, and a checkpoint without a batch are refused with different
    messages.
    """
    with pytest.raises(NotFound, match="does not exist"):
        read_facts(at(tmp_path / "none"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("mine")
    with pytest.raises(NotFound, match="is not a checkpoint"):
        read_facts(at(tmp_path / "other"))
    Tree(tmp_path / "new", "stateless", batches=0)
    with pytest.raises(NotFound, match="has no batch yet"):
        offsets_at(at(tmp_path / "new"))


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("metadata", "", "metadata contains no query id"),
        ("offsets/2", "", "offsets/2 is empty"),
        ("offsets/2", "v1\n{", "offsets/2 is cut short"),
        ("offsets/2", "v7\n{}\n1", "offsets/2 has a newer format"),
        ("commits/2", "2", "commits/2 does not begin with a log version"),
        ("sources/0/2", "v1\n{", "sources/0/2 is cut short"),
        ("state/0/_metadata/metadata", "v1\n{}", "metadata is cut short"),
    ],
)
def test_damage_is_one_line_that_names_the_file(tmp_path: Path, name: str, text: str, line: str) -> None:
    """Damage in any file that is read is reported in one line with that file's name."""
    Tree(tmp_path, "hdfs", batches=3)
    (tmp_path / name).write_text(text)
    with pytest.raises(CheckpointDamaged, match=line) as caught:
        offsets_at(at(tmp_path)) if name.startswith("sources") else read_facts(at(tmp_path))
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_source_log_entry_of_a_batch_is_reported(tmp_path: Path) -> None:
    """If the source log lacks the entry of a batch, that entry is reported instead of an incomplete list of files."""
    Tree(tmp_path, "hdfs", batches=3)
    (tmp_path / "sources" / "0" / "2").unlink()
    with pytest.raises(CheckpointDamaged, match="sources/0 lacks entry 2"):
        offsets_at(at(tmp_path))
