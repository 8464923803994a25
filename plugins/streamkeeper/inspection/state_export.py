"""Reads the whole state of a checkpoint with Spark's own reader, to write it as Parquet or to prove that it loads.

Nothing is written into the checkpoint. Where Spark's reader might write, it gets a copy of the closed file set.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from streamkeeper.checkpoints.cloning import clone
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import CheckpointDamaged, InvalidInput, NotFound
from streamkeeper.inspection.diverted import fault_of
from streamkeeper.inspection.state_layout import session_for
from streamkeeper.inspection.state_reading import StateStore, find_state_stores, read_state
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.drill_messages import ExportedStore, StateExport
from streamkeeper.system.private_files import make_folders, make_private

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DESCRIPTION = "state.json"

_UNSUPPORTED = re.compile(
    r"STDS_(REQUIRED_OPTION_UNSPECIFIED|CONFLICT_OPTIONS|INVALID_OPTION_VALUE)(\..*)?|UNSUPPORTED_.*|.*_NOT_SUPPORTED"
)


class StateCount(NamedTuple):
    """The result of reading all state.

    ``stores``: the number of stores that were read.
    ``rows``: the number of rows in them.
    ``unsupported``: for each store that could not be read, the reason as a phrase.
    """

    stores: int
    rows: int
    unsupported: tuple[str, ...] = ()


def export_state(spark: SparkSession, checkpoint: Tree, batch: int | None, target: Path) -> StateExport:
    """Write the state after committed ``batch`` (by default the last one) to ``target``, which appears when complete.

    The Parquet files are in ``operator-0/default/``, ``operator-0/left/`` and so on. Their columns are ``key``,
    ``value`` and ``partition_id``; a state variable has other columns. Columns of the same name in a struct are
    numbered. Values of types that Parquet lacks become text. ``state.json`` is the StateExport, which also names the
    stores that Spark's reader does not support. Raises CheckpointDamaged if a store cannot be read, InvalidInput if
    ``target`` exists, NotFound if the batch is not committed.
    """
    number = _committed(checkpoint, batch)
    if target.exists():
        raise InvalidInput(f"{target} already exists", hint="export into a directory that does not exist")
    make_folders(target.parent)
    draft = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    make_folders(draft)
    try:
        with _opened(spark, checkpoint, number, owned=False) as (session, readable, stores):
            written = tuple(_export(session, readable, number, store, draft) for store in stores)
        export = StateExport(batch=number, spark=spark.version, stores=written)
        (draft / DESCRIPTION).write_bytes(to_json(export) + b"\n")
        make_private(draft)
        os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return export


def read_all_state(spark: SparkSession, checkpoint: Tree, batch: int | None, *, owned: bool = False) -> StateCount:
    """Read every row of every store after committed ``batch`` (by default the last), to prove that every file loads.

    ``owned``: whether the checkpoint belongs to the caller, so that temporary files may be written into it. Raises
    CheckpointDamaged with Spark's error as the cause, and NotFound if the batch is not committed.
    """
    number = _committed(checkpoint, batch)
    rows, read = 0, 0
    unsupported: list[str] = []
    with _opened(spark, checkpoint, number, owned=owned) as (session, readable, stores):
        for store in stores:
            try:
                rows += read_state(session, readable, number, store).count()
                read += 1
            except Exception as error:
                unsupported.append(f"{store.operator}/{store.store}: {_why_unsupported(error, store)}")
    return StateCount(read, rows, tuple(unsupported))


def _committed(checkpoint: Tree, batch: int | None) -> int:
    tree = checkpoint.fresh()
    number = last_committed(tree) if batch is None else batch
    if number is None or not tree.has(f"commits/{number}"):
        what = "no committed batch" if number is None else f"no commit of batch {number}"
        raise NotFound(f"{tree.where('')} has {what}")
    return number


@contextmanager
def _opened(
    spark: SparkSession, checkpoint: Tree, batch: int, *, owned: bool
) -> Iterator[tuple[SparkSession, Tree, tuple[StateStore, ...]]]:
    """Provide a session with the checkpoint's layout, a directory from which the state can be read, and the stores in
    it.
    """
    with session_for(spark, checkpoint) as session:
        try:
            stores = find_state_stores(session, checkpoint, batch)
        except Exception as error:
            fault = fault_of(error)
            fault_text = f"{fault.error_class}: {fault.message}"
            raise CheckpointDamaged(f"the stateful operators cannot be read: {fault_text}") from error
        if owned or not any(store.writes for store in stores):
            yield session, checkpoint, stores
            return
        with tempfile.TemporaryDirectory(prefix="streamkeeper-state-", ignore_cleanup_errors=True) as scratch:
            copy = LocalTree(Path(scratch) / "checkpoint", lasting=False)
            clone(checkpoint.fresh(), copy, batch)
            yield session, copy, stores


def _export(session: SparkSession, checkpoint: Tree, batch: int, store: StateStore, draft: Path) -> ExportedStore:
    """Write one store as Parquet.

    ``session``: a session with the checkpoint's layout.
    ``checkpoint``: the directory to read from.
    ``batch``: the committed batch after which the state is read.
    ``store``: the store to write.
    ``draft``: the directory for the new folder.
    """
    found = ExportedStore(operator=store.operator, name=store.name, store=store.store)
    path = f"operator-{store.operator}/{_folder(store.store)}"
    try:
        rows = read_state(session, checkpoint, batch, store)
        writable(rows).write.option("compression", "zstd").parquet(str(draft / path))
    except Exception as error:
        why = _why_unsupported(error, store)
        shutil.rmtree(draft / path, ignore_errors=True)
        return ExportedStore(operator=found.operator, name=found.name, store=found.store, unsupported=why)
    return _measured(found, draft, path)


def _measured(found: ExportedStore, draft: Path, path: str) -> ExportedStore:
    """Return the store with its numbers of rows, files and bytes. Files that are not Parquet files are removed."""
    from pyarrow import parquet

    files = []
    for file in sorted((draft / path).iterdir()):
        if file.suffix == ".parquet":
            files.append(file)
        else:
            file.unlink()
    return ExportedStore(
        operator=found.operator,
        name=found.name,
        store=found.store,
        rows=sum(parquet.ParquetFile(file).metadata.num_rows for file in files),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
        path=path,
    )


def _folder(store: str) -> str:
    """Return a store's name as a folder that Spark does not take for hidden. A state variable may have any name."""
    name = quote(store, safe="$")
    return name if name[0] not in "._" else f"%{ord(name[0]):02X}{name[1:]}"


