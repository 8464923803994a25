"""FileSink: the files of a checkpoint version in its own directory, listed batch by batch in Spark's own sink log.

Three mechanisms exclude a superseded writer. (1) Each write checks the output's create-only epoch log for a newer epoch
immediately before it calls Spark's sink, and raises Fenced. (2) A process that was paused *after* that check and
resumes much later could still finish that one call; therefore the next driver opens the checkpoint only once the whole
process tree is proven terminated. (3) If even that fails, Spark's sink log accepts each batch id once, so only one of
the two writes of the same planned batch is listed, and readers ignore the other's files.

An entry of the log is created by a rename on a local disk and in HDFS, and by one conditional PUT on S3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from streamkeeper.checkpoints.layout import is_version_name
from streamkeeper.errors import Fenced, InvalidInput, Unsupported
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.comparison import OutputComparison, compare_frames
from streamkeeper.sinks.contract import (
    ComparedVersions,
    OutputClaim,
    Sink,
    SinkContext,
    SinkWriter,
    WriterRole,
    check_installation,
    compute,
    reaching_output,
    refuse_older_copy,
)
from streamkeeper.sinks.file_answer import answer, read_fences, read_file_record, refuse_cut
from streamkeeper.sinks.file_locations import folder_at, folders_above, is_internal, must_take_log, output_location
from streamkeeper.sinks.file_schemas import (
    forget_schemas,
    record_schema,
    refuse_other_columns,
    refuse_types,
    write_options,
    written_schema,
)
from streamkeeper.sinks.file_serving import (
    EpochFile,
    create_epoch,
    is_shadow,
    known_formats,
    mark_shadow,
    newest_epoch,
    read_epochs,
    read_segments,
    read_serving,
)
from streamkeeper.sinks.sink_log import SINK_LOG, begin_log, continue_log, newest_batch
from streamkeeper.sinks.storage_access import remove_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "EpochFile", "FileSink", "FileWriter", "answer", "newest_batch", "newest_epoch", "read_fences", "read_serving",
    "refuse_cut",
]  # fmt: skip

_FORMATS = {
    "parquet": "parquet.ParquetFileFormat",
    "json": "json.JsonFileFormat",
    "csv": "csv.CSVFileFormat",
    "orc": "orc.OrcFileFormat",
}


@dataclass(frozen=True, slots=True)
class FileSink(Sink):
    """Writes files under ``<path>/<checkpoint version>``, for readers that use ``read_serving``.

    ``read_serving`` returns the rows as they were written. Delivery is exactly once for readers that read through
    Spark's sink log, such as Spark. Other engines read whole directories, and so also the files of unfinished batches,
    and those that a killed driver or executor has left. On S3 they never see a part of a file.
    """

    kind: ClassVar[str] = "file"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append"})

    path: str
    """An absolute local directory, ``s3a://bucket/prefix`` or ``hdfs://namenode:port/path``. On S3 and HDFS, the
    checkpoints of the installation must be there, too.
    """
    format: str = "parquet"
    """The file format: parquet, json, csv or orc."""
    partition_by: Sequence[str] = ()
    """The partition columns."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", output_location(self.path))
        if self.format not in _FORMATS:
            raise Unsupported(f"file format {self.format!r} is not supported", hint=f"use {', '.join(_FORMATS)}")
        if isinstance(self.partition_by, str):
            raise InvalidInput(
                f"partition_by={self.partition_by!r} is not a list", hint='write it like partition_by=["day"]'
            )
        object.__setattr__(self, "partition_by", tuple(self.partition_by))

    def describe(self) -> SinkDescription:
        """Return the sink's description. The sink is identified by its directory."""
        options = {"format": self.format, "partition_by": ",".join(self.partition_by)}
        return SinkDescription(kind=self.kind, output=self.path, options=options)

    def open(self, context: SinkContext) -> FileWriter:
        """Return a writer for one epoch."""
        return FileWriter(self, context)

    @property
    def fence_place(self) -> str:
        """The directory of the output, which contains the fence."""
        return self.path

    def overlaps(self, other: Sink) -> bool:
        """Whether both sinks write to the same directory, or the directory of one is inside an internal directory of
        the other.
        """
        if not isinstance(other, FileSink):
            return False
        return self.path == other.path or is_internal(self.path, other.path) or is_internal(other.path, self.path)

    def newest_version(self) -> str:
        return max(filter(is_version_name, folder_at(self.path).folders("")), default="")

    def lost_log(self, version: str) -> str:
        directory = f"{self.path}/{version}"
        if newest_batch(directory) is not None:
            return ""
        names = (name.rstrip("/") for name in folder_at(directory).names(""))
        return "" if all(name == SINK_LOG or name.startswith(".") for name in names) else directory

    def find_conflict(self, *, serves: bool) -> str | None:
        """Return a sentence if the directory is inside an internal directory of another output, unless ``serves``."""
        if serves:
            return None
        above = folders_above(self.path)
        around = next((each for each in above if is_internal(self.path, each) and newest_epoch(each) is not None), "")
        return f"directory {self.path} is inside an internal directory of output {around}" if around else None

    def rehearse(self, batch: DataFrame) -> None:
        """Compute the batch and drop it."""
        self.check_columns(batch)
        must_take_log(batch, self.path)
        compute(batch)

    def check_columns(self, batch: DataFrame) -> None:
        """Raise InvalidInput when a partition column is not in the batch, or the files cannot store a column."""
        missing = [name for name in self.partition_by if name not in batch.columns]
        if missing:
            raise InvalidInput(f"output {self.path}: the query has no column {', '.join(missing)} to partition by")
        refuse_types(self.path, self.format, batch.schema, self.partition_by)


