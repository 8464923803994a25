"""A small stateful and a small stateless manifest, and helpers that change one thing in a manifest."""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifests.manifest import Manifest, Operator, SinkDescription, Source, StateColumn, Watermark

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
    key_columns=(StateColumn(meaning="source 0.k", type="string"),),
    values=(StateColumn(meaning="sum(source 0.x)", type="long"),),
    rows=("lessthan(3:long, source 0.x)",),
    shape=("source 0",),
    resolved=True,
)

WINDOWED = msgspec.structs.replace(
    AGGREGATE,
    key_columns=(StateColumn(meaning="window(source 0.ts, 600000000; 0a)", type="window"), *AGGREGATE.key_columns),
)

JOIN = Operator(
    kind="join",
    keys=("k = rk",),
    expressions=(),
    upstream=UPSTREAM.replace("Aggregate", "Join"),
    detail={"rows": "k string", "type": "INNER", "condition": "lessthan(source 0.ts, source 1.ts)"},
    key_columns=(StateColumn(meaning="equalto(source 0.k, source 1.k)", type=""),),
    values=(StateColumn(meaning="source 0.k", type="string"), StateColumn(meaning="source 1.k", type="string")),
    shape=("source 0", "source 1"),
    resolved=True,
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
    columns=(
        StateColumn(meaning="source 0.k", type="string", name="k", functions=()),
        StateColumn(meaning="sum(source 0.x)", type="bigint", name="s", functions=()),
    ),
    output_rows=("lessthan(3:long, source 0.x)",),
    output_shape=("source 0", "group by (source 0.k)"),
)

MINUTE_MS = 60_000
TEN_MINUTES = Watermark(column="source 0.ts", delay_ms=10 * MINUTE_MS)

STATELESS = msgspec.structs.replace(
    STATEFUL,
    operators=(),
    plan="~Project [k#0, x#1L AS s#2L]\n+- StreamingRelation FileSource, [k#0, x#1L]\nstructure 22",
    output_mode="append",
    columns=(STATEFUL.columns[0], msgspec.structs.replace(STATEFUL.columns[1], meaning="source 0.x")),
    output_shape=("source 0",),
)


def changed(manifest: Manifest, **fields: object) -> Manifest:
    """Return the manifest with the given fields replaced."""
    return msgspec.structs.replace(manifest, **fields)


def with_source(manifest: Manifest, **fields: object) -> Manifest:
    """Return the manifest with fields of its first source replaced."""
    return changed(manifest, sources=(msgspec.structs.replace(manifest.sources[0], **fields), *manifest.sources[1:]))


def with_operator(manifest: Manifest, **fields: object) -> Manifest:
    """Return the manifest with fields of its first operator replaced; the plan and the operator's upstream text show
    the change, as in a real plan.
    """
    operator = msgspec.structs.replace(manifest.operators[0], **fields)
    if "upstream" not in fields:
        operator = msgspec.structs.replace(operator, upstream=operator.upstream.replace("structure 11", "structure 12"))
    return changed(manifest, operators=(operator, *manifest.operators[1:]), plan=operator.upstream)


def with_state(operator: Operator, **fields: object) -> Manifest:
    """Return a stateful manifest of this one operator, with fields of it replaced."""
    return with_operator(changed(STATEFUL, operators=(operator,), plan=operator.upstream), **fields)


def watermarked(operator: Operator, *delays: Watermark, **fields: object) -> Manifest:
    """Return a stateful manifest of this operator with these watermarks."""
    texts = tuple(f"{each.column} {each.delay_ms}" for each in delays)
    return changed(with_state(operator), delays=delays, watermarks=texts, **fields)
