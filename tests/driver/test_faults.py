"""Errors of Spark and of its Python workers as one line."""

from __future__ import annotations

from streamkeeper.driver.faults import describe_text

IN_A_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/job/orders.py", line 4, in <module>
    doubled = F.udf(double, "int")
  File "/pyspark/sql/utils.py", line 340, in get_active_spark_context
    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession \
should be created first.
"""


def test_a_file_that_needs_a_session_in_a_worker_is_told_the_way_out() -> None:
    """``F.udf(f, "int")`` beside the function runs again where no session is; of the driver nothing is added."""
    told = describe_text(IN_A_WORKER, "PYTHON_EXCEPTION")
    assert told.startswith("PYTHON_EXCEPTION: orders.py:4: pyspark.errors")
    assert "use the decorator @udf" in told
    assert "@udf" not in describe_text("[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession", "")


def test_of_a_traceback_its_last_line_is_told() -> None:
    """The rest of it is Spark's."""
    text = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: a row is wrong\n'
    assert describe_text(text) == "x.py:1: ValueError: a row is wrong"


def test_a_file_that_another_driver_has_written_is_named() -> None:
    """Spark tells of a folder, and in its own words."""
    text = (
        "Multiple streaming queries are concurrently using s3a://b/cp/offsets\nCaused by: org.apache.hadoop.fs."
        "FileAlreadyExistsException: s3a://b/cp/offsets/7: another writer was first\n\tat streamkeeper.jvm"
    )
    assert describe_text(text, "_LEGACY_ERROR_TEMP_2207") == (
        "another driver writes this checkpoint: s3a://b/cp/offsets/7 was there before it was written"
    )
    assert describe_text("s3a://b/cp/offsets/7: another writer was first") == (
        "s3a://b/cp/offsets/7: another writer was first"
    )
