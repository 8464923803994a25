"""Tests what a standby reports of its rehearsals, and the findings about them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pyspark.errors import PySparkException

from streamkeeper.driver.warm_up import _findings_of, _without_rows, rehearse_query, warm_up
from streamkeeper.errors import InvalidInput, OutputOutOfReach, StoreUnavailable
from streamkeeper.inspection import rehearsal
from streamkeeper.inspection.rehearsal import Rehearsal
from streamkeeper.model.manifests.finding import Finding, Severity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("rehearsed", "told"),
    [
        (("ok: batch 4 in 1 s", "ok: batch 9 in 2 s"), "ok: batch 4 in 1 s; ok: batch 9 in 2 s"),
        (("ok: batch 4 in 1 s", "OutOfMemoryError: heap"), "OutOfMemoryError: heap"),
        (("TypeError: a", "OutOfMemoryError: heap"), "TypeError: a; OutOfMemoryError: heap"),
    ],
)
def test_a_failed_rehearsal_is_never_hidden_behind_one_that_succeeded(rehearsed: tuple[str, str], told: str) -> None:
    """If any rehearsal failed, only the failures are reported; queries that were already rehearsed are not rehearsed a
    second time.
    """
    unused: Any = None
    results = dict(zip(("totals", "copy"), rehearsed, strict=True))
    assert warm_up(unused, dict.fromkeys(results, unused), {}, "", results) == told


def test_the_text_about_a_failed_rehearsal_keeps_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short text about a rehearsal that the sink refused has its message, its remedy and the query's name."""
    failed = Rehearsal(ok=False, batch=3, error_class="InvalidInput", message="no topic", seconds=1, hint="create it")
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_, **__: failed)
    unused: Any = None
    query: Any = SimpleNamespace(name="totals")
    told, _ = rehearse_query(unused, query, unused, "", timeout_s=1)
    assert told == "InvalidInput: no topic (create it) (query totals)"


def finding(error: Exception | None, hint: str = "", message: str = "told") -> Finding:
    """Return the finding about a rehearsal that failed in batch 3 with this error of the sink."""
    failed = Rehearsal(
        ok=False, batch=3, error_class="E", message=message, seconds=1, again=True, hint=hint, error=error
    )
    (found,) = _findings_of(failed)
    return found


@pytest.mark.parametrize(
    "error",
    [
        OutputOutOfReach("Kafka at a:9092 does not answer"),
        StoreUnavailable("s3://out does not answer"),
        ConnectionRefusedError(111, "refused"),
        sa.exc.OperationalError("SELECT 1", {}, ConnectionRefusedError(111, "refused")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_output_that_does_not_answer_is_no_fault_of_the_candidate(error: Exception) -> None:
    """An output of any kind that does not answer in a rehearsal refuses the deploy with the remedy of the error or the
    advice to try again, and not with the advice to fix the candidate. Negative control: any other error.
    """
    found = finding(error)
    assert (found.rule, found.severity) == ("sink-out-of-reach", Severity.FATAL)
    assert found.hint == "try again when the output answers"
    assert finding(error, "start the brokers").hint == "start the brokers"
    other = finding(ValueError("bad row"))
    assert (other.rule, "fix the candidate" in other.hint) == ("fails-on-the-last-batch", True)


def test_a_refusal_by_the_sink_names_the_remedy_of_the_sink() -> None:
    """A sink's refusal, such as of a missing topic, has the sink's own remedy as its hint."""
    found = finding(InvalidInput("topic totals does not exist"), "create the topic")
    assert (found.rule, found.severity, found.hint) == ("fails-on-the-last-batch", Severity.FATAL, "create the topic")


LATE = "Timed out while waiting for the Python worker to connect back"
LOST = "Python worker exited unexpectedly (crashed)"
RUNNER = "org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:701)"


def spark_error(*causes: str) -> PySparkException:
    """Return an error of Spark as PySpark raises it if the JVM can no longer be asked, with these causes."""
    return PySparkException("\n".join(["org.apache.spark.SparkException: Job aborted", *causes]))


@pytest.mark.parametrize(
    ("causes", "message", "rule"),
    [
        ((f"Caused by: java.net.SocketTimeoutException: {LATE}",), LATE, "rehearsal-timed-out"),
        (
            (
                f"Caused by: org.apache.spark.SparkException: {LOST}\n\tat {RUNNER}",
                "Caused by: java.net.SocketException: Connection reset",
            ),
            LOST,
            "fails-on-the-last-batch",
        ),
        (("Caused by: java.net.ConnectException: refused",), "refused", "sink-out-of-reach"),
    ],
    ids=["late", "lost", "output"],
)
def test_a_late_or_lost_worker_is_not_taken_for_an_output(causes: tuple[str, ...], message: str, rule: str) -> None:
    """A Python worker that starts late leaves the rehearsal unfinished, and one that crashes is the candidate's fault,
    although both raise errors of a connection in the batch. Negative control: an output that refuses connections.
    """
    assert finding(spark_error(*causes), message=message).rule == rule


def test_an_error_that_the_job_raises_by_name_is_the_fault_of_the_candidate(tmp_path: Path) -> None:
    """A ``TimeoutError`` that the job's own code raises is the candidate's fault, and not an output that does not
    answer. Negative control: the same error of other code.
    """
    code = tmp_path / "job.py"
    code.write_text('def closed():\n    raise TimeoutError("shop 7 is closed")\n')
    scope: dict[str, Any] = {}
    exec(compile(code.read_text(), str(code), "exec"), scope)
    with pytest.raises(TimeoutError) as raised:
        scope["closed"]()
    failed = Rehearsal(ok=False, batch=3, error_class="E", message="m", seconds=1, again=True, error=raised.value)
    rules = [next(_findings_of(failed, root)).rule for root in (tmp_path, tmp_path / "elsewhere")]
    assert rules == ["fails-on-the-last-batch", "sink-out-of-reach"]


@pytest.mark.spark
def test_the_frame_without_rows_has_the_columns_of_the_query_and_needs_no_task(spark: SparkSession) -> None:
    """A query without a batch is rehearsed with a frame that has its columns, their types and no rows, for which Spark
    runs no task.
    """
    df = spark.sql(
        "SELECT named_struct('a', 1Y, 'b', array(1.5BD)) AS `x y`, CAST(1 AS STRING) AS s, map('k', X'00') m"
    )
    query: Any = SimpleNamespace(df=df)
    found = _without_rows(spark, query)
    assert found.schema == df.schema
    assert (found.collect(), found.rdd.getNumPartitions()) == ([], 0)
