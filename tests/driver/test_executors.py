"""Tests of which queries may run on executors or nodes of a cluster, depending on their output, and of how a failure of
an executor is classified.
"""

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
    """Return the manifest of a query with this output."""
    return changed(STATELESS, sink=SinkDescription(kind=kind, output=output, options={}))


def test_a_query_writing_to_a_server_table_may_run_on_a_cluster() -> None:
    """A query that writes to a table of a database server may run on a cluster's executors, because rows that a late
    executor stages are never used.
    """
    must_fit([writes("table", "postgresql://host:5432/db#totals")], MASTER)


@pytest.mark.parametrize(
    ("kind", "output", "why"),
    [
        ("table", "sqlite:////w.db#totals", "a file of one machine"),
        ("file", "/out", "a different one on each node"),
        ("foreach", "jobs.audit", "outlives its driver"),
        ("kafka", "totals", "outlives its driver"),
        ("lake", "s3a://bucket/table", "outlives its driver"),
    ],
)
def test_any_other_output_is_refused_by_name(kind: str, output: str, why: str) -> None:
    """A query with any other output is refused on a cluster's executors, with the query, the cluster, the reason and
    the remedy; so is an unknown kind of sink.
    """
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
    """An output in local files is refused for drivers that YARN may restart on a different node, because they would
    continue the checkpoint with an empty output.
    """
    with pytest.raises(Unsupported, match=f"query {STATELESS.query} cannot run on the nodes of yarn: .*{why}"):
        must_fit_any_node([writes(kind, output)], "yarn")


def test_an_output_reachable_from_every_node_is_accepted() -> None:
    """Drivers that YARN may restart on a different node may write to a server's table, to files in a bucket or in HDFS,
    to a topic and to a function.
    """
    outputs = [("table", "postgresql://host/db#t"), ("file", "s3a://bucket/out"), ("file", "hdfs://one:8020/out")]
    must_fit_any_node([writes(*each) for each in (*outputs, ("kafka", "totals"), ("foreach", "jobs.audit"))], "yarn")


def test_a_master_that_is_down_is_waited_for() -> None:
    """A Spark master that does not answer stops the driver with ``DEPENDENCY_DOWN``, which costs no restart."""
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
def test_an_executor_without_python_fails_for_good_unlike_a_lost_one(told: str, for_good: bool) -> None:
    """An executor without a usable Python fails for good, because every executor has the same Python; a lost executor
    does not.
    """
    assert lacks_python(told) is for_good
