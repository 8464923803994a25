"""FileSink: files of a checkpoint version in a directory of its own, listed batch by batch in Spark's own sink log.

What keeps a superseded writer out, exactly: (1) each write looks, at the last moment before Spark's sink is called,
for a newer epoch in the output's create-only epoch log, and raises Fenced; (2) a process that was stopped *after* that
look and wakes up much later could still finish that one call: the next driver opens the checkpoint only once the whole
process tree is proven dead; (3) should even that fail, Spark's sink log takes each batch id once, so one of the two
writes of the same planned batch is listed and the other's files are read by nobody.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import msgspec

from streamkeeper.errors import Fenced, InvalidInput, Unsupported
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.model.names import version_number
from streamkeeper.sinks.contract import Numbering, Sink, SinkContext, SinkWriter, compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_FORMATS = {
    "parquet": "parquet.ParquetFileFormat",
    "json": "json.JsonFileFormat",
    "csv": "csv.CSVFileFormat",
    "orc": "orc.OrcFileFormat",
}
_EPOCHS = "_streamkeeper/epochs"
_SPARK_LOG = "_spark_metadata"


class EpochFile(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of the output, under ``_streamkeeper/epochs/<number>.json``; also says what a reader needs."""

    epoch: int
    owner: str
    version: str
    file_format: str


@dataclass(frozen=True, slots=True)
class FileSink(Sink):
    """Files under ``<path>/<checkpoint version>``; readers go through ``read_serving``.

    Exactly once for readers that follow Spark's sink log, as Spark itself does; other engines see directories only,
    with the files of unfinished batches in them. ``path``: an absolute local directory.
    """

    kind: ClassVar[str] = "file"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append"})
    replays: ClassVar[bool] = True
    numbering: ClassVar[Numbering] = Numbering.REBASE
    shadows: ClassVar[bool] = True

    path: str
    format: str = "parquet"
    partition_by: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(_local_directory(self.path)))
        if self.format not in _FORMATS:
            raise Unsupported(f"file format {self.format!r} is not supported", hint=f"use {', '.join(_FORMATS)}")
        if isinstance(self.partition_by, str):
            raise InvalidInput(f"partition_by={self.partition_by!r} is not a list", hint='partition_by=["day"]')
        object.__setattr__(self, "partition_by", tuple(self.partition_by))

    def describe(self) -> SinkDescription:
        """Its identity is the directory."""
        options = {"format": self.format, "partition_by": ",".join(self.partition_by)}
        return SinkDescription(kind=self.kind, output=self.path, options=options)

    def open(self, context: SinkContext) -> FileWriter:
        """A writer for one epoch."""
        return FileWriter(self, context)

    def rehearse(self, batch: DataFrame) -> None:
        """Compute the batch and drop it."""
        self.check_columns(batch)
        compute(batch)

    def check_columns(self, batch: DataFrame) -> None:
        """Raise InvalidInput when a partition column is not in the batch."""
        missing = [name for name in self.partition_by if name not in batch.columns]
        if missing:
            raise InvalidInput(f"output {self.path}: the query has no column {', '.join(missing)} to partition by")


