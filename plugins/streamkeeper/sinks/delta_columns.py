"""Checks whether a batch's columns and keys fit a Delta table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from streamkeeper.errors import InvalidInput, OutputUnfit, Unsupported
from streamkeeper.sinks.sql_names import in_backticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_REFUSED_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
_REFUSED_TYPES = ("interval", "void", "time(")
"""How the names of types start that Delta cannot store."""
_KNOWN_FEATURES = frozenset(
    {"appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns"}
    | {"identityColumns", "inCommitTimestamp", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
    | {"variantType", "variantType-preview"}
)
"""The features of Delta's protocol with which the log is complete in ``_delta_log``, and that ``refuse_table`` judges
by the table's properties and columns.
"""
_FORGETTING = "delta.setTransactionRetentionDuration"
_UNFIT_PROPERTIES = {
    "delta.columnMapping.mode": ("none", "the files of a rebuilt version would not have the table's column mapping"),
    "delta.enableRowTracking": ("false", "the files of a rebuilt version would not have the table's row ids"),
    "delta.enableDeletionVectors": ("false", "a rollback or a restore could miss deletion vectors that VACUUM deleted"),
    "delta.appendOnly": ("false", "a rebuild, a rollback and a restore replace rows"),
}
"""Property -> the value with which a table can be written, and why it cannot with another one."""


def check_columns(path: str, schema: StructType, *, key: Sequence[str], partition_by: Sequence[str]) -> None:
    """Raise InvalidInput or Unsupported if the columns of a batch cannot be stored in a Delta table.

    ``path``: the table, for messages. ``key`` and ``partition_by``: columns that the batch must have.
    """
    for what, columns in (("key", key), ("partition_by", partition_by)):
        missing = [name for name in columns if name not in schema.names]
        if missing:
            raise InvalidInput(f"table {path}: the query has no column {', '.join(missing)}, which {what} names")
    if set(partition_by) >= set(schema.names):
        raise InvalidInput(f"table {path}: partition_by names all columns", hint="leave out a column")
    for field in schema:
        if _REFUSED_IN_NAMES.search(field.name):
            raise InvalidInput(
                f"table {path}: Delta does not accept the column name {field.name!r}",
                hint="rename it to one without blanks and without any of ,;{}()=",
            )
        for kind in _leaves(field.dataType):
            if kind.startswith(_REFUSED_TYPES):
                raise Unsupported(
                    f"table {path}: column {field.name} has the type {kind}, which Delta cannot store",
                    hint="cast the column to another type",
                )


def _leaves(kind: Any) -> Iterator[str]:
    """Yield the names of all types inside a type that contain no other type."""
    parts = [
        *(field.dataType for field in getattr(kind, "fields", ())),
        *(getattr(kind, name) for name in ("elementType", "keyType", "valueType") if hasattr(kind, name)),
    ]
    if not parts:
        yield kind.simpleString()
    for part in parts:
        yield from _leaves(part)


def refuse_other_columns(path: str, table: TableFacts, schema: StructType, partition_by: Sequence[str]) -> None:
    """Raise OutputUnfit if a batch does not fit the columns or the partition columns of a table.

    The order of columns and whether they may be null can differ.
    """
    if tuple(table.partition_by) != tuple(partition_by):
        raise OutputUnfit(
            f"table {path} is partitioned by {', '.join(table.partition_by) or 'no column'}, and the sink by"
            f" {', '.join(partition_by) or 'no column'}",
            hint=f"write partition_by={list(table.partition_by)!r}, or rebuild the table with `--strategy rebuild`",
        )
    stored = type(schema).fromJson({"type": "struct", "fields": [dict(field) for field in table.fields]})
    found = {field.name: field.dataType.simpleString() for field in stored}
    batch = {field.name: field.dataType.simpleString() for field in schema}
    differences = [
        *(f"the table has no column {name}" for name in batch if name not in found),
        *(f"the query has no column {name}" for name in found if name not in batch),
        *(
            f"column {name} is {kind} in the query and {found[name]} in the table"
            for name, kind in batch.items()
            if name in found and found[name] != kind
        ),
    ]
    if differences:
        raise OutputUnfit(
            f"table {path} does not fit the query: {'; '.join(differences)}",
            hint="change the query, or rebuild the table with `--strategy rebuild`",
        )


def has_times_without_zone(schema: StructType) -> bool:
    """Whether a column, or a part of one, has the type timestamp_ntz."""
    return any(kind == "timestamp_ntz" for field in schema for kind in _leaves(field.dataType))


def refuse_forgetting(path: str, properties: Mapping[str, str]) -> None:
    """Raise InvalidInput if a table forgets application transactions after some time."""
    if _FORGETTING in properties:
        raise InvalidInput(
            f"table {path} has {_FORGETTING}={properties[_FORGETTING]}: it would forget its writers and batches, and"
            " would then store batches twice",
            hint=f"remove the property with ALTER TABLE … UNSET TBLPROPERTIES ('{_FORGETTING}')",
        )


def refuse_table(path: str, table: TableFacts) -> None:
    """Raise InvalidInput if an existing table cannot be written, rebuilt and restored without a loss."""
    refuse_forgetting(path, table.properties)
    for name, (fit, why) in _UNFIT_PROPERTIES.items():
        if table.properties.get(name, fit).lower() != fit:
            raise InvalidInput(
                f"table {path} has {name}={table.properties[name]}: {why}",
                hint=f"remove the property with ALTER TABLE … UNSET TBLPROPERTIES ('{name}'), or write another table",
            )
    constraints = [name for name in table.properties if name.startswith("delta.constraints.")]
    special = [
        str(field["name"])
        for field in table.fields
        if not field["nullable"] or any(name.startswith(("delta.", "CURRENT_")) for name in field["metadata"])
    ]
    unknown = sorted(table.features - _KNOWN_FEATURES)
    for found, what in (
        (constraints, "constraints"),
        (special, "NOT NULL, generated, identity or default columns"),
        (unknown, "features that Streamkeeper does not know"),
    ):
        if found:
            raise InvalidInput(
                f"table {path} has {what} ({', '.join(found)}), which a rebuilt version would not have",
                hint="remove them, or write another table",
            )


class TableFacts(NamedTuple):
    """The facts about an existing table that decide whether it can be written."""

    properties: Mapping[str, str]
    """Its properties."""
    fields: Sequence[Mapping[str, Any]]
    """Its columns, as in Spark's JSON of a schema."""
    partition_by: Sequence[str]
    """Its partition columns."""
    features: frozenset[str]
    """The features of its protocol."""


def check_keys(path: str, batch: DataFrame, key: Sequence[str]) -> None:
    """Raise InvalidInput if several rows of a batch have the same key, because their order is not defined."""
    twice = batch.groupBy(*map(in_backticks, key)).count().where("count > 1").drop("count").first()
    if twice is not None:
        row = ", ".join(f"{name}={value!r}" for name, value in zip(key, twice, strict=True))
        raise InvalidInput(
            f"table {path}: a batch has several rows with the key {row}",
            hint="aggregate or deduplicate by the key before the sink, or add a column to the key",
        )
