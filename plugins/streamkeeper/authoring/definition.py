"""The public job interface: params, queries, the job decorator, and loading a job from its code.

This module detects a job's errors before a checkpoint is touched, and reports each in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from streamkeeper.authoring.job_code import TOO_DEEP, is_too_deep, locate, run_job_file
from streamkeeper.authoring.job_declarations import APPROVERS_HINT, read_approvers
from streamkeeper.authoring.python_workers import leave_types_unparsed
from streamkeeper.errors import JobUnusable, StreamkeeperError, Unsupported
from streamkeeper.health.rules import check_thresholds
from streamkeeper.jvm.values import session_confs
from streamkeeper.model.manifests.params import Param, ParamMap, check_declared, validate_params
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.manifests.trigger import Trigger, parse_trigger
from streamkeeper.model.names import check_name
from streamkeeper.model.settings.approvers import check_approvers
from streamkeeper.model.settings.release_conf import check_unchanged, installation_confs
from streamkeeper.sinks.contract import Sink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "JobDefinition",
    "Param",
    "Query",
    "Trigger",
    "check_conf",
    "load_job",
    "parse_trigger",
    "streaming_job",
    "validate_params",
]

# Every job's file imports this module before it names a type. A Python worker imports no other Streamkeeper module.
leave_types_unparsed()

JobFunction = Callable[["SparkSession", ParamMap], "Iterable[Query] | Query | None"]

_CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"
_SECOND_OWNER = (
    "remove it: Streamkeeper sets each query's checkpoint, and a second checkpoint would lose or duplicate output"
)


@dataclass(frozen=True, slots=True)
class Query:
    """One streaming query of a job: a streaming DataFrame and its output."""

    name: str
    """The query's name."""
    df: DataFrame
    """The streaming DataFrame."""
    sink: Sink = field(kw_only=True)
    """The output."""
    output_mode: str = field(kw_only=True, default="append")
    """append, update or complete, if the sink supports it."""
    trigger: str = field(kw_only=True, default="5 seconds")
    """An interval such as ``"5 seconds"``, or ``"availableNow"``."""


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A declared job: its name, its params and the function that yields its queries."""

    name: str
    params: Mapping[str, Param]
    function: JobFunction
    root: Path | None = None
    approvers: tuple[str, ...] = ()

    def build(self, spark: SparkSession, params: Mapping[str, ParamValue]) -> Iterator[Query]:
        """Yield each query as soon as the job yields it and its check succeeds. At that moment, the session still has
        the confs that the job has set for the query.

        Raises JobUnusable, Unsupported or InvalidInput with a message of one line. For an error in the job's code, the
        message names file and line.
        """
        _check_session(spark, self.name)
        valid = MappingProxyType(validate_params(self.params, params, job=self.name))
        before = installation_confs(session_confs(spark))
        seen: list[Query] = []
        for query in self._yielded(spark, valid):
            _check_query(self.name, query, seen)
            _check_no_checkpoint_conf(spark, self.name)
            check_unchanged(before, installation_confs(session_confs(spark)))
            seen.append(query)
            yield query
        if not seen:
            raise JobUnusable(f"job {self.name} yields no query", hint="yield at least one Query(...)")
        _check_nothing_started(spark, self.name)

    def _yielded(self, spark: SparkSession, params: ParamMap) -> Iterator[Any]:
        try:
            result = self.function(spark, params)
            if isinstance(result, Query):
                yield result
            elif isinstance(result, Iterable):
                yield from result
        except (GeneratorExit, StreamkeeperError):
            raise
        except (Exception, SystemExit) as error:
            from streamkeeper.sources.known_sources import connectors_hint  # not needed by Python workers

            hint = TOO_DEEP if is_too_deep(error) else connectors_hint(str(error))
            raise JobUnusable(f"job {self.name} failed to build: {locate(error, self.root)}", hint=hint) from error


_declared: list[JobDefinition] = []


def streaming_job(
    *,
    name: str,
    params: Mapping[str, Param] | None = None,
    health: Mapping[str, float | None] | None = None,
    approvers: Sequence[str] | None = None,
) -> Callable[[JobFunction], JobDefinition]:
    """Declare a function of ``(spark, params)`` that yields the job's queries.

    ``params`` maps each name to a ``Param``; the function receives a read-only mapping of checked values. ``health``
    maps a health rule to the job's own threshold, or to None, which switches the rule off; write it as a literal,
    because it is read without running the job. ``approvers`` lists the people who may answer questions while this code
    is current: ``"ada"`` or, with the user's id, ``"ada=3"`` for a user of Airflow, ``"cli:ada"`` for a user of the
    command line. Write it as a literal as well. Raises InvalidInput for an unknown health rule, with the most similar
    name, and for ``approvers`` that is empty or contains an invalid name.
    """
    check_name("job", name)
    declared = MappingProxyType(dict(params or {}))
    check_declared(name, declared)
    check_thresholds(name, health or {})
    people = () if approvers is None else check_approvers(f"the list of approvers of job {name}", approvers)

    def declare(function: JobFunction) -> JobDefinition:
        if not callable(function):
            raise JobUnusable(f"job {name} is declared on {function!r}", hint="put @streaming_job on a function")
        job = JobDefinition(name=name, params=declared, function=function, approvers=people)
        _declared.append(job)
        return job

    return declare


def load_job(root: Path, entry: str, name: str) -> JobDefinition:
    """Return the job ``name`` that the file ``entry`` below ``root`` declares; every call executes the file anew.

    Raises JobUnusable if the file does not import, does not declare the job exactly once, names a checkpoint itself, or
    declares approvers at run time that differ from those written in the file.
    """
    before = len(_declared)
    module = run_job_file(root, entry)
    found = [job for job in _declared[before:] if job.function.__module__ == module.__name__]
    del _declared[before:]
    wanted = [job for job in found if job.name == name]
    if len(wanted) == 1:
        _check_approvers_are_written_out(wanted[0], root / entry)
        return replace(wanted[0], root=root.resolve())
    if wanted:
        raise JobUnusable(f"{entry} declares the job {name} {len(wanted)} times", hint="give each job its own name")
    others = ", ".join(sorted(job.name for job in found)) or "none"
    raise JobUnusable(
        f"{entry} declares no job {name} (it declares: {others})", hint=f'write @streaming_job(name="{name}")'
    )


def _check_approvers_are_written_out(job: JobDefinition, file: Path) -> None:
    """Refuse a list of approvers that was made at run time: the release only contains the list in the file's text."""
    said = read_approvers(file.read_bytes(), job.name, where=file.name)
    if job.approvers != said:
        raise JobUnusable(
            f"{file.name}: the approvers of job {job.name} at run time differ from the approvers that are written in"
            " the file",
            hint=APPROVERS_HINT,
        )


