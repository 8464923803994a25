"""The description of what a checkpoint's open batch reads, which accompanies the error of a record."""

from __future__ import annotations

import json
from pathlib import Path

from streamkeeper.checkpoints.batch_input import input_of_open_batch
from streamkeeper.checkpoints.trees import LocalTree


def checkpoint(root: Path, *ends: dict[str, dict[str, int]]) -> LocalTree:
    """Write a checkpoint of a Kafka source with these planned batches, all but the last committed."""
    for folder in ("offsets", "commits"):
        (root / folder).mkdir()
    (root / "metadata").write_text('{"id":"6f1b2a3c-0000-4000-8000-000000000000"}')
    head = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    for number, end in enumerate(ends):
        (root / "offsets" / str(number)).write_text(f"v1\n{json.dumps(head)}\n{json.dumps(end)}")
        if number < len(ends) - 1:
            (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return LocalTree(root)


def test_ranges_of_offsets_name_the_first_and_the_last_record(tmp_path: Path) -> None:
    """The input of an open batch is described by the first and last offset per partition, without partitions that have
    no new records; without an open batch the description is empty.
    """
    tree = checkpoint(tmp_path, {"events": {"0": 5, "1": 7}}, {"events": {"0": 9, "1": 7}})
    assert input_of_open_batch(tree) == "batch 1 reads events/0 from offset 5 to 8"
    (tmp_path / "commits" / "1").write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert input_of_open_batch(tree) == ""


def test_an_unreadable_checkpoint_yields_an_empty_input_description(tmp_path: Path) -> None:
    """A checkpoint that cannot be read yields an empty description instead of an error of its own."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("junk")
    assert input_of_open_batch(LocalTree(tmp_path)) == ""
