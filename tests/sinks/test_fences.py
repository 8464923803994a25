"""Who writes an output, asked of nothing but the output: both databases, and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.errors import NotFound, StoreUnavailable
from streamkeeper.model.serving import Span
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.databases import identity, parse_url
from streamkeeper.sinks.fences import read_fences
from streamkeeper.sinks.file import FileSink
from tests.sinks.warehouse import Warehouse


def test_a_table_and_the_versions_beside_it_are_one_output(warehouse: Warehouse) -> None:
    """Of what serves the version and batch, of all of them the highest epoch; other tables are outputs of their own."""
    warehouse.writer("v0002", 3).raise_fence()
    warehouse.writer("v0003", 9, shadow=True).raise_fence()
    warehouse.writer("v0001", 2, table="copies", query="copy").raise_fence()
    warehouse.execute("UPDATE streamkeeper_outputs SET version = 'v0002', batch_id = 7 WHERE output = 'totals'")
    found = {each.owner: each for each in read_fences(warehouse.url)}
    totals = found["sales/totals"]
    assert totals.output == f"{identity(parse_url(warehouse.url))}#totals"
    assert (totals.version, totals.batch, totals.claimed, totals.epoch) == ("v0002", 7, 3, 9)
    assert totals.versions == ("v0002", "v0003")
    assert (found["sales/copy"].version, found["sales/copy"].batch, found["sales/copy"].epoch) == ("", None, 2)


def test_an_older_table_of_outputs_lacks_the_installation_and_is_read(warehouse: Warehouse) -> None:
    """Reading adds no column; a database without one, or that is not there, is told as such."""
    warehouse.execute("CREATE TABLE of_somebody_else (a INTEGER)")
    with pytest.raises(NotFound, match="no TableSink has written there"):
        read_fences(warehouse.url)
    columns = "output TEXT PRIMARY KEY, owner TEXT, epoch BIGINT, version TEXT, batch_id BIGINT"
    warehouse.execute(
        f"CREATE TABLE streamkeeper_outputs ({columns})",
        "INSERT INTO streamkeeper_outputs VALUES ('totals', 'sales/totals', 4, 'v0001', 5)",
    )
    (found,) = read_fences(warehouse.url)
    assert (found.epoch, found.installation) == (4, "")
    assert len(warehouse.rows("SELECT * FROM streamkeeper_outputs")[0]) == 5


def test_a_database_that_does_not_answer_is_told_without_its_password() -> None:
    """Not knowing is no answer: nothing is decided from it."""
    with pytest.raises(StoreUnavailable) as told:
        read_fences("postgresql+psycopg://ada:hush@127.0.0.1:9/sales")
    assert "hush" not in str(told.value)


def test_a_database_file_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    """SQLite would create it: a look at an output creates nothing."""
    with pytest.raises(NotFound, match="warehouse.db does not exist"):
        read_fences(f"sqlite:///{tmp_path}/warehouse.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_no_writer_has_claimed_has_no_fence(tmp_path: Path) -> None:
    """It is NotFound and names the directory, whatever else lies there; so is a directory that does not exist."""
    (tmp_path / "v0001").mkdir()
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFound, match=f"{place} contains no epoch log of a FileSink"):
            read_fences(str(place))


def test_files_tell_their_newest_claim(tmp_path: Path) -> None:
    """With what the output consists of, and every version that a claim or a folder names."""
    for epoch, version, serving in ((1, "v0001", ()), (2, "v0002", (Span("v0001", 4), Span("v0002")))):
        context = SinkContext(job="sales", query="copy", version=version, epoch=epoch, serving=serving)
        FileSink(str(tmp_path)).open(context).raise_fence()
    (tmp_path / "v0003").mkdir()
    (found,) = read_fences(str(tmp_path))
    assert (found.owner, found.epoch, found.version, found.batch) == ("sales/copy", 2, "v0002", None)
    assert found.serving == (Span("v0001", 4), Span("v0002"))
    assert found.versions == ("v0001", "v0002", "v0003")
