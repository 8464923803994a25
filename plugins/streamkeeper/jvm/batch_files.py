"""Finds, before a batch runs, the files that Spark 4.2.0 would read twice or skip, with ``BatchFiles.java``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from streamkeeper.errors import InputGone, InputUnreadable
from streamkeeper.jvm.classes import load_class
from streamkeeper.jvm.values import read_list

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_SOURCE = Path(__file__).with_name("BatchFiles.java")
_FOUND: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
_NAMED = 3
PUT_BACK = (
    "restore the files before a start, because Spark would run the batch without them. If they were renamed or are "
    "permanently lost, continue as the runbook describes in *Files of the open batch are gone*"
)


def prepare(spark: SparkSession) -> None:
    """Load the Java class that checks files. Call this before the first batch, so that the batch's thread finds the
    class.
    """
    if spark.sparkContext not in _FOUND:
        _FOUND[spark.sparkContext] = load_class(spark, _SOURCE).newInstance()


def check_files(batch: DataFrame, number: int) -> None:
    """Raise InputUnreadable if Spark would read files of the batch more than once.

    Call this on the thread that runs the batch.
    """
    if paths := _paths("doubling", batch):
        raise doubling_names(number, paths)


def check_batch(batch: DataFrame, number: int) -> None:
    """Raise InputUnreadable if Spark would read files of the batch twice, or InputGone if Spark would skip files of the
    batch.

    Call this on the thread that runs the batch.
    """
    check_files(batch, number)
    check_all_there(batch, number)


def check_all_there(batch: DataFrame, number: int) -> None:
    """Raise InputGone if Spark would run the batch without some of its files. Call this on the thread that runs the
    batch.

    Spark has already listed the files, on any storage. If a file disappears after this check, the task that reads it
    fails.
    """
    if paths := _paths("missing", batch):
        raise InputGone(
            f"batch {number} was stopped before it ran: {len(paths)} of its files are missing, such as {paths[0]}",
            hint=PUT_BACK,
        )


def doubling_names(number: int, paths: list[str]) -> InputUnreadable:
    """Return the error for files whose names Spark treats as patterns; ``number``: the batch."""
    named = ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    return InputUnreadable(
        f"batch {number} was stopped before it ran, because Spark 4.2.0 treats the characters {{ }} [ ] * ? \\ in a "
        f"file's path as a pattern, and would read the batch's other files twice. Files with such paths: {named}",
        hint="rename the files, and continue as the runbook describes in *Input files that Spark takes for patterns*",
    )


def _paths(which: str, batch: DataFrame) -> list[str]:
    """Return what a method of the Java class finds in a batch, sorted."""
    prepare(batch.sparkSession)
    java_batch: Any = batch
    return sorted(map(str, read_list(getattr(_FOUND[batch.sparkSession.sparkContext], which)(java_batch._jdf))))
