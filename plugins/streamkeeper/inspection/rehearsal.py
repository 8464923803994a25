"""Spark's own word on a candidate: its query runs the last batch again, on a clone of the live checkpoint.

It finds what Spark refuses, with Spark's error class; what Spark accepts and gets wrong only the plan shows. It warms
the JVM up as well. Neither the live checkpoint nor the sink's output is touched.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from streamkeeper.checkpoints.cloning import clone_last_batch
from streamkeeper.checkpoints.facts import can_restart_open
from streamkeeper.checkpoints.layout import planned_files
from streamkeeper.errors import CheckpointDamaged, StreamkeeperError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from streamkeeper.definition import Query

TIMED_OUT = "REHEARSAL_TIMED_OUT"
CLONE_FAILED = "CHECKPOINT_NOT_CLONED"
CLONE_DAMAGED = "CHECKPOINT_NOT_WHOLE"

_STOP_S = 20.0
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_PYTHON = re.compile(r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning)\b:? ?.*)$", re.MULTILINE)
_WRAPPERS = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR"})
_LONGEST = 500


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """How a rehearsal went. ``batch``: the one that ran again, None when none was ever committed (then it is ``ok``).

    ``error_class``: Spark's, or the exception's, or one of this module's; empty when ``ok``. ``message`` may say
    something then, too: rows that could not be read again.
    """

    ok: bool
    batch: int | None
    error_class: str
    message: str
    seconds: float


class _Fault(msgspec.Struct, frozen=True):
    error_class: str
    message: str


def rehearse(spark: SparkSession, query: Query, checkpoint: Path, scratch: Path, *, timeout_s: float) -> Rehearsal:
    """Run the last committed batch of ``checkpoint`` through ``query``, on a clone below ``scratch``, and keep nothing.

    Batch 0 runs on empty state. Never raises for what the candidate or its checkpoint does wrong. ``scratch`` is the
    caller's to remove: Spark's own maintenance may still write there for a minute.
    """
    started = time.monotonic()
    target = scratch / f"rehearsal-{uuid.uuid4().hex}"
    batch: int | None = None
    fault: _Fault | None = None
    gone = ""
    try:
        batch = clone_last_batch(checkpoint, target, again=can_restart_open(checkpoint))
        if batch is not None:
            gone = _missing_files(target, batch)
            fault = _run_once(query, target, timeout_s)
    except CheckpointDamaged as error:
        fault = _Fault(CLONE_DAMAGED, str(error))
    except (StreamkeeperError, OSError) as error:
        fault = _Fault(CLONE_FAILED, str(error))
    finally:
        shutil.rmtree(target, ignore_errors=True)
    return Rehearsal(
        ok=fault is None,
        batch=batch,
        error_class=fault.error_class if fault else "",
        message=fault.message if fault else gone,
        seconds=time.monotonic() - started,
    )


def _missing_files(checkpoint: Path, batch: int) -> str:
    """Spark replays a batch without the files that are gone, and says nothing."""
    local = [unquote(urlsplit(each).path) for each in planned_files(checkpoint, batch) if each.startswith("file:")]
    gone = [each for each in local if not Path(each).exists()]
    return f"{len(gone)} of {len(local)} source files of batch {batch} are gone: it ran without them" if gone else ""


def _run_once(query: Query, checkpoint: Path, timeout_s: float) -> _Fault | None:
    """What went wrong, None when the batch ran. Trigger ``once``: ``availableNow`` would go on into the backlog."""
    raised: list[Exception] = []

    def divert(batch: DataFrame, _: int) -> None:
        try:
            query.sink.rehearse(batch)
        except Exception as error:  # kept as it is, because the way through the JVM leaves only its text
            raised.append(error)
            raise

    writer = query.df.writeStream.outputMode(query.output_mode).foreachBatch(divert)
    running: StreamingQuery | None = None
    try:
        running = writer.option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
        if running.awaitTermination(timeout_s):
            return None
        return _Fault(TIMED_OUT, f"the batch did not end within {timeout_s:g} s")
    except Exception as error:  # whatever the candidate, its sources or Spark raise is this function's result
        return _fault(raised[0] if raised else error)
    finally:
        if running is not None and running.isActive:
            _stop(running)


def _stop(running: StreamingQuery) -> None:
    """Stop in a thread of its own: a function that ignores interrupts must not hold the driver."""
    stopping = Thread(target=running.stop, name="rehearsal-stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)


def _fault(error: Exception) -> _Fault:
    """Spark's innermost error class and its sentence: the outer ones only say that a stream has failed."""
    text = str(error)
    condition = _condition(error)
    if condition in _WRAPPERS or not condition:
        inner = [each for each in _CONDITION.findall(text) if each not in _WRAPPERS]
        condition = inner[-1] if inner else ""
    if condition:
        return _Fault(condition, _sentence(text.rpartition(f"[{condition}]")[2] or text))
    return _innermost(error) or _Fault(type(error).__name__, _sentence(text))


def _condition(error: Any) -> str:
    ask = getattr(error, "getCondition", None)
    return str(ask() or "") if callable(ask) else ""


def _innermost(error: Any) -> _Fault | None:
    """Class and message of the deepest Java cause of a captured exception."""
    cause, found = getattr(error, "_origin", None), None
    while cause is not None:
        found, cause = cause, cause.getCause()
    if found is None:
        return None
    return _Fault(str(found.getClass().getSimpleName()), _sentence(str(found.getMessage())))


def _sentence(text: str) -> str:
    """The last line of a Python traceback, else the first line."""
    python = _PYTHON.findall(text) if "Traceback (most recent call last)" in text else []
    lines = python[-1:] or [each.strip() for each in text.splitlines() if each.strip()]
    return lines[0][:_LONGEST] if lines else "no message"
