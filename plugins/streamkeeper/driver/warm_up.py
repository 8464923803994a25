"""The standby's warm-up: the last batch of each live checkpoint again, on a clone, with the sink diverted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.compatibility import observations
from streamkeeper.definition import Query
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.queries import restore_confs
from streamkeeper.errors import SourceOutOfReach
from streamkeeper.model.finding import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.inspection.rehearsal import Rehearsal

TIMEOUT_S = 120.0


def warm_up(
    spark: SparkSession, planned: Mapping[str, PlannedQuery], live: Mapping[str, str], scratch: Path
) -> tuple[str, dict[str, tuple[Finding, ...]]]:
    """What the warm-up found, one clause per query: ``ok: …``, or Spark's error class first; and query -> findings.

    It never fails. ``live``: query -> checkpoint directory, as far as there is one.
    """
    told: list[str] = []
    findings: dict[str, tuple[Finding, ...]] = {}
    for name, each in planned.items():
        try:
            clause, found = _warm_up(spark, each, live.get(name), scratch / name)
        except Exception as error:
            clause, found = f"{describe_fault(error)} (query {name})", None
        told.append(clause)
        if found is not None:
            findings[name] = (*_findings_of(found), *_history(each.query, live[name]))
    failed = [each for each in told if not each.startswith("ok: ")]
    return "; ".join(failed or told), findings


def rehearsal_findings(
    spark: SparkSession, query: Query, checkpoint: Path, scratch: Path, *, timeout_s: float
) -> Iterator[Finding]:
    """What a rehearsal on a clone of ``checkpoint`` finds."""
    from streamkeeper.inspection.rehearsal import rehearse

    yield from _findings_of(rehearse(spark, query, checkpoint, scratch, timeout_s=timeout_s))


def _warm_up(
    spark: SparkSession, planned: PlannedQuery, live: str | None, scratch: Path
) -> tuple[str, Rehearsal | None]:
    query, found = planned.query, None
    restore_confs(query.df.sparkSession, planned.confs)
    if live is not None and Path(live, "commits").is_dir():
        from streamkeeper.inspection.rehearsal import rehearse

        found = rehearse(spark, query, Path(live), scratch, timeout_s=TIMEOUT_S)
        if not found.ok:
            return f"{found.error_class}: {found.message} (query {query.name})", found
        if found.batch is not None:
            return f"ok: {query.name} ran batch {found.batch} again in {found.seconds:.1f} s", found
    query.sink.rehearse(spark.createDataFrame([], query.df.schema))
    return f"ok: {query.name} has no batch yet to run again", found


def _history(query: Query, live: str) -> Iterator[Finding]:
    """What topics no longer hold of what was read since the checkpoint began."""
    from streamkeeper.inspection.kafka_topics import missing_after

    try:
        for source, clauses in missing_after(query, Path(live), None).items():
            yield observations.history_gone(f"{source} (kafka)", "; ".join(clauses))
    except SourceOutOfReach as error:
        yield observations.history_gone("(kafka)", f"what the topics hold is not known: {error}")


def _findings_of(found: Rehearsal) -> Iterator[Finding]:
    from streamkeeper.inspection.rehearsal import CLONE_DAMAGED, CLONE_FAILED, OUT_OF_REACH, TIMED_OUT

    if found.ok:
        if found.message:
            yield observations.input_gone(found.message, pending=False)
    elif found.error_class == OUT_OF_REACH:
        yield observations.topic_short("(kafka)", found.message, answered=False)
    elif found.error_class == TIMED_OUT:
        yield observations.rehearsal_unfinished(found.message)
    elif found.error_class in (CLONE_DAMAGED, CLONE_FAILED):
        # Damage that forbids a start is found by the files; a batch that cannot be gone back to is none of it.
        yield observations.not_rehearsed(found.message, damaged=found.error_class == CLONE_DAMAGED)
    else:
        yield observations.rehearsal_failed(found.error_class, found.message, found.batch)
