"""Reads the session's settings that can change a query's results, at the moment a Query is yielded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from streamkeeper.jvm.values import read_map, session_confs
from streamkeeper.model.secret_names import is_secret
from streamkeeper.model.settings.spark_confs import CODE, SQL, ConfRole, current_key, hash_setting, role
from streamkeeper.sinks.kinds.known_kinds import connector_folders

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
    "spark.sql.streaming.checkpointFileManagerClass",
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
"""The settings that are recorded even if not set, so that a changed default shows; unknown ones are left out."""

_HADOOP = "spark.hadoop."
_JARS_OF_SINKS = [["connectors", folder] for folder in connector_folders()]
"""The folders of jars that only sinks of Streamkeeper use, and no query of a job."""
_LOG_STORES = "spark.delta.logStore."
"""The settings of how Delta writes its log, which every driver sets, and which affect no row."""
_HADOOP_TUNING = (
    "dfs.",
    "fs.azure.",
    "fs.gs.",
    "fs.s3a.",
    "hadoop.",
    "io.file.buffer.size",
    "ipc.",
    "mapreduce.fileoutputcommitter.",
    "parquet.block.size",
    "parquet.compression",
    "parquet.dictionary.page.size",
    "parquet.enable.dictionary",
    "parquet.page.size",
)
_HADOOP_MEANING = ("fs.s3a.bucket.", "fs.s3a.endpoint")
"""Exceptions from ``_HADOOP_TUNING``: settings that can change results, because another endpoint is another store."""
_SET_IN_HADOOP = r"^(parquet|orc|avro|mapreduce\.input\.pathFilter|io\.compression\.codecs|textinputformat)\b.*"
"""Settings that readers take from Hadoop's configuration, which a job's code may change without the
session's settings.
"""
_SPARKS_OWN = re.compile(
    r"spark\.(app|archives|driver|executor|files|home|jars|kafka|kubernetes|local|log|master|plugins|port|pyspark"
    r"|python|r|rdd|repl|serializer|shuffle|submit|ui|yarn)\b.*"
)
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_JAVA_MEANING = re.compile(r"-D(?:user\.(?:timezone|language|country|region|variant)|file\.encoding|java\.locale\.)\S*")


def read_confs(spark: SparkSession) -> dict[str, str]:
    """Return every relevant setting: the settings in ``ALWAYS``, and all others that are set to a non-default value.

    Values are given as Spark interprets them (``TRUE`` is ``true``, ``1m`` is 60000), under Spark's current key.
    Settings outside Spark SQL are given as a hash, and settings under the name of a secret are left out.
    """
    state: Any = spark._jsparkSession.sessionState().conf()
    jvm: Any = spark._jvm
    known = _module(jvm, "org.apache.spark.sql.internal.SQLConf$")
    settings = {current_key(key): value for key, value in session_confs(spark).items()}
    found: dict[str, str] = {}
    for key in dict.fromkeys([*ALWAYS, *sorted(settings)]):
        if key not in ALWAYS and (not key.startswith(SQL) or role(key) is ConfRole.TUNING):
            continue
        value, default = _effective(known, state, key, settings.get(key))
        if value is not None and (key in ALWAYS or value != default) and not _hidden(key, default):
            found[key] = value
    return found | dict(_hadoop(spark, settings)) | dict(_beside(jvm, settings))


def _effective(known: Any, state: Any, key: str, setting: str | None) -> tuple[str | None, str | None]:
    """Return the value that Spark uses for a setting, and the default."""
    entry = known.getConfigEntry(key)
    if entry is None:
        return setting, None
    return _text(state.getConf(entry)), _text(entry.defaultValue())


def _text(value: Any) -> str | None:
    """Return Spark's typed value as text. For a Scala ``Option``, return the content of the option."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if not hasattr(value, "isDefined") or "Option" not in str(value.getClass().getSuperclass().getName()):
        return str(value.toString())
    return _text(value.get()) if value.isDefined() else None


def _hidden(key: str, default: str | None) -> bool:
    """Whether a setting that Spark does not define, for example one of a catalog, may contain a secret."""
    return default is None and key not in ALWAYS and is_secret(key)


def _hadoop(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield Hadoop's settings: from Hadoop itself, from ``spark.hadoop.…``, and from keys that lack ``spark.``."""
    jvm: Any = spark.sparkContext._jsc
    found = read_map(jvm.hadoopConfiguration().getValByRegex(_SET_IN_HADOOP))
    found |= {key.removeprefix(_HADOOP): value for key, value in settings.items() if key.startswith(_HADOOP)}
    found |= {key: value for key, value in settings.items() if not key.startswith("spark.")}
    for key, value in found.items():
        tuning = key.startswith(_HADOOP_TUNING) and not key.startswith(_HADOOP_MEANING)
        if not tuning and not is_secret(key):
            yield _HADOOP + key, hash_setting(value)


def _beside(jvm: Any, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield further settings: the job's own settings, the files of its additional code, and Java's time zone and
    language.

    The files are given by name only, because every start copies them to another place.
    """
    core = _module(jvm, "org.apache.spark.internal.config.ConfigEntry$")
    for key, value in settings.items():
        if key in CODE and value:
            files = [re.split(r"[/\\]", path) for path in re.split("[,:]", value)]
            if names := sorted(parts[-1] for parts in files if parts[-3:-1] not in _JARS_OF_SINKS):
                yield key, ",".join(names)
        elif key == _JAVA_OPTIONS and (options := _JAVA_MEANING.findall(value)):
            yield key, " ".join(sorted(options))
        elif _may_be_own(key) and core.findEntry(key) is None:
            yield key, hash_setting(value)


def _may_be_own(key: str) -> bool:
    known = key.startswith((SQL, _HADOOP, _LOG_STORES)) or _SPARKS_OWN.fullmatch(key)
    return key.startswith("spark.") and not known and not is_secret(key)


def _module(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)
