"""Settings: those that a checkpoint pins, those that Spark refuses, and those that change what new rows mean."""

from __future__ import annotations

from conformance.matrix.case import BOTH, PROVIDERS, STATE_STORE, STATELESS, Case, Job, in_group
from conformance.matrix.data import CSV, JOIN, PARQUET, QUOTED

SUM = Job('s.groupBy("k").agg(F.sum("x").alias("s"))')
SELECT = Job('s.select("k", "x")', mode="append")
BY_DAY = Job('s.groupBy(F.to_date(F.expr("ts - interval 30 minutes")).alias("d")).agg(F.sum("x").alias("s"))')
BY_HOUR = Job('s.groupBy(F.hour("ts").alias("h")).agg(F.sum("x").alias("s"))')
TEXT = Job('s.groupBy("k").agg(F.max(F.date_format("ts", "HH:mm")).alias("m"))')
WINDOW = Job(
    's.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "10 minutes"), "k").agg(F.sum("x").alias("s"))',
    mode="append",
)
JOINED = Job(
    's.alias("l").join(o.alias("r"), F.expr("l.k = r.k"), "inner").select("l.k", "l.x", F.col("r.y").alias("y"))',
    mode="append",
    two=True,
)
OVERFLOW = Job('s.groupBy("k").agg(F.sum(F.expr("x + if(k = \'d\', 2147483647, 0)")).alias("s"))')
DIVIDED = Job('s.groupBy("k").agg(F.sum(F.expr("x / (y - 15)")).alias("s"))')
UPPER_COLUMN = Job('s.groupBy("K").agg(F.sum("X").alias("s"))')

_STREAMING = "spark.sql.streaming."
_ARROW = "spark.sql.execution.pythonUDF.arrow"
_ANSI = "spark.sql.ansi.enabled"
_ZONE = "spark.sql.session.timeZone"
_TOKYO = {_ZONE: "Asia/Tokyo"}


def _conf(
    name: str,
    change: str,
    key: str,
    value: str,
    *,
    job: Job = SUM,
    was: str | None = None,
    providers: tuple[str, ...] = BOTH,
    cause: str = "none",
    **more: object,
) -> Case:
    conf = {} if was is None else {key: was}
    return Case(name, change, job, job, cause, providers=providers, conf=conf, candidate_conf={key: value}, **more)  # type: ignore[arg-type]


PINNED = (
    _conf("conf_shuffle_up", "shuffle.partitions 2 -> 5", "spark.sql.shuffle.partitions", "5"),
    _conf("conf_shuffle_down", "shuffle.partitions 2 -> 1", "spark.sql.shuffle.partitions", "1"),
    _conf(
        "conf_shuffle_stateless",
        "shuffle.partitions 2 -> 5, no state",
        "spark.sql.shuffle.partitions",
        "5",
        job=SELECT,
        providers=STATELESS,
    ),
    Case(
        "conf_provider_hdfs_to_rocks",
        "state store provider hdfs -> rocksdb",
        SUM,
        SUM,
        "none",
        providers=("hdfs",),
        candidate_conf={f"{STATE_STORE}providerClass": PROVIDERS["rocksdb"][f"{STATE_STORE}providerClass"]},
    ),
    Case(
        "conf_provider_rocks_to_hdfs",
        "state store provider rocksdb -> hdfs",
        SUM,
        SUM,
        "none",
        providers=("rocksdb",),
        candidate_conf={f"{STATE_STORE}providerClass": PROVIDERS["hdfs"][f"{STATE_STORE}providerClass"]},
    ),
    _conf(
        "conf_encoding_avro",
        "encodingFormat unsaferow -> avro",
        f"{STATE_STORE}encodingFormat",
        "avro",
        cause="setting",
    ),
    _conf(
        "conf_aggfmt_2_1", "aggregation.stateFormatVersion 2 -> 1", f"{_STREAMING}aggregation.stateFormatVersion", "1"
    ),
    _conf(
        "conf_joinfmt_2_3",
        "join.stateFormatVersion 2 -> 3",
        f"{_STREAMING}join.stateFormatVersion",
        "3",
        job=JOINED,
        data=JOIN,
        providers=("rocksdb",),
    ),
    _conf(
        "conf_rowchecksum_off",
        "rowChecksum.enabled true -> false",
        f"{STATE_STORE}rowChecksum.enabled",
        "false",
        was="true",
    ),
    _conf("conf_compression", "compression.codec lz4 -> zstd", f"{STATE_STORE}compression.codec", "zstd"),
    _conf(
        "conf_wm_policy",
        "multipleWatermarkPolicy min -> max",
        f"{_STREAMING}multipleWatermarkPolicy",
        "max",
        job=WINDOW,
        providers=("rocksdb",),
    ),
    _conf(
        "conf_strict_distribution",
        "useStrictDistribution true -> false",
        f"{_STREAMING}statefulOperator.useStrictDistribution",
        "false",
        providers=("rocksdb",),
    ),
)

