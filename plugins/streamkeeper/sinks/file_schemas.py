"""Record the schemas of a version's files, because text files and folder names have no types.

Each schema of a version is a file below ``_streamkeeper/schemas/<version>``. The file is created before the first batch
with that schema, and never changed. Versions from before this feature have no such files.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.sinks.file_locations import create_once, folder_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

    _Field = dict[str, Any]
    _Type = str | dict[str, Any]
    """A type in Spark's JSON form."""

FORMAT = 1
_COLLATED = "__COLLATIONS"
_NO_FOLDER = ("binary", "bytes"), ("interval", "an interval")
"""Types whose values cannot be read back from a folder's name."""
TEXT_FORMATS = ("csv", "json")
_SCHEMAS = "_streamkeeper/schemas"
_WATERMARK = "spark.watermarkDelayMs"
_WRITTEN = {
    # Offsets from before time zones existed have seconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_WITH_BLANKS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_READ = {
    # With milliseconds or without fractions, as Spark writes them by default.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS][XXXXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS]",
}
_GLOB = "__globPaths__"
"""Spark's internal option for patterns in paths. With the value false, a path with brackets is read as a path."""
_NO_COLUMN = "\x00no column"
"""The name that replaces ``_corrupt_record`` as Spark's column for malformed rows, because a column of the output may
be named ``_corrupt_record``.
"""
_WIDER = ("byte", "short", "integer", "long"), ("float", "double")
_NO_TEXT = "\x00no text\x00"
"""The text that CSV readers treat as NULL, so that nothing between two commas is read as NULL. An empty string differs
from it, because it is written in quotes.
"""


class FileSchema(msgspec.Struct, frozen=True, kw_only=True):
    """One schema of a version's files."""

    format: int = FORMAT
    """The record's format."""
    batch: int
    """The first batch that has the schema."""
    epoch: int
    """The epoch of the writer that recorded the schema."""
    schema: str
    """The schema in Spark's JSON form, without ``partitions``."""
    partitions: str
    """The schema of the partition columns, which are the names of folders."""
    time_zone: str
    """The session's time zone, in which folder names state timestamps."""


def written_schema(
    schema: StructType, partition_by: Collection[str], *, batch: int, epoch: int, time_zone: str
) -> FileSchema:
    """Return the schema to record for a batch, without the watermark's delay that Spark keeps in a column's metadata.

    ``schema``: the batch's schema.
    ``partition_by``: the partition columns.
    ``batch``: the batch's number.
    ``epoch``: the writer's epoch.
    ``time_zone``: the session's time zone.
    """
    held: list[_Field] = []
    folders: list[_Field] = []
    for field in schema.jsonValue()["fields"]:
        kept = {key: value for key, value in field["metadata"].items() if key != _WATERMARK}
        column = {**field, "type": _with_nulls(field["type"]), "nullable": True, "metadata": kept}
        (folders if field["name"] in partition_by else held).append(column)
    parts = [msgspec.json.encode({"type": "struct", "fields": fields}).decode() for fields in (held, folders)]
    return FileSchema(batch=batch, epoch=epoch, schema=parts[0], partitions=parts[1], time_zone=time_zone)


def _with_nulls(kind: _Type) -> _Type:
    """Return the type with every part nullable, as it is in files."""
    if not isinstance(kind, dict):
        return kind
    parts: dict[str, Any] = {
        name: _with_nulls(kind[name]) for name in ("elementType", "keyType", "valueType") if name in kind
    }
    nulls: dict[str, Any] = {name: True for name in ("containsNull", "valueContainsNull") if name in kind}
    if "fields" in kind:
        parts["fields"] = [{**field, "type": _with_nulls(field["type"]), "nullable": True} for field in kind["fields"]]
    return {**kind, **parts, **nulls}


def record_schema(root: str, version: str, found: FileSchema) -> None:
    """Record a schema durably; an existing record is left unchanged."""
    name = hashlib.sha256(f"{found.schema}\n{found.partitions}\n{found.time_zone}".encode()).hexdigest()[:32]
    create_once(folder_at(root, _SCHEMAS, version), f"{name}.json", to_json(found))


def read_schemas(root: str, version: str) -> list[FileSchema]:
    """Return all schemas of a version, in the order of their first batches."""
    folder = folder_at(root, _SCHEMAS, version)
    found = [
        from_json(folder.read(name), FileSchema, where=folder.where(name), newest_format=FORMAT)
        for name in folder.files("")
        if name.endswith(".json")
    ]
    return sorted(found, key=lambda each: (each.batch, each.epoch))


def refuse_other_columns(root: str, version: str, found: FileSchema) -> None:
    """Raise InvalidInput if a version's CSV files have other columns than ``found``, because CSV files do not identify
    their columns.

    The error is raised before the first batch with the other columns is written.
    """
    for known in read_schemas(root, version):
        if (known.schema, known.partitions) != (found.schema, found.partitions):
            raise InvalidInput(
                f"output {root}: CSV files of {version} have {_columns(known)}, but the batch has {_columns(found)}",
                hint="deploy the job with `--strategy rebuild`. Each checkpoint version has its own files",
            )


def _columns(found: FileSchema) -> str:
    fields = [*msgspec.json.decode(found.schema)["fields"], *msgspec.json.decode(found.partitions)["fields"]]
    return ", ".join(f"{field['name']} {field['type']}" for field in fields)


def forget_schemas(root: str, version: str) -> None:
    """Remove the schemas of a discarded version."""
    folder_at(root, _SCHEMAS, version).empty()


