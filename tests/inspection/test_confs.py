"""Which settings a manifest records, and that the table of them is Spark's own list."""

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
from tests.inspection.queries import query, read, totals, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

JUDGED = MEANING | TUNING | PINNED | REFUSED
UNLISTED_BY_SPARK = {"spark.sql.streaming.checkpointFileManagerClass"}
ELSEWHERE = {"spark.sql.shuffle.partitions"}
"""Pinned beside Spark's list, with the number of state partitions."""


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets confs of the session until the test ends."""
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
    """Key -> entry of every conf that Spark SQL knows, internal ones included."""
    for name in ("org.apache.spark.sql.internal.StaticSQLConf$", "org.apache.spark.sql.hive.HiveUtils$"):
        module(spark, name)
    listed = module(spark, "org.apache.spark.sql.internal.SQLConf$").getConfigEntries()
    each = listed.iterator()
    found = {}
    while each.hasNext():
        entry = each.next()
        found[str(entry.key())] = entry
    return {key: entry for key, entry in found.items() if key.startswith(SQL)}


def test_every_conf_of_spark_is_judged_and_no_other(spark: SparkSession) -> None:
    """A new Spark's confs show up here."""
    known = set(entries(spark))
    assert known - JUDGED == set()
    assert JUDGED - known == UNLISTED_BY_SPARK


def test_what_is_pinned_is_what_spark_writes_into_the_checkpoint(spark: SparkSession) -> None:
    """Read from Spark's own list."""
    name = "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata$"
    listed = module(spark, name).relevantSQLConfs()
    written = {str(listed.apply(number).key()) for number in range(listed.size())}
    assert written == PINNED - ELSEWHERE | {"spark.sql.streaming.queryEvolution.enableSourceEvolution"}


def test_a_former_key_is_read_as_the_current_one(spark: SparkSession) -> None:
    """Every second key that Spark knows."""
    for key, entry in entries(spark).items():
        former = entry.alternatives()
        assert {current_key(str(former.apply(number))) for number in range(former.size())} <= {key}


def test_a_default_spelled_out_and_a_tuning_conf_leave_no_trace(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    """In any spelling that Spark takes."""
    before = read_confs(spark)
    setting("spark.sql.parquet.binaryAsString", "FALSE")
    setting("spark.sql.ansi.enabled", " True")
    setting("spark.sql.legacy.timeParserPolicy", "corrected")
    setting("spark.sql.join.preferSortMergeJoin", "false")
    assert read_confs(spark) == before


def test_every_conf_of_meaning_that_is_set_is_recorded(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    """Each boolean one, at what is not its default: Spark itself says what that is."""
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


def test_other_settings_are_recorded_without_what_they_say(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    """By a hash; a secret not at all."""
    setting("orc.force.positional.evolution", "true")
    setting("spark.job.threshold", "12345")
    setting("spark.sql.catalog.sales.password", "hidden")
    setting("fs.s3a.connection.maximum", "200")
    found = read_confs(spark)
    assert {"spark.hadoop.orc.force.positional.evolution", "spark.job.threshold"} <= found.keys()
    assert not {"12345", "hidden"} & set(found.values())
    assert not [key for key in found if "s3a" in key or "password" in key]


def test_what_a_job_writes_into_hadoops_configuration_is_recorded(spark: SparkSession) -> None:
    """Beside the session's own confs."""
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set("parquet.strings.signed-min-max.enabled", "true")
    try:
        assert "spark.hadoop.parquet.strings.signed-min-max.enabled" in read_confs(spark)
    finally:
        context._jsc.hadoopConfiguration().unset("parquet.strings.signed-min-max.enabled")
    assert "spark.hadoop.parquet.strings.signed-min-max.enabled" not in read_confs(spark)


def test_what_is_always_recorded_is_of_spark_or_of_its_state_store(spark: SparkSession) -> None:
    """Two of them Spark reads by their text alone."""
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
def test_files_beside_the_stream_are_read_by_the_sessions_settings(
    spark: SparkSession,
    folder: Path,
    tmp_path: Path,
    setting: Callable[[str, str], None],
    form: str,
    key: str,
    value: str,
) -> None:
    """The same change goes on where there are none."""
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
