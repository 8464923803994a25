"""Read the current content of a file output. Its create-only epoch log names the checkpoint versions, in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import Fenced, InvalidInput
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.file_locations import create_once, folder_at, output_location
from streamkeeper.sinks.file_schemas import read_schemas, reader_of
from streamkeeper.sinks.sink_log import listed_files, newest_batch
from streamkeeper.sinks.sql_names import in_backticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_EPOCHS = "_streamkeeper/epochs"
_SHADOWS = "_streamkeeper/shadows"
_AT_ONCE = 8
"""The number of requests at the same time. Each start of a driver adds a claim, so there may be thousands."""


class EpochFile(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of the output, stored as ``_streamkeeper/epochs/<number>.json``, with the facts that readers need."""

    epoch: int
    """The claimed epoch."""
    owner: str
    """The output's owner: ``<job>/<query>``."""
    version: str
    """The version that is written."""
    file_format: str
    """The file format of ``version``."""
    serving: tuple[OutputSegment, ...] = ()
    """The segments of the output, in order; empty if the output consists only of ``version``."""
    formats: dict[str, str] = {}
    """Version -> file format, for the versions that were written before ``version``."""
    installation: str = ""
    """The writing installation's id; empty in claims from before installations had ids."""

    @property
    def segments(self) -> tuple[OutputSegment, ...]:
        """The segments of the output, in order; each is a checkpoint version with its last batch."""
        return self.serving or (OutputSegment(self.version),)

    @property
    def all_formats(self) -> dict[str, str]:
        """The file format of each checkpoint version that the claim records."""
        return {**self.formats, self.version: self.file_format}


def newest_epoch(root: str) -> EpochFile | None:
    """Return the newest claim of an output at present; None if the output has no claim."""
    folder = folder_at(root, _EPOCHS)
    names = _claims(folder)
    return _read_epoch(folder, names[-1]) if names else None


def read_epochs(root: str) -> list[EpochFile]:
    """Return every claim of an output, oldest first."""
    folder = folder_at(root, _EPOCHS)
    names = _claims(folder)
    if isinstance(folder, LocalTree):
        return [_read_epoch(folder, name) for name in names]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="claims") as pool:
        return list(pool.map(partial(_read_epoch, folder), names))


def _claims(folder: Tree) -> list[str]:
    return [name for name in folder.files("") if name.endswith(".json")]


def _read_epoch(folder: Tree, name: str) -> EpochFile:
    return from_json(folder.read(name), EpochFile, where=folder.where(name))


def mark_shadow(root: str, version: str) -> None:
    """Record that a version's directory is written in shadow. Only a directory with this mark may be removed."""
    create_once(folder_at(root, _SHADOWS), version, b"")


def is_shadow(root: str, version: str) -> bool:
    """Whether a version's directory was written in shadow."""
    return folder_at(root, _SHADOWS).has(version)


def known_formats(root: str, newest: EpochFile | None, wanted: Iterable[str]) -> dict[str, str]:
    """Return the file format of each checkpoint version in the newest claim.

    If that claim lacks a version in ``wanted``, the result also contains the version that each other claim writes.
    """
    formats = newest.all_formats if newest is not None else {}
    if set(wanted) <= set(formats):
        return formats
    return {epoch.version: epoch.file_format for epoch in read_epochs(root)} | formats


def create_epoch(root: str, claim: EpochFile) -> None:
    """Store the claim permanently under its epoch; raises Fenced if another writer has already claimed this epoch."""
    folder, name = folder_at(root, _EPOCHS), f"{claim.epoch:010d}.json"
    data = to_json(claim)
    if not create_once(folder, name, data) and folder.read(name) != data:
        raise Fenced(f"{folder.where(name)} was claimed by another writer")


