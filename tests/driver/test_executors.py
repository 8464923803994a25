"""Executors elsewhere: which queries may run there, by what they write, and what an executor's failure means."""

from __future__ import annotations

import pytest

from streamkeeper.driver.ending import Ending
from streamkeeper.driver.executors import lacks_python, must_answer, must_fit, must_fit_any_node
from streamkeeper.errors import Unsupported
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription
from streamkeeper.model.protocol.driver_messages import ExitCode
from tests.compatibility.manifests import STATELESS, changed

MASTER = "spark://one:7077"


def writes(kind: str, output: str) -> Manifest:
    """A query of which only the output counts."""
    return changed(STATELESS, sink=SinkDescription(kind=kind, output=output, options={}))


def test_a_table_of_a_database_server_takes_rows_from_elsewhere() -> None:
    """What a late executor stages is nobody's."""
    must_fit([writes("table", "postgresql://host:5432/db#totals")], MASTER)


@pytest.mark.parametrize(
    ("kind", "output", "why"),
    [
        ("table", "sqlite:////w.db#totals", "a file of one machine"),
        ("file", "/out", "a different one on each machine"),
        ("foreach", "jobs.audit", "outlives its driver"),
        ("delta", "s3a://bucket/table", "outlives its driver"),
    ],
)
def test_any_other_output_is_refused_by_name(kind: str, output: str, why: str) -> None:
    """With the query, the cluster, the reason and the way out; so is a kind of which nothing is known."""
    with pytest.raises(
        Unsupported, match=f"query {STATELESS.query} cannot run on the executors of {MASTER}: .*{why}"
    ) as refused:
        must_fit([writes(kind, output)], MASTER)
    assert "--conf spark.master=local[2]" in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "output", "why"),
    [
        ("table", "sqlite:////w.db#totals", "a file of one machine"),
        ("file", "/out", "a different one on each node"),
        ("file", "file:/out", "a different one on each node"),
    ],
)
def test_an_output_that_the_next_node_would_not_find_is_refused_by_name(kind: str, output: str, why: str) -> None:
    """A driver that YARN starts again elsewhere would go on with its checkpoint, and begin its output anew."""
    with pytest.raises(Unsupported, match=f"query {STATELESS.query} cannot run on the nodes of yarn: .*{why}"):
        must_fit_any_node([writes(kind, output)], "yarn")


def test_what_every_node_finds_again_is_not() -> None:
    """A server's table, files in a bucket or in HDFS, and a function, which its driver calls."""
    outputs = [("table", "postgresql://host/db#t"), ("file", "s3a://bucket/out"), ("file", "hdfs://one:8020/out")]
    must_fit_any_node([writes(*each) for each in (*outputs, ("foreach", "jobs.audit"))], "yarn")


def test_a_master_that_is_down_is_waited_for() -> None:
    """It costs a driver that serves none of its restarts."""
    with pytest.raises(Ending, match="does not answer") as ended:
        must_answer("spark://127.0.0.1:9")
    assert ended.value.code is ExitCode.DEPENDENCY_DOWN


@pytest.mark.parametrize(
    ("told", "for_good"),
    [
        ("org.apache.spark.api.python.PythonException: ModuleNotFoundError: No module named 'msgspec'", True),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11", True),
        ('java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory', True),
        ("ExecutorLostFailure (executor 0 exited caused by one of the running tasks): exit code 137", False),
    ],
)
def test_an_executor_that_ends_is_no_reason_to_give_up(told: str, for_good: bool) -> None:
    """Another one has the same Python, but need not end."""
    assert lacks_python(told) is for_good
