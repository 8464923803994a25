"""Tests a candidate with Spark: the candidate's query reruns the last batch on a clone of the live checkpoint.

A restored checkpoint has only the result of its last batch, so that this batch cannot be rerun. The query then
continues after that batch on the clone, with the planned batch or with a batch within the sources' limits.

A batch without input rows runs none of the query's functions on data. If the last batch had no input rows, the newest
earlier batch with input is rerun as well, on a second clone.

A rehearsal finds what Spark refuses, with Spark's error class. It does not find what Spark accepts but computes
wrongly; the comparison of plans finds this. A rehearsal also warms up the JVM. It changes neither the live checkpoint
nor the output.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.checkpoints.cloning import begins_at_its_last_commit, clone, clone_last_batch, clone_to_go_on
from streamkeeper.checkpoints.layout import can_restart_open, last_committed, offsets_in
from streamkeeper.checkpoints.log_codec import Offsets
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility.rehearsals import is_of_state
from streamkeeper.errors import CheckpointDamaged, SourceOutOfReach, StreamkeeperError
from streamkeeper.inspection.diverted import Diverted, RunFault, run_next, run_planned
from streamkeeper.inspection.input_look import missing_files, told_missing
from streamkeeper.inspection.source_readers import missing_in
from streamkeeper.inspection.state_export import read_all_state
from streamkeeper.system import clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.authoring.definition import Query

TIMED_OUT = "REHEARSAL_TIMED_OUT"
CLONE_FAILED = "CHECKPOINT_NOT_CLONED"
CLONE_DAMAGED = "CHECKPOINT_NOT_WHOLE"
OUT_OF_REACH = "SOURCE_OUT_OF_REACH"

LOOK_BACK = 20
"""The number of batches before the last one that are searched for a batch with rows."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rehearsal."""

    ok: bool
    """Whether the candidate passed."""
    batch: int | None
    """The batch that was rerun, or after which the query continued. None if no batch was ever committed; the result is
    ``ok`` then.
    """
    error_class: str
    """The error class of Spark, or of the exception, or one of this module. Empty if ``ok``."""
    message: str
    """The error. If ``ok``, the message may still name rows that could not be read a second time."""
    seconds: float
    """The time that the rehearsal took."""
    did: str = ""
    """What the rehearsal did, as a phrase with a verb; empty if not ``ok``."""
    again: bool = False
    """Whether ``batch`` itself was rerun, and not the batch after it."""
    unchecked: str = ""
    """Input files of the batch that could not be checked, as a phrase."""
    without_rows: bool = False
    """Whether no batch with input rows ran."""
    source: str = ""
    """The kind of source that did not answer, for ``OUT_OF_REACH``."""
    hint: str = ""
    """The remedy that the sink's error names; else empty."""
    error: Exception | None = None
    """The error that the sink's rehearsal raised; None for other errors."""


def rehearse(spark: SparkSession, query: Query, checkpoint: Tree, scratch: str, *, timeout_s: float) -> Rehearsal:
    """Run the last committed batch of ``checkpoint`` through ``query``, on a clone below ``scratch``.

    If that batch has no input rows, the newest earlier batch with rows runs too, provided that Spark still keeps the
    state with which the earlier batch began. Batch 0 runs on empty state. Errors of the candidate or its checkpoint are
    in the result; none is raised.

    ``spark``: the session of the query.
    ``query``: the candidate.
    ``checkpoint``: the live checkpoint.
    ``scratch``: a location that the driver and all executors can access. The caller removes it, but Spark's own
    maintenance may still write there for a minute.
    ``timeout_s``: the limit for each batch.
    """
    last = _rehearse_last(spark, query, checkpoint, scratch, timeout_s)
    if not (last.ok and last.again and last.without_rows):
        return last
    earlier = _rehearse_earlier(query, checkpoint, scratch, last, timeout_s)
    return earlier or last


