"""Comparing a manifest with one that an older release of Streamkeeper wrote: by what both say."""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifest import FORMAT, Manifest, Operator, columns_of
from streamkeeper.model.quoting import schema_text

_RECORDED_SINCE_3 = (
    "spark.sql.execution.arrow.",
    "spark.sql.execution.pyspark.",
    "spark.sql.extensions",
    "spark.sql.files.",
    "spark.sql.hive.",
    "spark.sql.pyspark.",
)
_STRUCTURES = ("structure ", "whole query ", "static ")


def in_one_format(old: Manifest, new: Manifest) -> tuple[Manifest, Manifest]:
    """Both as they are, or, where one lacks what its state means, both without it: then its text decides alone."""
    old, new = _schemas_rewritten(old), _schemas_rewritten(new)
    old, new = _server_alike(old, new), _server_alike(new, old)
    if old.format == new.format == FORMAT:
        return old, new
    return _bare(old, new), _bare(new, old)


def _server_alike(manifest: Manifest, other: Manifest) -> Manifest:
    """A URL that says all by its identity is as one of which no server was recorded."""
    if manifest.sink.server or other.sink.server:
        return manifest
    return msgspec.structs.replace(manifest, sink=msgspec.structs.replace(manifest.sink, server=None))


def _schemas_rewritten(manifest: Manifest) -> Manifest:
    """Write names with spaces as they are written now: earlier versions put none in backticks."""
    return msgspec.structs.replace(
        manifest,
        sources=tuple(msgspec.structs.replace(source, schema=_rewritten(source.schema)) for source in manifest.sources),
        output_schema=_rewritten(manifest.output_schema),
    )


def _rewritten(schema: str) -> str:
    return schema_text(columns_of(schema))


def _bare(manifest: Manifest, other: Manifest) -> Manifest:
    details = [operator.detail.keys() for operator in other.operators]
    operators = tuple(
        _bare_operator(operator, details[number] if number < len(details) else operator.detail.keys())
        for number, operator in enumerate(manifest.operators)
    )
    return msgspec.structs.replace(
        manifest,
        operators=operators,
        plan=_text_alone(manifest.plan),
        confs={key: value for key, value in manifest.confs.items() if _always_recorded(key)},
        delays=(),
        columns=(),
        output_rows=None,
        output_shape=None,
        format=1,
    )


def _always_recorded(key: str) -> bool:
    """Whether every format recorded a setting when it was set."""
    return key.startswith("spark.sql.") and not key.startswith(_RECORDED_SINCE_3)


def _bare_operator(operator: Operator, known: object) -> Operator:
    detail = {key: value for key, value in operator.detail.items() if key in known}  # type: ignore[operator]
    return msgspec.structs.replace(
        operator,
        upstream=_text_alone(operator.upstream),
        key_columns=(),
        values=(),
        rows=(),
        shape=(),
        resolved=False,
        unknown=(),
        detail=detail,
    )


def _text_alone(plan: str) -> str:
    """A plan without its digest, which every format makes in its own way."""
    return "\n".join(line for line in plan.splitlines() if not line.startswith(_STRUCTURES))
