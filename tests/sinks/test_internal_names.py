"""Tests the names of internal tables and directories: no new output may use one, and no foreign table or directory is
dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.sinks import file_serving, table_writer, versions_of_table
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.file_locations import is_internal
from streamkeeper.sinks.foreach import ForeachBatch
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINE = "Streamkeeper did not create it"
Write = Callable[[TableWriter, int], None]


@pytest.fixture
def write(spark: SparkSession) -> Write:
    """A function that writes a batch of one row."""
    return lambda writer, batch_id: writer.write(
        spark.createDataFrame([("a", 1)], "customer string, total long"), batch_id
    )


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("totals", False),
        ("totals__staged", True),
        ("totals__v0002", True),
        ("totals__v10002", True),
        ("totals__v0002__staged", True),
        ("streamkeeper_outputs", True),
        ("totals__v2", False),
        ("staged", False),
    ],
)
def test_a_new_output_under_an_internal_name_is_refused(name: str, reserved: bool, tmp_path: Path) -> None:
    """A new output under an internal name is refused; an output that has served under such a name since before names
    were reserved keeps it.
    """
    sink = TableSink(f"sqlite:///{tmp_path}/warehouse.db", table=name, key=["customer"])
    conflict = sink.find_conflict(serves=False)
    assert conflict == (f"table name {name} is reserved for Streamkeeper's own tables" if reserved else None)
    assert sink.find_conflict(serves=True) is None


@pytest.mark.parametrize("taken", ["totals__staged", "streamkeeper_outputs"])
def test_a_foreign_table_under_an_internal_name_refuses_the_output_unchanged(warehouse: Warehouse, taken: str) -> None:
    """A foreign table under an internal name is reported by the check for conflicts, and a writer that starts anyway is
    refused and changes nothing.
    """
    warehouse.execute(f"CREATE TABLE {taken} (a INTEGER)", f"INSERT INTO {taken} VALUES (7)")
    conflict = TableSink(warehouse.url, table="totals", key=["customer"]).find_conflict(serves=True)
    assert conflict is not None
    assert taken in conflict
    assert MINE in conflict
    with pytest.raises(InvalidInput, match=MINE):
        warehouse.writer("v0001", 1).raise_fence()
    assert warehouse.rows(f"SELECT * FROM {taken}") == [(7,)]


@pytest.mark.spark
def test_an_output_under_a_staging_name_keeps_its_rows(warehouse: Warehouse, write: Write) -> None:
    """If an older output has the name that a second output would use for staging, the second one is refused and the
    older one keeps its rows.
    """
    other = warehouse.writer("v0001", 1, table="totals__staged", query="other")
    totals = warehouse.writer("v0001", 1)
    for each in (other, totals):
        each.raise_fence()
    write(other, 0)
    with pytest.raises(InvalidInput, match=MINE):
        write(totals, 0)
    assert warehouse.rows("SELECT * FROM totals__staged") == [("a", 1)]


@pytest.mark.spark
def test_without_the_column_check_an_output_under_a_staging_name_is_dropped(
    warehouse: Warehouse, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of its columns, an output under a staging name is used as the staging table
    and loses its rows.
    """
    other = warehouse.writer("v0001", 1, table="totals__staged", query="other")
    totals = warehouse.writer("v0001", 1)
    for each in (other, totals):
        each.raise_fence()
    write(other, 0)
    monkeypatch.setattr(table_writer, "find_staging_table", lambda _, name: versions_of_table.staged_name(name))
    write(totals, 0)
    assert warehouse.rows("SELECT count(*) FROM totals__staged") == [(0,)]