def _why_unsupported(error: Exception, store: StateStore) -> str:
    """Return what the reader or Parquet does not support, as a phrase. Raises CheckpointDamaged for any other error."""
    fault = fault_of(error)
    fault_text = f"{fault.error_class}: {fault.message}"
    if not _UNSUPPORTED.fullmatch(fault.error_class):
        raise CheckpointDamaged(f"state store {store.operator}/{store.store} cannot be read: {fault_text}") from error
    return fault_text


def writable(rows: DataFrame) -> DataFrame:
    """Return the rows with types and names that Parquet accepts: no void types, empty structs or equal names."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    def column(field: Any) -> Column:
        if isinstance(field.dataType, StructType) and not field.dataType.fields:
            return F.lit(None).cast("string").alias(field.name)
        return rows[field.name].cast(_writable_type(field.dataType)).alias(field.name)

    return rows.select([column(field) for field in rows.schema.fields])


def _writable_type(column_type: Any) -> Any:
    from pyspark.sql.types import (
        ArrayType,
        CalendarIntervalType,
        MapType,
        NullType,
        StringType,
        StructField,
        StructType,
    )

    match column_type:
        case NullType() | CalendarIntervalType():
            return StringType()
        case ArrayType():
            return ArrayType(_writable_type(column_type.elementType), column_type.containsNull)
        case MapType():
            key, value = _writable_type(column_type.keyType), _writable_type(column_type.valueType)
            return MapType(key, value, column_type.valueContainsNull)
        case StructType():
            names = _unique([field.name for field in column_type.fields])
            types = [_writable_type(field.dataType) for field in column_type.fields]
            return StructType([StructField(name, type) for name, type in zip(names, types, strict=True)])
        case _:
            return column_type


def _unique(names: list[str]) -> list[str]:
    """Return unique names, for example sum, sum_2 for sum, sum. Names that differ only in case count as equal."""
    taken: set[str] = set()
    found = []
    for name in names:
        number, chosen = 1, name
        while chosen.lower() in taken:
            number += 1
            chosen = f"{name}_{number}"
        taken.add(chosen.lower())
        found.append(chosen)
    return found
