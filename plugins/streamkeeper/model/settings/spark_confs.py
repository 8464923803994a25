"""The effect of each conf of Spark SQL: a table of Spark 4.2.0's 767 confs. Any other one counts as MEANING."""

from __future__ import annotations

import hashlib
from enum import Enum

from streamkeeper.model.names import nearest

SQL = "spark.sql."
_LIKENESS = 0.96
"""The least similarity of a misspelt conf, one or two letters: names of other Spark versions differ in more."""


class ConfRole(Enum):
    """The effect of a changed conf on a query that resumes."""

    MEANING = "meaning"
    TUNING = "tuning"
    PINNED = "pinned"
    REFUSED = "refused"


ANSI = "spark.sql.ansi.enabled"
CASE_SENSITIVE = "spark.sql.caseSensitive"
TIME_ZONE = "spark.sql.session.timeZone"

CODE = (
    "spark.archives",
    "spark.driver.extraClassPath",
    "spark.jars",
    "spark.jars.packages",
    "spark.plugins",
    "spark.submit.pyFiles",
)
"""The Spark confs outside Spark SQL that add code to the job's own."""


def current_key(key: str) -> str:
    """Return the current key of a conf that ``key`` formerly named, otherwise ``key``; case matters."""
    return _FORMER.get(key, key)


def meant_key(key: str) -> str:
    """Return the conf of Spark SQL that a misspelt key probably means; empty if the key exists or resembles none."""
    there = PINNED | REFUSED | TUNING | MEANING | _FORMER.keys()
    if key in there or not key.startswith(SQL) or key.startswith(_TUNING_FAMILIES):
        return ""
    return nearest(key, there, likeness=_LIKENESS)


def role(key: str) -> ConfRole:
    """Return the effect of a conf, given by its current key; MEANING for an unlisted conf."""
    if key in PINNED:
        return ConfRole.PINNED
    if key in REFUSED:
        return ConfRole.REFUSED
    if key in TUNING or key.startswith(_TUNING_FAMILIES):
        return ConfRole.TUNING
    return ConfRole.MEANING


def hash_setting(value: str) -> str:
    """Return the hash that a manifest stores for a setting outside Spark SQL, whose value may contain a secret."""
    value = value.strip()
    value = value.lower() if value.lower() in ("true", "false") else value
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()[:12]


def _keys(text: str) -> frozenset[str]:
    return frozenset(SQL + name for name in text.split())


_FORMER = {
    "spark.sql.execution.arrow.enabled": "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.execution.arrow.fallback.enabled": "spark.sql.execution.arrow.pyspark.fallback.enabled",
    "spark.sql.execution.arrow.transformWithStateInPandas.maxRecordsPerBatch": (
        "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch"
    ),
    "spark.sql.legacy.parquet.datetimeRebaseModeInRead": "spark.sql.parquet.datetimeRebaseModeInRead",
}
"""Former key -> current key, which falls back to the former; if both are set, Spark uses the current key."""

_TUNING_FAMILIES = ("spark.sql.streaming.stateStore.rocksdb.",)
"""The prefixes of confs about how the state store keeps its data, which Spark reads as text and does not list."""

PINNED = _keys(
    """
    function.protobufExtensions.enabled optimizer.pruneFiltersCanPruneStreamingSubplan shuffle.partitions
    streaming.aggregation.stateFormatVersion streaming.flatMapGroupsWithState.stateFormatVersion
    streaming.join.stateFormatVersion streaming.multipleWatermarkPolicy streaming.stateStore.compression.codec
    streaming.stateStore.encodingFormat streaming.stateStore.providerClass streaming.stateStore.rocksdb.formatVersion
    streaming.stateStore.rocksdb.mergeOperatorVersion streaming.stateStore.rowChecksum.enabled
    streaming.statefulOperator.useStrictDistribution
    """
)
"""The confs that Spark writes into every offset file, and reads from there instead of from the session."""

REFUSED = _keys("streaming.queryEvolution.enableSourceEvolution streaming.stateStore.checkpointFormatVersion")
"""The confs that Spark reads from the session, and refuses if the checkpoint was written with other values."""