def read_serving(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of the current output: the complete batches of its checkpoint versions, by Spark's sink logs.

    ``spark``: reads the files; on S3 and HDFS it needs the jars and settings for them. ``path``: the path of the
    ``FileSink``. On S3, Python finds the server and the credentials in the environment, as boto3 does.

    Values and types are those that were written. Versions may have different columns: a column that a version lacks is
    NULL there. For a version whose schemas were not recorded, Spark infers the types of partition columns, and of the
    columns of text files, from their values. Raises InvalidInput when no batch has been written yet.
    """
    root = output_location(path)
    claim = newest_epoch(root)
    if claim is None:
        raise InvalidInput(
            f"{root} is not the output of a FileSink", hint="first deploy the job that writes this output"
        )
    found = read_segments(spark, root, claim.segments, claim.all_formats)
    if found is None:
        raise InvalidInput(f"output {root} has no batch yet", hint="wait for the first commit")
    return found


def read_segments(
    spark: SparkSession,
    root: str,
    segments: Iterable[OutputSegment],
    formats: Mapping[str, str],
    *,
    schema: StructType | None = None,
) -> DataFrame | None:
    """Return the rows of several segments of the output, in sequence; None when no segment has a file yet.

    ``spark``: reads the files.
    ``root``: the output's location.
    ``segments``: the versions and their last batches.
    ``formats``: the file format of each version.
    ``schema``: the schema for text files of a version whose schema was not recorded; without it, types are inferred.

    Raises InvalidInput when the last batch of a segment can no longer be found in its sink log.
    """
    frames = [_read_segment(spark, root, segment, formats, schema) for segment in segments]
    held = [frame for frame in frames if frame is not None]
    if not held:
        return None
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), _texts_alike(held))


def _texts_alike(frames: Sequence[DataFrame]) -> Sequence[DataFrame]:
    """Cast a column that is a string in any version to a string in all of them; without the cast, Spark would convert
    the strings to numbers.
    """
    kinds: dict[str, set[str]] = {}
    for name, kind in (pair for frame in frames for pair in frame.dtypes):
        kinds.setdefault(name, set()).add(kind)
    mixed = {name for name, found in kinds.items() if len(found) > 1 and "string" in found}
    return [
        frame.select(
            *(
                frame[in_backticks(name)].cast("string").alias(name) if name in mixed else frame[in_backticks(name)]
                for name in frame.columns
            )
        )
        if mixed
        else frame
        for frame in frames
    ]


def serving_files(root: str) -> list[str]:
    """Return the locations of the files of the current output, in order; none before the first write."""
    claim = newest_epoch(root)
    segments = claim.segments if claim is not None else ()
    return [file for segment in segments for file in listed_files(f"{root}/{segment.version}", last=segment.last)]


def _read_segment(
    spark: SparkSession, root: str, segment: OutputSegment, formats: Mapping[str, str], schema: StructType | None
) -> DataFrame | None:
    """Read one segment of the output; return None if it has no file. See ``read_segments``.

    ``spark``: reads the files. ``root``: the output's location. ``segment``: the version and its last batch.
    ``formats``: version -> file format. ``schema``: the schema for text files whose schema was not recorded.
    """
    directory, last = f"{root}/{segment.version}", segment.last
    newest = newest_batch(directory)
    if newest is None:
        return None
    # Spark's own reader of a log cannot stop at a batch.
    whole = last is None or newest <= last
    files = listed_files(directory, last=None if whole else last)
    if not files:
        return None
    if segment.version not in formats:
        raise InvalidInput(
            f"output {root}: its log of writers has no writer of {segment.version},"
            " so the file format of that version is "
            "unknown",
            hint=f"read {directory} with Spark, in the format that the job wrote",
        )
    file_format = formats[segment.version]
    reader = spark.read.format(file_format)
    if recorded := read_schemas(root, segment.version):
        reader = reader_of(spark, file_format, recorded)
    elif schema is not None and file_format in ("csv", "json"):
        reader = reader.schema(schema)
    elif file_format == "csv":
        reader = reader.option("inferSchema", "true")
    if whole:
        return reader.load(directory)
    return reader.option("basePath", directory).load(files)
