"""The manifest: what an un-started query is, in a form that two builds of the same code share."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.model.quoting import read_schema_line
from streamkeeper.model.redaction import Structure, Text

FORMAT = 3
"""1: operators without ``StateColumn``s, ``rows`` and ``shape``; watermarks as text only. 2: meanings and
structures that left out what Spark's own JSON of a plan leaves out."""

DIGESTS = 2
"""What digests are made of. 1: of code with copies of names and the form of annotations; of plans with the place of the
bundle's files."""

BUNDLE = "<bundle>"
"""Stands for the bundle's directory wherever a path shows it."""
CONTENT = " sha256:"
"""Between the name of a file of the bundle and the digest of its content."""

BELOW_STATE = "below/"
ABOVE_STATE = "above/"
SINK_FUNCTION = "sink/"
"""Places in ``Manifest.functions``: in or below a stateful operator, above all of them, called by the sink."""

UNREADABLE = "unreadable:"
"""Prefix of a digest in ``Manifest.functions`` that does not cover all that the function depends on."""
LOCAL_NAMES = "names 1:"
"""What such a digest begins with; the number is raised when more is left out of it."""


ALL_COLUMNS = "*"
"""In ``Manifest.sink_columns``: a function makes something of all columns at once, one that is new included."""


def columns_of(schema: str) -> Iterator[tuple[str, str]]:
    """Name and type of each column of a schema that is a column per line."""
    return map(read_schema_line, schema.splitlines())


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One streaming source, in the query's order.

    ``kind``: file, kafka, rate … ; ``location``: where it reads (movable); ``options``: those that change meaning;
    ``limits``: rate limits (movable); ``name``: of a named source; ``catches_up``: whether it was seen that a source in
    a new place would read every file there that the checkpoint has not, or every partition at which it stands.
    """

    kind: Structure
    location: str
    options: dict[str, str]
    limits: dict[str, str]
    schema: str
    name: str | None = None
    catches_up: bool = False

    @property
    def cleaner(self) -> str:
        """What becomes of a file once it is read: ``delete`` or ``archive``; empty where it stays."""
        chosen = self.options.get("cleansource", "").lower() if self.kind == "file" else ""
        return "" if chosen == "off" else chosen


class StateColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a state's key or value: its type there, with ``not null`` where it holds, and what it means.

    ``meaning``: an expression over the sources' own columns, in which renames leave no trace; ``name`` only where code
    that no plan shows reads the column by it; ``may_hold_null``: False once the state itself was seen to hold none.
    ``functions``: of a column of the output, the names in ``Manifest.functions`` of those that compute it, in the order
    of the meaning; None: not known.
    """

    meaning: str
    type: Structure
    name: str = ""
    may_hold_null: bool = True
    functions: tuple[Structure, ...] | None = None


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator, from the bottom of the plan upward.

    ``keys`` and ``expressions`` as a reader knows them; ``key_columns`` and ``values``: the predicted state; ``rows``:
    the filters below it; ``shape``: joins, unions, generators and Python below it; ``resolved``: whether those four say
    all; ``unknown``: classes in them of which nothing is known; ``may_have_evicted``: False once every state it ever
    had was seen to live on. ``upstream`` is the normalised plan of everything at and below it.
    """

    kind: Structure
    keys: tuple[str, ...]
    expressions: tuple[str, ...]
    upstream: str
    detail: dict[str, str] = {}
    key_columns: tuple[StateColumn, ...] = ()
    values: tuple[StateColumn, ...] = ()
    rows: tuple[str, ...] = ()
    shape: tuple[str, ...] = ()
    resolved: bool = False
    unknown: tuple[Structure, ...] = ()
    may_have_evicted: bool = True


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """How long late rows of an event-time column (by its meaning) are waited for."""

    column: str
    delay_ms: int


class SinkDescription(msgspec.Struct, frozen=True, kw_only=True):
    """``kind``: table, file or foreach; ``output``: its identity, without secrets; ``options``: those that matter.

    ``server``: of a table, which server and schema its URL leads to beyond that; None where nobody has recorded it.
    """

    kind: Structure
    output: str
    options: dict[str, str]
    server: str | None = None

    def same_place(self, other: SinkDescription) -> bool:
        """Whether both write to one place, as far as both say where."""
        known = None not in (self.server, other.server)
        same = (self.kind, self.output) == (other.kind, other.output)
        return same and (not known or self.server == other.server)


def is_schema(server: str) -> bool:
    """Whether a ``server`` names a schema by its URL's options, which versions without a ``server`` ignored."""
    return any(part.startswith(("search_path=", "role=")) for part in server.split("&"))