def write_options(file_format: str) -> dict[str, str]:
    """Return writer options that preserve every value in text formats."""
    return {**(_WRITTEN if file_format in TEXT_FORMATS else {}), **(_WITH_BLANKS if file_format == "csv" else {})}


def reader_of(spark: SparkSession, file_format: str, found: Sequence[FileSchema]) -> DataFrameReader:
    """Return Spark's reader for files that were written with these schemas, the newest last."""
    kind = type(spark.range(0).schema)
    options = read_options(file_format, found)
    return spark.read.format(file_format).options(**options).schema(kind.fromJson(joined_schema(found)))


def read_options(file_format: str, found: Sequence[FileSchema]) -> dict[str, str]:
    """Return reader options for files that were written with these schemas, the newest last."""
    partitioned = '"fields":[]' not in found[-1].partitions
    options = {"timeZone": found[-1].time_zone, _GLOB: "false"}
    if file_format in TEXT_FORMATS:
        # Spark also expects the folders' columns in a CSV file, and treats a row without them as malformed.
        options |= {**_READ, "mode": "PERMISSIVE" if partitioned and file_format == "csv" else "FAILFAST"}
        options["columnNameOfCorruptRecord"] = _NO_COLUMN
    if file_format == "csv":
        options |= {**_WITH_BLANKS, "multiLine": "true", "nullValue": _NO_TEXT, "emptyValue": ""}
    return options


def joined_schema(found: Sequence[FileSchema]) -> dict[str, Any]:
    """Return one schema, in Spark's JSON form, for files that were written with any of these schemas.

    A column that some files lack is NULL there. A column with several integer types, or with float and double, gets the
    widest of its types. Structs, arrays and maps are joined part by part. Any other column with several types becomes a
    string.
    """
    return _joined([*(each.schema for each in found), *(each.partitions for each in found)])


def _joined(parts: Sequence[str]) -> dict[str, Any]:
    """Return a schema with every field that any of these schemas has; fields of the same name are joined."""
    fields: dict[str, _Field] = {}
    for field in (field for part in parts for field in msgspec.json.decode(part)["fields"]):
        known = fields.get(field["name"])
        kind = field["type"] if known is None else _joined_type(known["type"], field["type"])
        fields[field["name"]] = field if kind == field["type"] else {**field, "type": kind, "metadata": {}}
    return {"type": "struct", "fields": list(fields.values())}


def _joined_type(one: _Type, other: _Type) -> _Type:
    """Return a type that can represent the values of both types."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict) and one["type"] == other["type"] != "udt":
        parts: dict[str, Any] = {
            name: _joined_type(one[name], other[name])
            for name in ("elementType", "keyType", "valueType")
            if name in one
        }
        both = [msgspec.json.encode(each).decode() for each in (one, other)]
        return _joined(both) if one["type"] == "struct" else {**one, **parts}
    row = next((row for row in _WIDER if one in row and other in row), ())
    return max(str(one), str(other), key=row.index) if row else "string"


def refuse_types(output: str, file_format: str, schema: StructType, partition_by: Collection[str]) -> None:
    """Raise InvalidInput for a column that files of this format cannot store, or whose values cannot be read back from
    them.
    """
    for field in schema.fields:
        kind = field.dataType.jsonValue()
        if field.name in partition_by:
            why = next(
                (f"a folder cannot be named after {what}" for of, what in _NO_FOLDER if str(kind).startswith(of)), ""
            )
        elif file_format == "orc" and _COLLATED in (field.metadata or {}) | (field.jsonValue().get("metadata") or {}):
            why = "Spark cannot read strings with a collation from ORC"
        else:
            why = next(_lost(file_format, kind), "")
        if why:
            raise InvalidInput(
                f"output {output}: column {field.name} is {field.dataType.simpleString()}, and {why}",
                hint="write another format, or cast the column to string",
            )
    _refuse_like_names(output, schema.fieldNames())
    held = [field for field in schema.fields if field.name not in partition_by]
    if file_format == "csv" and len(held) == 1 and held[0].nullable:
        raise InvalidInput(
            f"output {output}: {held[0].name} is the only column of the CSV files. Spark writes a NULL in this column"
            " as an empty line, and readers skip empty lines",
            hint="write json, parquet or orc, or add a column",
        )


def _refuse_like_names(output: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidInput(
                f"output {output}: columns {other} and {name} differ only in upper and lower case",
                hint="rename one of them, because readers cannot distinguish the two",
            )


def _lost(file_format: str, kind: _Type) -> Iterator[str]:
    """Yield the reasons why a format cannot store a type, or why its values cannot be read back."""
    if file_format == "csv" and (isinstance(kind, dict) or kind == "variant"):
        yield "CSV does not support nested values"
    if file_format == "csv" and kind == "binary":
        yield "Spark writes bytes to CSV as text that it cannot read back"
    if file_format == "json":
        yield from (
            "JSON keys must be strings"
            for each in _inside(kind)
            if isinstance(each, dict) and each["type"] == "map" and not str(each["keyType"]).startswith("string")
        )


def _inside(kind: _Type) -> Iterator[_Type]:
    """Yield a type and all its parts."""
    yield kind
    if isinstance(kind, dict):
        parts = [kind[name] for name in ("elementType", "keyType", "valueType", "sqlType") if name in kind]
        for part in [*parts, *(field["type"] for field in kind.get("fields", ()))]:
            yield from _inside(part)
