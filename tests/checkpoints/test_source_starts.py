"""Where a checkpoint's sources started and where they are now, from files as Spark 4.2.0 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.checkpoints.source_starts import read_by, stands_at, start_offsets, would_read_on
from streamkeeper.sources.kafka import KAFKA, ReadTopics
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint with two sources, the first one Kafka, and two batches, of which the second reads partition 1
    only.
    """
    for folder in ("sources/0", "sources/1", "offsets", "commits"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sources/0/0").write_bytes(b'\0v1\n{"events":{"0":5,"1":0}}')
    (tmp_path / "sources/1/0").write_text('v1\n{"path":"file:///in/a","timestamp":1,"batchId":0}')
    plan(tmp_path, 0, '{"events":{"0":9,"1":4}}', '{"logOffset":0}')
    plan(tmp_path, 1, '{"events":{"1":7,"0":9}}', '{"logOffset":0}')
    return tmp_path


def plan(checkpoint: Path, batch: int, *ends: str, version: str = "v1") -> None:
    (checkpoint / f"offsets/{batch}").write_text("\n".join([version, '{"batchWatermarkMs":0,"conf":{}}', *ends]))


def test_only_kafka_sources_have_recorded_start_offsets(checkpoint: Path) -> None:
    """The start offsets of a Kafka source are those that Spark resolved and recorded; sources without such a record
    have ``null``.
    """
    assert start_offsets(at(checkpoint), 2) == ('{"events":{"0":5,"1":0}}', "null")
    assert start_offsets(at(checkpoint), 3) == ('{"events":{"0":5,"1":0}}', "null", "null")


def test_named_sources_keep_the_plans_order(checkpoint: Path) -> None:
    """The start offsets of named sources are read from folders of their names, in the order of the plan."""
    (checkpoint / "sources/0").rename(checkpoint / "sources/orders")
    (checkpoint / "sources/1").rename(checkpoint / "sources/files")
    plan(checkpoint, 2, 'files:{"logOffset":0}', 'orders:{"events":{"0":9}}', version="v2")
    assert start_offsets(at(checkpoint), 2) == ("null", '{"events":{"0":5,"1":0}}')


def test_kafka_positions_are_batch_offsets_or_start_offsets_before_the_first_batch(checkpoint: Path) -> None:
    """The position of a Kafka source is its offsets after a batch or, before the first batch, its start offsets; other
    sources are left out.
    """
    assert stands_at(at(checkpoint), None) == {"0": ReadTopics({"events": {"0": 5, "1": 0}})}
    assert stands_at(at(checkpoint), 1) == {"0": ReadTopics({"events": {"0": 9, "1": 7}})}


def test_batch_input_has_only_partitions_with_records_to_read(checkpoint: Path) -> None:
    """The input of a batch has only those partitions from which it reads records."""
    assert read_by(at(checkpoint), 0) == {"0": ReadTopics({"events": {"0": 5, "1": 0}})}
    assert read_by(at(checkpoint), 1) == {"0": ReadTopics({"events": {"1": 4}})}


def test_symbolic_start_offsets_do_not_count_as_recorded_offsets(checkpoint: Path) -> None:
    """The start offsets -2 and -1, for the oldest and the newest record, do not count as known offsets."""
    (checkpoint / "sources/0/0").write_bytes(b'\0v1\n{"events":{"0":-2,"1":3,"2":-1}}')
    (position,) = stands_at(at(checkpoint), None).values()
    assert isinstance(position, ReadTopics)
    assert position.known == {"events": {1: 3}}


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ("subscribe events", True),
        ("subscribe others, events", True),
        ("subscribe others", False),
        ("subscribepattern ev.*", True),
        ("subscribepattern ev", False),
        ("subscribepattern ev[", False),
        ('assign {"events": [1, 0]}', True),
        ('assign {"events": [0, 1, 2], "others": [0]}', True),
        ('assign {"events": [0]}', False),
        ('assign {"others": [0, 1]}', False),
        ("assign events", False),
        ("", False),
    ],
)
def test_a_topic_option_must_cover_every_partition_that_was_read(checkpoint: Path, topics: str, expected: bool) -> None:
    """A changed topic option continues a source only if it covers every partition that the source has read; a source
    without Kafka offsets is never proven to continue.
    """
    assert would_read_on(at(checkpoint), "0", KAFKA, topics) is expected
    assert not would_read_on(at(checkpoint), "1", KAFKA, topics)
    assert not would_read_on(at(checkpoint), "gone", KAFKA, topics)


def test_without_a_planned_batch_no_option_is_proven_to_continue_the_source(tmp_path: Path) -> None:
    """Without a planned batch there are no positions, so no option is proven to continue the source."""
    (tmp_path / "offsets").mkdir()
    assert not would_read_on(at(tmp_path), "0", KAFKA, "subscribe events")
