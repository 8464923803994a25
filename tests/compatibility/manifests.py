"""A small stateful and a small stateless manifest to change one thing of."""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifest import Manifest, Operator, SinkDescription, Source

UPSTREAM = """~Aggregate [k#0], [k#0, sum(x#1L) AS s#2L]
+- ~Filter (x#1L > 3)
   +- StreamingRelation FileSource, [k#0, x#1L]
structure 11"""

SOURCE = Source(
    kind="file",
    location="/in",
    options={"format": "json"},
    limits={"maxfilespertrigger": "1"},
    schema="k string\nx bigint",
)

AGGREGATE = Operator(
    kind="aggregate",
    keys=("k string",),
    expressions=("k string", "sum(x) AS s bigint"),
    upstream=UPSTREAM,
    detail={"rows": "k string; x bigint"},
)

STATEFUL = Manifest(
    query="totals",
    spark_version="4.2.0",
    sources=(SOURCE,),
    watermarks=(),
    operators=(AGGREGATE,),
    plan=UPSTREAM,
    output_schema="k string\ns bigint",
    output_mode="update",
    trigger="5 seconds",
    sink=SinkDescription(kind="table", output="sqlite:/db#totals", options={"key": "k"}),
    confs={"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"},
    functions={},
)

STATELESS = msgspec.structs.replace(
    STATEFUL,
    operators=(),
    plan="~Project [k#0, x#1L AS s#2L]\n+- StreamingRelation FileSource, [k#0, x#1L]\nstructure 22",
    output_mode="append",
)


def changed(manifest: Manifest, **fields: object) -> Manifest:
    """The manifest with other fields."""
    return msgspec.structs.replace(manifest, **fields)


def with_source(manifest: Manifest, **fields: object) -> Manifest:
    """The manifest with its first source changed."""
    return changed(manifest, sources=(msgspec.structs.replace(manifest.sources[0], **fields), *manifest.sources[1:]))


def with_operator(manifest: Manifest, **fields: object) -> Manifest:
    """The manifest with its first operator changed; what is above and below shows the change, as in a real plan."""
    operator = msgspec.structs.replace(manifest.operators[0], **fields)
    if "upstream" not in fields:
        operator = msgspec.structs.replace(operator, upstream=operator.upstream.replace("structure 11", "structure 12"))
    return changed(manifest, operators=(operator, *manifest.operators[1:]), plan=operator.upstream)
