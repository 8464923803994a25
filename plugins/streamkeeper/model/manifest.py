"""The manifest: the description of an un-started query, equal for two builds of the same code."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.model.quoting import read_schema_line
from streamkeeper.model.redaction import Structure, Text

FORMAT = 3
"""Format of manifests; older ones lack parts.

1: operators without ``StateColumn``s, ``rows`` and ``shape``; watermarks as text only. 2: expressions and structures
without the parts that Spark's own JSON of a plan leaves out.
"""

DIGESTS = 2
"""The definition of digests.

1: of code with copies of names and the form of annotations; of plans with the location of the bundle's files.
"""

BUNDLE = "<bundle>"
"""Placeholder for the bundle's directory in any path."""
CONTENT = " sha256:"
"""Separates the name of a file of the bundle from the digest of its content."""

BELOW_STATE = "below/"
ABOVE_STATE = "above/"
SINK_FUNCTION = "sink/"
"""Places in ``Manifest.functions``: in or below a stateful operator, above all of them, called by the sink."""

UNREADABLE = "unreadable:"
"""Prefix of a digest in ``Manifest.functions`` that does not cover all dependencies of the function."""
LOCAL_NAMES = "names 1:"
"""Prefix of such a digest; the number is raised when the digest leaves out more."""
REWRITTEN = "form 1:"
"""Prefix of a digest in ``Manifest.rewritten``; the number is raised when the digest leaves out more."""


ALL_COLUMNS = "*"
"""In ``Manifest.sink_columns``: a function uses all columns at once, new ones included."""


def columns_of(schema: str) -> Iterator[tuple[str, str]]:
    """Name and type of each column of a schema with one column per line."""
    return map(read_schema_line, schema.splitlines())


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One streaming source, in the query's order."""

    kind: Structure
    """file, kafka, rate …"""
    location: str
    """Where it reads (movable)."""
    options: dict[str, str]
    """Options that change its meaning."""
    limits: dict[str, str]
    """Rate limits (movable)."""
    schema: str
    """Its schema, one column per line."""
    name: str | None = None
    """Name of a named source; None otherwise."""
    catches_up: bool = False
    """Whether it was verified that a source in a new place would read every file there that the checkpoint lacks, or
    every partition from its position.
    """

    @property
    def cleaner(self) -> str:
        """The treatment of files that were read: ``delete`` or ``archive``; empty if they stay."""
        chosen = self.options.get("cleansource", "").lower() if self.kind == "file" else ""
        return "" if chosen == "off" else chosen


class StateColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a state's key or value."""

    meaning: str
    """An expression over the sources' own columns, independent of renames."""
    type: Structure
    """Its type in the state, with ``not null`` where that applies."""
    name: str = ""
    """Its name, only if code that no plan shows reads the column by it."""
    may_hold_null: bool = True
    """False once the state itself was verified to contain no null."""
    functions: tuple[Structure, ...] | None = None
    """For a column of the output: the names in ``Manifest.functions`` that compute it, in the order of the expression;
    None: unknown.
    """


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator, from the bottom of the plan upward."""

    kind: Structure
    """Its kind."""
    keys: tuple[str, ...]
    """The keys as a reader knows them."""
    expressions: tuple[str, ...]
    """The expressions as a reader knows them."""
    upstream: str
    """The normalised plan of everything at and below it."""
    detail: dict[str, str] = {}
    """Further properties."""
    key_columns: tuple[StateColumn, ...] = ()
    """The predicted key columns of the state."""
    values: tuple[StateColumn, ...] = ()
    """The predicted value columns of the state."""
    rows: tuple[str, ...] = ()
    """The filters below it."""
    shape: tuple[str, ...] = ()
    """Joins, unions, generators and Python below it."""
    resolved: bool = False
    """Whether the preceding four fields are complete."""
    unknown: tuple[Structure, ...] = ()
    """Unknown classes in them."""
    may_have_evicted: bool = True
    """False once every state that it ever had was verified to still exist."""


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """How long late rows of an event-time column (given by its expression) are waited for."""

    column: str
    delay_ms: int


class SinkDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a query."""

    kind: Structure
    """table, file or foreach."""
    output: str
    """Its identity, without secrets."""
    options: dict[str, str]
    """The options that matter."""
    server: str | None = None
    """For a table: the server and schema of its URL, in addition to ``output``; None if not recorded."""

    def same_place(self, other: SinkDescription) -> bool:
        """Whether both write to one place, as far as both are known."""
        known = None not in (self.server, other.server)
        same = (self.kind, self.output) == (other.kind, other.output)
        return same and (not known or self.server == other.server)