LAYOUT = (
    _conf(
        "conf_ckptformat_1_2",
        "checkpointFormatVersion 1 -> 2",
        f"{STATE_STORE}checkpointFormatVersion",
        "2",
        providers=("rocksdb",),
        cause="setting",
    ),
    _conf(
        "conf_ckptformat_2_1",
        "checkpointFormatVersion 2 -> 1",
        f"{STATE_STORE}checkpointFormatVersion",
        "1",
        providers=("v2",),
        cause="setting",
    ),
    _conf(
        "conf_ckptformat_1_2_hdfs",
        "checkpointFormatVersion 1 -> 2 with the HDFS provider",
        f"{STATE_STORE}checkpointFormatVersion",
        "2",
        providers=("hdfs",),
        cause="setting",
    ),
    _conf(
        "conf_changelog_on",
        "rocksdb.changelogCheckpointing false -> true",
        f"{STATE_STORE}rocksdb.changelogCheckpointing.enabled",
        "true",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_changelog_off",
        "rocksdb.changelogCheckpointing true -> false",
        f"{STATE_STORE}rocksdb.changelogCheckpointing.enabled",
        "false",
        providers=("v2",),
    ),
    _conf(
        "conf_ckptformat_stateless",
        "checkpointFormatVersion 2 -> 1, no state",
        f"{STATE_STORE}checkpointFormatVersion",
        "1",
        job=SELECT,
        providers=STATELESS,
    ),
)

SPEED = (
    _conf(
        "conf_nodata",
        "noDataMicroBatches true -> false",
        f"{_STREAMING}noDataMicroBatches.enabled",
        "false",
        providers=("hdfs",),
    ),
    _conf(
        "conf_filechecksum_off",
        "checkpoint.fileChecksum true -> false",
        f"{_STREAMING}checkpoint.fileChecksum.enabled",
        "false",
        providers=("hdfs",),
        was="true",
    ),
    _conf(
        "conf_cfm_fs",
        "checkpointFileManagerClass default -> FileSystemBased",
        f"{_STREAMING}checkpointFileManagerClass",
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        providers=("hdfs",),
    ),
    _conf(
        "conf_checkcorrectness",
        "statefulOperator.checkCorrectness true -> false",
        f"{_STREAMING}statefulOperator.checkCorrectness.enabled",
        "false",
        providers=("hdfs",),
    ),
    _conf("conf_adaptive", "adaptive.enabled false", "spark.sql.adaptive.enabled", "false", providers=("rocksdb",)),
    _conf(
        "conf_arrow_batch",
        "arrow.maxRecordsPerBatch 10000 -> 100",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "100",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_min_batches",
        "minBatchesToRetain 100 -> 10",
        f"{_STREAMING}minBatchesToRetain",
        "10",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_broadcast",
        "autoBroadcastJoinThreshold -> -1",
        "spark.sql.autoBroadcastJoinThreshold",
        "-1",
        providers=("rocksdb",),
    ),
)