class FileWriter(SinkWriter):
    """Writes one query's batches under one epoch."""

    def __init__(self, sink: FileSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._epochs = Path(sink.path) / _EPOCHS
        self._target = Path(sink.path) / context.version

    def raise_fence(self) -> None:
        """Create this epoch's file; it is there for good."""
        owner = f"{self._context.job}/{self._context.query}"
        newest = newest_epoch(Path(self._sink.path))
        if newest is not None and newest.owner != owner:
            raise InvalidInput(
                f"output {self._sink.path} is written by {newest.owner}, not by {owner}",
                hint="give each query its own directory",
            )
        claim = EpochFile(
            epoch=self._context.epoch, owner=owner, version=self._context.version, file_format=self._sink.format
        )
        _create(self._epochs / _epoch_name(self._context.epoch), to_json(claim))
        self.check_fence()

    def check_fence(self) -> None:
        """Raise Fenced when a newer epoch has been claimed."""
        newest = newest_epoch(Path(self._sink.path))
        if newest is None or newest.epoch != self._context.epoch:
            raise Fenced(
                f"output {self._sink.path}: epoch {self._context.epoch} has been superseded"
                f" by epoch {newest.epoch if newest else 'none'}"
            )

    def last_batch(self) -> int | None:
        """The newest batch in the sink log of this checkpoint version."""
        return newest_batch(self._target)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Hand the batch to Spark's own file sink, unless its log holds the batch already."""
        self._sink.check_columns(batch)
        last = self.last_batch()
        if last is not None and last >= batch_id:
            compute(batch)
            return
        sink = _spark_sink(batch, self._target, self._sink)
        self.check_fence()
        sink.addBatch(batch_id, batch._jdf)

    def close(self) -> None:
        """Nothing is held."""


def read_serving(spark: SparkSession, path: str) -> DataFrame:
    """The output that serves: the newest version that was claimed, through its sink log, so whole batches only.

    Raises InvalidInput when nothing has been written there yet.
    """
    root = _local_directory(path)
    claim = newest_epoch(root)
    if claim is None:
        raise InvalidInput(f"{root} is not the output of a FileSink", hint="deploy the job that writes it first")
    versions = [each for each in root.iterdir() if each.name[:1] == "v" and newest_batch(each) is not None]
    if not versions:
        raise InvalidInput(f"output {root} holds no batch yet", hint="wait for the first commit")
    newest = max(versions, key=lambda each: version_number(each.name))
    reader = spark.read.format(claim.file_format)
    if claim.file_format == "csv":
        reader = reader.option("inferSchema", "true")
    return reader.load(str(newest))


def newest_epoch(root: Path) -> EpochFile | None:
    """The newest claim of an output directory."""
    folder = root / _EPOCHS
    if not folder.is_dir():
        return None
    names = [name for name in os.listdir(folder) if name.endswith(".json")]
    if not names:
        return None
    file = folder / max(names)
    return from_json(file.read_bytes(), EpochFile, where=str(file))


def newest_batch(directory: Path) -> int | None:
    """The newest batch id in Spark's sink log of a directory; compacted logs count."""
    log = directory / _SPARK_LOG
    if not log.is_dir():
        return None
    numbers = [name.removesuffix(".compact") for name in os.listdir(log)]
    return max((int(number) for number in numbers if number.isdecimal()), default=None)


def _spark_sink(batch: DataFrame, target: Path, sink: FileSink) -> Any:
    session: Any = batch.sparkSession
    jvm = session._jvm
    spark = jvm.org.apache.spark
    datasources: Any = spark.sql.execution.datasources
    for part in _FORMATS[sink.format].split("."):
        datasources = getattr(datasources, part)
    python = spark.api.python.PythonUtils
    return spark.sql.execution.streaming.sinks.FileStreamSink(
        session._jsparkSession, str(target), datasources(), python.toSeq(list(sink.partition_by)), python.toScalaMap({})
    )


def _create(file: Path, data: bytes) -> None:
    """Create a file whole, or leave the one that is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.parent / f".{file.name}.{os.getpid()}"
    with draft.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(draft, file)
    except FileExistsError:
        if file.read_bytes() != data:
            raise Fenced(f"{file} was claimed by another writer") from None
    finally:
        draft.unlink()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _epoch_name(epoch: int) -> str:
    return f"{epoch:010d}.json"


def _local_directory(path: object) -> Path:
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"a file sink's path is text, not {path!r}")
    scheme, separator, rest = path.partition("://")
    if separator and scheme != "file":
        raise Unsupported(f"file output on {scheme}:// is not supported", hint="use an absolute local directory")
    local = Path(unquote(rest)) if separator else Path(path.removeprefix("file:"))
    if not local.is_absolute():
        raise InvalidInput(f"the output path {path} is relative", hint="use an absolute local directory")
    return Path(os.path.normpath(local))
