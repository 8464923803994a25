"""Tests of ``offsets`` and ``fsck`` as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.checkpoint_files import Tree
from streamkeeper.cli.main import app
from tests.checkpoints.damaging import last, remove, write


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an undamaged checkpoint of three batches."""
    monkeypatch.setenv("COLUMNS", "80")
    Tree(tmp_path / "checkpoint", "hdfs", batches=3, leftovers=False)
    return tmp_path / "checkpoint"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in words])


def test_offsets_prints_last_committed_batch_watermark_and_source_offsets(checkpoint: Path) -> None:
    """``offsets`` prints the last committed batch, the open batch, the watermark in UTC, each source's offset and the
    files of a file source.
    """
    plan = (
        (checkpoint / "offsets" / "2").read_text().replace('"batchWatermarkMs": 0', '"batchWatermarkMs": 1795233000000')
    )
    (checkpoint / "offsets" / "2").write_text(plan)
    result = run("offsets", checkpoint)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "batch 2",
        "last committed batch 2",
        "open batch -",
        "watermark 2026-11-21T03:50:00Z",
        'source 0: {"logOffset": 2}',
        "  file:///in/f2.json",
    ]


def test_offsets_of_one_batch_are_those_of_that_batch(checkpoint: Path) -> None:
    """``offsets --batch`` prints the offsets of that batch and marks an open batch; a checkpoint without a watermark
    shows ``-``.
    """
    remove("commits/2")(checkpoint)
    lines = run("offsets", checkpoint, "--batch", "2").stdout.splitlines()
    assert lines[:4] == ["batch 2", "last committed batch 1", "open batch 2", "watermark -"]
    assert run("offsets", checkpoint).stdout.splitlines()[0] == "batch 1"


def test_a_kafka_offset_is_printed_on_one_line_for_starting_offsets(checkpoint: Path) -> None:
    """A Kafka offset is printed on one line without spaces, even on a terminal of 80 columns, so that
    ``startingOffsets`` accepts it.
    """
    topics = {f"orders-of-a-long-name-{number}": {"0": 23, "1": 5} for number in range(9)}
    for batch in range(3):
        (checkpoint / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps(topics))
    (line,) = [each for each in run("offsets", checkpoint).stdout.splitlines() if each.startswith("source ")]
    told = line.removeprefix("source 0: ")
    assert json.loads(told) == topics
    assert " " not in told


def test_offsets_as_json(checkpoint: Path) -> None:
    """``offsets --json`` prints the batch, the last committed batch and each source's offset with its files."""
    found = json.loads(run("offsets", checkpoint, "--json", "--batch", "1").stdout)
    assert found["batch"] == 1
    assert found["facts"]["last_committed"] == 2
    assert found["offsets"] == [{"source": "0", "offset": '{"logOffset": 1}', "files": ["file:///in/f1.json"]}]


def test_fsck_exits_with_0_for_an_undamaged_checkpoint(checkpoint: Path) -> None:
    """``fsck`` prints ``no damage`` and exits with 0 for an undamaged checkpoint."""
    result = run("fsck", checkpoint)
    assert (result.exit_code, result.stdout) == (0, "no damage\n")


def test_fsck_reports_an_open_batch_as_a_note_and_exits_with_0(checkpoint: Path) -> None:
    """``fsck`` prints an open batch, as a crash leaves it, as a note and exits with 0."""
    remove("commits/2")(checkpoint)
    result = run("fsck", checkpoint)
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert line.startswith("note open-batch: offsets/2: ")


def test_fsck_prints_each_damage_on_one_line_with_consequence_and_remedy(checkpoint: Path) -> None:
    """``fsck`` prints each damage on one line with its consequence and the remedy, however long, and exits with 1."""
    last("commits", write(""))(checkpoint)
    remove("state/0/1")(checkpoint)
    result = run("fsck", checkpoint)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith("damage commit-empty: commits/2: commits/2 is empty. Spark refuses to start")
    assert line.endswith("(restore the checkpoint, or switch the query to a new checkpoint version)")


def test_damage_as_json(checkpoint: Path) -> None:
    """``fsck --json`` prints each damage with its shape, its place and whether it is safe, and exits with 1."""
    remove("metadata")(checkpoint)
    result = run("fsck", checkpoint, "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)
    assert (found["shape"], found["where"], found["safe"]) == ("metadata-missing", "metadata", False)
    assert json.loads(run("fsck", checkpoint.parent, "--json").stdout)[0]["shape"] == "not-a-checkpoint"


def test_fsck_reports_deleted_state_only_with_the_stateful_option(checkpoint: Path) -> None:
    """``fsck`` reports deleted state only with ``--stateful``, because nothing else in a checkpoint of format 1 shows
    that there was state.
    """
    remove("state")(checkpoint)
    assert run("fsck", checkpoint).exit_code == 0
    assert run("fsck", checkpoint, "--stateful").exit_code == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("offsets", "nowhere"), "nowhere does not exist"),
        (("fsck", "nowhere"), "nowhere does not exist"),
        (("fsck", __file__), "test_checkpoints.py is not a directory"),
        (("fsck", "{}/empty"), "empty is empty: it contains no checkpoint"),
        (("offsets", "{}", "--batch", "9"), "has no batch 9 (name a batch from 0 to 2)"),
        (("offsets", "{}/state"), "is not a checkpoint"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(checkpoint: Path, words: tuple[str, ...], line: str) -> None:
    """Invalid input to ``offsets`` or ``fsck`` is named in one line on stderr with exit code 2."""
    (checkpoint / "empty").mkdir()
    result = run(*(word.replace("{}", str(checkpoint)) for word in words))
    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1