IMPORT = " (import)"
"""Ends the name of a part that is what importing a module does."""

MOST_PARTS = 400
"""Of more parts that a function reaches, a manifest has the first, by name."""


class CodePart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the job's code that a function reaches: a function, a class's header, a value, a file.

    ``digest``: of this piece alone, not of what it uses; ``text``: without comments, docstrings and secrets, empty
    where it is too long or not known; ``place``: ``file:line``; ``lines``: the line in the file of each line of the
    text. ``beside``: a file, or what an import does: named only where no other part differs.
    """

    digest: Structure
    text: str = ""
    place: str = ""
    lines: tuple[int, ...] = ()
    beside: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The canonical description of one un-started query.

    ``output_schema`` and a source's ``schema``: a column per line; ``functions``: place, number and name -> digest;
    ``carried``: those of them that are below deduplications only, and of whose results no state is made; ``delays``:
    ``watermarks`` for rules; ``columns``: what the output's columns mean. ``context``: a digest of all the bundle's
    files, the interpreter, the packages, the params and the environment that this was described in; empty where it is
    not known. ``sink_names``: what the sink's functions name, such as tables and paths; ``sink_routing``: digests of
    what in them may decide where rows go; None: not known. ``sink_columns``: columns of the output that they may use as
    a key, route or unit; None: any, or not known. ``sink_reads``: columns that they certainly read from their batch ->
    ``file:line``, empty where it is outside of the bundle. ``output_rows``: the filters through which the rows of the
    output come; ``output_shape``: joins, unions, generators and Python on their way; None: not known. ``written``:
    meanings of expressions, and names in ``functions`` -> ``file:line`` in the bundle; a moved line is no change, so
    nothing compares it. ``digests``: by which definition (``DIGESTS``) they were made; ``bundle``: where the bundle
    lay whose files the plan reads, which expressions call ``BUNDLE``; empty where it reads none. ``parts``: name ->
    piece of the job's code; ``reached``: name in ``functions`` -> names in ``parts`` of all that the function reaches.
    Digests decide whether code changed, parts only say where. ``essentials``: name in ``functions`` -> digest of
    rows without their order, or (``LOCAL_NAMES``) of a function without the names of its local variables, only where
    that provably does not count.
    """

    format: int = FORMAT
    query: Structure
    spark_version: Structure
    sources: tuple[Source, ...]
    watermarks: tuple[str, ...]
    operators: tuple[Operator, ...]
    plan: str
    output_schema: str
    output_mode: Structure
    trigger: Structure
    sink: SinkDescription
    confs: dict[str, str]
    functions: dict[str, Structure]
    carried: tuple[Structure, ...] = ()
    delays: tuple[Watermark, ...] = ()
    columns: tuple[StateColumn, ...] = ()
    context: Structure = ""
    sink_names: tuple[str, ...] | None = None
    sink_routing: dict[str, Structure] | None = None
    output_rows: tuple[str, ...] | None = None
    output_shape: tuple[str, ...] | None = None
    sink_columns: tuple[Structure, ...] | None = None
    sink_reads: dict[Structure, str] = {}
    written: dict[Text, str] = {}
    digests: int = 1
    bundle: str = ""
    parts: dict[str, CodePart] = {}
    reached: dict[str, tuple[Structure, ...]] = {}
    essentials: dict[str, Structure] = {}


def without_context(manifest: Manifest) -> Manifest:
    """What two builds of the same query share, in whatever lines it is written and in whatever environment built.

    What earlier versions did not record is left out: which functions compute a column, through which filters and joins
    the output's rows come, and what is found in functions beside their digests. It follows from the rest.
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
        sink_columns=None,
        sink_reads={},
        sink_routing=None,
        written={},
    )