MEANING = (
    _conf("conf_ansi_off_agg", "ansi.enabled true -> false with a sum", _ANSI, "false", providers=("hdfs",)),
    _conf(
        "conf_ansi_on_agg", "ansi.enabled false -> true with a sum", _ANSI, "true", was="false", providers=("rocksdb",)
    ),
    _conf(
        "conf_ansi_off_overflow",
        "ansi true -> false, an int below the sum overflows from now on",
        _ANSI,
        "false",
        job=OVERFLOW,
        providers=("rocksdb",),
        cause="setting",
    ),
    _conf(
        "conf_ansi_off_divide",
        "ansi true -> false, a division below the sum",
        _ANSI,
        "false",
        job=DIVIDED,
        providers=("rocksdb",),
    ),
    _conf(
        "conf_ansi_on_divide",
        "ansi false -> true, a row divides by zero from now on",
        _ANSI,
        "true",
        was="false",
        job=DIVIDED,
        providers=("rocksdb",),
        cause="setting",
    ),
    _conf(
        "conf_ansi_stateless", "ansi.enabled true -> false, no state", _ANSI, "false", job=SELECT, providers=STATELESS
    ),
    _conf(
        "conf_zone_no_times",
        "time zone UTC -> Tokyo, no times below the state",
        _ZONE,
        _TOKYO[_ZONE],
        job=SUM,
        providers=("rocksdb",),
        was="UTC",
    ),
    _conf(
        "conf_zone_hour",
        "time zone UTC -> Tokyo, hour(ts) is the key",
        _ZONE,
        _TOKYO[_ZONE],
        job=BY_HOUR,
        cause="setting",
        was="UTC",
    ),
    _conf(
        "conf_zone_day",
        "time zone UTC -> Tokyo, to_date(ts) is the key",
        _ZONE,
        _TOKYO[_ZONE],
        job=BY_DAY,
        cause="setting",
        was="UTC",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_zone_text",
        "time zone Tokyo -> UTC, max of a formatted time",
        _ZONE,
        "UTC",
        job=TEXT,
        cause="setting",
        was=_TOKYO[_ZONE],
        providers=("rocksdb",),
    ),
    _conf(
        "conf_zone_window",
        "time zone UTC -> Tokyo, window of ten minutes",
        _ZONE,
        _TOKYO[_ZONE],
        job=WINDOW,
        was="UTC",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_zone_above",
        "time zone UTC -> Tokyo, a formatted time above the state",
        _ZONE,
        _TOKYO[_ZONE],
        job=WINDOW.but(df=f'{WINDOW.df}.withColumn("h", F.date_format("window.start", "HH:mm"))'),
        was="UTC",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_zone_stateless",
        "time zone UTC -> Tokyo, no state",
        _ZONE,
        _TOKYO[_ZONE],
        job=SELECT,
        was="UTC",
        providers=STATELESS,
    ),
    _conf(
        "conf_case_sensitive",
        "caseSensitive false -> true, names written as they are",
        "spark.sql.caseSensitive",
        "true",
        providers=("rocksdb",),
    ),
    _conf(
        "conf_case_sensitive_broken",
        "caseSensitive false -> true, names written otherwise",
        "spark.sql.caseSensitive",
        "true",
        job=UPPER_COLUMN,
        providers=("rocksdb",),
        cause="setting",
        declined=True,
    ),
)

