"""The manifest: what an un-started query is, in a form that two builds of the same code share."""

from __future__ import annotations

import msgspec

FORMAT = 1

BELOW_STATE = "below/"
ABOVE_STATE = "above/"
SINK_FUNCTION = "sink/"
"""Places in ``Manifest.functions``: in or below a stateful operator, above all of them, called by the sink."""

UNREADABLE = "unreadable:"
"""Prefix of a digest in ``Manifest.functions`` that does not cover all that the function depends on."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One streaming source, in the query's order.

    ``kind``: file, kafka, rate … ; ``location``: where it reads (movable); ``options``: those that change meaning;
    ``limits``: rate limits (movable); ``name``: of a named source.
    """

    kind: str
    location: str
    options: dict[str, str]
    limits: dict[str, str]
    schema: str
    name: str | None = None


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator, from the bottom of the plan upward.

    ``upstream`` is the normalised plan of everything at and below it; a change there changes the meaning of its rows.
    """

    kind: str
    keys: tuple[str, ...]
    expressions: tuple[str, ...]
    upstream: str
    detail: dict[str, str] = {}


class SinkDescription(msgspec.Struct, frozen=True, kw_only=True):
    """``kind``: table, file or foreach; ``output``: its identity, without secrets; ``options``: those that matter."""

    kind: str
    output: str
    options: dict[str, str]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The canonical description of one un-started query.

    ``output_schema`` and a source's ``schema``: a column per line; ``functions``: place, number and name -> digest.
    """

    format: int = FORMAT
    query: str
    spark_version: str
    sources: tuple[Source, ...]
    watermarks: tuple[str, ...]
    operators: tuple[Operator, ...]
    plan: str
    output_schema: str
    output_mode: str
    trigger: str
    sink: SinkDescription
    confs: dict[str, str]
    functions: dict[str, str]
