"""Makes a manifest comparable with one from an older Streamkeeper: only facts that both record are compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from streamkeeper.compatibility.normal_expressions import in_branch_order, in_key_order, in_one_unit
from streamkeeper.compatibility.rule import same_context
from streamkeeper.model.manifests.manifest import (
    BUNDLE,
    CONTENT,
    FORMAT,
    Manifest,
    Operator,
    StateColumn,
    Watermark,
    columns_of,
)
from streamkeeper.model.manifests.quoting import quoted, schema_text

_RECORDED_SINCE_3 = (
    "spark.sql.execution.arrow.",
    "spark.sql.execution.pyspark.",
    "spark.sql.extensions",
    "spark.sql.files.",
    "spark.sql.hive.",
    "spark.sql.pyspark.",
)
_CONTENT = re.compile(rf"({re.escape(BUNDLE)}[^,]*?){re.escape(CONTENT)}[0-9a-f]{{32}}")
_QUOTED_BUNDLE = quoted(BUNDLE)[1:-1]
_MEANINGS = ("columns", "delays", "operators", "output_rows", "output_shape", "written")
_STRUCTURES = ("structure ", "whole query ", "static ")


def in_one_format(old: Manifest, new: Manifest) -> tuple[Manifest, Manifest]:
    """Return both manifests in a comparable form.

    If either manifest has an older format, which records the expressions of the state incompletely or not at all, the
    expressions are removed from both. For the state, a comparison then uses only the texts of the plans.
    """
    old, new = _schemas_rewritten(old), _schemas_rewritten(new)
    old, new = _server_alike(old, new), _server_alike(new, old)
    old, new = _digests_alike(old, new)
    if old.format == new.format == FORMAT:
        return _meanings_rewritten(old, _in_one_form), _meanings_rewritten(new, _in_one_form)
    return _bare(old, new), _bare(new, old)


def _in_one_form(canonical: str) -> str:
    return in_branch_order(in_key_order(in_one_unit(canonical)))


def _server_alike(manifest: Manifest, other: Manifest) -> Manifest:
    """Treat a URL that identifies the server completely like one without a recorded server."""
    if manifest.sink.server or other.sink.server:
        return manifest
    return msgspec.structs.replace(manifest, sink=msgspec.structs.replace(manifest.sink, server=None))


def as_described_before(found: Manifest, stored: Manifest) -> tuple[Manifest, Manifest]:
    """Return two descriptions of one release in a comparable form.

    ``found``: the description made now. ``stored``: the description that was recorded, possibly by an older
    Streamkeeper with other digests of code. Such digests count as equal, because both descriptions are of the release's
    own bundle.
    """
    if found.digests == stored.digests or found.functions.keys() != stored.functions.keys():
        return found, stored
    described = _placed(_with_code_of(stored, found)) if found.bundle else _with_code_of(stored, found)
    described = msgspec.structs.replace(described, digests=stored.digests)
    return (_without_structure(described), _without_structure(stored)) if found.bundle else (described, stored)


def _digests_alike(old: Manifest, new: Manifest) -> tuple[Manifest, Manifest]:
    """Return both manifests in a comparable form if their digests were computed by different versions of Streamkeeper;
    otherwise return them unchanged. Code counts as unchanged if everything that it was built from is the same, and
    files of the bundle are named by their path, as in older versions.
    """
    if old.digests == new.digests:
        return old, new
    if same_context(old, new) and old.functions.keys() == new.functions.keys():
        old = _with_code_of(new, old)
    return _placed(old), _placed(new)


def _with_code_of(other: Manifest, manifest: Manifest) -> Manifest:
    code = {"functions": other.functions, "sink_names": other.sink_names, "sink_routing": other.sink_routing}
    return msgspec.structs.replace(manifest, **code)


def _placed(manifest: Manifest) -> Manifest:
    """Return the manifest with the bundle's static files named by their path, as in older versions."""
    root = manifest.bundle
    if not root:
        return manifest

    def placed(text: str) -> str:
        return _CONTENT.sub(r"\1", text).replace(BUNDLE, root).replace(_QUOTED_BUNDLE, root)

    return _meanings_rewritten(manifest, placed)


def _meanings_rewritten(manifest: Manifest, rewrite: Callable[[str], str]) -> Manifest:
    """Return the manifest with ``rewrite`` applied to each text about expressions."""
    rewritten = _texts_rewritten({field: msgspec.to_builtins(getattr(manifest, field)) for field in _MEANINGS}, rewrite)
    return msgspec.structs.replace(
        manifest,
        operators=msgspec.convert(rewritten["operators"], tuple[Operator, ...]),
        columns=msgspec.convert(rewritten["columns"], tuple[StateColumn, ...]),
        delays=msgspec.convert(rewritten["delays"], tuple[Watermark, ...]),
        output_rows=msgspec.convert(rewritten["output_rows"], tuple[str, ...] | None),
        output_shape=msgspec.convert(rewritten["output_shape"], tuple[str, ...] | None),
        written=rewritten["written"],
    )


def _texts_rewritten(found: Any, rewrite: Callable[[str], str]) -> Any:
    match found:
        case str():
            return rewrite(found)
        case list() | tuple():
            return [_texts_rewritten(each, rewrite) for each in found]
        case dict():
            return {rewrite(key): _texts_rewritten(value, rewrite) for key, value in found.items()}
        case _:
            return found


def _without_structure(manifest: Manifest) -> Manifest:
    operators = tuple(
        msgspec.structs.replace(operator, upstream=_text_alone(operator.upstream)) for operator in manifest.operators
    )
    return msgspec.structs.replace(manifest, operators=operators, plan=_text_alone(manifest.plan))


def _schemas_rewritten(manifest: Manifest) -> Manifest:
    """Return the manifest with names that contain spaces written in the current form; earlier versions used no
    backticks.
    """
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
    """Whether manifests of every format record this setting if it is set."""
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
    """Return a plan without its digest, which each format computes differently."""
    return "\n".join(line for line in plan.splitlines() if not line.startswith(_STRUCTURES))