_STATIC = """
from pathlib import Path
place = Path(params["input"]).parent / "beside.{form}"
if not place.exists():
    if "{form}" == "json":
        place.write_text('{{"k": "a", "t": "2026-01-01 00:30:00"}}\\n{{"k": "b", "t": "2026-01-01 09:00:00"}}\\n')
    else:
        beside = spark.range(4).selectExpr("substring('abcd', id + 1, 1) k", "id * 10 z")
        beside.write.mode("overwrite").parquet(str(place))
beside = spark.read.schema("{schema}").{form}(str(place))
"""
ZONE_BESIDE = Job(
    's.join(beside, "k").groupBy("t").agg(F.sum("x").alias("s"))',
    lines=_STATIC.format(form="json", schema="k string, t timestamp"),
)
PARQUET_BESIDE = Job(
    's.join(beside, "k").groupBy("k").agg(F.sum(F.expr("x + z")).alias("s"))',
    lines=_STATIC.format(form="parquet", schema="k string, z long"),
)
UPPER_BESIDE = PARQUET_BESIDE.but(
    df=PARQUET_BESIDE.df.replace("x + z", "x + Z"),
    lines=PARQUET_BESIDE.lines.replace("k string, z long", "k string, Z long"),
)
FROM_PARQUET = Job('s.groupBy("k").agg(F.sum("x").alias("s"))', form="parquet")
UPPER_PARQUET = Job(
    's.groupBy("k").agg(F.sum("X").alias("s"))',
    form="parquet",
    schema="k string, k2 string, X int, y int, ts timestamp",
)
TEXT_TIMES = "k string, k2 string, x int, y int, ts string"
PARSED = Job(
    's.groupBy(F.try_to_timestamp("ts", F.lit("yyyy-MM-dd")).alias("d")).agg(F.sum("x").alias("s"))', schema=TEXT_TIMES
)
AS_TEXT = Job('s.groupBy(F.struct("k", "k2").cast("string").alias("k")).agg(F.sum("x").alias("s"))')
ROUNDED = Job(
    's.withColumn("n", halved("x")).groupBy("k").agg(F.sum("n").alias("s"))',
    top='@F.udf("int")\ndef halved(x):\n    return x / 1\n',
)
SELECT_DIVIDED = Job('s.select("k", F.expr("x / (y - 15)").alias("q"))', mode="append")
FROM_CSV = Job('s.groupBy("k").agg(F.sum("x").alias("s"))', form="csv")
SPELLED_CSV = FROM_CSV.but(
    options='.option("delimiter", ",").option("quote", "\\"").option("escape", "\\\\").option("HEADER", "False")'
    '.option("mode", "permissive").option("encoding", "UTF-8").option("nanValue", "NaN").option("maxFileAge", "7d")'
)
QUOTED_CSV = FROM_CSV.but(options='.option("quote", "")')
SPELLED_TIMES = SUM.but(options='.option("timestampFormat", "yyyy-MM-dd\'T\'HH:mm:ss[.SSS][XXX]")')

