"""What a file output consists of: its create-only epoch log names the checkpoint versions that serve, in order."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.errors import Fenced, InvalidInput
from streamkeeper.locations import local_path, scheme_of
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.serving import Span
from streamkeeper.sinks.file_schemas import read_schemas, reader_of
from streamkeeper.sinks.sink_log import listed_files, newest_batch
from streamkeeper.sinks.whole_files import create_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_EPOCHS = "_streamkeeper/epochs"
_SHADOWS = "_streamkeeper/shadows"
_INTERNAL = re.compile(r"_.*|v\d{4,}")


class EpochFile(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of the output, under ``_streamkeeper/epochs/<number>.json``; also says what a reader needs.

    ``version`` is the one that is written, in ``file_format``. ``serving``: what the output consists of, in order;
    empty: ``version`` alone. ``formats``: the file formats of the versions that were written before it.
    ``installation``: the one that writes, empty in claims of before they had ids.
    """

    epoch: int
    owner: str
    version: str
    file_format: str
    serving: tuple[Span, ...] = ()
    formats: dict[str, str] = {}
    installation: str = ""

    @property
    def spans(self) -> tuple[Span, ...]:
        """What the output consists of, in order."""
        return self.serving or (Span(self.version),)

    @property
    def all_formats(self) -> dict[str, str]:
        """Checkpoint version -> file format, of every version known."""
        return {**self.formats, self.version: self.file_format}


def newest_epoch(root: Path) -> EpochFile | None:
    """The newest claim of an output directory."""
    folder = root / _EPOCHS
    if not folder.is_dir():
        return None
    names = [name for name in os.listdir(folder) if name.endswith(".json")]
    if not names:
        return None
    return _read_epoch(folder / max(names))


def read_epochs(root: Path) -> list[EpochFile]:
    """Every claim of an output directory, oldest first."""
    return [_read_epoch(file) for file in sorted((root / _EPOCHS).glob("*.json"))]


def _read_epoch(file: Path) -> EpochFile:
    return from_json(file.read_bytes(), EpochFile, where=str(file))


def is_internal(path: Path, root: Path) -> bool:
    """Whether a path lies in a directory below an output that has a name of Streamkeeper's, such as a version's."""
    if path == root or not path.is_relative_to(root):
        return False
    return _INTERNAL.fullmatch(path.relative_to(root).parts[0]) is not None


def mark_shadow(root: Path, version: str) -> None:
    """Record that the directory of a version is written in shadow: only such a directory is ever removed."""
    create_whole(root / _SHADOWS / version, b"")


def is_shadow(root: Path, version: str) -> bool:
    """Whether the directory of a version was written in shadow."""
    return (root / _SHADOWS / version).is_file()


def known_formats(root: Path, newest: EpochFile | None, wanted: Iterable[str]) -> dict[str, str]:
    """Checkpoint version -> file format, as the newest claim tells it; of an older kind, all claims are asked."""
    formats = newest.all_formats if newest is not None else {}
    if set(wanted) <= set(formats):
        return formats
    return {epoch.version: epoch.file_format for epoch in read_epochs(root)} | formats


def create_epoch(root: Path, claim: EpochFile) -> None:
    """Make the claim the newest of the output, for good; raises Fenced when its number is somebody else's."""
    file = root / _EPOCHS / f"{claim.epoch:010d}.json"
    data = to_json(claim)
    if not create_whole(file, data) and file.read_bytes() != data:
        raise Fenced(f"{file} was claimed by another writer")


def read_serving(spark: SparkSession, path: str) -> DataFrame:
    """The output that serves: the batches of its checkpoint versions, whole ones only, through Spark's sink logs.

    Values and types are those that were written. Versions may have different columns: one that a version lacks is
    NULL there. Of a version that was written before schemas were recorded Spark tells the types of text and of folders'
    names by their values.
    Raises InvalidInput when nothing has been written there yet.
    """
    root = local_directory(path)
    claim = newest_epoch(root)
    if claim is None:
        raise InvalidInput(f"{root} is not the output of a FileSink", hint="deploy the job that writes it first")
    found = read_spans(spark, root, claim.spans, claim.all_formats)
    if found is None:
        raise InvalidInput(f"output {root} has no batch yet", hint="wait for the first commit")
    return found


def read_spans(
    spark: SparkSession,
    root: Path,
    spans: Iterable[Span],
    formats: Mapping[str, str],
    *,
    schema: StructType | None = None,
) -> DataFrame | None:
    """The rows of several spans, one after the other; None when none of them holds a file yet.

    ``schema``: what text of a version without a recorded schema holds; without it its values tell their types.
    Raises InvalidInput when a span's end cannot be found in its sink log any more.
    """
    frames = [_read_span(spark, root, span, formats, schema) for span in spans]
    held = [frame for frame in frames if frame is not None]
    if not held:
        return None
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), _texts_alike(held))


def _texts_alike(frames: Sequence[DataFrame]) -> Sequence[DataFrame]:
    """A column that is a text in one version is one in all: Spark would make numbers of such texts."""
    kinds: dict[str, set[str]] = {}
    for name, kind in (pair for frame in frames for pair in frame.dtypes):
        kinds.setdefault(name, set()).add(kind)
    mixed = {name for name, found in kinds.items() if len(found) > 1 and "string" in found}
    return [
        frame.select(
            *(
                frame[_quoted(name)].cast("string").alias(name) if name in mixed else frame[_quoted(name)]
                for name in frame.columns
            )
        )
        if mixed
        else frame
        for frame in frames
    ]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def serving_files(root: Path) -> list[Path]:
    """The files of the output that serves, in order; none while nothing was written."""
    claim = newest_epoch(root)
    spans = claim.spans if claim is not None else ()
    return [file for span in spans for file in listed_files(root / span.version, last=span.last)]


def _read_span(
    spark: SparkSession, root: Path, span: Span, formats: Mapping[str, str], schema: StructType | None
) -> DataFrame | None:
    directory, last = root / span.version, span.last
    newest = newest_batch(directory)
    if newest is None:
        return None
    # Spark's own reader of a log does not know how to end at a batch.
    whole = last is None or newest <= last
    files = listed_files(directory, last=None if whole else last)
    if not files:
        return None
    if span.version not in formats:
        raise InvalidInput(
            f"output {root}: no writer has claimed {span.version}, so the format of its files is unknown"
        )
    file_format = formats[span.version]
    reader = spark.read.format(file_format)
    if recorded := read_schemas(root, span.version):
        reader = reader_of(spark, file_format, recorded)
    elif schema is not None and file_format in ("csv", "json"):
        reader = reader.schema(schema)
    elif file_format == "csv":
        reader = reader.option("inferSchema", "true")
    if whole:
        return reader.load(str(directory))
    return reader.option("basePath", str(directory)).load([str(file) for file in files])


def local_directory(path: object) -> Path:
    """An absolute local directory, from a path or a file URL; raises InvalidInput or Unsupported."""
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"a file sink's path must be a string, not {path!r}")
    if not scheme_of(path) and not os.path.isabs(path):
        raise InvalidInput(f"the output path {path} is relative", hint="use an absolute local directory")
    return Path(os.path.normpath(local_path("file output", path, hint="use an absolute local directory")))
