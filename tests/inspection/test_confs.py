"""Tests which settings a manifest records, and that the table of settings matches Spark's own list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.driver.queries import restore_confs
from streamkeeper.inspection.confs import ALWAYS, read_confs
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.settings.spark_confs import MEANING, PINNED, REFUSED, SQL, TUNING, current_key
from streamkeeper.registry.environments import installed_jars
from tests.inspection.queries import query, read, totals, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

JUDGED = MEANING | TUNING | PINNED | REFUSED
UNLISTED_BY_SPARK = {"spark.sql.streaming.checkpointFileManagerClass"}
ELSEWHERE = {"spark.sql.shuffle.partitions"}
"""Confs pinned with the number of state partitions rather than in Spark's list."""


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """A function that sets a conf of the session; all confs are restored when the test finishes."""
    before = dict(spark.conf.getAll)
    yield spark.conf.set
    restore_confs(spark, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path / "in", 1)
    return tmp_path / "in"


def module(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)


def entries(spark: SparkSession) -> dict[str, Any]:
    """Return the entry of every Spark SQL conf by its key, including internal ones."""
    for name in ("org.apache.spark.sql.internal.StaticSQLConf$", "org.apache.spark.sql.hive.HiveUtils$"):
        module(spark, name)
    listed = module(spark, "org.apache.spark.sql.internal.SQLConf$").getConfigEntries()
    each = listed.iterator()
    found = {}
    while each.hasNext():
        entry = each.next()
        found[str(entry.key())] = entry
    return {key: entry for key, entry in found.items() if key.startswith(SQL)}


def test_every_conf_of_this_spark_version_is_classified(spark: SparkSession) -> None:
    """Every conf of this Spark version is classified, and no unknown one is, so a new Spark version's confs make this
    test fail.
    """
    known = set(entries(spark))
    assert known - JUDGED == set()
    assert JUDGED - known == UNLISTED_BY_SPARK


def test_what_is_pinned_is_what_spark_writes_into_the_checkpoint(spark: SparkSession) -> None:
    """The pinned confs are those that Spark's own list writes into the checkpoint."""
    name = "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata$"
    listed = module(spark, name).relevantSQLConfs()
    written = {str(listed.apply(number).key()) for number in range(listed.size())}
    assert written == PINNED - ELSEWHERE | {"spark.sql.streaming.queryEvolution.enableSourceEvolution"}


def test_a_former_key_is_read_as_the_current_one(spark: SparkSession) -> None:
    """Every former key that Spark still accepts for a conf maps to its current key."""
    for key, entry in entries(spark).items():
        former = entry.alternatives()
        assert {current_key(str(former.apply(number))) for number in range(former.size())} <= {key}


