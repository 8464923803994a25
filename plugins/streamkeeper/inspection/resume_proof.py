"""Proves that a restored checkpoint works: the real query resumes from it with its output diverted, and all state
loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.checkpoints.layout import last_committed, last_planned, read_commit, read_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, StreamkeeperError
from streamkeeper.inspection.diverted import EFFECT_STOPPED, RunFault, fault_of, run_next
from streamkeeper.inspection.input_look import missing_files, told_missing
from streamkeeper.inspection.state_export import StateCount, read_all_state
from streamkeeper.model.protocol.drill_messages import DrillAnswer
from streamkeeper.system import clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.authoring.definition import Query

TIMED_OUT = "DRILL_TIMED_OUT"
NOT_AT_BATCH = "CHECKPOINT_NOT_AT_BATCH"
STATE_UNPROVEN = "STATE_NOT_READABLE"


class _Failed(Exception):
    """The error of a failed drill, with the reason."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message


def drill(spark: SparkSession, query: Query, checkpoint: Tree, batch: int, *, timeout_s: float) -> DrillAnswer:
    """Run ``query`` from a scratch ``checkpoint`` restored as of committed ``batch``, then read all the query's state.

    At most one batch runs. It is the planned batch or, if none is planned, a new batch within the sources' own limits.
    A batch whose function would change something outside of the clone is stopped. Reading the state is then the only
    proof that the query can resume. Errors of the checkpoint, the query or Spark are in the answer. The state is read
    even if no batch runs, because Spark loads no state in that case.

    ``spark``: the session of the query.
    ``query``: the job's real query.
    ``checkpoint``: the restored checkpoint. The drill may change it.
    ``batch``: the last batch that was committed in ``checkpoint``.
    ``timeout_s``: the time limit for the batch, in seconds.
    """
    started = clock.monotonic()
    ran: int | None = None
    rows, count, remarks, stopped, fault = 0, StateCount(0, 0), "", "", RunFault("", "")
    try:
        _must_stand_at(checkpoint, batch)
        ran, rows, stopped = _go_on(query, checkpoint, batch, timeout_s)
        count, remarks = _read_state(spark, checkpoint, ran, batch)
        if ran is not None:
            found = missing_files(query, checkpoint, ran)
            clauses = (told_missing(found, ran), found.unchecked_clause(f"source files of batch {ran}"))
            remarks += "".join(f"; {each}" for each in clauses if each)
    except _Failed as error:
        fault = RunFault(error.error_class, error.message)
    except (StreamkeeperError, OSError) as error:
        fault = RunFault(type(error).__name__, str(error))
    return DrillAnswer(
        ok=not fault.error_class,
        message=fault.message or f"{_what_ran(ran, rows, stopped)}; {_what_is_held(count)}{remarks}",
        batch=ran,
        rows=rows,
        state_rows=count.rows,
        stores=count.stores,
        seconds=clock.monotonic() - started,
        error_class=fault.error_class,
    )


def _must_stand_at(checkpoint: Tree, batch: int) -> None:
    """Raise an error unless ``batch`` is the last commit, because Spark silently reruns a batch whose commit is
    missing.
    """
    read_offsets(checkpoint.fresh(), batch)
    committed, planned = last_committed(checkpoint.fresh()), last_planned(checkpoint.fresh())
    if committed != batch:
        where = f"its last commit is batch {committed}" if committed is not None else "it has no commit"
        raise _Failed(NOT_AT_BATCH, f"the checkpoint is not at batch {batch}: {where}")
    read_commit(checkpoint.fresh(), batch)
    if planned not in (batch, batch + 1):
        raise _Failed(NOT_AT_BATCH, f"the checkpoint is not at batch {batch}: batch {planned} is planned")


def _go_on(query: Query, checkpoint: Tree, batch: int, timeout_s: float) -> tuple[int | None, int, str]:
    """Return the batch that ran (None if none ran), its input rows, and why it was stopped (empty if it was not)."""
    pending = last_planned(checkpoint.fresh()) == batch + 1
    run = run_next(query, checkpoint, timeout_s=timeout_s)
    if not run.ended:
        raise _Failed(TIMED_OUT, f"batch {batch + 1} did not end within {timeout_s:g} s")
    if run.fault is not None and run.fault.error_class == EFFECT_STOPPED:
        return None, 0, f"batch {batch + 1} was stopped: {run.fault.message}"
    if run.fault is not None:
        raise _Failed(run.fault.error_class, _told("the query failed", run.fault))
    newest = last_committed(checkpoint.fresh())
    if newest == batch + 1:
        return newest, run.rows.get(newest, 0), ""
    if newest != batch or pending:
        done = f"the last committed batch is {newest}, not {batch + 1}"
        raise _Failed(NOT_AT_BATCH, f"the query did not run exactly one batch after batch {batch}: {done}")
    return None, 0, ""


def _read_state(spark: SparkSession, checkpoint: Tree, ran: int | None, batch: int) -> tuple[StateCount, str]:
    """Return the number of stores and rows of the state, and a remark on the stores that Spark's reader does not
    support.

    Such stores are accepted only if a batch ran, because only a batch proves that their state can be loaded.
    """
    try:
        count = read_all_state(spark, checkpoint, batch if ran is None else ran, owned=True)
    except CheckpointDamaged as error:
        cause = error.__cause__
        error_class = fault_of(cause).error_class if isinstance(cause, Exception) else type(error).__name__
        raise _Failed(error_class, f"{_what_ran(ran, None)}, but {error}") from error
    if not count.unsupported:
        return count, ""
    unread = f"Spark's reader does not know {', '.join(count.unsupported)}"
    if ran is None:
        why = f"there was no new input, and {unread}, so the drill does not prove that the state can be loaded"
        raise _Failed(STATE_UNPROVEN, why)
    return count, f"; {unread}"


def _told(otherwise: str, fault: RunFault) -> str:
    return f"{'Spark refused' if fault.error_class.isupper() else otherwise}: {fault.error_class}: {fault.message}"


def _what_ran(ran: int | None, rows: int | None, stopped: str = "") -> str:
    if stopped:
        return stopped
    if ran is None:
        return "no new input"
    return f"batch {ran} ran" + (f" ({_counted(rows, 'row')})" if rows is not None else "")


def _what_is_held(count: StateCount) -> str:
    if not count.stores:
        return "no state was read"
    return (
        f"{_counted(count.stores, 'state store')} hold{'s' if count.stores == 1 else ''} {_counted(count.rows, 'row')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