TUNING = _keys(
    """
    adaptive.advisoryPartitionSizeInBytes adaptive.applyFinalStageShuffleOptimizations
    adaptive.autoBroadcastJoinThreshold adaptive.coalescePartitions.enabled
    adaptive.coalescePartitions.initialPartitionNum adaptive.coalescePartitions.minPartitionNum
    adaptive.coalescePartitions.minPartitionSize adaptive.coalescePartitions.parallelismFirst
    adaptive.customCostEvaluatorClass adaptive.enabled adaptive.fetchShuffleBlocksInBatch adaptive.forceApply
    adaptive.forceOptimizeSkewedJoin adaptive.localShuffleReader.enabled adaptive.logLevel
    adaptive.maxShuffledHashJoinLocalMapThreshold adaptive.nonEmptyPartitionRatioForBroadcastJoin
    adaptive.optimizeSkewsInRebalancePartitions.enabled adaptive.rebalancePartitionsSmallPartitionFactor
    adaptive.shuffle.targetPostShuffleInputSize adaptive.skewJoin.enabled adaptive.skewJoin.skewedPartitionFactor
    adaptive.skewJoin.skewedPartitionThresholdInBytes adaptive.streaming.stateless.enabled addPartitionInBatch.size
    analyzer.canonicalization.multiCommutativeOpMemoryOptThreshold artifact.cacheStorageLevel
    artifact.copyFromLocalToFs.allowDestLocal artifact.isolation.alwaysApplyClassloader artifact.isolation.enabled
    autoBroadcastJoinThreshold avro.compression.codec avro.deflate.level avro.xz.level
    avro.zstandard.bufferPool.enabled avro.zstandard.level broadcastExchange.maxThreadThreshold broadcastTimeout
    bucketing.coalesceBucketsInJoin.enabled bucketing.coalesceBucketsInJoin.maxBucketRatio cache.serializer
    cartesianProductExec.buffer.in.memory.threshold cartesianProductExec.buffer.spill.size.threshold
    cartesianProductExec.buffer.spill.threshold cbo.enabled cbo.joinReorder.card.weight
    cbo.joinReorder.dp.star.filter cbo.joinReorder.dp.threshold cbo.joinReorder.enabled cbo.planStats.enabled
    cbo.starJoinFTRatio cbo.starSchemaDetection classic.shuffleDependency.fileCleanup.enabled cli.print.header
    codegen.aggregate.fastHashMap.capacityBit codegen.aggregate.map.twolevel.enabled
    codegen.aggregate.map.twolevel.partialOnly codegen.aggregate.map.vectorized.enable
    codegen.aggregate.sortAggregate.enabled codegen.aggregate.splitAggregateFunc.enabled
    codegen.broadcastCleanedSourceThreshold codegen.cache.maxEntries codegen.comments codegen.factoryMode
    codegen.fallback codegen.hugeMethodLimit codegen.join.buildSideOuterShuffledHashJoin.enabled
    codegen.join.existenceSortMergeJoin.enabled codegen.join.fullOuterShuffledHashJoin.enabled
    codegen.join.fullOuterSortMergeJoin.enabled codegen.logLevel codegen.logging.maxLines codegen.maxFields
    codegen.methodSplitThreshold codegen.splitConsumeFuncByOperator codegen.useIdInClassName codegen.wholeStage
    codegen.wholeStage.union.enabled codegen.wholeStage.union.maxChildren columnVector.offheap.enabled
    connect.shuffleDependency.fileCleanup.enabled csv.parser.inputBufferSize dataFrameQueryContext.enabled
    dataframeCache.logLevel debug debug.maxToStringFields defaultCacheStorageLevel defaultSizeInBytes
    defaultUrlStreamHandlerFactory.enabled error.messageFormat event.truncate.length exchange.reuse
    execution.arrow.compression.codec execution.arrow.compression.zstd.level execution.arrow.localRelationThreshold
    execution.arrow.maxBytesPerBatch execution.arrow.maxBytesPerOutputBatch execution.arrow.maxRecordsPerBatch
    execution.arrow.maxRecordsPerOutputBatch execution.arrow.pyspark.selfDestruct.enabled
    execution.arrow.sparkr.enabled execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch
    execution.broadcastHashJoin.outputPartitioningExpandLimit execution.interruptOnCancel
    execution.pandas.udf.buffer.size execution.pyspark.udf.daemonKillWorkerOnFlushFailure
    execution.pyspark.udf.faulthandler.enabled execution.pyspark.udf.hideTraceback.enabled
    execution.pyspark.udf.idleTimeoutSeconds execution.pyspark.udf.killOnIdleTimeout
    execution.pyspark.udf.simplifiedTraceback.enabled execution.pyspark.udf.tracebackDumpIntervalSeconds
    execution.python.udf.buffer.size execution.python.udf.maxRecordsPerBatch
    execution.pythonUDF.arrow.concurrency.level execution.rangeExchange.sampleSizePerPartition
    execution.removeRedundantProjects execution.removeRedundantSorts execution.replaceHashWithSortAgg
    execution.reuseSubquery execution.sortBeforeRepartition execution.topKSortFallbackThreshold
    execution.useObjectHashAggregateExec execution.usePartitionEvaluator expressionTreeChangeLog.level
    extendedExplainProviders extensions.test.loadFromCp files.maxPartitionBytes files.maxPartitionNum
    files.maxRecordsPerFile files.minPartitionNum files.openCostInBytes filesourceTableRelationCacheSize
    hive.advancedPartitionPredicatePushdown.enabled hive.dropPartitionByName.enabled
    hive.filesourcePartitionFileCacheSize hive.gatherFastStats hive.metastorePartitionPruning
    hive.metastorePartitionPruningFallbackOnException hive.metastorePartitionPruningFastFallback
    hive.metastorePartitionPruningInSetThreshold hive.tablePropertyLengthThreshold hive.thriftServer.async
    hive.thriftServer.singleSession inMemoryColumnarStorage.batchSize inMemoryColumnarStorage.compressed
    inMemoryColumnarStorage.enableVectorizedReader inMemoryColumnarStorage.hugeVectorReserveRatio
    inMemoryColumnarStorage.hugeVectorThreshold inMemoryColumnarStorage.partitionPruning
    inMemoryTableScanStatistics.enable join.preferSortMergeJoin lazySetOperatorOutput.enabled
    leafNodeDefaultParallelism legacy.bucketedTableScan.outputOrdering legacy.emptyCurrentDBInCli
    legacy.hive.thriftServer.useZeroBasedColumnOrdinalPosition lightweightPlanChangeValidation
    limit.initialNumPartitions limit.scaleUpFactor maven.additionalRemoteRepositories maxBroadcastTableSize
    maxConcurrentOutputFileWriters maxMetadataStringLength maxPlanStringLength maxSinglePartitionBytes
    nameResolutionLog.level objectHashAggregate.sortBased.fallbackThreshold
    optimizer.avoidCollapseUDFWithExpensiveExpr optimizer.avoidDoubleFilterEval
    optimizer.dynamicPartitionPruning.enabled optimizer.dynamicPartitionPruning.fallbackFilterRatio
    optimizer.dynamicPartitionPruning.reuseBroadcastOnly optimizer.dynamicPartitionPruning.useStats
    optimizer.expressionProjectionCandidateLimit optimizer.inSetConversionThreshold optimizer.inSetSwitchThreshold
    optimizer.mapLookupHashThreshold optimizer.nestedPredicatePushdown.supportedFileSources
    optimizer.nestedSchemaPruning.enabled optimizer.plannedWrite.enabled optimizer.propagateDistinctKeys.enabled
    optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold
    optimizer.runtime.bloomFilter.creationSideThreshold optimizer.runtime.bloomFilter.enabled
    optimizer.runtime.bloomFilter.expectedNumItems optimizer.runtime.bloomFilter.maxNumBits
    optimizer.runtime.bloomFilter.maxNumItems optimizer.runtime.bloomFilter.numBits
    optimizer.runtime.rowLevelOperationGroupFilter.enabled optimizer.runtimeFilter.number.threshold
    optimizer.serializer.nestedSchemaPruning.enabled orc.aggregatePushdown orc.columnarReaderBatchSize
    orc.columnarWriterBatchSize orc.compression.codec orc.enableNestedColumnVectorizedReader
    orc.enableVectorizedReader orc.filterPushdown parquet.aggregatePushdown parquet.columnarReaderBatchSize
    parquet.compression.codec parquet.enableNestedColumnVectorizedReader parquet.enableNullTypeVectorizedReader
    parquet.enableVectorizedReader parquet.filterPushdown parquet.filterPushdown.date parquet.filterPushdown.decimal
    parquet.filterPushdown.string.startsWith parquet.filterPushdown.stringPredicate parquet.filterPushdown.timestamp
    parquet.pushdown.inFilterThreshold parquet.recordLevelFilter.enabled parser.manageParserCaches
    parser.parserDfaCacheFlushRatio parser.parserDfaCacheFlushThreshold pipelines.event.queue.capacity
    pipelines.execution.maxConcurrentFlows pipelines.execution.streamstate.pollingInterval
    pipelines.execution.watchdog.maxRetryTime pipelines.execution.watchdog.minRetryTime
    pipelines.maxFlowRetryAttempts pipelines.timeoutMsForTerminationJoinAndLock planChangeLog.batches
    planChangeLog.level planChangeLog.rules planChangeValidation planner.pythonExecution.memory
    pyspark.dataSource.profiler pyspark.jvmStacktrace.enabled pyspark.plotting.max_rows pyspark.udf.profiler
    pyspark.worker.logging.enabled queryExecutionListeners redaction.options.regex redaction.string.regex
    repl.eagerEval.enabled repl.eagerEval.maxNumRows repl.eagerEval.truncate resultQueryStage.maxThreadThreshold
    scriptTransformation.exitTimeoutInSeconds session.localRelationBatchOfChunksSizeBytes
    session.localRelationCacheThreshold session.localRelationChunkSizeBytes session.localRelationChunkSizeLimit
    session.localRelationChunkSizeRows session.localRelationSizeLimit sessionWindow.buffer.in.memory.threshold
    sessionWindow.buffer.spill.size.threshold sessionWindow.buffer.spill.threshold
    shuffle.orderIndependentChecksum.enableFullRetryOnMismatch
    shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch shuffle.orderIndependentChecksum.enabled
    shuffleDependency.fileCleanup.enabled shuffleDependency.skipMigration.enabled shuffleExchange.maxThreadThreshold
    shuffledHashJoinFactor sort.enableRadixSort sortMergeJoinExec.buffer.in.memory.threshold
    sortMergeJoinExec.buffer.spill.size.threshold sortMergeJoinExec.buffer.spill.threshold
    sources.bucketing.autoBucketedScan.enabled sources.bucketing.enabled sources.bucketing.maxBuckets
    sources.fileCompressionFactor sources.ignoreDataLocality sources.parallelPartitionDiscovery.parallelism
    sources.parallelPartitionDiscovery.threshold sources.schemaStringLengthThreshold
    sources.useListFilesFileSystemList sources.v2.bucketing.allowCompatibleTransforms.enabled
    sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled sources.v2.bucketing.enabled
    sources.v2.bucketing.partiallyClusteredDistribution.enabled sources.v2.bucketing.partition.filter.enabled
    sources.v2.bucketing.partitionKeyOrdering.enabled sources.v2.bucketing.preserveKeyOrderingOnCoalesce.enabled
    sources.v2.bucketing.preserveOrderingOnCoalesce.enabled sources.v2.bucketing.pushPartValues.enabled
    sources.v2.bucketing.shuffle.enabled sources.v2.bucketing.sorting.enabled stackTracesInDataFrameContext
    statistics.fallBackToHdfs statistics.histogram.enabled statistics.histogram.numBins statistics.ndv.maxError
    statistics.parallelFileListingInStatsComputation.enabled statistics.percentile.accuracy
    statistics.size.autoUpdate.enabled statistics.updatePartitionStatsInAnalyzeTable.enabled
    streaming.asyncLogPurge.enabled streaming.checkpoint.fileChecksum.enabled
    streaming.checkpoint.fileChecksum.skipCreationIfFileMissingChecksum streaming.checkpointLocation
    streaming.continuous.epochBacklogQueueSize streaming.continuous.executorPollIntervalMs
    streaming.continuous.executorQueueSize streaming.fileSink.log.cleanupDelay
    streaming.fileSink.log.compactInterval streaming.fileSink.log.deletion streaming.fileSource.cleaner.numThreads
    streaming.fileSource.log.cleanupDelay streaming.fileSource.log.compactInterval streaming.fileSource.log.deletion
    streaming.forceDeleteTempCheckpointLocation streaming.maxBatchesToRetainInMemory streaming.metadataCache.enabled
    streaming.metricsEnabled streaming.minBatchesToRetain streaming.noDataMicroBatches.enabled
    streaming.noDataProgressEventInterval streaming.numRecentProgressUpdates streaming.pollingDelay
    streaming.ratioExtraSpaceAllowedInCheckpoint streaming.realTimeMode.minBatchDuration
    streaming.stateStore.autoSnapshotRepair.enabled streaming.stateStore.autoSnapshotRepair.maxChangeFileReplay
    streaming.stateStore.autoSnapshotRepair.numFailuresBeforeActivating
    streaming.stateStore.commitValidation.enabled streaming.stateStore.coordinatorReportSnapshotUploadLag
    streaming.stateStore.fileChecksumThreadPoolSize streaming.stateStore.forceSnapshotUploadOnLag
    streaming.stateStore.maintenanceForceShutdownTimeout streaming.stateStore.maintenanceInterval
    streaming.stateStore.maintenanceProcessingTimeout streaming.stateStore.maintenanceShutdownTimeout
    streaming.stateStore.maxLaggingStoresToReport streaming.stateStore.maxVersionsToDeletePerMaintenance
    streaming.stateStore.minDeltasForSnapshot streaming.stateStore.multiplierForMinTimeDiffToLog
    streaming.stateStore.multiplierForMinVersionDiffToLog streaming.stateStore.numStateStoreInstanceMetricsToReport
    streaming.stateStore.numStateStoreMaintenanceThreads streaming.stateStore.rowChecksum.readVerificationRatio
    streaming.stateStore.snapshotLagReportInterval streaming.stateStore.stateSchemaCheck
    streaming.stateStore.unloadOnCommit streaming.statefulOperator.checkCorrectness.enabled
    streaming.stopActiveRunOnRestart streaming.stopTimeout streaming.streamingQueryListeners streaming.ui.enabled
    streaming.ui.enabledCustomMetricList streaming.ui.retainedProgressUpdates streaming.ui.retainedQueries
    subexpressionElimination.cache.maxEntries subexpressionElimination.enabled
    subexpressionElimination.filterExec.enabled subexpressionElimination.skipForShortcutExpr
    subquery.maxThreadThreshold thriftServer.incrementalCollect thriftServer.interruptOnCancel
    thriftServer.queryTimeout thriftserver.scheduler.pool thriftserver.shuffleDependency.fileCleanup.enabled
    thriftserver.ui.retainedSessions thriftserver.ui.retainedStatements ui.explainMode ui.retainedExecutions
    warehouse.dir windowExec.buffer.in.memory.threshold windowExec.buffer.spill.size.threshold
    windowExec.buffer.spill.threshold streaming.checkpointFileManagerClass
    """
)
"""The confs of speed, memory, place, display, maintenance and checks: every value gives the same rows, in any order.

The number of rows per Python batch is included: it also depends on partitions and rate limits, so no code may rely on
it. Spark's checks (``stateSchemaCheck``, ``checkCorrectness``) only refuse what Streamkeeper's check compares too.
"""