def check_conf(conf: Mapping[str, str]) -> None:
    """Raise Unsupported for a conf of Spark Connect, and JobUnusable for a conf that sets a checkpoint location."""
    if conf.get("spark.remote") or conf.get("spark.api.mode", "").lower() == "connect":
        raise Unsupported(
            "Spark Connect is not supported (conf spark.remote or spark.api.mode)",
            hint="remove the conf: a query on Spark Connect outlives its client, so its end cannot be proven",
        )
    for key in conf:
        if key.lower() == _CHECKPOINT_CONF.lower():
            raise JobUnusable(f"conf {key} is set", hint=_SECOND_OWNER)


def _check_session(spark: SparkSession, job: str) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise Unsupported(f"job {job}: a Spark Connect session is not supported", hint="use a classic Spark session")


def _check_query(job: str, query: object, seen: list[Query]) -> None:
    if not isinstance(query, Query):
        raise JobUnusable(f"job {job} yields {type(query).__name__}, not Query", hint="yield Query(name, df, sink=...)")
    check_name("query", query.name)
    where = f"job {job}, query {query.name}"
    if any(other.name == query.name for other in seen):
        raise JobUnusable(f"job {job} yields two queries named {query.name}", hint="give each query its own name")
    if not isinstance(query.sink, Sink):
        raise Unsupported(f"{where}: unknown sink {type(query.sink).__name__}", hint=_use_sinks())
    _check_frame(where, query.df)
    if query.output_mode not in query.sink.output_modes:
        raise Unsupported(
            f"{where}: {type(query.sink).__name__} does not take output mode {query.output_mode!r}",
            hint=f"use one of: {', '.join(sorted(query.sink.output_modes))}",
        )
    parse_trigger(query.trigger, where=where)
    for other in seen:
        if query.sink.overlaps(other.sink) or other.sink.overlaps(query.sink):
            output = query.sink.describe().output
            raise JobUnusable(
                f"{where} and query {other.name} write to the same output: {output}",
                hint="give each query its own output",
            )


def _use_sinks() -> str:
    # A Python worker that imports the job's file needs no list of sinks.
    from streamkeeper.sinks.kinds.known_kinds import sinks_of_jobs

    return f"use {sinks_of_jobs()}"


def _check_frame(where: str, frame: Any) -> None:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise Unsupported(f"{where}: a Spark Connect DataFrame is not supported", hint="use a classic Spark session")
    if not hasattr(frame, "isStreaming"):
        raise JobUnusable(f"{where}: {type(frame).__name__} is not a DataFrame", hint="pass a streaming DataFrame")
    if not frame.isStreaming:
        raise JobUnusable(f"{where}: the DataFrame is not streaming", hint="read the input with spark.readStream")


def _check_no_checkpoint_conf(spark: SparkSession, job: str) -> None:
    if spark.conf.get(_CHECKPOINT_CONF, None):
        raise JobUnusable(f"job {job} sets {_CHECKPOINT_CONF}", hint=_SECOND_OWNER)


def _check_nothing_started(spark: SparkSession, job: str) -> None:
    if spark.streams.active:
        raise JobUnusable(
            f"job {job} starts a streaming query by itself", hint="yield the DataFrame as a Query instead"
        )
