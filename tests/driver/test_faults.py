"""Tests of how errors of Spark and of its Python workers are described in one line."""

from __future__ import annotations

import pytest

from streamkeeper.driver.faults import describe_fault, describe_text
from streamkeeper.model.redaction import redact
from streamkeeper.system import hidden_secrets
from streamkeeper.system.hidden_secrets import hide_secrets

IN_A_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/job/orders.py", line 4, in <module>
    doubled = F.udf(double, "int")
  File "/pyspark/sql/utils.py", line 340, in get_active_spark_context
    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession \
should be created first.
"""


def test_a_missing_session_in_a_worker_is_described_with_the_remedy() -> None:
    """An error of a job file that needs a session inside of a Python worker is described with the remedy, the decorator
    ``@udf``; the same error of the driver is not.
    """
    told = describe_text(IN_A_WORKER, "PYTHON_EXCEPTION")
    assert told.startswith("PYTHON_EXCEPTION: orders.py:4: pyspark.errors")
    assert "Use the decorator @udf" in told
    assert "@udf" not in describe_text("[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession", "")


def test_a_traceback_is_described_by_its_last_line() -> None:
    """A traceback is described by its last line with the job's file and line number."""
    text = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: a row is wrong\n'
    assert describe_text(text) == "x.py:1: ValueError: a row is wrong"


def test_a_file_that_another_driver_has_written_is_named() -> None:
    """A checkpoint file that another driver has written is named in the description, instead of Spark's message about a
    folder.
    """
    text = (
        "Multiple streaming queries are concurrently using s3a://b/cp/offsets\nCaused by: org.apache.hadoop.fs."
        "FileAlreadyExistsException: s3a://b/cp/offsets/7: another writer was first\n\tat streamkeeper.jvm"
    )
    assert describe_text(text, "_LEGACY_ERROR_TEMP_2207") == (
        "another driver writes this checkpoint: s3a://b/cp/offsets/7 existed before this driver wrote it"
    )
    assert describe_text("s3a://b/cp/offsets/7: another writer was first") == (
        "s3a://b/cp/offsets/7: another writer was first"
    )


LONG, SPACED = "Tr0ub4dor-and-3-horses", "two  blanks  here 1"
SECRETS = {"secret://env/LONG": LONG, "secret://env/SPACED": SPACED}


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was given two secrets to hide."""
    monkeypatch.setattr(hidden_secrets, "_hidden", {})
    hide_secrets(SECRETS)


def long_errors() -> list[str]:
    """Return error texts of many lengths, so that a secret is at every cut."""
    return [f"cannot sign {'x' * pad} token {LONG}" for pad in range(150, 500, 3)]


@pytest.mark.usefixtures("hidden")
def test_a_secret_is_masked_before_a_text_is_cut() -> None:
    """A secret is masked before an error text is cut, so that no part of it is left, for errors of Python, of Spark and
    behind another error.
    """
    for text in long_errors():
        behind = RuntimeError("it failed")
        behind.__cause__ = ValueError(text)
        for told in (describe_fault(ValueError(text)), describe_fault(behind), describe_text(text, "A_CONDITION")):
            assert "Tr0" not in told


@pytest.mark.usefixtures("hidden")
def test_a_secret_is_masked_before_a_text_is_put_on_one_line() -> None:
    """A secret with double blanks is masked before the text is put on one line, which would make it unrecognizable."""
    for told in (describe_fault(ValueError(f"bad key {SPACED!r}")), describe_text(f"bad key {SPACED!r}")):
        assert told.endswith("bad key '***'")


def test_masking_after_a_cut_leaves_parts_of_a_secret_visible() -> None:
    """Negative control: masking after a text was cut or put on one line leaves parts of the secret visible."""
    shown = [redact(describe_fault(ValueError(text)), SECRETS) for text in long_errors()]
    assert any("Tr0ub4" in each for each in shown)
    assert "two blanks" in redact(describe_fault(ValueError(f"bad key {SPACED!r}")), SECRETS)
