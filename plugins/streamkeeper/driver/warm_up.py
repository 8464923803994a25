"""Rehearses a query: reruns its checkpoint's last batch on a clone, with the sink diverted. This also warms up a
standby.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.compatibility import observations, rehearsals
from streamkeeper.driver.causes import is_lost_worker, judge
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.queries import restore_confs
from streamkeeper.driver.raised import links_of
from streamkeeper.errors import InputUnreadable
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.restart_budgets import Cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamkeeper.checkpoints.trees import Tree
    from streamkeeper.inspection.rehearsal import Rehearsal

TIMEOUT_S = 120.0


def warm_up(
    spark: SparkSession,
    planned: Mapping[str, PlannedQuery],
    live: Mapping[str, str],
    scratch: str,
    rehearsed: Mapping[str, str],
) -> str:
    """Rehearse every query, and return the results as one text, joined by ``; ``. A result is ``ok: …``, or an error
    that starts with the error's class. If any query failed, the text contains only the errors. Raises no error.

    ``spark``: the session.
    ``planned``: query -> how the job built it.
    ``live``: query -> checkpoint directory, for queries that have one.
    ``scratch``: the directory in which clones are created.
    ``rehearsed``: query -> result of the rehearsal, for queries that were already rehearsed.
    """
    outcomes: list[str] = []
    for name, query in planned.items():
        try:
            outcomes.append(rehearsed.get(name, "") or _warm_up(spark, query, live.get(name), f"{scratch}/{name}"))
        except Exception as error:
            outcomes.append(f"{describe_fault(error)} (query {name})")
    failed = [sentence for sentence in outcomes if not has_passed(sentence)]
    return "; ".join(failed or outcomes)


def has_passed(outcome: str) -> bool:
    """Whether the result of a rehearsal is ``ok: …``, and neither an error nor empty."""
    return outcome.startswith("ok: ")


def touch(spark: SparkSession, folder: str) -> None:
    """Write, read and delete a file, as a query does in its checkpoint. This prepares the JVM, whose first request to
    S3 takes two seconds. Raises no error; if the storage fails, the next batch reports that.
    """
    context: Any = spark.sparkContext
    with suppress(Exception):
        session: Any = spark
        conf = session._jsparkSession.sessionState().newHadoopConf()
        path = context._jvm.org.apache.hadoop.fs.Path(f"{folder}/touched")
        managers = context._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        manager = managers.create(path.getParent(), conf)
        manager.createAtomic(path, True).close()
        manager.open(path).close()
        manager.list(path.getParent())
        manager.delete(path.getParent())


def rehearse_query(
    spark: SparkSession, query: Query, checkpoint: Tree, scratch: str, *, timeout_s: float, root: Path | None = None
) -> tuple[str, tuple[Finding, ...]]:
    """Rehearse the query on a clone of ``checkpoint``. Return the result as a short text, and the findings of the
    rehearsal.

    ``spark``: the session.
    ``query``: the query.
    ``checkpoint``: the original checkpoint.
    ``scratch``: where the clone is made.
    ``timeout_s``: the time limit in seconds.
    ``root``: the directory of the job's code, as in ``judge``.

    The text is empty if there is no batch to rerun.
    """
    from streamkeeper.inspection.rehearsal import rehearse

    found = rehearse(spark, query, checkpoint, scratch, timeout_s=timeout_s)
    outcome = ""
    if not found.ok:
        remedy = f" ({found.hint})" if found.hint else ""
        outcome = f"{found.error_class}: {found.message}{remedy} (query {query.name})"
    elif found.batch is not None:
        outcome = f"ok: {query.name} {found.did} in {found.seconds:.1f} s"
    return outcome, tuple(_findings_of(found, root))


def rehearse_sink(spark: SparkSession, query: Query) -> tuple[str, tuple[Finding, ...]]:
    """Rehearse the sink of a query that has no batch yet, with no rows. Return the result as a short text, and the
    finding about a refusal, such as of columns that do not fit, a missing topic or wrong options.

    An output that does not answer yields no finding: a driver waits for it, at the output's fence or at its first
    write.
    """
    from streamkeeper.inspection.diverted import fault_of_sink

    nothing = _without_rows(spark, query)
    try:
        query.sink.rehearse(nothing)
    except Exception as error:
        outcome = f"{describe_fault(error)} (query {query.name})"
        if judge(error).cause is Cause.DEPENDENCY:
            return outcome, ()
        fault = fault_of_sink(error)
        found = rehearsals.rehearsal_failed(fault.error_class, fault.message, None, again=False, hint=fault.hint)
        return outcome, (found,)
    return f"ok: {query.name} has no batch to rerun yet", ()


def _without_rows(spark: SparkSession, query: Query) -> DataFrame:
    """Return a batch frame with the query's columns. Spark runs no task for it, unlike for a frame of Python's, so it
    needs neither a free core nor a Python worker.
    """
    from pyspark.sql import DataFrame

    session: Any = spark
    java = session._jsparkSession
    schema = java.parseDataType(query.df.schema.json())
    return DataFrame(java.createDataFrame(session._jvm.java.util.ArrayList(), schema), spark)


def _warm_up(spark: SparkSession, planned: PlannedQuery, live: str | None, scratch: str) -> str:
    query, outcome = planned.query, ""
    restore_confs(query.df.sparkSession, planned.confs)
    checkpoint = tree_at(live) if live is not None else None
    if checkpoint is not None and "commits/" in checkpoint.names(""):
        outcome, _ = rehearse_query(spark, query, checkpoint, scratch, timeout_s=TIMEOUT_S)
    return outcome or rehearse_sink(spark, query)[0]


def _findings_of(found: Rehearsal, root: Path | None = None) -> Iterator[Finding]:
    from streamkeeper.inspection.diverted import EFFECT_STOPPED
    from streamkeeper.inspection.rehearsal import CLONE_DAMAGED, CLONE_FAILED, LOOK_BACK, OUT_OF_REACH, TIMED_OUT

    if found.ok:
        if found.message:
            yield observations.input_gone(found.message, pending=False)
        if found.unchecked:
            yield observations.input_not_checked(found.unchecked)
        if found.without_rows:
            yield rehearsals.rehearsed_without_rows(found.batch, searched=LOOK_BACK)
    elif found.error_class == OUT_OF_REACH:
        yield observations.topic_short(f"({found.source})", found.message, answered=False)
    elif found.error_class == EFFECT_STOPPED:
        yield rehearsals.function_has_effects(found.message)
    elif found.error_class == InputUnreadable.__name__ and found.again:
        # The rehearsed batch is committed; the next batch has other files.
        yield rehearsals.not_rehearsed(found.message, damaged=True)
    elif found.error_class == TIMED_OUT:
        yield rehearsals.rehearsal_unfinished(found.message)
    elif found.error_class in (CLONE_DAMAGED, CLONE_FAILED):
        # File checks find damage that prevents a start; an unavailable earlier batch is not such damage.
        yield rehearsals.not_rehearsed(found.message, damaged=found.error_class == CLONE_DAMAGED)
    else:
        yield _failure(found, root)


def _failure(found: Rehearsal, root: Path | None) -> Finding:
    """Return the finding about an error of the query or its sink. ``root``: as in ``judge``."""
    if found.error is not None and _is_of_output(found.error, found.message, root):
        return rehearsals.output_out_of_reach(found.message, found.hint)
    return rehearsals.rehearsal_failed(
        found.error_class, found.message, found.batch, again=found.again, hint=found.hint
    )


def _is_of_output(error: Exception, message: str, root: Path | None) -> bool:
    """Whether an output, or another service of the query, did not answer. A Python worker that ended or started too
    late raises an error like that of a lost connection, but it belongs to the query.
    """
    judged = judge(error, root)
    away = judged.cause is Cause.DEPENDENCY and judged.fault is not Fault.SOURCE_DOWN
    return away and not (rehearsals.is_late_worker(message) or is_lost_worker(links_of(error)))
