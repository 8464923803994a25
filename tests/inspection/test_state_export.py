"""Tests the export of state as Parquet: every layout and operator equals what plain Python computes, and the checkpoint
is only read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from harness.state_layouts import LAYOUTS
from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointDamaged, InvalidInput, NotFound
from streamkeeper.inspection import state_export
from streamkeeper.inspection.state_export import StateCount, export_state, read_all_state
from streamkeeper.inspection.state_reading import TIMERS, StateStore
from streamkeeper.model.coding import from_json
from streamkeeper.model.protocol.drill_messages import ExportedStore, StateExport
from tests.inspection import stateful
from tests.inspection.queries import read, totals, write_files
from tests.inspection.stateful import contents, rows_of, run, session_with, sums_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three input files."""
    made = tmp_path_factory.mktemp("in")
    write_files(made, 3)
    return made


@pytest.fixture(scope="module")
def live(spark: SparkSession, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of sums per key with three batches."""
    made = tmp_path_factory.mktemp("live") / "checkpoint"
    run(totals(read(spark, folder)), made, "update")
    return made


def restored(checkpoint: Path, target: Path, batch: int | None = None) -> Path:
    """Copy the closed file set of a batch to the target and return the target."""
    number = last_committed(LocalTree(checkpoint)) if batch is None else batch
    assert number is not None
    clone(LocalTree(checkpoint), LocalTree(target), number)
    return target


def rows(target: Path, store: ExportedStore) -> list[dict[str, Any]]:
    """Return an exported store's rows, read without Spark."""
    found: list[dict[str, Any]] = parquet.read_table(target / store.path).to_pylist()
    assert len(found) == store.rows
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_exported_as_python_computes_it(
    spark: SparkSession, folder: Path, tmp_path: Path, layout: str
) -> None:
    """State in every layout is exported correctly at the newest and an older batch, whatever the session's own layout
    settings, and the checkpoint is unchanged.
    """
    live = tmp_path / "live"
    run(totals(read(session_with(spark, layout), folder)), live, "update")
    for batch in (1, 2):
        copy = restored(live, tmp_path / f"copy{batch}", batch)
        before = contents(copy)
        other = session_with(spark, "hdfs" if layout != "hdfs" else "format-2")
        export = export_state(other, LocalTree(copy), batch, tmp_path / f"out{batch}")
        (store,) = export.stores
        assert (export.batch, store.operator, store.name, store.store) == (batch, 0, "stateStoreSave", "default")
        found = {row["key"]["k"]: row["value"]["sum"] for row in rows(tmp_path / f"out{batch}", store)}
        assert found == sums_of(rows_of(folder, last=batch))
        assert read_all_state(other, LocalTree(copy), batch) == StateCount(1, 5)
        assert contents(copy) == before


def joined(folder: Path) -> dict[str, list[Any]]:
    seen = sorted((row["k"], row["x"]) for row in rows_of(folder))
    return {"left": seen, "right": [each for each in seen if each[1] > 3]}


def remembered(folder: Path) -> dict[str, list[Any]]:
    given = rows_of(folder)
    keys = sorted({row["k"] for row in given})
    values = {key: sorted(row["x"] for row in given if row["k"] == key) for key in keys}
    return {
        "total": [(key, len(values[key])) for key in keys],
        "seen": [(key, each) for key in keys for each in values[key]],
        "often": [(key, each, values[key].count(each)) for key in keys for each in sorted(set(values[key]))],
        TIMERS: keys,
    }


def of_key_and_value(key: str, value: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: (row["key"][key], row["value"][value])


OPERATORS: dict[str, tuple[str, Callable[[Path], dict[str, list[Any]]], dict[str, Callable[[dict[str, Any]], Any]]]] = {
    "deduplicated": (
        "append",
        lambda folder: {"default": sorted({(row["k"], row["x"]) for row in rows_of(folder)})},
        {"default": lambda row: (row["key"]["k"], row["key"]["x"])},
    ),
    "two_sums": (
        "update",
        lambda folder: {
            "default": sorted(
                (key, x, sums_of(rows_of(folder), "y")[key]) for key, x in sums_of(rows_of(folder)).items()
            )
        },
        {"default": lambda row: (row["key"]["k"], row["value"]["sum"], row["value"]["sum_2"])},
    ),
    "grand_total": (
        "update",
        lambda folder: {"default": [(None, sum(row["x"] for row in rows_of(folder)))]},
        {"default": lambda row: (row["key"], row["value"]["sum"])},
    ),
    "limited": ("append", lambda folder: {"default": [7]}, {"default": lambda row: row["value"]["value"]}),
    "joined": (
        "append",
        joined,
        {"left": of_key_and_value("field0", "x"), "right": of_key_and_value("field0", "x")},
    ),
    "sessions": (
        "append",
        lambda folder: {"default": sorted({(row["k"], row["ts"]) for row in rows_of(folder)})},
        {"default": lambda row: (row["key"]["k"], f"{row['value']['session_window']['start']:%Y-%m-%dT%H:%M:%S}")},
    ),
    "counted": (
        "update",
        lambda folder: {"default": sorted((key, 12) for key in sums_of(rows_of(folder)))},
        {"default": lambda row: (row["key"]["k"], row["value"]["groupState"]["n"])},
    ),
    "processed": (
        "update",
        remembered,
        {
            "total": of_key_and_value("k", "n"),
            "seen": lambda row: (row["key"]["k"], row["list_element"]["x"]),
            "often": lambda row: (row["key"]["k"], row["user_map_key"]["x"], row["user_map_value"]["n"]),
            TIMERS: lambda row: row["key"]["k"],
        },
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_exported_as_python_computes_it(
    spark: SparkSession, folder: Path, tmp_path: Path, operator: str
) -> None:
    """Each store of every stateful operator is exported correctly from the closed file set, the proof counts the same
    rows, and the checkpoint is unchanged.
    """
    mode, expected, shown = OPERATORS[operator]
    build: Callable[[SparkSession, Path], Any] = getattr(stateful, operator)
    # With processing-time timers there is always one more batch: availableNow would not end.
    run(build(spark, folder), tmp_path / "live", mode, **({"once": True} if operator == "processed" else {}))
    copy = restored(tmp_path / "live", tmp_path / "copy")
    before = contents(copy)
    export = export_state(spark, LocalTree(copy), None, tmp_path / "out")
    assert all(each.unsupported == "" for each in export.stores)
    found = {each.store: sorted(map(shown[each.store], rows(tmp_path / "out", each))) for each in export.stores}
    assert found == expected(folder)
    assert read_all_state(spark, LocalTree(copy), None) == StateCount(len(export.stores), sum(map(len, found.values())))
    assert contents(copy) == before


def test_two_operators_have_a_folder_each(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Two operators are exported into separate folders, and ``state.json`` records paths, row counts and the files'
    sizes.
    """
    run(stateful.deduplicated_totals(spark, folder), tmp_path / "live", "update")
    export = export_state(spark, LocalTree(tmp_path / "live"), None, tmp_path / "out")
    assert [(each.name, each.path, each.rows) for each in export.stores] == [
        ("stateStoreSave", "operator-0/default", 5),
        ("dedupe", "operator-1/default", len({(row["k"], row["x"]) for row in rows_of(folder)})),
    ]
    assert from_json((tmp_path / "out/state.json").read_bytes(), StateExport, where="state.json") == export
    for each in export.stores:
        files = list((tmp_path / "out" / each.path).iterdir())
        assert [path.suffix for path in files] == [".parquet"] * each.files
        assert sum(path.stat().st_size for path in files) == each.bytes


def test_a_failed_read_of_a_state_variable_leaves_files_behind(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """A failed read of a state variable by Spark's reader changes the store that it reads, which is why such state is
    read from a copy.
    """
    run(stateful.processed(spark, folder), tmp_path / "live", "update", once=True)
    copy = restored(tmp_path / "live", tmp_path / "copy")
    before = contents(copy)
    reader = spark.read.format("statestore").option("stateVarName", "$procTimers_keyToTimestamp")
    with pytest.raises(Exception, match="STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS"):
        reader.option("operatorId", 0).option("batchId", 0).load(str(copy)).count()
    assert contents(copy) != before


def test_a_store_unsupported_by_the_reader_is_recorded_and_others_exported(
    spark: SparkSession, live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that Spark's reader cannot read is recorded as unsupported, and the other stores are still exported."""
    known = state_export.find_state_stores

    def find(*given: Any) -> tuple[StateStore, ...]:
        options = {"stateVarName": "total", "readRegisteredTimers": "true"}
        return (*known(*given), StateStore(operator=0, name="x", store="both", options=options))

    monkeypatch.setattr(state_export, "find_state_stores", find)
    export = export_state(spark, LocalTree(live), None, tmp_path / "out")
    assert [(each.store, each.rows, each.path) for each in export.stores] == [
        ("default", 5, "operator-0/default"),
        ("both", 0, ""),
    ]
    assert export.stores[1].unsupported.startswith("STDS_CONFLICT_OPTIONS: ")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["operator-0", "state.json"]
    count = read_all_state(spark, LocalTree(live), None)
    assert (count.stores, count.rows, len(count.unsupported)) == (1, 5, 1)


def test_a_damaged_store_exports_nothing(spark: SparkSession, live: Path, tmp_path: Path) -> None:
    """The export of a damaged store fails with the store's name and leaves neither the target nor a draft."""
    copy = restored(live, tmp_path / "copy")
    next((copy / "state/0/1").glob("*.changelog")).unlink()
    before = contents(copy)
    with pytest.raises(CheckpointDamaged, match=r"state store 0/default cannot be read: CANNOT_LOAD_STATE_STORE"):
        export_state(spark, LocalTree(copy), None, tmp_path / "out" / "state")
    assert list((tmp_path / "out").iterdir()) == []
    assert contents(copy) == before


def test_a_missing_state_partition_counts_as_damage(spark: SparkSession, live: Path, tmp_path: Path) -> None:
    """A missing state partition counts as damage, although Spark's reader skips it and returns fewer rows."""
    copy = restored(live, tmp_path / "copy")
    shutil.rmtree(copy / "state/0/1")
    with pytest.raises(CheckpointDamaged, match=r"state store 0/default .* partition 1 of 2 is missing"):
        read_all_state(spark, LocalTree(copy), None)
    reader = spark.read.format("statestore").option("operatorId", 0).option("batchId", 2)
    assert 0 < reader.load(str(copy)).count() < 5


def test_an_impossible_export_is_refused_before_any_file_is_written(
    spark: SparkSession, live: Path, tmp_path: Path
) -> None:
    """An existing target, a batch without a commit and a checkpoint without a committed batch are refused before any
    file is written.
    """
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidInput, match="already exists"):
        export_state(spark, LocalTree(live), None, tmp_path / "out")
    with pytest.raises(NotFound, match="no commit of batch 9"):
        export_state(spark, LocalTree(live), 9, tmp_path / "new")
    with pytest.raises(NotFound, match="no committed batch"):
        export_state(spark, LocalTree(tmp_path), None, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_active_session_is_as_before(spark: SparkSession, live: Path) -> None:
    """Reading the state leaves the active session unchanged, so settings of the checkpoint's layout do not leak."""
    jvm: Any = spark._jvm
    before = jvm.org.apache.spark.sql.classic.SparkSession.getActiveSession()
    read_all_state(spark, LocalTree(live), None)
    after = jvm.org.apache.spark.sql.classic.SparkSession.getActiveSession()
    assert before.equals(after)
