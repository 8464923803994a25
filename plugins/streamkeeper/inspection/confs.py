"""The session's settings that can change what a query means, read at the moment a Query is yielded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALWAYS = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.join.stateFormatVersion",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.noDataMicroBatches.enabled",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.streaming.stateStore.encodingFormat",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    "spark.sql.streaming.stateStore.stateSchemaCheck",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
)
"""Recorded whether set or not, so that a changed default shows too; those this Spark does not know are left out."""

_NEUTRAL = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.",
    "spark.sql.debug.",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.pyspark.",
    "spark.sql.execution.pyspark.",
    "spark.sql.extensions",
    "spark.sql.files.",
    "spark.sql.hive.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.maxMetadataStringLength",
    "spark.sql.maxPlanStringLength",
    "spark.sql.pyspark.",
    "spark.sql.repl.",
    "spark.sql.streaming.checkpointLocation",
    "spark.sql.streaming.fileSource.",
    "spark.sql.streaming.maxBatchesToRetainInMemory",
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.numRecentProgressUpdates",
    "spark.sql.streaming.pollingDelay",
    "spark.sql.streaming.stateStore.maintenance",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot",
    "spark.sql.streaming.stateStore.rocksdb.",
    "spark.sql.streaming.stopTimeout",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
)
"""Settings of speed, place and display: the same rows come out whatever they are."""


def read_confs(spark: SparkSession) -> dict[str, str]:
    """Every setting that may matter: those in ``ALWAYS``, and every other one of ``spark.sql`` that is set."""
    runtime: Any = spark._jsparkSession.conf()
    values = {key: runtime.getOption(key) for key in ALWAYS}
    found = {key: str(value.get()) for key, value in values.items() if value.isDefined()}
    for key, value in spark.conf.getAll.items():
        if key.startswith("spark.sql.") and key not in found and not key.startswith(_NEUTRAL):
            found[key] = value
    return found
