"""Which queries may run on executors elsewhere, by what they write."""

from __future__ import annotations

import pytest

from streamkeeper.driver.executors import must_fit
from streamkeeper.errors import Unsupported
from streamkeeper.model.manifest import Manifest, SinkDescription

MASTER = "spark://one:7077"


def writes(kind: str, output: str) -> Manifest:
    """A query of which only the output counts."""
    return Manifest(
        query="totals",
        spark_version="4.2.0",
        sources=(),
        watermarks=(),
        operators=(),
        plan="",
        output_schema="",
        output_mode="update",
        trigger="5 seconds",
        sink=SinkDescription(kind=kind, output=output, options={}),
        confs={},
        functions={},
    )


def test_a_table_of_a_database_server_takes_rows_from_elsewhere() -> None:
    """What a late executor stages is nobody's."""
    must_fit([writes("table", "postgresql://host:5432/db#totals")], MASTER)


@pytest.mark.parametrize(
    ("kind", "output", "why"),
    [
        ("table", "sqlite:////w.db#totals", "a file of one machine"),
        ("file", "/out", "one on each machine"),
        ("foreach", "jobs.audit", "outlives its driver"),
        ("delta", "s3a://bucket/table", "outlives its driver"),
    ],
)
def test_any_other_output_is_refused_by_name(kind: str, output: str, why: str) -> None:
    """With the query, the cluster, the reason and the way out; so is a kind of which nothing is known."""
    with pytest.raises(Unsupported, match=f"query totals cannot run on the executors of {MASTER}: .*{why}") as refused:
        must_fit([writes(kind, output)], MASTER)
    assert "--conf spark.master=local[2]" in str(refused.value)
