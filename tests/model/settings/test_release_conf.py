"""Tests which Spark confs a release may set."""

from __future__ import annotations

import pytest

from streamkeeper.errors import InvalidInput, JobUnusable
from streamkeeper.model.settings import spark_confs
from streamkeeper.model.settings.release_conf import (
    FIXED,
    check_described_confs,
    check_release_conf,
    check_unchanged,
    installation_confs,
    without_later_refusals,
)

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("spark.master", "yarn", "end of the driver's processes cannot be proven"),
        ("spark.master", "spark://host:7077", "end of the driver's processes cannot be proven"),
        ("spark.master", "k8s://https://host", "end of the driver's processes cannot be proven"),
        ("spark.master", "local-cluster[2,1,1024]", "end of the driver's processes cannot be proven"),
        ("spark.submit.deployMode", "cluster", "the runner decides"),
        ("spark.remote", "sc://host", "no driver of its own"),
        ("spark.sql.streaming.checkpointFileManagerClass", "org.apache.Other", "the installation decides how"),
        ("spark.hadoop.fs.defaultFS", "hdfs://host", "the installation decides how"),
        (PROVIDER, "org.apache.Other", "state format"),
        (PROVIDER.upper().replace("SPARK", "spark", 1), "org.apache.Other", "state format"),
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "1", "state format"),
        ("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "false", "state format"),
        ("spark.sql.streaming.aggregation.stateFormatVersion", "1", "state format"),
        ("spark.sql.streaming.join.stateFormatVersion", "3", "state format"),
        ("spark.ui.enabled", "true", "no login"),
        ("spark.ui.enabled", "secret://env/X", "no login"),
        ("spark.sql.execution.pyspark.python", "/tmp/mine", "the interpreter that the release was made with"),
    ],
)
def test_a_conf_reserved_for_the_installation_is_refused_by_name(key: str, value: str, reason: str) -> None:
    """A conf about where executors run, how checkpoint files are written or the state format is refused by name, even
    if the installation lists it.
    """
    with pytest.raises(InvalidInput, match=reason) as refused:
        check_release_conf({key: value}, ["spark.*", key])
    assert key in refused.value.message
    assert "leave it out" in refused.value.hint


def test_a_stored_release_with_formerly_accepted_confs_still_starts() -> None:
    """A stored release with confs that only earlier versions accepted can still be started, recovered and rolled back
    to. Negative control: a new release with the same confs is refused.
    """
    conf = {"spark.ui.enabled": "true", "spark.sql.execution.pyspark.python": "/usr/bin/python3"}
    check_release_conf(without_later_refusals(conf), allowed=conf)
    with pytest.raises(InvalidInput):
        check_release_conf(conf, allowed=conf)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.master", "local"),
        ("spark.master", "local[4]"),
        ("spark.master", "local[*]"),
        ("spark.master", "local[2,3]"),
        ("spark.sql.shuffle.partitions", "8"),
        ("spark.sql.streaming.minBatchesToRetain", "200"),
        ("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true"),
        ("spark.sql.streaming.stateStore.maintenanceInterval", "30s"),
        ("spark.driver.memory", "2g"),
        ("spark.sql.session.timeZone", "CET"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.adaptive.optimizer.excludedRules", "x"),
        ("spark.sql.execution.arrow.pyspark.enabled", "true"),
        ("spark.sql.files.maxPartitionBytes", "64MB"),
    ],
)
def test_what_a_release_may_set_passes(key: str, value: str) -> None:
    """A release may set a local master and confs that change neither the place of execution nor the state format."""
    check_release_conf({key: value})


@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_java_options_that_set_spark_confs_are_refused(key: str) -> None:
    """Java options that set Spark confs with ``-Dspark.…`` are refused, even where the installation allows Java
    options.
    """
    check_release_conf({key: "-Xmx2g -Duser.timezone=UTC"}, [key])
    with pytest.raises(InvalidInput, match="sets Spark confs with -D options"):
        check_release_conf({key: "-Xmx2g -Dspark.hadoop.fs.file.impl=com.example.X"}, [key])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.driver.extraJavaOptions", "-XX:OnOutOfMemoryError=touch /tmp/mine"),
        ("spark.driver.defaultJavaOptions", "-agentpath:/tmp/mine.so"),
        ("spark.driver.extraClassPath", "/tmp/mine.jar"),
        ("spark.driver.extraLibraryPath", "/tmp"),
        ("spark.jars", "/tmp/mine.jar"),
        ("spark.jars.packages", "com.example:mine:1"),
        ("spark.jars.ivySettings", "/tmp/ivy.xml"),
        ("spark.files", "/etc/passwd"),
        ("spark.archives", "/tmp/mine.zip"),
        ("spark.submit.pyFiles", "/tmp/mine.py"),
        ("spark.pyspark.python", "/tmp/mine"),
        ("spark.pyspark.driver.python", "/tmp/mine"),
        ("spark.python.daemon.module", "mine"),
        ("spark.python.worker.module", "mine"),
        ("spark.extraListeners", "com.example.Mine"),
        ("spark.plugins", "com.example.Mine"),
        ("spark.serializer", "com.example.Mine"),
        ("spark.local.dir", "/etc"),
        ("spark.eventLog.dir", "/etc"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.example.Mine"),
        ("spark.hadoop.hadoop.security.groups.shell.command", "touch /tmp/mine"),
        ("spark.redaction.regex", "nothing"),
        ("spark.ui.filters", "com.example.Mine"),
        ("spark.metrics.conf", "/tmp/metrics"),
        ("spark.sql.extensions", "com.example.Mine"),
        ("spark.sql.catalog.mine", "com.example.Mine"),
        ("spark.sql.catalogImplementation", "hive"),
        ("spark.sql.defaultCatalog", "mine"),
        ("spark.sql.queryExecutionListeners", "com.example.Mine"),
        ("spark.sql.streaming.streamingQueryListeners", "com.example.Mine"),
        ("spark.sql.streaming.commitProtocolClass", "com.example.Mine"),
        ("spark.sql.parquet.output.committer.class", "com.example.Mine"),
        ("spark.sql.adaptive.customCostEvaluatorClass", "com.example.Mine"),
        ("spark.sql.extendedExplainProviders", "com.example.Mine"),
        ("spark.sql.cache.serializer", "com.example.Mine"),
        ("spark.sql.hive.metastore.jars.path", "/tmp"),
        ("spark.sql.warehouse.dir", "/etc"),
        ("spark.sql.maven.additionalRemoteRepositories", "http://mine"),
        ("spark.sql.redaction.string.regex", "nothing"),
        ("spark.sql.sources.default", "com.example.Mine"),
    ],
)
def test_a_conf_that_names_code_or_paths_is_refused_unless_listed(key: str, value: str) -> None:
    """A conf that names code, paths or commands is refused unless the installation lists it in ``STREAMKEEPER_CONFS``,
    which the message names.
    """
    with pytest.raises(InvalidInput, match="a deploy may not set conf .* in this installation") as refused:
        check_release_conf({key: value}, ["spark.hadoop.fs.file.*"])
    assert key in refused.value.message
    assert "STREAMKEEPER_CONFS" in refused.value.hint
    check_release_conf({key: value}, [key])
    check_release_conf({key: value}, [f"{key.rpartition('.')[0]}.*"])


