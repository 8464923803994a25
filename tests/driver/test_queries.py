"""Tests of the confs of a session that several queries share: each run starts with the confs that its query was yielded
with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamkeeper.driver.queries import restore_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""A conf that changes the format of state files and that Spark does not list as known."""
NEW = ("spark.sql.streaming.minBatchesToRetain", "spark.hadoop.fs.s3a.threads.max", "own.conf")
STATIC = "spark.sql.warehouse.dir"


def test_confs_that_others_set_in_a_shared_session_are_restored(
    spark: SparkSession,
) -> None:
    """Confs that a later query or an earlier test sets in a shared session are unset or restored before a query runs,
    even those that Spark does not list as known.
    """
    session = spark.newSession()
    session.conf.set(CHANGELOG, "true")
    before = dict(session.conf.getAll)
    assert not session.conf.isModifiable(CHANGELOG)
    session.conf.set(CHANGELOG, "false")
    session.conf.set("spark.sql.shuffle.partitions", "7")
    for key in NEW:
        session.conf.set(key, "9")
    restore_confs(session, before)
    assert dict(session.conf.getAll) == before


def test_a_conf_that_is_the_same_in_all_sessions_stays(spark: SparkSession) -> None:
    """A static conf, which Spark refuses to change, stays unchanged without an error, and the other confs are
    restored.
    """
    session = spark.newSession()
    before = dict(session.conf.getAll)
    session.conf.set(NEW[0], "9")
    other = {key: value for key, value in before.items() if key != "spark.driver.host"}
    restore_confs(session, {**other, STATIC: "/elsewhere"})
    assert dict(session.conf.getAll) == before