def _rehearse_last(spark: SparkSession, query: Query, checkpoint: Tree, scratch: str, timeout_s: float) -> Rehearsal:
    """Rerun the last committed batch, or run the batch after it if Spark cannot start from an open batch.

    The parameters are those of ``rehearse``.

    ``spark``, ``query``, ``checkpoint``: the session, the candidate and the live checkpoint.
    ``scratch``: the location for the clone.
    ``timeout_s``: the limit for the batch.
    """
    started = clock.monotonic()
    target = _new_clone(scratch)
    batch: int | None = None
    fault: RunFault | None = None
    missing = did = unchecked = ""
    again = without_rows = False
    try:
        live = checkpoint.fresh()
        can_run_again = can_restart_open(live)
        if can_run_again and begins_at_its_last_commit(live):
            batch, fault, did, without_rows = _go_on(spark, query, checkpoint, target, timeout_s)
        else:
            batch = clone_last_batch(live, target, again=can_run_again)
            if batch is not None:
                found = missing_files(query, target, batch)
                missing = told_missing(found, batch)
                unchecked = found.unchecked_clause(f"source files of batch {batch}")
                if gaps_of := missing_in(query, target, batch):
                    gaps_text = "; ".join(gap.sentence for gaps in gaps_of.values() for gap in gaps)
                    missing, batch = f"batch {batch} did not run again: {gaps_text}", None
            if batch is not None:
                again = can_run_again
                ran = run_planned(query, target, timeout_s=timeout_s)
                fault = _fault_in(ran, timeout_s)
                did = f"ran batch {batch} again" if again else _told_next(target, batch) or _told_idle(batch)
                without_rows = not any(ran.rows.values())
        if fault is not None and batch is not None:
            fault = _out_of_reach(query, target, batch) or fault
    except CheckpointDamaged as error:
        fault = RunFault(CLONE_DAMAGED, str(error))
    except SourceOutOfReach as error:
        fault = RunFault(OUT_OF_REACH, str(error), source=error.kind)
    except (StreamkeeperError, OSError) as error:
        fault = RunFault(CLONE_FAILED, str(error))
    finally:
        with suppress(StreamkeeperError, OSError):
            target.empty()
    return Rehearsal(
        ok=fault is None,
        batch=batch,
        error_class=fault.error_class if fault else "",
        message=fault.message if fault else missing,
        seconds=clock.monotonic() - started,
        did="" if fault else did,
        again=again,
        unchecked=unchecked,
        without_rows=fault is None and without_rows,
        source=fault.source if fault else "",
        hint=fault.hint if fault else "",
        error=fault.error if fault else None,
    )


def _rehearse_earlier(
    query: Query, checkpoint: Tree, scratch: str, last: Rehearsal, timeout_s: float
) -> Rehearsal | None:
    """Rerun the newest batch with input before ``last`` and return the result; None if the batch could not run.

    The batch cannot run if its input or its state is missing, if it has no rows either, or if Spark rejects its state.
    The last batch ran on newer state, so a defect of older state does not affect the candidate.

    ``query``: the candidate.
    ``checkpoint``: the live checkpoint.
    ``scratch``: the location for the clone.
    ``last``: the result for the last batch.
    ``timeout_s``: the limit for the batch.
    """
    assert last.batch is not None
    started = clock.monotonic()
    target = _new_clone(scratch)
    try:
        live = checkpoint.fresh()
        batch = _newest_that_read(live, last.batch) if can_restart_open(live) else None
        if batch is None:
            return None
        clone(live, target, batch - 1, pending=True)
        if missing_files(query, target, batch).missing or missing_in(query, target, batch):
            return None
        ran = run_planned(query, target, timeout_s=timeout_s)
        fault = _fault_in(ran, timeout_s)
        if fault is None and not ran.rows.get(batch):
            return None
        if fault is not None and (away := _out_of_reach(query, target, batch)):
            fault = away
        elif fault is not None and is_of_state(fault.error_class, fault.message):
            return None
    except (StreamkeeperError, OSError):
        return None
    finally:
        with suppress(StreamkeeperError, OSError):
            target.empty()
    seconds = last.seconds + clock.monotonic() - started
    if fault is None:
        did = f"ran batch {last.batch} again, which has no rows, and batch {batch}"
        return msgspec.structs.replace(last, did=did, seconds=seconds, without_rows=False)
    return Rehearsal(
        ok=False,
        batch=batch,
        error_class=fault.error_class,
        message=fault.message,
        seconds=seconds,
        again=True,
        source=fault.source,
        hint=fault.hint,
        error=fault.error,
    )


