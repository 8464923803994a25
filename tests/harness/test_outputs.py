"""Tests that an output is read as Spark's sink log lists it, not as the files in the directory suggest."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from harness.ledger import Totals
from harness.outputs import read_event_ids, read_totals
from streamkeeper.errors import InvalidInput
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.file import EpochFile
from streamkeeper.sinks.sink_log import listed_files


class Output:
    """An output directory laid out as FileSink writes it."""

    def __init__(self, root: Path) -> None:
        self.root, self.version = root, root / "v0001"
        (self.version / "_spark_metadata").mkdir(parents=True)
        epochs = root / "_streamkeeper" / "epochs"
        epochs.mkdir(parents=True)
        claim = EpochFile(epoch=1, owner="event_copy/copy", version="v0001", file_format="parquet")
        (epochs / "0000000001.json").write_bytes(to_json(claim))

    def file(self, name: str, ids: list[str]) -> Path:
        path = self.version / name
        pyarrow.parquet.write_table(pyarrow.table({"event_id": ids}), path)
        return path

    def log(self, name: str, *files: Path, action: str = "add") -> None:
        entries = [json.dumps({"path": file.as_uri(), "size": 1, "action": action}) for file in files]
        (self.version / "_spark_metadata" / name).write_text("\n".join(["v1", *entries]))


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "copies")


def test_only_listed_files_count(output: Output) -> None:
    """A file that a killed batch left behind belongs to no batch: it is not read and does not count as a duplicate."""
    output.log("0", output.file("part-a.parquet", ["e1", "e2"]))
    output.file("part-orphan.parquet", ["e1"])
    assert list(read_event_ids(output.root)) == ["e1", "e2"]


def test_a_file_listed_twice_in_two_batches_is_one_file(output: Output) -> None:
    """A file that two batches list is read once, so duplicates are counted in rows, not in mentions of a file."""
    part = output.file("part-a.parquet", ["e1", "e1"])
    output.log("0", part)
    output.log("1", part)
    assert list(read_event_ids(output.root)) == ["e1", "e1"]


def test_the_newest_compact_log_replaces_all_earlier_logs(output: Output) -> None:
    """The newest compact log replaces all logs before it, and only the logs after it are read in addition."""
    parts = [output.file(f"part-{number}.parquet", [f"e{number}"]) for number in range(4)]
    output.log("0", parts[0])
    output.log("1.compact", parts[0], parts[1])
    output.log("2", parts[2])
    output.log("10", parts[3])
    assert listed_files(str(output.version)) == [str(part) for part in parts]


def test_a_file_deleted_by_a_later_log_is_not_read(output: Output) -> None:
    """A file that a later log deletes is not read."""
    part = output.file("part-a.parquet", ["e1"])
    output.log("0", part)
    output.log("1", part, action="delete")
    assert list(read_event_ids(output.root)) == []


def test_versions_are_read_in_order_across_a_handoff(output: Output) -> None:
    """After a handoff, the old version is read up to its last batch, followed by the new version."""
    output.log("0", output.file("part-a.parquet", ["e1"]))
    output.log("1", output.file("part-b.parquet", ["e1", "e2"]))
    serving = (OutputSegment("v0001", last=0), OutputSegment("v0002"))
    claim = EpochFile(epoch=2, owner="event_copy/copy", version="v0002", file_format="parquet", serving=serving)
    (output.root / "_streamkeeper" / "epochs" / "0000000002.json").write_bytes(to_json(claim))
    assert list(read_event_ids(output.root)) == ["e1"]
    newer = output.root / "v0002"
    (newer / "_spark_metadata").mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table({"event_id": ["e3"]}), newer / "part-c.parquet")
    entry = json.dumps({"path": (newer / "part-c.parquet").as_uri(), "size": 1, "action": "add"})
    (newer / "_spark_metadata" / "0").write_text(f"v1\n{entry}")
    assert list(read_event_ids(output.root)) == ["e1", "e3"]


def test_an_unknown_log_version_is_refused(output: Output) -> None:
    """A sink log with an unknown version is refused."""
    (output.version / "_spark_metadata" / "0").write_text("v9\n")
    with pytest.raises(InvalidInput, match="known version"):
        listed_files(str(output.version))


def test_reading_before_the_first_commit_returns_no_rows_and_no_error(tmp_path: Path) -> None:
    """Before the first commit, reading returns no ids and no totals, and raises no error."""
    assert list(read_event_ids(tmp_path / "none")) == []
    assert read_totals(tmp_path / "none.db") == {}


def test_totals_are_read_from_the_table(tmp_path: Path) -> None:
    """Totals are read per customer, with ``largest`` once the table has that column; a database without the table
    yields none.
    """
    file = tmp_path / "warehouse.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE other (a)")
    assert read_totals(file) == {}
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE sales_totals (customer, sales, total, squares)")
        connection.execute("INSERT INTO sales_totals VALUES ('c1', 2, 30, 500)")
    assert read_totals(file) == {"c1": Totals(2, 30, 500)}
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE sales_totals ADD COLUMN largest")
        connection.execute("UPDATE sales_totals SET largest = 20")
    assert read_totals(file) == {"c1": Totals(2, 30, 500, 20)}
