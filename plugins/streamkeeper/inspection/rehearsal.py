"""Spark's own word on a candidate: its query runs the last batch again, on a clone of the live checkpoint.

A restored checkpoint holds what its last batch left and nothing from before it, so that batch cannot run again there:
the query goes on from it on the clone instead, by the planned batch or one within the sources' limits.

A batch without input rows runs none of the query's functions on data. So the newest earlier batch that read something
runs again as well, on a second clone.

It finds what Spark refuses, with Spark's error class; what Spark accepts and gets wrong only the plan shows. It warms
the JVM up as well. Neither the live checkpoint nor the sink's output is touched.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.checkpoints.cloning import begins_at_its_last_commit, clone, clone_last_batch, clone_to_go_on
from streamkeeper.checkpoints.layout import can_restart_open, last_committed, offsets_in
from streamkeeper.checkpoints.log_codec import Offsets
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, SourceOutOfReach, StreamkeeperError
from streamkeeper.inspection.diverted import Diverted, Fault, run_next, run_planned
from streamkeeper.inspection.input_look import missing_files, told_missing
from streamkeeper.inspection.kafka_topics import missing_in
from streamkeeper.inspection.state_export import read_all_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.definition import Query

TIMED_OUT = "REHEARSAL_TIMED_OUT"
CLONE_FAILED = "CHECKPOINT_NOT_CLONED"
CLONE_DAMAGED = "CHECKPOINT_NOT_WHOLE"
OUT_OF_REACH = "SOURCE_OUT_OF_REACH"

_LOOK_BACK = 20
"""Batches before the last one among which one with rows is looked for."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """How a rehearsal went. ``batch``: the one that ran again, None when none was ever committed (then it is ``ok``).

    ``error_class``: Spark's, or the exception's, or one of this module's; empty when ``ok``. ``message`` may say
    something then, too: rows that could not be read again. ``did``: what was done, as a verb's clause, when ``ok``.
    ``again``: whether it was ``batch`` itself that ran, rather than the one after it. ``unchecked``: input files of it
    that could not be looked for, as a clause. ``without_rows``: no batch with input rows ran. ``earlier``: ``batch`` is
    not the last one, but the newest that read something: the last one ran without an error.
    """

    ok: bool
    batch: int | None
    error_class: str
    message: str
    seconds: float
    did: str = ""
    again: bool = False
    unchecked: str = ""
    without_rows: bool = False
    earlier: bool = False


def rehearse(spark: SparkSession, query: Query, checkpoint: Tree, scratch: str, *, timeout_s: float) -> Rehearsal:
    """Run the last committed batch of ``checkpoint`` through ``query``, on a clone below ``scratch``, and keep nothing.

    Where that batch has no input rows, the newest earlier one that has some runs too, if Spark still keeps its state.
    Batch 0 runs on empty state. Never raises for what the candidate or its checkpoint does wrong. ``scratch``: a
    location that all see who run the session's tasks. It is the caller's to remove: Spark's own maintenance may still
    write there for a minute. ``timeout_s``: of each batch.
    """
    last = _rehearse_last(spark, query, checkpoint, scratch, timeout_s)
    if not (last.ok and last.again and last.without_rows):
        return last
    earlier = _rehearse_earlier(query, checkpoint, scratch, last, timeout_s)
    return earlier or last


def _rehearse_last(spark: SparkSession, query: Query, checkpoint: Tree, scratch: str, timeout_s: float) -> Rehearsal:
    started = time.monotonic()
    target = _new_clone(scratch)
    batch: int | None = None
    fault: Fault | None = None
    gone = did = unchecked = ""
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
                gone = told_missing(found, batch)
                unchecked = found.unchecked_clause(f"source files of batch {batch}")
                if out_of_topic := missing_in(query, target, batch):
                    told = "; ".join(gap.told for gaps in out_of_topic.values() for gap in gaps)
                    gone, batch = f"batch {batch} did not run again: {told}", None
            if batch is not None:
                again = True
                ran = run_planned(query, target, timeout_s=timeout_s)
                fault, did = _fault_in(ran, timeout_s), f"ran batch {batch} again"
                without_rows = not any(ran.rows.values())
        if fault is not None and batch is not None:
            fault = _out_of_reach(query, target, batch) or fault
    except CheckpointDamaged as error:
        fault = Fault(CLONE_DAMAGED, str(error))
    except SourceOutOfReach as error:
        fault = Fault(OUT_OF_REACH, str(error))
    except (StreamkeeperError, OSError) as error:
        fault = Fault(CLONE_FAILED, str(error))
    finally:
        with suppress(StreamkeeperError, OSError):
            target.empty()
    return Rehearsal(
        ok=fault is None,
        batch=batch,
        error_class=fault.error_class if fault else "",
        message=fault.message if fault else gone,
        seconds=time.monotonic() - started,
        did="" if fault else did,
        again=again,
        unchecked=unchecked,
        without_rows=fault is None and without_rows,
    )


def _rehearse_earlier(
    query: Query, checkpoint: Tree, scratch: str, last: Rehearsal, timeout_s: float
) -> Rehearsal | None:
    """How the newest batch before ``last`` that read something ran again; None where it could not.

    It could not where its input or its state is no longer there, and where it turned out to have no rows either.
    """
    assert last.batch is not None
    started = time.monotonic()
    target = _new_clone(scratch)
    try:
        live = checkpoint.fresh()
        batch = _newest_that_read(live, last.batch) if can_restart_open(live) else None
        if batch is None:
            return None
        clone(live, target, batch - 1, pending=True)
        if missing_files(query, target, batch).gone or missing_in(query, target, batch):
            return None
        ran = run_planned(query, target, timeout_s=timeout_s)
        fault = _fault_in(ran, timeout_s)
        if fault is None and not ran.rows.get(batch):
            return None
        if fault is not None:
            fault = _out_of_reach(query, target, batch) or fault
    except (StreamkeeperError, OSError):
        return None
    finally:
        with suppress(StreamkeeperError, OSError):
            target.empty()
    seconds = last.seconds + time.monotonic() - started
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
        earlier=True,
    )


def _newest_that_read(checkpoint: Tree, before: int) -> int | None:
    """The newest batch below ``before`` with other end offsets than the batch before it, among the last few.

    None where there is none, or where a plan is missing or cannot be read.
    """
    end = _ends(checkpoint, before - 1)
    for number in range(before - 1, max(-1, before - 1 - _LOOK_BACK), -1):
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
) -> tuple[int, Fault | None, str, bool]:
    """The committed batch, what went wrong, what was done, and whether no rows were read.

    Done is the next batch, or all state is loaded where no batch follows.

    Spark loads no state when there is nothing to read, so it is read through Spark's own reader then.
    """
    batch, planned = clone_to_go_on(checkpoint.fresh(), target)
    run = run_planned if planned else run_next
    ran = run(query, target, timeout_s=timeout_s)
    fault = _fault_in(ran, timeout_s)
    if fault is not None:
        return batch, fault, "", True
    newest = last_committed(target)
    if newest is not None and newest > batch:
        return batch, None, f"went on from batch {batch} by batch {newest}", not any(ran.rows.values())
    count = read_all_state(spark, target, batch, owned=True)
    if count.unsupported:
        raise CheckpointDamaged(
            f"it begins at batch {batch}, nothing new can be read, and Spark's reader does not know"
            f" {', '.join(count.unsupported)}: nothing shows that this state loads"
        )
    return batch, None, f"stands at batch {batch}, nothing new to read, {count.rows:,} rows of state loaded", True


def _fault_in(ran: Diverted, timeout_s: float) -> Fault | None:
    return ran.fault if ran.ended else Fault(TIMED_OUT, f"the batch did not end within {timeout_s:g} s")


def _out_of_reach(query: Query, checkpoint: Tree, batch: int) -> Fault | None:
    """What failed is not the candidate's fault when its brokers do not answer; whatever else is said now is no news."""
    try:
        missing_in(query, checkpoint, batch)
    except SourceOutOfReach as error:
        return Fault(OUT_OF_REACH, str(error))
    except StreamkeeperError:
        return None
    return None
