"""A session of the sink's own for Delta, next to the job's session.

Delta needs extensions and a catalog in its session. In the job's session they would change how the job's own queries
are planned, and with it the job's description. Both sessions share one JVM, so rows pass from one to the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import InvalidInput
from streamkeeper.locations import scheme_of
from streamkeeper.sinks.storage_access import must_reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONFS = {
    # Delta checks both names; the session gets the extensions themselves when it is made.
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta's default reads a table's log with 50 tasks, which is slow in a driver with two cores.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Otherwise a batch in complete mode would keep the partitions that it has no rows for.
    "spark.sql.sources.partitionOverwriteMode": "static",
    # Otherwise a comparison could not read a commit that is older than the table keeps deleted files.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}
_LOG_STORE = "spark.delta.logStore.{}.impl"
"""The setting that each driver makes for the storages where it can write a table, by URL scheme."""
_LOG_STORES = {"s3a": "streamkeeper.jvm.CreateOnlyS3LogStore", "hdfs": "io.delta.storage.HDFSLogStore"}
"""URL scheme -> the class that creates the commits of tables in that storage."""
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TRANSACTION = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")


class DeltaSession:
    """A session with Delta's extensions, with the confs that the given session has now."""

    def __init__(self, spark: SparkSession) -> None:
        base: Any = spark
        jvm = base._jvm
        if "JavaClass" not in type(jvm.io.delta.sql.DeltaSparkSessionExtension).__name__:
            raise InvalidInput(
                "a DeltaSink needs Delta's jars",
                hint="fetch them with `make connectors`, or set STREAMKEEPER_JARS to a directory that contains them",
            )
        extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
        jvm.io.delta.sql.DeltaSparkSessionExtension().apply(extensions)
        confs = {name: value for name, value in base.conf.getAll.items() if name.startswith("spark.sql.")}
        self._sessions = jvm.org.apache.spark.sql.classic.SparkSession
        self._java = self._sessions(
            base.sparkContext._jsc.sc(),
            jvm.scala.Option.apply(base._jsparkSession.sharedState()),
            jvm.scala.Option.empty(),
            extensions,
            jvm.PythonUtils.toScalaMap({**confs, **_CONFS}),
            jvm.PythonUtils.toScalaMap({}),
        )
        self.jvm = jvm
        self.spark: SparkSession = type(spark)(spark.sparkContext, jsparkSession=self._java)

    def must_reach(self, path: str) -> None:
        """Raise InvalidInput if this JVM cannot write tables in the storage of a path."""
        scheme = scheme_of(path) or "file"
        context: Any = self.spark.sparkContext
        found = self.jvm.org.apache.spark.SparkEnv.get().conf().get(_LOG_STORE.format(scheme), "")
        prepared = found == _LOG_STORES.get(scheme, found)
        must_reach("table", path, context._jsc.hadoopConfiguration(), prepared=prepared)

    def log_of(self, path: str) -> Any:
        """Return Delta's ``DeltaLog`` of a path."""
        with self.current():
            return self.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._java, path)

    def take(self, batch: DataFrame) -> DataFrame:
        """Return a frame of this session with the rows of a batch. The batch's plan runs in its own session, once for
        each time that the frame runs.
        """
        java: Any = batch._jdf
        return type(batch)(
            self._java.internalCreateDataFrame(java.queryExecution().toRdd(), java.schema(), False), self.spark
        )

    def read(self, path: str, commit: int) -> DataFrame:
        """Return the rows of a table after a commit."""
        return self.spark.read.format("delta").option("versionAsOf", commit).load(path)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the active session of the JVM's thread, which Delta's classes use."""
        before = self._sessions.getActiveSession()
        self._sessions.setActiveSession(self._java)
        try:
            yield
        finally:
            if before.isDefined():
                self._sessions.setActiveSession(before.get())
            else:
                self._sessions.clearActiveSession()

    @contextmanager
    def noting(self, note: Mapping[str, object], *, app_id: str = "", number: int = 0) -> Iterator[None]:
        """Give commits inside this context user metadata and, if ``app_id`` is given, an application transaction."""
        confs = {_USER_METADATA: json.dumps(note)}
        if app_id:
            confs |= dict(zip(_TRANSACTION, (app_id, str(number)), strict=True))
        for name, value in confs.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in confs:
                self.spark.conf.unset(name)