@pytest.mark.spark
def test_a_foreign_table_under_a_staging_name_survives_abort_and_cutover(warehouse: Warehouse, write: Write) -> None:
    """A foreign table under the name of a shadow's staging table survives both an abort and a cutover."""
    serving = warehouse.writer("v0001", 1)
    serving.raise_fence()
    write(serving, 0)
    for version, epoch, ends in (("v0002", 2, "aborted"), ("v0003", 3, "swapped")):
        shadow = warehouse.writer(version, epoch, shadow=True)
        shadow.raise_fence()
        write(shadow, 0)
        staged = f"totals__{version}__staged"
        warehouse.execute(f"DROP TABLE {staged}", f"CREATE TABLE {staged} (a INTEGER)")
        if ends == "aborted":
            shadow.discard()
        else:
            warehouse.writer(version, epoch + 1).raise_fence()
    theirs = {"totals__v0002__staged", "totals__v0003__staged"}
    assert warehouse.tables == {"totals", "totals__v0001", *theirs}


@pytest.mark.parametrize("shadow", [False, True])
def test_a_foreign_directory_is_neither_written_nor_removed(tmp_path: Path, shadow: bool) -> None:
    """A directory under a version's name that contains files and was not claimed by a writer of the output is refused,
    and is neither written nor removed.
    """
    (tmp_path / "v0002").mkdir()
    (tmp_path / "v0002" / "mine.csv").write_text("1")
    writer = FileSink(str(tmp_path)).open(
        SinkContext(
            job="sales",
            query="copy",
            version="v0002",
            epoch=2,
            role=WriterRole.SHADOW if shadow else WriterRole.SERVING,
        )
    )
    with pytest.raises(InvalidInput, match="has files that Streamkeeper did not write"):
        writer.raise_fence()
    writer.discard()
    assert (tmp_path / "v0002" / "mine.csv").read_text() == "1"


@pytest.mark.parametrize("shadow", [False, True])
def test_a_version_that_has_begun_keeps_its_directory_without_a_claim(tmp_path: Path, shadow: bool) -> None:
    """A version that has begun keeps its directory even if its claims or its shadow mark are missing; a shadow gets its
    mark again, so that an abort removes it.
    """
    (tmp_path / "v0002").mkdir()
    (tmp_path / "v0002" / "part-0.parquet").write_text("1")
    role = WriterRole.SHADOW if shadow else WriterRole.SERVING
    context = SinkContext(job="sales", query="copy", version="v0002", epoch=2, role=role, begun=True)
    writer = FileSink(str(tmp_path)).open(context)
    writer.raise_fence()
    assert file_serving.is_shadow(str(tmp_path), "v0002") is shadow
    writer.discard()
    assert (tmp_path / "v0002").exists() is not shadow


def test_without_the_check_of_the_shadow_mark_an_abort_removes_foreign_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if every directory counts as a marked shadow, an aborted dual run deletes foreign files."""
    (tmp_path / "v0002").mkdir()
    (tmp_path / "v0002" / "mine.csv").write_text("1")
    monkeypatch.setattr("streamkeeper.sinks.file.is_shadow", lambda *_: True)
    context = SinkContext(job="sales", query="copy", version="v0002", epoch=2, role=WriterRole.SHADOW)
    writer = FileSink(str(tmp_path)).open(context)
    writer.raise_fence()
    writer.discard()
    assert not (tmp_path / "v0002").exists()


def test_an_output_inside_a_version_directory_of_another_output_conflicts(tmp_path: Path) -> None:
    """An output inside a version directory of a different output conflicts with it; one in any other directory below
    that output does not.
    """
    out, inside, beside = (FileSink(str(tmp_path / name)) for name in ("out", "out/v0002", "out/copies"))
    assert out.overlaps(inside)
    assert inside.overlaps(out)
    assert not out.overlaps(beside)
    out.open(SinkContext(job="sales", query="copy", version="v0001", epoch=1)).raise_fence()
    assert (
        inside.find_conflict(serves=False)
        == f"directory {inside.path} is inside an internal directory of output {out.path}"
    )
    assert inside.find_conflict(serves=True) is None
    assert beside.find_conflict(serves=False) is None
    assert not ForeachBatch(print).overlaps(ForeachBatch(print))
    assert is_internal("/a/_streamkeeper/epochs", "/a")
