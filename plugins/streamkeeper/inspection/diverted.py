"""Runs one batch of the real query on a clone of its checkpoint, with its output diverted from the real sink."""

from __future__ import annotations

import re
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import StreamkeeperError
from streamkeeper.inspection.clones import clone_of, stopped_effect
from streamkeeper.jvm.batch_files import check_files
from streamkeeper.system.hidden_secrets import mask_hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from streamkeeper.authoring.definition import Query

_STOP_S = 20.0
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_PYTHON = re.compile(r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning)\b:? ?.*)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+: .*)$", re.MULTILINE)
_WRAPPERS = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR"})
_SAYS_NOTHING = ".UNCATEGORIZED"
_FILE = re.compile(r"Encountered error while reading file (\S+?)\.?\s")
_LONGEST = 500

EFFECT_STOPPED = "EFFECT_STOPPED"
"""The error class of a batch whose function tried to change something outside of the clone."""


class RunFault(msgspec.Struct, frozen=True):
    """The error of a run, with a message of one sentence.

    ``error_class``: Spark's innermost error class; if there is none, the name of the exception's class.
    ``source``: the kind of source that did not answer; empty for other errors.
    ``hint``: the remedy that an error of the sink names; else empty.
    ``error``: the error that the sink's rehearsal raised; None for other errors.
    """

    error_class: str
    message: str
    source: str = ""
    hint: str = ""
    error: Exception | None = None


class Diverted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run with the output diverted.

    ``fault``: the error of the run; None without an error.
    ``rows``: the number of input rows of each finished batch, by batch number.
    ``ended``: whether the run finished within the time limit.
    """

    fault: RunFault | None = None
    rows: dict[int, int] = {}
    ended: bool = True


class _OneIsEnough(Exception):
    """Raised to stop a run before its second batch is executed."""


def run_planned(query: Query, checkpoint: Tree, *, timeout_s: float) -> Diverted:
    """Run the planned batch. If no batch is planned, run one batch with all new input. Errors are returned in the
    result; none is raised.

    The trigger is ``once``, because ``availableNow`` would continue with further batches.
    """
    return _run(query, checkpoint, timeout_s, {"once": True})


def run_next(query: Query, checkpoint: Tree, *, timeout_s: float) -> Diverted:
    """Run the planned batch. If no batch is planned, run one batch within the sources' limits. Errors are returned in
    the result; none is raised.

    The trigger is ``availableNow``, because ``once`` would ignore the sources' limits and read the whole backlog. A
    second batch is stopped before it is executed, but its plan remains in the checkpoint. Without new input no batch
    runs.
    """
    return _run(query, checkpoint, timeout_s, {"availableNow": True})


def _run(query: Query, checkpoint: Tree, timeout_s: float, trigger: dict[str, bool]) -> Diverted:
    raised: list[Exception] = []
    by_sink: list[Exception] = []
    entered: set[int] = set()

    def divert(batch: DataFrame, number: int) -> None:
        try:
            if entered - {number}:
                raise _OneIsEnough
            entered.add(number)
            check_files(batch, number)
            try:
                query.sink.rehearse(batch)
            except Exception as error:
                by_sink.append(error)
                raise
        except Exception as error:  # kept as an object, because the JVM would pass on only its text
            raised.append(error)
            raise

    running: StreamingQuery | None = None
    try:
        writer: Any = clone_of(query.df).writeStream.outputMode(query.output_mode).foreachBatch(divert)
        running = writer.option("checkpointLocation", checkpoint.spark_path).trigger(**trigger).start()
        assert running is not None
        if not running.awaitTermination(timeout_s):
            return Diverted(ended=False)
    except Exception as error:  # any error of the query, its sources or Spark is this function's result
        first = raised[0] if raised else error
        if not isinstance(first, _OneIsEnough):
            return Diverted(fault=fault_of_sink(first) if first in by_sink else fault_of(first))
    finally:
        if running is not None and running.isActive:
            _stop(running)
    return Diverted(rows=_rows(running))


def _rows(running: Any) -> dict[int, int]:
    return {progress["batchId"]: progress["numInputRows"] for progress in (running.recentProgress if running else ())}


def _stop(running: StreamingQuery) -> None:
    """Stop a query in a separate thread, so that a function that ignores interrupts does not block the driver."""
    stopping = Thread(target=running.stop, name="diverted-stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)


def fault_of(error: Exception) -> RunFault:
    """Return Spark's innermost error class and message, with the file that Spark was reading.

    The outer classes only report that a stream has failed.
    """
    found = _fault_of(error)
    file = _FILE.search(mask_hidden(str(error)))
    if file is None or file[1] in found.message:
        return found
    return RunFault(found.error_class, f"{found.message}; file {file[1]}")


def fault_of_sink(error: Exception) -> RunFault:
    """Return the fault of an error that a sink's rehearsal raised, with the remedy apart from the message."""
    found = fault_of(error)
    hint = mask_hidden(error.hint) if isinstance(error, StreamkeeperError) else ""
    message = found.message.removesuffix(f" ({hint})") if hint else found.message
    return RunFault(found.error_class, message, hint=hint, error=error)


def _fault_of(error: Exception) -> RunFault:
    text = mask_hidden(str(error))
    if effect := stopped_effect(text):
        return RunFault(
            EFFECT_STOPPED, f"a function of the job tried to change something outside the clone: {effect}"[:_LONGEST]
        )
    condition = _condition(error)
    if condition in _WRAPPERS or not condition:
        inner = [name for name in _CONDITION.findall(text) if name not in _WRAPPERS]
        condition = inner[-1] if inner else ""
    if condition:
        sentence = _sentence(text.rpartition(f"[{condition}]")[2] or text)
        causes = _CAUSE.findall(text) if condition.endswith(_SAYS_NOTHING) else []
        return RunFault(condition, f"{sentence} {causes[-1]}"[:_LONGEST] if causes else sentence)
    return _innermost(error) or RunFault(type(error).__name__, _sentence(text))


def _condition(error: Any) -> str:
    ask = getattr(error, "getCondition", None)
    return str(ask() or "") if callable(ask) else ""


def _innermost(error: Any) -> RunFault | None:
    """Return class and message of the innermost Java cause of an exception from PySpark or Py4J; None without one."""
    cause, found = getattr(error, "_origin", None) or getattr(error, "java_exception", None), None
    while cause is not None:
        found, cause = cause, cause.getCause()
    if found is None:
        return None
    return RunFault(str(found.getClass().getSimpleName()), _sentence(mask_hidden(str(found.getMessage()))))


def _sentence(text: str) -> str:
    """Return the last line of the Python traceback in a text; without a traceback, return the text's first line."""
    python = _PYTHON.findall(text) if "Traceback (most recent call last)" in text else []
    lines = python[-1:] or [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:_LONGEST] if lines else "no message"
