"""Locations of a file output and of the folders below it: on a local disk, on S3 or in HDFS."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.locations import scheme_of, storage_location
from streamkeeper.sinks.storage_access import must_reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTERNAL = re.compile(r"_.*|v\d{4,}")
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_CREATE_ONLY = "streamkeeper.jvm.CreateOnlyCheckpointFileManager"
"""The class that each driver with checkpoints on S3 sets as Spark's manager. Spark's sink log uses it as well."""
_CHECKPOINTS = "STREAMKEEPER_CHECKPOINTS"


def output_location(path: object) -> str:
    """Return an output's location in the form that Spark accepts: an absolute path, ``s3a://bucket/prefix`` or
    ``hdfs://namenode:port/path``.

    Raises InvalidInput or Unsupported for any other location.
    """
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"a file sink's path must be a string, not {path!r}")
    if not scheme_of(path) and not os.path.isabs(path):
        raise InvalidInput(f"the output path {path} is relative", hint="use an absolute local directory")
    location = storage_location("file output", path)
    return location if scheme_of(location) else os.path.normpath(location)


def folder_at(output: str, *below: str) -> Tree:
    """Return a folder of an output as it is now. Files and folders that are created there get the modes of the
    process's umask, because other users may read an output.
    """
    return tree_at("/".join((output, *below)), private=False)


def create_once(folder: Tree, name: str, content: bytes) -> bool:
    """Create a file and its folders, durably and completely. Return False if the file already exists, whatever its
    content.
    """
    try:
        folder.create(name, [content])
    except (FileExistsError, CheckpointChanged):
        # A file in the place of a folder raises the first error, and a rename in HDFS whose answer was lost the second.
        if not folder.has(name):
            raise
        return False
    return True


def is_internal(location: str, output: str) -> bool:
    """Whether a location is in one of Streamkeeper's folders below an output, such as a version's."""
    above = f"{output.rstrip('/')}/"
    if not location.startswith(above):
        return False
    return _INTERNAL.fullmatch(location[len(above) :].partition("/")[0]) is not None


def folders_above(location: str) -> list[str]:
    """Return the folders that contain a location and may be outputs themselves, the innermost first."""
    parts = location.split("/")
    # An output on S3 or in HDFS has a path below its bucket or NameNode.
    fewest = 4 if scheme_of(location) else 1
    return ["/".join(parts[:count]) or "/" for count in range(len(parts) - 1, fewest - 1, -1)]


def must_take_log(frame: DataFrame | None, output: str) -> None:
    """Raise InvalidInput if this JVM cannot write an output's files, or could create an entry of its sink log that
    another driver has created.

    ``frame``: the query's frame or a batch; not needed for a local output.
    """
    scheme = scheme_of(output)
    if not scheme:
        return
    assert frame is not None
    session: Any = frame.sparkSession
    # Spark's sink log finds its file manager in this configuration.
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    if scheme == "s3a":
        prepared = hadoop.get(_MANAGER) == _CREATE_ONLY
    else:
        # Every driver prepares its JVM for the storage of the installation's checkpoints.
        prepared = scheme_of(os.environ.get(_CHECKPOINTS, "")) == scheme
    must_reach("output", output, hadoop, prepared=prepared)
