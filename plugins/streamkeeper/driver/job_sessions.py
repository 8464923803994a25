"""Builds jobs in separate sessions, any number of them in one process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.authoring.definition import check_conf, load_job
from streamkeeper.authoring.job_code import modules_put_back
from streamkeeper.driver.job_loading import PlannedQuery, describe_queries
from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.check_messages import JobFile
from streamkeeper.model.secret_references import substitute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = Path(__file__).resolve().parents[2]


def build_job(
    spark: SparkSession, job: JobFile, layout: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, PlannedQuery]:
    """Return a job's queries, built in a new session with its confs; ``layout`` supplies confs that the job does not
    set.

    Raises JobUnusable, Unsupported or InvalidInput, and the errors of the job's own code.
    """
    root = Path(job.root)
    definition = load_job(root, job.entry, job.name)
    session = _session(spark, {**layout, **substitute(job.conf, secrets)})
    # Each job's functions run in separate Python workers, because two jobs may have modules of the same name.
    session.sparkContext.environment["PYTHONPATH"] = os.pathsep.join((str(root), str(_PACKAGES)))
    return describe_queries(definition, job.params, root, session, secrets)


def build_beside(spark: SparkSession, job: JobFile, secrets: Mapping[str, str]) -> dict[str, Manifest]:
    """Build the job a second time, without changing the job that this process runs, and return each query's manifest by
    name.

    Modules, the active session and the import path of Python workers are restored afterwards. Raises the errors of
    build_job.
    """
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    environment = spark.sparkContext.environment
    path = environment.get("PYTHONPATH")
    with modules_put_back():
        try:
            built = build_job(spark, job, {}, secrets)
        finally:
            sessions.setActiveSession(spark._jsparkSession)
            type(spark)._instantiatedSession = spark
            if path is None:
                environment.pop("PYTHONPATH", None)
            else:
                environment["PYTHONPATH"] = path
    return {name: query.manifest for name, query in built.items()}


def end_python_workers(spark: SparkSession) -> None:
    """Terminate the Python processes that ran functions of the jobs built so far; the next task starts new ones. Call
    this only while no task is running.

    Spark itself would keep a daemon for each environment that it has seen, here one per job, until Spark terminates.
    """
    jvm: Any = spark._jvm
    env = jvm.org.apache.spark.SparkEnv.get()
    field = env.getClass().getDeclaredField("pythonWorkers")
    field.setAccessible(True)
    factories = field.get(env)
    values = factories.values().iterator()
    while values.hasNext():
        values.next().stop()
    factories.clear()


def _session(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    check_conf(conf)
    session = spark.newSession()
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    type(session)._instantiatedSession = session
    for key, value in conf.items():
        _set_conf(session, key, value)
    return session


def _set_conf(session: SparkSession, key: str, value: str) -> None:
    try:
        session.conf.set(key, value)
    except Exception as error:
        # Resources and similar settings belong to the process; they do not affect a query's results.
        if key.startswith("spark.sql.") and "CANNOT_MODIFY" not in str(error):
            message = next(iter(str(error).splitlines()), type(error).__name__)
            raise InvalidInput(f"conf {key}={value}: {message}", hint="correct the conf's value") from error
        if key.startswith("spark.sql.") and session.conf.get(key, None) != value:
            raise Unsupported(
                f"conf {key} can only be set when Spark starts", hint="check this candidate in a separate command"
            ) from error
