"""The meaning of Spark confs, as findings about their values state it. Pure."""

from __future__ import annotations

from streamkeeper.model.settings.spark_confs import ANSI, CASE_SENSITIVE, SQL, TIME_ZONE

_STREAMING = f"{SQL}streaming."
_STORE = f"{_STREAMING}stateStore."
_MEANINGS = {
    ANSI: "whether a value that cannot be computed stops the query (true) or becomes null (false)",
    CASE_SENSITIVE: "whether column names that differ only in case are different columns",
    TIME_ZONE: "the time zone in which dates and times are computed",
    f"{SQL}files.ignoreCorruptFiles": "whether files that cannot be read are skipped",
    f"{SQL}files.ignoreMissingFiles": "whether missing files are skipped",
    f"{SQL}mapKeyDedupPolicy": "whether a map with a key twice is an error (EXCEPTION) or keeps the last value "
    "(LAST_WIN)",
    f"{SQL}function.protobufExtensions.enabled": "whether extension fields of protobuf messages are read",
    f"{SQL}legacy.timeParserPolicy": "the rules by which times are parsed and formatted",
    f"{SQL}adaptive.enabled": "whether Spark changes the plan of a batch while the batch runs",
    f"{SQL}optimizer.pruneFiltersCanPruneStreamingSubplan": "whether the optimizer may remove a stream whose rows are "
    "all filtered out",
    f"{SQL}shuffle.partitions": "the number of partitions of each shuffle and of the state",
    f"{_STREAMING}aggregation.stateFormatVersion": "the format in which aggregations keep their state",
    f"{_STREAMING}flatMapGroupsWithState.stateFormatVersion": "the format in which applyInPandasWithState keeps its "
    "state",
    f"{_STREAMING}join.stateFormatVersion": "the format in which joins of streams keep their state",
    f"{_STREAMING}multipleWatermarkPolicy": "whether the slowest (min) or the fastest (max) of several watermarks "
    "counts",
    f"{_STREAMING}noDataMicroBatches.enabled": "whether batches without new rows run to evict state",
    f"{_STREAMING}offsetLog.formatVersion": "the format of the offset files",
    f"{_STREAMING}queryEvolution.enableSourceEvolution": "whether the checkpoint finds its sources by name",
    f"{_STREAMING}statefulOperator.checkCorrectness.enabled": "whether Spark rejects several stateful operators whose "
    "combination may lose rows",
    f"{_STREAMING}statefulOperator.useStrictDistribution": "how rows are distributed to the partitions of the state",
    f"{_STORE}checkpointFormatVersion": "the layout of the state in the checkpoint",
    f"{_STORE}compression.codec": "the compression of the state files",
    f"{_STORE}encodingFormat": "the encoding of rows in the state",
    f"{_STORE}maintenanceInterval": "how often old state files are cleaned up",
    f"{_STORE}minDeltasForSnapshot": "after how many changes the state store writes a complete file",
    f"{_STORE}providerClass": "the class that stores the state",
    f"{_STORE}rocksdb.formatVersion": "the file format of RocksDB",
    f"{_STORE}rocksdb.mergeOperatorVersion": "how RocksDB joins the parts of a value",
    f"{_STORE}rowChecksum.enabled": "whether rows in the state have a checksum",
    f"{_STORE}stateSchemaCheck": "whether Spark compares the schema of the state with the query",
}


def setting_meaning(key: str) -> str:
    """Return what a conf decides, as a noun phrase or an indirect question; empty for a conf that is not listed."""
    return _MEANINGS.get(key, "")