class FileWriter(SinkWriter):
    """Writes one query's batches under one epoch."""

    def __init__(self, sink: FileSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._root = sink.path
        self._target = f"{sink.path}/{context.version}"
        self._in_shadow = context.role is WriterRole.SHADOW
        self._held: int | None = None
        self._schema: StructType | None = None

    @reaching_output()
    def raise_fence(self) -> None:
        """Create this epoch's file, which is permanent, and which readers follow from then on.

        A shadow creates no such file, because only the shadow's single instance writes to the directory of its version.
        """
        must_take_log(self._context.frame, self._root)
        owner = f"{self._context.job}/{self._context.query}"
        newest = newest_epoch(self._root)
        if newest is not None and newest.owner != owner:
            raise InvalidInput(
                f"output {self._root} is written by {newest.owner}, not by {owner}",
                hint="give each query its own directory",
            )
        if newest is not None:
            check_installation(f"output {self._root}", newest.installation, self._context.installation)
        self._must_be_own_directory(newest)
        if self._in_shadow:
            mark_shadow(self._root, self._context.version)
        elif newest is None or newest.epoch <= self._context.epoch:
            create_epoch(self._root, self._claim(owner, newest))
        self.check_fence()
        self._held = self.last_batch()

    def _must_be_own_directory(self, newest: EpochFile | None) -> None:
        """Raise InvalidInput when this version's directory has files that no writer of this output has claimed.

        The check is skipped for a version whose checkpoint has a batch of its own (``begun``), because claims and marks
        of such a version may have been lost or, for an older shadow, never made.
        """
        if self._context.begun:
            return
        if not folder_at(self._target).names("") or self._is_claimed(newest):
            return
        raise InvalidInput(
            f"directory {self._target} has files that Streamkeeper did not write: their rows would mix with the new"
            " rows",
            hint="move that directory, or write to another output",
        )

    def _is_claimed(self, newest: EpochFile | None) -> bool:
        version = self._context.version
        known = newest.all_formats if newest is not None else {}
        return (
            version in known
            or is_shadow(self._root, version)
            or any(version == claim.version for claim in read_epochs(self._root))
        )

    @reaching_output()
    def newest_claim(self) -> OutputClaim | None:
        """Return the newest claim in the epoch log; None if it is missing, or another query or installation made it."""
        newest, context = newest_epoch(self._root), self._context
        if newest is None or newest.owner != f"{context.job}/{context.query}":
            return None
        if newest.installation and context.installation and newest.installation != context.installation:
            return None
        return OutputClaim(epoch=newest.epoch, version=newest.version)

    def _claim(self, owner: str, before: EpochFile | None) -> EpochFile:
        context = self._context
        formats = known_formats(self._root, before, (serving.version for serving in context.serving))
        return EpochFile(
            epoch=context.epoch,
            owner=owner,
            version=context.version,
            file_format=self._sink.format,
            serving=context.serving,
            installation=context.installation or (before.installation if before is not None else ""),
            formats={version: file_format for version, file_format in formats.items() if version != context.version},
        )

    def check_fence(self) -> None:
        """Raise Fenced if no claim exists or the newest claim is of another epoch; for a shadow, raise Fenced if its
        version is current.
        """
        newest = newest_epoch(self._root)
        if self._in_shadow:
            if self._serves(newest):
                raise Fenced(f"output {self._root}: {self._context.version} is current and no longer a shadow")
            return
        epoch = self._context.epoch
        if newest is None:
            raise Fenced(f"output {self._root}: no epoch is recorded there, so epoch {epoch} is void")
        if newest.epoch != epoch:
            raise Fenced(f"output {self._root}: epoch {epoch} has been superseded by epoch {newest.epoch}")

    @reaching_output()
    def last_batch(self) -> int | None:
        """Return the newest batch in the sink log of this checkpoint version."""
        return newest_batch(self._target)

    @reaching_output()
    def read_record(self) -> OutputRecord:
        """Return the newest claim, and the newest batch of every version's sink log."""
        return read_file_record(self._root, shadow=self._context.version if self._in_shadow else "")

    @reaching_output()
    def begin_after(self, batch: DataFrame, batch_id: int) -> None:
        """Continue this version's sink log up to ``batch_id``. The added batches have no files."""
        continue_log(self._target, batch_id)
        self._held = self.last_batch()

    @reaching_output()
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Pass the batch to Spark's own file sink. If the sink log already has the batch, only compute it."""
        self._sink.check_columns(batch)
        last = self.last_batch()
        refuse_older_copy(self._root, self._context.version, self._held, last)
        self._held = last
        if last is not None and last >= batch_id:
            compute(batch)
            return
        self._record_schema(batch, batch_id)
        sink = _spark_sink(batch, self._target, self._sink)
        self.check_fence()
        sink.addBatch(batch_id, batch._jdf)
        # If an older copy of the directory was put back during the write, this batch follows a gap.
        refuse_older_copy(self._root, self._context.version, batch_id, self.last_batch())
        self._held = batch_id

    def _record_schema(self, batch: DataFrame, batch_id: int) -> None:
        """Record a schema before the first batch that has it, so that every listed file can be read as it was
        written.
        """
        if batch.schema == self._schema:
            return
        self.check_fence()
        zone = batch.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
        found = written_schema(
            batch.schema, self._sink.partition_by, batch=batch_id, epoch=self._context.epoch, time_zone=zone
        )
        if self._sink.format == "csv":
            refuse_other_columns(self._root, self._context.version, found)
        record_schema(self._root, self._context.version, found)
        self._schema = batch.schema

    def close(self) -> None:
        """Do nothing: no connection is open."""

    @reaching_output()
    def seed(self, batch_id: int) -> None:
        """Start the sink log of this version as if the batches up to ``batch_id`` had written no file. Spark cannot
        read a log that lacks these batches.

        ``batch_id`` is 0 for a version that numbers its batches anew; a restored version continues its parent's
        numbers.
        """
        begin_log(self._target, batch_id)

    @reaching_output()
    def discard(self) -> None:
        """Remove the directory of this shadow version. It stays if the version is current, or if no writer of this
        output created it. An interrupted removal can be repeated, because the mark of the shadow stays.
        """
        version = self._context.version
        if not self._in_shadow or self._serves(newest_epoch(self._root)) or not is_shadow(self._root, version):
            return
        remove_folder(folder_at(self._target))
        forget_schemas(self._root, version)

    @reaching_output()
    def compare_with_current(self, versions: ComparedVersions) -> OutputComparison | None:
        pair = versions.newest_pair()
        if pair is None:
            return None
        (old, new), frame = pair, versions.frame
        return self.compare(
            versions.current, old, new, frame.sparkSession, may_differ=versions.may_differ, schema=frame.schema
        )

    def compare(
        self,
        old_version: str,
        old_batch: int,
        new_batch: int,
        spark: SparkSession,
        *,
        may_differ: Collection[str] = (),
        schema: StructType | None = None,
    ) -> OutputComparison:
        """Compare the current output with this shadow version.

        ``old_version``: the current version.
        ``old_batch``: the newest of its batches to compare.
        ``new_batch``: the newest of this version's batches to compare.
        ``spark``: runs the comparison.
        ``may_differ``: columns that are left out.
        ``schema``: the schema of this version's rows, to read text formats.

        Raises InvalidInput when a sink log can no longer separate the batches.
        """
        claim = newest_epoch(self._root)
        before: list[OutputSegment] = []
        for segment in claim.segments if claim is not None else ():
            if segment.version == old_version:
                break
            before.append(segment)
        formats = {**(claim.all_formats if claim is not None else {}), self._context.version: self._sink.format}
        old, new = (*before, OutputSegment(old_version, old_batch)), (OutputSegment(self._context.version, new_batch),)
        frames = (read_segments(spark, self._root, version, formats, schema=schema) for version in (old, new))
        compared = compare_frames(*frames, may_differ=may_differ)
        return structs.replace(compared, old_batch=old_batch, new_batch=new_batch)

    def _serves(self, newest: EpochFile | None) -> bool:
        return newest is not None and self._context.version in {segment.version for segment in newest.segments}


def _spark_sink(batch: DataFrame, target: str, sink: FileSink) -> Any:
    session: Any = batch.sparkSession
    jvm = session._jvm
    spark = jvm.org.apache.spark
    datasources: Any = spark.sql.execution.datasources
    for part in _FORMATS[sink.format].split("."):
        datasources = getattr(datasources, part)
    python = spark.api.python.PythonUtils
    options = python.toScalaMap(write_options(sink.format))
    return spark.sql.execution.streaming.sinks.FileStreamSink(
        session._jsparkSession, target, datasources(), python.toSeq(list(sink.partition_by)), options
    )