MEANING = _keys(
    """
    adaptive.optimizer.excludedRules allowNamedFunctionArguments alwaysInlineCommonExpr
    analyzer.allowSubqueryExpressionsInLambdasOrHigherOrderFunctions
    analyzer.dontDeduplicateExpressionIfExprIdInOutput analyzer.expandTagPassthroughDuplicates
    analyzer.failAmbiguousSelfJoin analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled analyzer.maxIterations
    analyzer.preferColumnOverLcaInArrayIndex analyzer.scalarSubqueryAllowGroupByColumnEqualToConstant
    analyzer.singlePassResolver.dualRunSampleRate analyzer.singlePassResolver.dualRunWithLegacy
    analyzer.singlePassResolver.enabled analyzer.singlePassResolver.enabledTentatively
    analyzer.singlePassResolver.exposeResolverGuardFailure
    analyzer.singlePassResolver.preventUsingAliasesFromNonDirectChildren
    analyzer.singlePassResolver.relationBridging.enabled analyzer.singlePassResolver.returnSinglePassResultInDualRun
    analyzer.singlePassResolver.runExtendedResolutionChecks
    analyzer.singlePassResolver.runHeavyExtendedResolutionChecks analyzer.singlePassResolver.throwFromResolverGuard
    analyzer.singlePassResolver.validationEnabled analyzer.sqlFunctionResolution.applyConfOverrides
    analyzer.strictDataFrameColumnResolution analyzer.subqueryAliasAlwaysPropagateMetadataColumns
    analyzer.unionIsResolvedWhenDuplicatesPerChildResolved analyzer.uniqueNecessaryMetadataColumns
    ansi.doubleQuotedIdentifiers ansi.enabled ansi.enforceReservedKeywords ansi.relationPrecedence
    assumeAnsiFalseIfNotPersisted.enabled avro.datetimeRebaseModeInRead avro.datetimeRebaseModeInWrite
    avro.filterPushdown.enabled binaryOutputStyle caseSensitive catalog.spark_catalog
    catalog.spark_catalog.defaultDatabase catalogImplementation charAsVarchar chunkBase64String.enabled
    collation.allowInMapKeys collation.objectLevel.enabled collation.schemaLevel.enabled columnNameOfCorruptRecord
    constraintPropagation.enabled crossJoin.enabled csv.filterPushdown.enabled csv.parser.columnPruning.enabled
    cteRecursionAnchorRowsLimitToConvertToLocalRelation cteRecursionLevelLimit cteRecursionRowLimit
    cteRelationDefMaxRows.enabled dataSource.alwaysCreateV2Predicate dataSource.skipAssertOnPredicatePushdown
    datetime.java8API.enabled decimalOperations.allowPrecisionLoss defaultCatalog defaultColumn.allowedProviders
    defaultColumn.enabled defaultColumn.useNullsForMissingDefaultValues defaultPath dropTableOnView.enabled
    enforceTypeCoercionBeforeUnionDeduplication.enabled execution.arrow.enabled execution.arrow.fallback.enabled
    execution.arrow.pyspark.enabled execution.arrow.pyspark.fallback.enabled
    execution.arrow.pyspark.validateSchema.enabled execution.arrow.pythonUDF.columnarInput.enabled
    execution.arrow.useLargeVarTypes execution.datasources.hadoopLineRecordReader.enabled
    execution.fastFailOnFileFormatOutput execution.pandas.convertToArrowArraySafely
    execution.pandas.inferPandasDictAsMap execution.pandas.structHandlingMode execution.pyspark.binaryAsBytes
    execution.pyspark.python execution.pythonUDF.arrow.enabled execution.pythonUDF.arrow.legacy.fallbackOnUDT
    execution.pythonUDF.pandas.intToDecimalCoercionEnabled execution.pythonUDF.pandas.preferIntExtensionDtype
    execution.pythonUDTF.arrow.enabled extensions fileSource.insert.enforceNotNull files.ignoreCorruptFiles
    files.ignoreInvalidPartitionPaths files.ignoreMissingFiles files.supportSecondOffsetFormat
    function.concatBinaryAsString function.eltOutputAsString functionResolution.sessionOrder geospatial.enabled
    globalTempDatabase groupByAliases groupByOrdinal hive.caseSensitiveInferenceMode hive.convertCTAS
    hive.convertInsertingPartitionedTable hive.convertInsertingUnpartitionedTable hive.convertMetastoreAsNullable
    hive.convertMetastoreCtas hive.convertMetastoreInsertDir hive.convertMetastoreOrc hive.convertMetastoreParquet
    hive.convertMetastoreParquet.mergeSchema hive.manageFilesourcePartitions hive.metastore.barrierPrefixes
    hive.metastore.jars hive.metastore.jars.path hive.metastore.sharedPrefixes hive.metastore.version
    hive.useDelegateForSymlinkTextInputFormat hive.version icu.caseMappings.enabled insertIntoReplaceOn.enabled
    insertIntoReplaceOnByName.enabled insertIntoReplaceUsing.enabled insertIntoReplaceUsingByName.enabled
    insertNestedTypeCoercion.enabled json.enableExactStringParsing json.enablePartialResults
    json.filterPushdown.enabled json.useUnsafeRow jsonGenerator.ignoreNullFields
    jsonGenerator.writeNullIfWithDefaultValue lateralColumnAlias.enableImplicitResolution
    legacy.addSingleFileInAddFile legacy.allowAutoGeneratedAliasForView legacy.allowEmptySchemaWrite
    legacy.allowHashOnMapType legacy.allowNegativeScaleOfDecimal legacy.allowNonEmptyLocationInCTAS
    legacy.allowNullComparisonResultInArraySort legacy.allowParameterlessCount
    legacy.allowSessionVariableInPersistedView legacy.allowStarWithSingleTableIdentifierInCount
    legacy.allowTempViewCreationWithMultipleNameparts legacy.allowUdfParameterToShadowParameterlessFunction
    legacy.allowUntypedScalaUDF legacy.allowZeroIndexInFormatString legacy.avro.allowIncompatibleSchema
    legacy.bangEqualsNot legacy.blockCreateTempTableUsingProvider legacy.castComplexTypesToString.enabled
    legacy.charVarcharAsString legacy.codingErrorAction legacy.collationAwareHashFunctions
    legacy.consecutiveStringLiterals.enabled legacy.createEmptyCollectionUsingStringType
    legacy.createHiveTableByDefault legacy.csv.enableDateTimeParsingFallback legacy.cteDuplicateAttributeNames
    legacy.ctePrecedencePolicy legacy.dataFrameWriterV2IgnorePathOption
    legacy.dataset.nameNonStructGroupingKeyAsValue legacy.db2.booleanMapping.enabled
    legacy.db2.numericMapping.enabled legacy.decimal.retainFractionDigitsOnTruncate
    legacy.disableMapKeyNormalization legacy.doLooseUpcast legacy.duplicateBetweenInput legacy.earlyEvalCurrentTime
    legacy.execution.pandas.groupedMap.assignColumnsByName legacy.execution.pythonUDF.pandas.conversion.enabled
    legacy.execution.pythonUDTF.pandas.conversion.enabled legacy.exponentLiteralAsDecimal.enabled
    legacy.extraOptionsBehavior.enabled legacy.followThreeValuedLogicInArrayExists legacy.fromDayTimeString.enabled
    legacy.groupingIdWithAppendedUserGroupBy legacy.histogramNumericPropagateInputType legacy.identifierClause
    legacy.inSubqueryNullability legacy.inlineCTEInCommands legacy.integerGroupingId legacy.interval.enabled
    legacy.javaCharsets legacy.json.allowEmptyString.enabled legacy.json.enableDateTimeParsingFallback
    legacy.keepCommandOutputSchema legacy.keepPartitionSpecAsStringLiteral legacy.literal.pickMinimumPrecision
    legacy.lpadRpadAlwaysReturnString legacy.mssqlserver.datetimeoffsetMapping.enabled
    legacy.mssqlserver.numericMapping.enabled legacy.mysql.bitArrayMapping.enabled
    legacy.mysql.timestampNTZMapping.enabled legacy.negativeIndexInArrayInsert legacy.noCharPaddingInPredicate
    legacy.notReserveProperties legacy.nullInEmptyListBehavior legacy.nullValueWrittenAsQuotedEmptyStringCsv
    legacy.oracle.timestampMapping.enabled legacy.parameterSubstitution.constantsOnly legacy.parquet.nanosAsLong
    legacy.parquet.returnNullStructIfAllFieldsMissing legacy.parseNullPartitionSpecAsStringLiteral
    legacy.parseQueryWithoutEof legacy.parser.havingWithoutGroupByAsWhere legacy.pathOptionBehavior.enabled
    legacy.percentileDiscCalculation legacy.persistentCatalogFirst legacy.postgres.datetimeMapping.enabled
    legacy.raiseErrorWithoutErrorClass legacy.readFileSourceTableCacheIgnoreOptions
    legacy.replaceDatabricksSparkAvro.enabled legacy.respectNullabilityInTextDatasetConversion
    legacy.scalarSubqueryAllowGroupByNonEqualityCorrelatedPredicate legacy.scalarSubqueryCountBugBehavior
    legacy.sessionInitWithConfigDefaults legacy.setCommandRejectsSparkCoreConfs legacy.setopsPrecedence.enabled
    legacy.sizeOfNull legacy.skipTypeValidationOnAlterPartition legacy.statisticalAggregate
    legacy.storeAnalyzedPlanForView legacy.timeParserPolicy legacy.truncateForEmptyRegexSplit
    legacy.typeCoercion.datetimeToString.enabled legacy.useCurrentConfigsForView legacy.useLegacyXMLParser
    legacy.useV1Command legacy.v1IdentifierNoCatalog legacy.viewSchemaBindingMode legacy.viewSchemaCompensation
    listagg.allowDistinctCastWithOrder.enabled mapKeyDedupPolicy mapZipWithUsesJavaCollections
    mergeNestedTypeCoercion.enabled metadataCacheTTLSeconds operatorPipeSyntaxEnabled optimizeNullAwareAntiJoin
    optimizer.canChangeCachedPlanOutputPartitioning optimizer.collapseProjectAlwaysInline
    optimizer.datasourceV2ExprFolding optimizer.datasourceV2JoinPushdown
    optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled optimizer.decorrelateInnerQuery.enabled
    optimizer.decorrelateJoinPredicate.enabled optimizer.decorrelateLimit.enabled
    optimizer.decorrelateOffset.enabled optimizer.decorrelatePredicateSubqueriesInJoinPredicate.enabled
    optimizer.decorrelateSetOps.enabled optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled
    optimizer.decorrelateSubqueryPreventConstantHoldingForCountBug.enabled
    optimizer.decorrelateUnionOrSetOpUnderLimit.enabled optimizer.disableHints
    optimizer.enableCsvExpressionOptimization optimizer.enableJsonExpressionOptimization
    optimizer.excludeSubqueryRefsFromRemoveRedundantAliases.enabled optimizer.excludedRules
    optimizer.expression.nestedPruning.enabled optimizer.maxIterations
    optimizer.mergeSubplans.filterPropagation.enabled
    optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled
    optimizer.mergeSubplans.filterPropagation.throughJoin.enabled optimizer.metadataOnly
    optimizer.optimizeExpandRatio optimizer.optimizeOneRowRelationSubquery
    optimizer.optimizeOneRowRelationSubquery.alwaysInline
    optimizer.optimizeUncorrelatedInSubqueriesInJoinCondition.enabled
    optimizer.preserveAliasMetadataWhenCollapsingProjects optimizer.pullHintsIntoSubqueries
    optimizer.pullOutNestedDataOuterRefExpressions.enabled optimizer.pushDownJoinThroughUnion.enabled
    optimizer.replaceExceptWithFilter optimizer.scalarSubqueryUseSingleJoin optimizer.windowGroupLimitThreshold
    optimizer.wrapExistsInAggregateFunction orc.impl orc.mergeSchema orderByOrdinal orderingAwareLimitOffset
    parquet.binaryAsString parquet.datetimeRebaseModeInRead parquet.datetimeRebaseModeInWrite
    parquet.fieldId.read.enabled parquet.fieldId.read.ignoreMissing parquet.fieldId.write.enabled
    parquet.ignoreVariantAnnotation parquet.inferTimestampNTZ.enabled parquet.int96AsTimestamp
    parquet.int96RebaseModeInRead parquet.int96RebaseModeInWrite parquet.int96TimestampConversion
    parquet.mergeSchema parquet.output.committer.class parquet.outputTimestampType
    parquet.reader.respectUnknownTypeAnnotation.enabled parquet.respectSummaryFiles
    parquet.variant.annotateLogicalType.enabled parquet.writeLegacyFormat parser.eagerEvalOfUnresolvedInlineTable
    parser.escapedStringLiterals parser.quotedRegexColumnNames parser.singleCharacterPipeOperator.enabled
    path.enabled pivotMaxValues preserveCharVarcharTypeInfo prioritizeOrdinalResolutionInSort.enabled
    pyspark.inferNestedDictAsStruct.enabled pyspark.legacy.inferArrayTypeFromFirstElement.enabled
    pyspark.legacy.inferMapTypeFromFirstPair.enabled pyspark.toJSON.returnDataFrame python.filterPushdown.enabled
    readSideCharPadding requireAllClusterKeysForCoPartition requireAllClusterKeysForDistribution retainGroupColumns
    runCollationTypeCastsBeforeAliasAssignment.enabled runSQLOnFiles scripting.continueHandlerEnabled
    scripting.cursorEnabled scripting.enabled selfJoinAutoResolveAmbiguity session.timeZone
    sources.binaryFile.maxLength sources.commitProtocolClass sources.default sources.disabledJdbcConnProviderList
    sources.outputCommitterClass sources.partitionColumnTypeInference.enabled sources.partitionOverwriteMode
    sources.useV1SourceList sources.validatePartitionColumns stableDerivedColumnAlias.enabled storeAssignmentPolicy
    streaming.checkUnfinishedRepartitionOnRestart streaming.checkpoint.escapedPathCheck.enabled
    streaming.checkpoint.renamedFileCheck.enabled streaming.checkpoint.verifyMetadataExists.enabled
    streaming.commitProtocolClass streaming.disabledV2MicroBatchReaders streaming.disabledV2Writers
    streaming.fileSource.schema.forceNullable streaming.fileStreamSink.ignoreMetadata
    streaming.flatMapGroupsWithState.skipEmittingInitialStateKeys streaming.internal.stateStore.partitions
    streaming.join.stateFormatV4.enabled streaming.kafka.useDeprecatedOffsetFetching
    streaming.offsetLog.formatVersion streaming.optimizeOneRowPlan.enabled
    streaming.queryEvolution.enableSinkEvolution streaming.realTimeMode.allowlistCheck streaming.schemaInference
    streaming.sessionWindow.merge.sessions.in.local.partition streaming.sessionWindow.stateFormatVersion
    streaming.stateStore.formatValidation.enabled streaming.stateStore.maxNumStateSchemaFiles
    streaming.stateStore.skipNullsForStreamStreamJoins.enabled
    streaming.stateStore.valueStateSchemaEvolutionThreshold streaming.statefulOperator.allowMultiple
    streaming.transformWithState.stateSchemaVersion streaming.triggerAvailableNowWrapper.enabled
    streaming.unsupportedOperationCheck streaming.validateEventTimeWatermarkColumn
    streaming.verifyCheckpointDirectoryEmptyOnStart timeTravelTimestampKey timeTravelVersionKey timeType.enabled
    timestampType transposeMaxValues truncateTable.ignorePermissionAcl.enabled
    tvf.allowMultipleTableArguments.enabled types.framework.enabled udt.allowCreatingUDTFromString
    udt.allowedDynamicUDTClasses unionOutputPartitioning useCommonExprIdForAlias variable.substitute
    variant.allowDuplicateKeys variant.allowReadingShredded variant.forceShreddingSchemaForTest
    variant.inferShreddingSchema variant.pushVariantIntoScan variant.shredding.maxSchemaDepth
    variant.shredding.maxSchemaWidth variant.validateUnicodeInJsonParsing variant.writeShredding.enabled
    view.maxNestedViewDepth window.segmentTree.blockSize window.segmentTree.enabled window.segmentTree.fanout
    window.segmentTree.minPartitionRows xml.variant.respectInferSchema
    """
)
"""The confs that may change a value, a row or a plan, listed so that a conf of a new Spark is recognised as new."""