def is_schema(server: str) -> bool:
    """Whether a ``server`` names a schema by its URL's options; versions that recorded no ``server`` ignored these."""
    return any(part.startswith(("search_path=", "role=")) for part in server.split("&"))


IMPORT = " (import)"
"""Suffix of the name of a part that is the effect of importing a module."""

MOST_PARTS = 400
"""A manifest contains at most this many parts that a function reaches: the first ones by name."""


class CodePart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the job's code that a function reaches: a function, a class's header, a value, a file."""

    digest: Structure
    """Digest of this piece only, without its dependencies."""
    text: str = ""
    """Its text without comments, docstrings and secrets; empty if too long or unknown."""
    place: str = ""
    """``file:line``."""
    lines: tuple[int, ...] = ()
    """For each line of the text, its line in the file."""
    beside: bool = False
    """A file, or the effect of an import: named only if no other part differs."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The canonical description of one un-started query."""

    format: int = FORMAT
    """Format version of the record."""
    query: Structure
    """The query's name."""
    spark_version: Structure
    """The Spark version that described it."""
    sources: tuple[Source, ...]
    """Its sources, in order."""
    watermarks: tuple[str, ...]
    """Its watermarks as text."""
    operators: tuple[Operator, ...]
    """Its stateful operators, from the bottom of the plan upward."""
    plan: str
    """The normalised plan."""
    output_schema: str
    """The output's schema, one column per line."""
    output_mode: Structure
    """Spark's output mode."""
    trigger: Structure
    """The trigger."""
    sink: SinkDescription
    """The output."""
    confs: dict[str, str]
    """The confs that matter."""
    functions: dict[str, Structure]
    """Place, number and name of a function -> its digest."""
    carried: tuple[Structure, ...] = ()
    """Functions that are below deduplications only, and whose results are not in any state."""
    delays: tuple[Watermark, ...] = ()
    """``watermarks`` in a form for rules."""
    columns: tuple[StateColumn, ...] = ()
    """The output's columns as expressions."""
    context: Structure = ""
    """Digest of all the bundle's files, interpreter, packages, params and environment; empty if unknown."""
    sink_names: tuple[str, ...] | None = None
    """Names in the sink's functions, such as tables and paths; None: unknown."""
    sink_routing: dict[str, Structure] | None = None
    """Digests of the parts of them that may decide where rows go; None: unknown."""
    output_rows: tuple[str, ...] | None = None
    """The filters through which the output's rows pass; None: unknown."""
    output_shape: tuple[str, ...] | None = None
    """Joins, unions, generators and Python in their path; None: unknown."""
    sink_columns: tuple[Structure, ...] | None = None
    """Output columns that they may use as a key, route or unit; None: any, or unknown."""
    sink_reads: dict[Structure, str] = {}
    """Columns that they certainly read from their batch -> ``file:line``, empty outside the bundle."""
    written: dict[Text, str] = {}
    """Expressions, and names in ``functions`` -> ``file:line`` in the bundle.

    A moved line is not a change, so no rule compares it.
    """
    digests: int = 1
    """The definition (``DIGESTS``) of its digests."""
    bundle: str = ""
    """Location of the bundle whose files the plan reads, ``BUNDLE`` in expressions; empty if it reads none."""
    parts: dict[str, CodePart] = {}
    """Name -> piece of the job's code."""
    reached: dict[str, tuple[Structure, ...]] = {}
    """Name in ``functions`` -> names in ``parts`` of all that the function reaches.

    Digests decide whether code changed; parts only show the place.
    """
    essentials: dict[str, Structure] = {}
    """Name in ``functions`` -> digest of rows without their order, or (``LOCAL_NAMES``) of a function without the names
    of its local variables. Only where those provably do not count.
    """
    rewritten: dict[str, Structure] = {}
    """Name in ``functions`` -> digest of the function's effect, however it is written (``REWRITTEN``). Only where no
    code may see how it is written.
    """


def without_context(manifest: Manifest) -> Manifest:
    """The parts that two builds of the same query share, independent of its source lines and of the environment.

    Data that earlier versions did not record is left out: the functions that compute a column, the filters and joins of
    the output's rows, and findings in functions other than their digests. It follows from the rest.
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