def test_explicit_defaults_and_tuning_confs_are_not_recorded(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    """An explicitly set default, in any spelling that Spark accepts, and a tuning conf are not recorded."""
    before = read_confs(spark)
    setting("spark.sql.parquet.binaryAsString", "FALSE")
    setting("spark.sql.ansi.enabled", " True")
    setting("spark.sql.legacy.timeParserPolicy", "corrected")
    setting("spark.sql.join.preferSortMergeJoin", "false")
    assert read_confs(spark) == before


def test_every_boolean_conf_that_affects_results_is_recorded_if_not_default(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    """Every boolean conf that affects results is recorded when it differs from the default that Spark reports."""
    static = module(spark, "org.apache.spark.sql.internal.SQLConf$")
    flags = {
        key: str(entry.defaultValueString())
        for key, entry in entries(spark).items()
        if key in MEANING and entry.defaultValueString() in ("true", "false") and not static.isStaticConfigKey(key)
    }
    refused = set()
    for key, default in flags.items():
        try:
            setting(key, "false" if default == "true" else "true")
        except Exception:
            refused.add(key)
    found = read_confs(spark)
    assert len(flags) > 200
    assert len(refused) < 5
    assert {current_key(key) for key in flags.keys() - refused} <= found.keys()


def test_other_settings_are_recorded_without_their_values(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    """Other settings are recorded without their values, and secrets and S3A settings are not recorded at all."""
    setting("orc.force.positional.evolution", "true")
    setting("spark.job.threshold", "12345")
    setting("spark.sql.catalog.sales.password", "hidden")
    setting("fs.s3a.connection.maximum", "200")
    found = read_confs(spark)
    assert {"spark.hadoop.orc.force.positional.evolution", "spark.job.threshold"} <= found.keys()
    assert not {"12345", "hidden"} & set(found.values())
    assert not [key for key in found if "s3a" in key or "password" in key]


def test_jars_that_only_sinks_use_are_not_recorded(spark: SparkSession) -> None:
    """The jars of a sink's own client are no code of the job: a version of Streamkeeper that adds some asks nobody.
    The jars of sources are recorded.
    """
    if not any("delta-spark" in jar for jar in installed_jars("")):
        pytest.skip("no Delta jars (make connectors)")
    recorded = read_confs(spark)["spark.jars"]
    assert "kafka" in recorded
    assert "delta" not in recorded


def test_hadoop_settings_written_by_the_job_are_recorded(spark: SparkSession) -> None:
    """A setting that a job writes into Hadoop's configuration is recorded beside the session's confs, and only while it
    is set.
    """
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set("parquet.strings.signed-min-max.enabled", "true")
    try:
        assert "spark.hadoop.parquet.strings.signed-min-max.enabled" in read_confs(spark)
    finally:
        context._jsc.hadoopConfiguration().unset("parquet.strings.signed-min-max.enabled")
    assert "spark.hadoop.parquet.strings.signed-min-max.enabled" not in read_confs(spark)


def test_confs_that_are_always_recorded_are_in_the_list_of_spark(spark: SparkSession) -> None:
    """All confs that are always recorded are in Spark's list, except two that Spark reads by their literal key."""
    assert set(ALWAYS) - set(entries(spark)) == {
        "spark.sql.streaming.checkpointFileManagerClass",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    }


def joined(stream: DataFrame, beside: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return stream.join(beside, "k").groupBy("k").agg(F.sum("z").alias("s"))


@pytest.mark.parametrize("form", ["parquet", "json", "table", "cached"])
@pytest.mark.parametrize(
    ("key", "value"), [("spark.sql.session.timeZone", "Asia/Tokyo"), ("spark.sql.caseSensitive", "true")]
)
def test_changed_session_settings_require_a_switch_if_static_files_are_joined(
    spark: SparkSession,
    folder: Path,
    tmp_path: Path,
    setting: Callable[[str, str], None],
    form: str,
    key: str,
    value: str,
) -> None:
    """A changed time zone or case sensitivity requires a SWITCH if the query joins static files, and resumes if it has
    none.
    """
    rows = spark.range(3).selectExpr("concat('k', id) k", "id z", "timestamp'2026-01-01 00:00:00' t")
    written = "parquet" if form in ("table", "cached") else form
    rows.write.format(written).save(str(tmp_path / "beside"))
    beside = spark.read.schema("k string, z long, t timestamp").format(written).load(str(tmp_path / "beside"))
    if form == "table":
        beside.createOrReplaceTempView("beside")
        beside = spark.table("beside")
    if form == "cached":
        beside = beside.cache()

    def verdict(make: Callable[[], DataFrame]) -> Verdict:
        old: Manifest = describe(query(make()), spark, bundle_root=None)
        before = dict(spark.conf.getAll)
        setting(key, value)
        new = describe(query(make()), spark, bundle_root=None)
        restore_confs(spark, before)
        return verdict_of(find_changes(old, new))

    assert verdict(lambda: joined(read(spark, folder), beside)) is Verdict.SWITCH
    assert verdict(lambda: totals(read(spark, folder))) is Verdict.RESUME