def test_an_installation_cannot_allow_a_state_format_conf() -> None:
    """An installation's list cannot allow a conf that decides the state format."""
    with pytest.raises(InvalidInput, match="state format"):
        check_release_conf({PROVIDER: "org.apache.Other"}, [PROVIDER, "spark.*"])


@pytest.mark.parametrize(
    "key",
    ["spark.sql.streaming.stateStore.encodingFormat", "spark.sql.streaming.join.stateFormatVersion", "fs.file.impl"],
)
def test_reserved_confs_set_by_the_jobs_code_are_detected(key: str) -> None:
    """A conf that the job's code sets, changes or unsets in its session is detected if it is the installation's to
    decide; other confs are allowed.
    """
    kept = {"spark.app.name": "x", **FIXED}
    allowed = {"spark.sql.ansi.enabled": "true", "fs.s3a.access.key": "of a table that it reads"}
    check_unchanged(installation_confs(kept), installation_confs({**kept, **allowed}))
    for before, after in (
        (kept, {**kept, key: "y"}),
        ({**kept, key: "y"}, kept),
        ({**kept, key: "y"}, {**kept, key: "z"}),
    ):
        with pytest.raises(JobUnusable, match=f"the job's code sets {key}"):
            check_unchanged(installation_confs(before), installation_confs(after))


def test_a_job_whose_described_queries_have_a_forbidden_conf_is_refused() -> None:
    """A job whose described queries have a forbidden conf is refused; unset confs and the installation's own values
    pass.
    """
    check_described_confs([{}, FIXED, {"spark.sql.ansi.enabled": "true"}])
    for confs in ({PROVIDER: "org.apache.Other"}, {"spark.sql.streaming.checkpointFileManagerClass": "org.apache.X"}):
        with pytest.raises(JobUnusable, match=f"the job's code sets {next(iter(confs))}"):
            check_described_confs([FIXED, confs])


def test_a_misspelt_spark_sql_conf_is_refused_with_the_likely_name() -> None:
    """A misspelt ``spark.sql`` conf, which Spark would ignore, is refused with the likely name; confs that the
    installation lists or that resemble no known conf pass.
    """
    with pytest.raises(InvalidInput, match="Spark has no conf spark.sql.shufle.partitions") as refused:
        check_release_conf({"spark.sql.shufle.partitions": "4"})
    assert refused.value.hint.startswith("write spark.sql.shuffle.partitions, if")
    check_release_conf({"spark.sql.shufle.partitions": "4"}, allowed=["spark.sql.shufle.*"])
    for key in ("spark.sql.shuffle.partitions", "spark.sql.of.another.version"):
        check_release_conf({key: "4"})


def test_no_existing_spark_sql_conf_is_reported_as_a_misspelling() -> None:
    """No existing ``spark.sql`` conf is reported as a misspelling, while one with a missing letter is."""
    there = spark_confs.PINNED | spark_confs.TUNING | spark_confs.MEANING
    assert not [each for each in there if spark_confs.meant_key(each)]
    for each in sorted(there)[::40]:
        assert spark_confs.meant_key(each[:-1]) == each or each[:-1] in there


@pytest.mark.parametrize("value", ["${env:AWS_SECRET_ACCESS_KEY}", "a ${system:user.home}", "${spark.driver.host}"])
def test_no_conf_refers_to_a_variable_of_the_driver(value: str) -> None:
    """A conf value with a ``${…}`` variable, which Spark would substitute and show in errors, is refused. Negative
    control: the installation may list the conf by name.
    """
    with pytest.raises(InvalidInput, match="contains a variable"):
        check_release_conf({"spark.scheduler.mode": value})
    check_release_conf({"spark.scheduler.mode": value}, ["spark.scheduler.mode"])
