"""Tests reading an output's owner, version and epoch from the output alone, for both databases and for files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamkeeper.errors import NotFound, StoreUnavailable, Unsupported
from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.databases import identity, parse_url
from streamkeeper.sinks.fences import read_fences
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.kinds.known_kinds import KINDS
from streamkeeper.sinks.kinds.sink_kind import SinkKind
from tests.sinks.warehouse import Warehouse


def test_a_table_and_its_shadow_versions_are_one_output(warehouse: Warehouse) -> None:
    """A table and its shadow versions are one output, with the version and batch of the serving one and the highest
    epoch of all; other tables are separate outputs.
    """
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


def test_a_table_of_outputs_without_an_installation_column_is_read_unchanged(warehouse: Warehouse) -> None:
    """A table of outputs from before it had an installation column is read without being changed; a database without
    such a table raises ``NotFound``.
    """
    warehouse.execute("CREATE TABLE of_somebody_else (a INTEGER)")
    with pytest.raises(NotFound, match="no job has written a table there"):
        read_fences(warehouse.url)
    columns = "output TEXT PRIMARY KEY, owner TEXT, epoch BIGINT, version TEXT, batch_id BIGINT"
    warehouse.execute(
        f"CREATE TABLE streamkeeper_outputs ({columns})",
        "INSERT INTO streamkeeper_outputs VALUES ('totals', 'sales/totals', 4, 'v0001', 5)",
    )
    (found,) = read_fences(warehouse.url)
    assert (found.epoch, found.installation) == (4, "")
    assert len(warehouse.rows("SELECT * FROM streamkeeper_outputs")[0]) == 5


def test_a_database_with_an_empty_table_of_outputs_has_no_fences(warehouse: Warehouse) -> None:
    """A database whose table of outputs is empty, as after a declined rebuild of a new table, has no fences, and that
    is no error.
    """
    warehouse.writer("v0001", 1).raise_fence()
    warehouse.execute("DELETE FROM streamkeeper_outputs")
    assert read_fences(warehouse.url) == []


def test_a_database_that_does_not_answer_is_reported_without_its_password() -> None:
    """A database that does not answer raises ``StoreUnavailable`` instead of a result, and the message does not contain
    the password.
    """
    with pytest.raises(StoreUnavailable) as told:
        read_fences("postgresql+psycopg://ada:hush@127.0.0.1:9/sales")
    assert "hush" not in str(told.value)


def test_a_database_file_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    """A missing SQLite file is named in a ``NotFound`` error, and reading the fences does not create it."""
    with pytest.raises(NotFound, match="warehouse.db does not exist"):
        read_fences(f"sqlite:///{tmp_path}/warehouse.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_no_writer_has_claimed_has_no_fence(tmp_path: Path) -> None:
    """A directory without an epoch log, whatever else it contains, and a missing directory raise a ``NotFound`` that
    names them.
    """
    (tmp_path / "v0001").mkdir()
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFound, match=f"{place} contains no epoch log of a FileSink"):
            read_fences(str(place))


def test_the_fence_of_a_file_output_is_its_newest_claim(tmp_path: Path) -> None:
    """The fence of a file output is its newest claim, with the segments that it serves and every version that a claim
    or a folder names.
    """
    for epoch, version, serving in (
        (1, "v0001", ()),
        (2, "v0002", (OutputSegment("v0001", 4), OutputSegment("v0002"))),
    ):
        context = SinkContext(job="sales", query="copy", version=version, epoch=epoch, serving=serving)
        FileSink(str(tmp_path)).open(context).raise_fence()
    (tmp_path / "v0003").mkdir()
    (found,) = read_fences(str(tmp_path))
    assert (found.owner, found.epoch, found.version, found.batch) == ("sales/copy", 2, "v0002", None)
    assert found.serving == (OutputSegment("v0001", 4), OutputSegment("v0002"))
    assert found.versions == ("v0001", "v0002", "v0003")


@pytest.mark.parametrize("place", ["gs://bucket/out", "mysql://ada:hush@db.example/sales"])
def test_a_place_that_no_sink_supports_is_refused_with_the_supported_places(place: str) -> None:
    """A place that no kind of sink supports is refused by its scheme alone, because it may contain a password, with a
    hint at the supported places.
    """
    with pytest.raises(Unsupported) as told:
        read_fences(place)
    scheme, _, _ = place.partition(":")
    assert told.value.message == f"outputs at {scheme}:// are not supported"
    places = (
        "the URL (or secret://… reference) of a table's database, the path of a FileSink or the path of a DeltaSink"
    )
    assert told.value.hint == f"name {places}"


def test_a_place_supported_by_several_sink_kinds_is_read_by_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that several kinds of sink support is read by each: a kind without an output there is no error if a
    different kind has one, and otherwise the error names what each lacks.
    """
    empty, held = tmp_path / "empty", tmp_path / "held"
    lake = SinkKind(
        name="lake",
        sink="LakeSink",
        module=Lake.__name__,
        capabilities=SinkCapabilities(fences=True),
        schemes=frozenset({"", "abfss"}),
    )
    monkeypatch.setitem(KINDS, "lake", lake)
    monkeypatch.setitem(sys.modules, Lake.__name__, Lake(held=[str(held), "abfss://bucket/out"]))
    assert [fence.owner for place in (str(held), "abfss://bucket/out") for fence in read_fences(place)] == [
        "j/q",
        "j/q",
    ]
    with pytest.raises(
        NotFound, match="contains no epoch log of a FileSink; .* no Delta table of a DeltaSink; .* has no lake log"
    ):
        read_fences(str(empty))
    FileSink(str(held)).open(SinkContext(job="sales", query="copy", version="v0001", epoch=1)).raise_fence()
    assert [fence.owner for fence in read_fences(str(held))] == ["sales/copy", "j/q"]


class Lake(ModuleType):
    """A stand-in for the module of a different kind, which finds outputs in the places ``held``."""

    def __init__(self, held: list[str]) -> None:
        super().__init__("Lake")
        self.held = held

    def read_fences(self, place: str) -> list[Fence]:
        if place not in self.held:
            raise NotFound(f"{place} has no lake log")
        return [Fence(output=place, owner="j/q", epoch=1, claimed=1, version="v0001")]