_TUNED = {
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.sortBeforeRepartition": "false",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.sql.join.preferSortMergeJoin": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.parquet.filterPushdown": "false",
}
_SPELLED = {
    "spark.sql.ansi.enabled": "TRUE",
    "spark.sql.files.ignoreMissingFiles": "False",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.legacy.timeParserPolicy": "corrected",
    "spark.sql.mapKeyDedupPolicy": "exception",
    "spark.sql.parquet.binaryAsString": "false",
}
_LENIENT_FILES = {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.files.ignoreCorruptFiles": "true"}


def _confs(name: str, change: str, values: dict[str, str], job: Job = SUM, **more: object) -> Case:
    given: dict[str, object] = {"cause": "none", "providers": ("rocksdb",), **more}
    return Case(name, change, job, job, candidate_conf=values, **given)  # type: ignore[arg-type]


HIDDEN = (
    _confs("conf_tuning", "nine settings of speed at once", _TUNED, providers=BOTH),
    _confs("conf_tuning_parquet", "nine settings of speed at once, Parquet source", _TUNED, FROM_PARQUET, data=PARQUET),
    _confs(
        "conf_tuning_beside",
        "nine settings of speed at once, a static Parquet table below the sum",
        _TUNED,
        PARQUET_BESIDE,
    ),
    _confs("conf_defaults_spelled", "six defaults spelled out", _SPELLED, providers=BOTH),
    _confs("conf_own", "a setting of the job's own", {"spark.shop.label": "new"}),
    _confs("conf_lenient_files", "missing and corrupt files are passed over from now on", _LENIENT_FILES),
    _confs("conf_python_unused", "Arrow for Python functions off, none there", {f"{_ARROW}.enabled": "false"}),
    _confs(
        "conf_python_arrow",
        "Arrow for Python functions off, one below the sum returns another type",
        {f"{_ARROW}.enabled": "false"},
        ROUNDED,
        cause="setting",
    ),
    _confs(
        "conf_parquet_unused", "Parquet's calendar, none read", {"spark.sql.parquet.int96RebaseModeInRead": "LEGACY"}
    ),
    _confs(
        "conf_case_parquet",
        "caseSensitive false -> true, a Parquet source with names written otherwise",
        {"spark.sql.caseSensitive": "true"},
        UPPER_PARQUET,
        data=PARQUET,
        cause="setting",
    ),
    _confs(
        "conf_case_parquet_same",
        "caseSensitive false -> true, a Parquet source with names as they are",
        {"spark.sql.caseSensitive": "true"},
        FROM_PARQUET,
        data=PARQUET,
        twin="conf_case_parquet",
    ),
    _confs(
        "conf_case_beside",
        "caseSensitive false -> true, a static Parquet table with names written otherwise",
        {"spark.sql.caseSensitive": "true"},
        UPPER_BESIDE,
        cause="setting",
    ),
    _confs(
        "conf_zone_beside",
        "time zone UTC -> Tokyo, times of a static JSON table are the key",
        _TOKYO,
        ZONE_BESIDE,
        conf={_ZONE: "UTC"},
        cause="setting",
    ),
    _confs(
        "conf_time_parser",
        "timeParserPolicy CORRECTED -> LEGACY, a parsed day is the key",
        {"spark.sql.legacy.timeParserPolicy": "LEGACY"},
        PARSED,
        cause="setting",
    ),
    _confs(
        "conf_cast_to_text",
        "structs as text the old way, such a text is the key",
        {"spark.sql.legacy.castComplexTypesToString.enabled": "true"},
        AS_TEXT,
        cause="setting",
    ),
    _confs(
        "conf_ansi_on_stateless_fails",
        "ansi false -> true, no state, a row divides by zero from now on",
        {_ANSI: "true"},
        SELECT_DIVIDED,
        conf={_ANSI: "false"},
        providers=STATELESS,
        cause="setting",
    ),
    _confs(
        "conf_ansi_on_stateless",
        "ansi false -> true, no state, nothing to fail",
        {_ANSI: "true"},
        SELECT,
        conf={_ANSI: "false"},
        providers=STATELESS,
        twin="conf_ansi_on_stateless_fails",
    ),
    _confs("conf_offset_log", "offsetLog.formatVersion 1 -> 2", {f"{_STREAMING}offsetLog.formatVersion": "2"}),
    _confs(
        "conf_offset_log_back",
        "offsetLog.formatVersion 2 -> 1",
        {f"{_STREAMING}offsetLog.formatVersion": "1"},
        conf={f"{_STREAMING}offsetLog.formatVersion": "2"},
    ),
    _confs(
        "conf_offset_log_stateless",
        "offsetLog.formatVersion 1 -> 2, no state",
        {f"{_STREAMING}offsetLog.formatVersion": "2"},
        SELECT,
        providers=STATELESS,
    ),
    Case("opt_csv_spelled", "a CSV reader's defaults spelled out", FROM_CSV, SPELLED_CSV, "none", data=CSV),
    Case("opt_csv_quote_off", "a CSV reader's quote switched off", FROM_CSV, QUOTED_CSV, "setting", data=QUOTED),
    Case("opt_times_spelled", "a time format, no time in the state", SUM, SPELLED_TIMES, "none"),
)

CASES = in_group("settings", *PINNED, *LAYOUT, *SPEED, *MEANING, *HIDDEN)
