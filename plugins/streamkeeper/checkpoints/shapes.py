"""Every kind of damage to a checkpoint, with its effect on a start and the remedy.

Most effects were measured with Spark 4.2.0 by starting a driver on such a checkpoint. The others follow from Spark's
code for reading its logs (``MicroBatchExecution``, ``HDFSMetadataLog``, ``CommitLog``, ``FileStreamSource``).
"""

from __future__ import annotations

import msgspec

from streamkeeper.model.protocol.damage import Damage

_RESTORE = "restore the checkpoint, or switch the query to a new checkpoint version"
_REWIND = "restore the checkpoint, or rewind the sink to the checkpoint's last batch before a start"
_NOTHING = "nothing to do"
CHECK_AGAIN = "stop the query, then check again"
"""The remedy if a checkpoint changes during a check."""


class _Shape(msgspec.Struct, frozen=True):
    on_start: str
    hint: str = _RESTORE
    safe: bool = False


_SHAPES = {
    "not-a-checkpoint": _Shape(
        "Spark starts a new query among these files and reads its sources from their beginning",
        hint="name the query's checkpoint directory",
    ),
    "metadata-missing": _Shape(
        "Spark refuses to start: STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        hint="restore the checkpoint's file `metadata` with the query's old id, because sinks identify batches by"
        " that id",
    ),
    "metadata-empty": _Shape(
        "Spark refuses to start: the file has no query id",
        hint="restore the checkpoint's file `metadata` with the query's old id",
    ),
    "metadata-garbage": _Shape(
        "Spark refuses to start: the file has no query id",
        hint="restore the checkpoint's file `metadata` with the query's old id",
    ),
    "newer-format": _Shape(
        "Spark 4.2 refuses to start: it does not support the file's format",
        hint="start with the Spark version that wrote the file",
    ),
    "checksum-mismatch": _Shape(
        "Spark starts and reads the changed file without checking it",
        hint="restore the file. If the change is intended, remove the .crc file next to it",
    ),
    "checksums-missing": _Shape("Spark starts and reads the files without checking them", hint=_NOTHING, safe=True),
    "leftover-temporary-files": _Shape("Spark starts and ignores these files", hint=_NOTHING, safe=True),
    "offsets-gone": _Shape("Spark refuses to start: AssertionError, commits exist without offsets"),
    "offsets-and-commits-gone": _Shape(
        "Spark starts at batch 0 and reads its sources from their beginning: every row is emitted twice",
        hint="do not start the query. Restore offsets and commits, or start over with an empty sink",
    ),
    "offsets-and-commits-gone-beside-state": _Shape(
        "Spark refuses to start: the state directory of a new query is not empty"
    ),
    "offset-missing-in-the-middle": _Shape(
        "Spark refuses to start: the batch before the last planned one is unknown (SPARK-38033)",
        hint="restore the checkpoint. Do not delete further files, although Spark advises this: Spark would repeat"
        " or skip batches",
    ),
    "offset-empty": _Shape("Spark refuses to start: Incomplete log file"),
    "offset-cut-short": _Shape("Spark refuses to start: the file lacks an offset of a source"),
    "offset-of-unknown-version": _Shape("Spark refuses to start: the file does not begin with a log version"),
    "older-offset-unusable": _Shape(
        "Spark starts: it reads only the last two offsets, but the query cannot be rewound to this batch",
        hint=_NOTHING,
        safe=True,
    ),
    "last-offset-missing": _Shape(
        "Spark emits the last planned batch again, then fails because that batch is already committed. Each start"
        " duplicates rows",
        hint="do not start the query. Restore the file in `offsets` that belongs to the last committed batch",
    ),
    "open-batch": _Shape(
        "Spark runs the planned batch again, under its id and with its offsets, unless a running driver finishes it",
        hint="nothing to do: a sink that records batch ids skips a batch that it already has; a function may "
        "receive it again",
        safe=True,
    ),
    "last-commit-missing": _Shape(
        "Spark starts and reruns a finished batch: a sink that does not record batch ids receives it twice",
        hint="restore the commit, or make sure that the sink skips batches that it already has",
    ),
    "commits-behind": _Shape(
        "Spark fails if a commit names the state files (checkpoint format v2). If no commit does, Spark reruns the last"
        " planned batch, and rows may be duplicated",
        hint="restore the commits, or make sure that the sink skips batches that it already has",
    ),
    "commit-missing-in-the-middle": _Shape("Spark starts: it reads only the last commit", hint=_NOTHING, safe=True),
    "commit-empty": _Shape("Spark refuses to start: Incomplete log file in the offset commit log"),
    "commit-cut-short": _Shape("Spark refuses to start: the commit cannot be read"),
    "commit-of-unknown-version": _Shape("Spark refuses to start: the file does not begin with a log version"),
    "rewound": _Shape(
        "Spark starts and plans a batch that has already run, with other content under the same id. Rows are doubled",
        hint=_REWIND,
    ),
    "unplanned-source-entry": _Shape(
        "Spark starts and plans these files into its next batch, as after a crash between listing and planning",
        hint="nothing to do if no offsets were removed or edited by hand. If offsets were removed or edited, restore"
        " them: Spark would read these files twice",
        safe=True,
    ),
    "source-log-missing": _Shape("Spark refuses to start: the files of the last batch are unknown"),
    "source-log-shared": _Shape(
        "Spark starts if the query reads one source twice: both reads share one log. Spark refuses to start if the"
        " query reads two different sources",
        hint="nothing to do if the query reads one source twice. If it reads two sources, restore the log",
        safe=True,
    ),
    "source-log-entry-missing": _Shape("Spark refuses to start: an entry of the source log does not exist"),
    "source-log-entry-empty": _Shape("Spark refuses to start: Incomplete log file"),
    "source-log-entry-damaged": _Shape("Spark refuses to start: an entry of the source log cannot be read"),
    "source-offset-ahead": _Shape(
        "Spark refuses to start: the planned offset of a source is ahead of the source's own log"
    ),
    "source-offset-back": _Shape("Spark starts and rereads the input of an earlier batch: rows double"),
    "source-offset-before-previous": _Shape("Spark refuses to start: AssertionError, a batch ends before it starts"),
    "state-missing": _Shape("Spark plans one batch and fails: STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"),
    "state-operator-missing": _Shape(
        "Spark plans one batch and fails: STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    ),
    "state-partition-missing": _Shape("Spark plans one batch and fails: CANNOT_LOAD_STATE_STORE"),
    "state-file-missing": _Shape("Spark plans one batch and fails: CANNOT_LOAD_STATE_STORE"),
    "state-file-empty": _Shape("Spark plans one batch and fails: CANNOT_LOAD_STATE_STORE"),
    "state-file-cut-short": _Shape(
        "Spark plans one batch and fails, unless the file lacks only its end mark: CANNOT_LOAD_STATE_STORE"
    ),
    "state-metadata-missing": _Shape("Spark starts without comparing the operators", hint=_NOTHING, safe=True),
    "state-metadata-damaged": _Shape("Spark starts without comparing the operators", hint=_NOTHING, safe=True),
    "state-metadata-log-damaged": _Shape("Spark may refuse to start: this file names the state's schema"),
    "state-schema-damaged": _Shape("Spark plans one batch and fails: the state's schema cannot be read"),
}
SHAPES = frozenset(_SHAPES)


def damage(shape: str, where: str, evidence: str) -> Damage:
    """Return a damage of the kind ``shape``, with the effect and the remedy that are recorded for that kind.

    ``where``: a path inside the checkpoint.
    """
    known = _SHAPES[shape]
    return Damage(
        shape=shape, where=where, evidence=evidence, on_start=known.on_start, safe=known.safe, hint=known.hint
    )
