"""The manifest: the description of a query before its start, equal for two builds of the same code."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.model.manifests.quoting import read_schema_line
from streamkeeper.model.redaction import Structure, Text

FORMAT = 3
"""The format of manifests. Manifests of older formats lack parts.

In format 1, operators have no ``StateColumn``s, ``rows`` and ``shape``, and watermarks are text only. In format 2,
expressions and structures lack the parts that Spark's own JSON of a plan leaves out.
"""

DIGESTS = 2
"""The version of the definition of digests.

In version 1, digests of code depended on copies of names and on the form of annotations, and digests of plans depended
on the location of the bundle's files.
"""

BUNDLE = "<bundle>"
"""The placeholder for the bundle's directory in any path."""
CONTENT = " sha256:"
"""The separator between the name of a file of the bundle and the digest of its content."""

BELOW_STATE = "below/"
ABOVE_STATE = "above/"
SINK_FUNCTION = "sink/"
"""The places in ``Manifest.functions``: in or below a stateful operator, above all of them, or in the sink."""

UNREADABLE = "unreadable:"
"""The prefix of a digest in ``Manifest.functions`` that does not cover everything on which the function depends."""
LOCAL_NAMES = "names 1:"
"""The prefix of a digest in ``Manifest.essentials`` that ignores the names of local variables.

The number is raised when the digest ignores more.
"""
REWRITTEN = "form 1:"
"""The prefix of a digest in ``Manifest.rewritten``; the number is raised when the digest ignores more."""


ALL_COLUMNS = "*"
"""The entry of ``Manifest.sink_columns`` for a function that uses all columns at once, also columns added later."""


def columns_of(schema: str) -> Iterator[tuple[str, str]]:
    """Yield name and type of each column of a schema, which is given as text with one column per line."""
    return map(read_schema_line, schema.splitlines())


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One streaming source of a query."""

    kind: Structure
    """The kind of source, as ``sources.known_sources`` names it."""
    location: str
    """The place that the source reads. A change of the location does not by itself change the query."""
    options: dict[str, str]
    """The options that change what the source reads."""
    limits: dict[str, str]
    """The rate limits. A change of the limits does not by itself change the query."""
    schema: str
    """Its schema, one column per line."""
    name: str | None = None
    """Name of a named source; None otherwise."""
    catches_up: bool = False
    """Whether it was verified that the source at a new place reads everything that the checkpoint has not read.

    For files, this means every file at that place that the checkpoint lacks; for partitions, every partition from its
    position in the checkpoint.
    """


class StateColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a state's key or value."""

    meaning: str
    """The column's value as an expression over the sources' columns. Renames in between do not affect it."""
    type: Structure
    """The column's type in the state, with ``not null`` where that applies."""
    name: str = ""
    """The column's name, recorded only if code that no plan shows reads the column by name."""
    may_hold_null: bool = True
    """Whether the column may contain null; False once the state itself was verified to contain no null."""
    functions: tuple[Structure, ...] | None = None
    """For a column of the output, the names in ``Manifest.functions`` that compute it, in the expression's order.

    None if unknown.
    """


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator of a query."""

    kind: Structure
    """The kind of operator."""
    keys: tuple[str, ...]
    """The keys, with the names in the job's code."""
    expressions: tuple[str, ...]
    """The expressions, with the names in the job's code."""
    upstream: str
    """The normalised plan of the operator and everything below it."""
    detail: dict[str, str] = {}
    """Further properties of the operator."""
    key_columns: tuple[StateColumn, ...] = ()
    """The predicted key columns of the state."""
    values: tuple[StateColumn, ...] = ()
    """The predicted value columns of the state."""
    rows: tuple[str, ...] = ()
    """The filters below the operator."""
    shape: tuple[str, ...] = ()
    """Joins, unions, generators and Python below the operator."""
    resolved: bool = False
    """Whether ``key_columns``, ``values``, ``rows`` and ``shape`` are complete."""
    unknown: tuple[Structure, ...] = ()
    """Spark's classes in those four fields that Streamkeeper does not recognise."""
    may_have_evicted: bool = True
    """Whether the operator may have removed state; False once it was verified that no state was ever removed."""


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a query waits for late rows; ``column`` is the expression of the event-time column."""

    column: str
    delay_ms: int


class SinkDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a query."""

    kind: Structure
    """The name of the kind of sink, such as table or file."""
    output: str
    """The identity of the output, without secrets."""
    options: dict[str, str]
    """The options that matter for compatibility."""
    server: str | None = None
    """For a table, the server and schema in its URL, in addition to ``output``; None if not recorded."""

    def same_place(self, other: SinkDescription) -> bool:
        """Whether both descriptions name the same output; the servers are compared only if both descriptions record
        one.
        """
        known = None not in (self.server, other.server)
        same = (self.kind, self.output) == (other.kind, other.output)
        return same and (not known or self.server == other.server)


def is_schema(server: str) -> bool:
    """Whether ``server`` contains a URL option that names a schema.

    ``server``: as in ``SinkDescription``. A manifest whose ``server`` is None does not record these options.
    """
    return any(part.startswith(("search_path=", "role=")) for part in server.split("&"))


