"""Spark's own word on a candidate: its query runs the last batch again, on a clone of the live checkpoint.

It finds what Spark refuses, with Spark's error class; what Spark accepts and gets wrong only the plan shows. It warms
the JVM up as well. Neither the live checkpoint nor the sink's output is touched.
"""

from __future__ import annotations

import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.checkpoints.cloning import clone_last_batch
from streamkeeper.checkpoints.facts import can_restart_open
from streamkeeper.errors import CheckpointDamaged, SourceOutOfReach, StreamkeeperError
from streamkeeper.inspection.diverted import Fault, missing_files, run_planned
from streamkeeper.inspection.kafka_topics import missing_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.definition import Query

TIMED_OUT = "REHEARSAL_TIMED_OUT"
CLONE_FAILED = "CHECKPOINT_NOT_CLONED"
CLONE_DAMAGED = "CHECKPOINT_NOT_WHOLE"
OUT_OF_REACH = "SOURCE_OUT_OF_REACH"


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


def rehearse(spark: SparkSession, query: Query, checkpoint: Path, scratch: Path, *, timeout_s: float) -> Rehearsal:
    """Run the last committed batch of ``checkpoint`` through ``query``, on a clone below ``scratch``, and keep nothing.

    Batch 0 runs on empty state. Never raises for what the candidate or its checkpoint does wrong. ``scratch`` is the
    caller's to remove: Spark's own maintenance may still write there for a minute.
    """
    started = time.monotonic()
    target = scratch / f"rehearsal-{uuid.uuid4().hex}"
    batch: int | None = None
    fault: Fault | None = None
    gone = ""
    try:
        batch = clone_last_batch(checkpoint, target, again=can_restart_open(checkpoint))
        if batch is not None:
            gone = missing_files(target, batch)
            if out_of_topic := missing_in(query, target, batch):
                told = "; ".join(clause for clauses in out_of_topic.values() for clause in clauses)
                gone, batch = f"batch {batch} did not run again: {told}", None
        if batch is not None:
            ran = run_planned(query, target, timeout_s=timeout_s)
            fault = ran.fault if ran.ended else Fault(TIMED_OUT, f"the batch did not end within {timeout_s:g} s")
            if fault is not None:
                fault = _out_of_reach(query, target, batch) or fault
    except CheckpointDamaged as error:
        fault = Fault(CLONE_DAMAGED, str(error))
    except SourceOutOfReach as error:
        fault = Fault(OUT_OF_REACH, str(error))
    except (StreamkeeperError, OSError) as error:
        fault = Fault(CLONE_FAILED, str(error))
    finally:
        shutil.rmtree(target, ignore_errors=True)
    return Rehearsal(
        ok=fault is None,
        batch=batch,
        error_class=fault.error_class if fault else "",
        message=fault.message if fault else gone,
        seconds=time.monotonic() - started,
    )


def _out_of_reach(query: Query, checkpoint: Path, batch: int) -> Fault | None:
    """What failed is not the candidate's fault when its brokers do not answer; whatever else is said now is no news."""
    try:
        missing_in(query, checkpoint, batch)
    except SourceOutOfReach as error:
        return Fault(OUT_OF_REACH, str(error))
    except StreamkeeperError:
        return None
    return None