def _newest_that_read(checkpoint: Tree, before: int) -> int | None:
    """Return the newest batch below ``before`` whose end offsets differ from those of the batch before it.

    Only ``LOOK_BACK`` batches are searched. Returns None if no such batch exists, or if a plan is missing or
    unreadable.
    """
    end = _ends(checkpoint, before - 1)
    for number in range(before - 1, max(-1, before - 1 - LOOK_BACK), -1):
        earlier = _ends(checkpoint, number - 1)
        if end is None or earlier is None:
            return None
        if end != earlier:
            return number
        end = earlier
    return None


def _ends(checkpoint: Tree, number: int) -> dict[str, str] | None:
    if number < 0:
        return {}
    found = offsets_in(checkpoint, number)
    return found.ends if isinstance(found, Offsets) else None


def _new_clone(scratch: str) -> Tree:
    return tree_at(f"{scratch}/rehearsal-{uuid.uuid4().hex}", lasting=False)


def _go_on(
    spark: SparkSession, query: Query, checkpoint: Tree, target: Tree, timeout_s: float
) -> tuple[int, RunFault | None, str, bool]:
    """Run the next batch, or load all state if no batch follows.

    Spark loads no state if there is nothing to read. In this case the state is read with Spark's own reader.

    ``spark``: the session of the query.
    ``query``: the candidate.
    ``checkpoint``: the live checkpoint.
    ``target``: the clone.
    ``timeout_s``: the limit for the batch.

    Returns the committed batch, the error, what was done, and whether no rows were read.
    """
    batch, planned = clone_to_go_on(checkpoint.fresh(), target)
    run = run_planned if planned else run_next
    ran = run(query, target, timeout_s=timeout_s)
    fault = _fault_in(ran, timeout_s)
    if fault is not None:
        return batch, fault, "", True
    if did := _told_next(target, batch):
        return batch, None, did, not any(ran.rows.values())
    count = read_all_state(spark, target, batch, owned=True)
    if count.unsupported:
        raise CheckpointDamaged(
            f"the rehearsal does not prove that the state can be loaded: there is no new input after batch {batch}, and"
            f" Spark's state reader does not support {', '.join(count.unsupported)}"
        )
    return batch, None, f"loaded {count.rows:,} rows of state at batch {batch}, without new input", True


def _told_next(target: Tree, batch: int) -> str:
    """Return a phrase that names the batch that ran on a clone whose last commit was ``batch``; empty if none ran."""
    newest = last_committed(target)
    return f"continued from batch {batch} with batch {newest}" if newest is not None and newest > batch else ""


def _told_idle(batch: int) -> str:
    """Return a phrase for a run without new input, for the case that Spark cannot read the state because the sources
    have names.
    """
    return f"started after batch {batch}, without new input and without loading the state"


def _fault_in(ran: Diverted, timeout_s: float) -> RunFault | None:
    return ran.fault if ran.ended else RunFault(TIMED_OUT, f"the batch did not end within {timeout_s:g} s")


def _out_of_reach(query: Query, checkpoint: Tree, batch: int) -> RunFault | None:
    """Return the fault if the query's sources do not answer, which is not the candidate's fault; None otherwise."""
    try:
        missing_in(query, checkpoint, batch)
    except SourceOutOfReach as error:
        return RunFault(OUT_OF_REACH, str(error), source=error.kind)
    except StreamkeeperError:
        return None
    return None