IMPORT = " (import)"
"""The suffix of the name of a part that is the effect of importing a module."""

MOST_PARTS = 400
"""The largest number of parts per function that a manifest contains; these are the first ones by name."""


class CodePart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the job's code that a function reaches: a function, a class's header, a value, or a file."""

    digest: Structure
    """The digest of only this piece, without its dependencies."""
    text: str = ""
    """The text of the piece without comments, docstrings and secrets; empty if too long or unknown."""
    place: str = ""
    """The place of the piece as ``file:line``."""
    lines: tuple[int, ...] = ()
    """For each line of ``text``, its line number in the file."""
    beside: bool = False
    """Whether the part is a file or the effect of an import. Such a part is reported only if no other part differs."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The canonical description of one query before its start."""

    format: int = FORMAT
    """Format version of the record."""
    query: Structure
    """The query's name."""
    spark_version: Structure
    """The Spark version with which the query was described."""
    sources: tuple[Source, ...]
    """Its sources, in the order of the query."""
    watermarks: tuple[str, ...]
    """Its watermarks as text."""
    operators: tuple[Operator, ...]
    """Its stateful operators, from the bottom of the plan upward."""
    plan: str
    """The normalised plan."""
    output_schema: str
    """The output's schema, one column per line."""
    output_mode: Structure
    """The output mode, by Spark's name."""
    trigger: Structure
    """The trigger."""
    sink: SinkDescription
    """The output."""
    confs: dict[str, str]
    """The Spark confs that matter for compatibility."""
    functions: dict[str, Structure]
    """Place, number and name of a function -> its digest."""
    carried: tuple[Structure, ...] = ()
    """Functions that are only below deduplications and whose results are in no state."""
    delays: tuple[Watermark, ...] = ()
    """``watermarks`` in a form for rules."""
    columns: tuple[StateColumn, ...] = ()
    """The output's columns as expressions."""
    context: Structure = ""
    """Digest of all the bundle's files, interpreter, packages, params and environment; empty if unknown."""
    sink_names: tuple[str, ...] | None = None
    """Names in the sink's functions, such as of tables and paths; None if unknown."""
    sink_routing: dict[str, Structure] | None = None
    """Digests of the parts of the sink's functions that may decide where rows go; None if unknown."""
    output_rows: tuple[str, ...] | None = None
    """The filters through which the output's rows pass; None if unknown."""
    output_shape: tuple[str, ...] | None = None
    """Joins, unions, generators and Python through which the output's rows pass; None if unknown."""
    sink_columns: tuple[Structure, ...] | None = None
    """Output columns that the sink's functions may use as a key, route or unit; None if they may use any, or if
    unknown.
    """
    sink_reads: dict[Structure, str] = {}
    """Columns that the sink's functions certainly read from their batch -> ``file:line``, which is empty outside the
    bundle.
    """
    written: dict[Text, str] = {}
    """Expression, or name in ``functions`` -> its ``file:line`` in the bundle.

    No rule compares these lines, because a moved line is not a change.
    """
    digests: int = 1
    """The definition (``DIGESTS``) of this manifest's digests."""
    bundle: str = ""
    """The location of the bundle whose files the plan reads. Expressions contain ``BUNDLE`` instead of it; empty if the
    plan reads no such files.
    """
    parts: dict[str, CodePart] = {}
    """Name -> piece of the job's code."""
    reached: dict[str, tuple[Structure, ...]] = {}
    """Name in ``functions`` -> names in ``parts`` of all pieces that the function reaches.

    Digests decide whether code has changed; parts only show where.
    """
    essentials: dict[str, Structure] = {}
    """Name in ``functions`` -> digest that ignores a provably irrelevant detail. A function without such a detail is
    absent.

    The detail is the order of rows, or (with ``LOCAL_NAMES``) the names of a function's local variables.
    """
    rewritten: dict[str, Structure] = {}
    """Name in ``functions`` -> digest of the function's effect, however the function is written (``REWRITTEN``).

    A function is absent if code may depend on how the function is written.
    """


def is_stateful(*manifests: Manifest) -> bool:
    """Whether any of the queries keeps state."""
    return any(manifest.operators for manifest in manifests)


def without_context(manifest: Manifest) -> Manifest:
    """Return the manifest without the parts that depend on source lines or on the environment.

    The result is equal for two builds of the same query. The result also lacks facts that follow from the remaining
    facts and that earlier versions of Streamkeeper did not record. These are: the functions that compute a column; the
    filters and joins of the output's rows; and everything about functions except their digests.
    """
    columns = tuple(msgspec.structs.replace(column, functions=None) for column in manifest.columns)
    return msgspec.structs.replace(
        manifest,
        context="",
        bundle="",
        columns=columns,
        essentials={},
        output_rows=None,
        output_shape=None,
        parts={},
        reached={},
        rewritten={},
        sink_columns=None,
        sink_reads={},
        sink_routing=None,
        written={},
    )
