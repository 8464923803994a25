"""The Spark settings that can lose, duplicate or corrupt rows without an error, read from the code of Spark 4.2.0.

Such a value is refused in a release's conf, which comes from the person who deploys. In a job's code, which comes from
the job's author, it is accepted and every assessment reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_SQL = "spark.sql."
_STREAMING = f"{_SQL}streaming."
_LEAST_RETAINED = 2
"""The least number of batches to retain. With 1 the last batch's state is deleted while the next may still fail."""
_LEAST_DELAY_S = 600.0
"""The least delay in seconds, Spark's own default."""
_DURATION = re.compile(r"(-?\d+)\s*([a-z]*)")
_UNITS_S = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}

MISSING_FILES = "an input file that is missing is skipped, and its rows are lost without an error"
"""The effect of skipping missing input files."""
CORRUPT_FILES = "an input file that cannot be read is skipped, and its rows are lost without an error"
"""The effect of skipping input files that cannot be read."""
_HISTORY = "entries of earlier batches are deleted at once, so that a restore can no longer distinguish the batches"


def risk_of_conf(key: str, value: str) -> str:
    """Return how an unsafe value of this conf affects rows; empty for a safe value."""
    is_unsafe, effect = _CONFS.get(key, (_never, ""))
    return effect if is_unsafe(value.strip().lower()) else ""


def risks_of_confs(confs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield key and effect of each conf whose value puts rows at risk."""
    for key in sorted(confs):
        if effect := risk_of_conf(key, confs[key]):
            yield key, effect


def is_about_rows(key: str) -> bool:
    """Whether this conf has values that put rows at risk."""
    return key in _CONFS


_Unsafe = Callable[[str], bool]


def _never(value: str) -> bool:
    return False


def _on(value: str) -> bool:
    return value != "false"


def _off(value: str) -> bool:
    return value != "true"


def _any(value: str) -> bool:
    return True


def _too_few(value: str) -> bool:
    return not value.isdecimal() or int(value) < _LEAST_RETAINED


def _too_soon(value: str) -> bool:
    found = _DURATION.fullmatch(value)
    unit = _UNITS_S.get(found[2]) if found else None
    return found is None or unit is None or int(found[1]) * unit < _LEAST_DELAY_S


_CONFS: dict[str, tuple[_Unsafe, str]] = {
    f"{_SQL}files.ignoreMissingFiles": (_on, MISSING_FILES),
    f"{_SQL}files.ignoreCorruptFiles": (_on, CORRUPT_FILES),
    f"{_SQL}files.ignoreInvalidPartitionPaths": (_on, "files in a folder of another form are skipped without an error"),
    f"{_STREAMING}minBatchesToRetain": (
        _too_few,
        "the state of the last committed batch can be deleted while the next batch runs; if that batch fails, the "
        f"query cannot resume from the checkpoint (at least {_LEAST_RETAINED})",
    ),
    f"{_STREAMING}fileSink.log.cleanupDelay": (_too_soon, f"{_HISTORY} (at least 10m)"),
    f"{_STREAMING}fileSource.log.cleanupDelay": (_too_soon, f"{_HISTORY} (at least 10m)"),
    f"{_STREAMING}fileStreamSink.ignoreMetadata": (
        _on,
        "an output directory is read without its log, and so with files of failed batches, whose rows are duplicated",
    ),
    f"{_STREAMING}internal.stateStore.partitions": (_any, "rows are looked up in the wrong partition of the state"),
    f"{_STREAMING}statefulOperator.useStrictDistribution": (
        _off,
        "rows may go to the wrong partition of the state",
    ),
    f"{_STREAMING}stateStore.skipNullsForStreamStreamJoins.enabled": (
        _on,
        "rows with a null key are left out of an outer join without an error",
    ),
    **{
        _STREAMING + name: (_off, f"Spark no longer checks {what}")
        for name, what in (
            ("checkUnfinishedRepartitionOnRestart", "whether a repartition of the state was finished"),
            ("checkpoint.escapedPathCheck.enabled", "for a checkpoint that an older Spark wrote to another path"),
            ("checkpoint.renamedFileCheck.enabled", "whether a checkpoint's file was really renamed"),
            ("checkpoint.verifyMetadataExists.enabled", "that a checkpoint with batches still has its query id"),
            ("realTimeMode.allowlistCheck", "whether the query's operators work in real-time mode"),
            ("stateStore.commitValidation.enabled", "that a batch has written all of its state"),
            ("stateStore.formatValidation.enabled", "that state has the format that the query expects"),
            ("stateStore.rocksdb.verifyNonEmptyFilesInZip", "that a file of the state is not empty"),
            ("stateStore.stateSchemaCheck", "that state has the columns that the query expects"),
            ("statefulOperator.checkCorrectness.enabled", "for operators that drop each other's rows as late"),
            ("unsupportedOperationCheck", "for operations that give wrong results on a stream"),
            ("validateEventTimeWatermarkColumn", "that a watermark's column exists"),
            ("verifyCheckpointDirectoryEmptyOnStart", "that a new query's checkpoint is empty"),
        )
    },
}
