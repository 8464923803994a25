"""Who writes an output, asked of nothing but the output: both databases, and files."""

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


def test_a_database_whose_outputs_were_all_dropped_has_none(warehouse: Warehouse) -> None:
    """A declined rebuild of a new table leaves its table of outputs empty; that is no error."""
    warehouse.writer("v0001", 1).raise_fence()
    warehouse.execute("DELETE FROM streamkeeper_outputs")
    assert read_fences(warehouse.url) == []


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


@pytest.mark.parametrize("place", ["s3a://bucket/out", "mysql://ada:hush@db.example/sales"])
def test_a_place_of_no_sink_is_refused_with_those_that_can_be_named(place: str) -> None:
    """In one line, by its scheme alone: the place may contain a password."""
    with pytest.raises(Unsupported) as told:
        read_fences(place)
    scheme, _, _ = place.partition(":")
    assert told.value.message == f"outputs at {scheme}:// are not supported"
    assert told.value.hint == "name the URL (or secret://… reference) of a table's database or the path of a FileSink"


def test_a_place_of_several_kinds_is_read_by_each_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that has no output there is no error if another one has; what both lack is told of both."""
    empty, held = tmp_path / "empty", tmp_path / "held"
    delta = SinkKind(
        name="delta",
        sink="DeltaSink",
        module=Delta.__name__,
        capabilities=SinkCapabilities(fences=True),
        schemes=frozenset({"", "s3a"}),
    )
    monkeypatch.setitem(KINDS, "delta", delta)
    monkeypatch.setitem(sys.modules, Delta.__name__, Delta(held=[str(held), "s3a://bucket/out"]))
    assert [fence.owner for place in (str(held), "s3a://bucket/out") for fence in read_fences(place)] == ["j/q", "j/q"]
    with pytest.raises(NotFound, match="contains no epoch log of a FileSink; .* has no Delta log"):
        read_fences(str(empty))
    FileSink(str(held)).open(SinkContext(job="sales", query="copy", version="v0001", epoch=1)).raise_fence()
    assert [fence.owner for fence in read_fences(str(held))] == ["sales/copy", "j/q"]


class Delta(ModuleType):
    """The module of another kind, which finds outputs in the places ``held``."""

    def __init__(self, held: list[str]) -> None:
        super().__init__("Delta")
        self.held = held

    def read_fences(self, place: str) -> list[Fence]:
        if place not in self.held:
            raise NotFound(f"{place} has no Delta log")
        return [Fence(output=place, owner="j/q", epoch=1, claimed=1, version="v0001")]
