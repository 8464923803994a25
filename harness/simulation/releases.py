"""The job's releases, and the query of each of them: a query with a Python function."""

from __future__ import annotations

from harness.simulation.state import OPERATOR
from streamkeeper.model.manifests.manifest import ABOVE_STATE, BELOW_STATE, Manifest, Source, StateColumn
from streamkeeper.model.manifests.release import Environment, Release, ReleaseContent
from streamkeeper.sinks.contract import Sink

JOB, QUERY = "sales", "totals"
_ENVIRONMENT = Environment(python="3.11", spark="4.2.0", packages_sha256="p", jars_sha256="j", digest="d")


def manifest(sink: Sink, source: Source, code: str, *, stateful: bool) -> Manifest:
    """Return the manifest of a query with a Python function whose digest is ``code``.

    The function computes the keys: those of the state for a stateful query, otherwise those of the output.
    """
    name = f"{BELOW_STATE if stateful else ABOVE_STATE}0 key"
    return Manifest(
        query=QUERY,
        spark_version="4.2.0",
        sources=(source,),
        watermarks=(),
        operators=(OPERATOR,) if stateful else (),
        plan="~Project [x#0L]\n+- StreamingRelation Kafka, [x#0L]\nstructure 1",
        output_schema="x bigint",
        output_mode="append",
        trigger="5 seconds",
        sink=sink.describe(),
        confs={"spark.sql.shuffle.partitions": "2"},
        functions={name: code},
        columns=(StateColumn(meaning="key(source 0.x)", type="bigint", name="k", functions=(name,)),),
        output_shape=("source 0",),
    )


def release(number: int) -> Release:
    content = ReleaseContent(
        bundle=f"{number}" * 64, bundle_bytes=1, entry="sales.py", params={}, conf={}, environment=_ENVIRONMENT,
        state_format="",
    )  # fmt: skip
    return Release(job=JOB, number=number, content=content)
