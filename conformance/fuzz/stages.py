"""The stages of a pipeline: what each reads, and which columns it leaves. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from conformance.fuzz.expressions import Columns, Expr, columns_in

STYLES = ("api", "expr", "view")
"""How a stage is written: Python, SQL in selectExpr, SQL over a view."""


@dataclass(frozen=True, slots=True)
class With:
    """A stage that adds a computed column."""

    uid: str
    name: str
    expr: Expr
    style: str = "api"


@dataclass(frozen=True, slots=True)
class Where:
    """A stage that filters rows."""

    uid: str
    expr: Expr
    style: str = "api"
    split: bool = False


@dataclass(frozen=True, slots=True)
class Explode:
    """A stage with one row for each element of an array of numbers; ``outer``: also one for an empty array."""

    uid: str
    name: str
    array: str
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """A stage in which Python code computes a column from two numbers.

    ``form``: how the function gets its constant: plain (a global), closure, helper (a module), pandas, or one of
    ``layouts.VARIANTS``. ``wording``: plain, documented, renamed, typed. ``variant``: variants of that form.
    """

    uid: str
    name: str
    reads: tuple[str, str]
    form: str = "plain"
    constant: int = 3
    step: str = "a * 10 + factor - b"
    wording: str = "plain"
    variant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """A join with a static table by its key; ``kept``: a filter of the table's rows; ``types``: the types of its
    columns.
    """

    uid: str
    take: tuple[str, ...] = ("region", "fee")
    table: str = "places.csv"
    how: str = "left"
    broadcast: bool = False
    kept: str = ""
    types: tuple[str, str, str] = ("string", "int", "string")
    style: str = "api"


@dataclass(frozen=True, slots=True)
class Select:
    """A stage that keeps only these columns."""

    uid: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """A stage that adds a column with the time at which the row was computed."""

    uid: str
    name: str
    function: str = "current_timestamp"


@dataclass(frozen=True, slots=True)
class Luck:
    """A stage that adds a column of random values; its name begins with ``luck``, and it is masked in comparisons."""

    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class Union:
    """A stage that adds the rows of the second stream."""

    uid: str


@dataclass(frozen=True, slots=True)
class Watermark:
    """A stage that sets how late rows may be, in minutes."""

    uid: str
    minutes: int
    unit: str = "minutes"


@dataclass(frozen=True, slots=True)
class Dedup:
    """A stage that keeps one row for each key; ``within``: only within the watermark."""

    uid: str
    keys: tuple[str, ...]
    within: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """One aggregate: a function of AGGREGATES, its inputs, its name."""

    function: str
    inputs: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Grouped:
    """Aggregates by keys and optionally a window in minutes: (size,), (size, slide) or, for a session, its gap.

    ``edge``: which end of the window the column ``begin`` holds.
    """

    uid: str
    keys: tuple[str, ...]
    folds: tuple[Folded, ...]
    window: tuple[int, ...] = ()
    session: bool = False
    style: str = "api"
    unit: str = "minutes"
    edge: str = "start"


@dataclass(frozen=True, slots=True)
class Meet:
    """A join with the second stream: by its key, within so many minutes after the row."""

    uid: str
    how: str
    minutes: int
    takes: tuple[str, ...]
    key: str = "k"
    delay: int = 30
    style: str = "expr"


@dataclass(frozen=True, slots=True)
class Keep:
    """Python code with its own state for each key; ``form``: row (transformWithState) or frame."""

    uid: str
    key: str
    reads: str
    form: str = "row"
    step: str = "total + value"
    variable: str = "sums"
    wording: str = "plain"


Stage: TypeAlias = (
    With | Where | Explode | Code | Lookup | Select | Clock | Luck | Union | Watermark | Dedup | Grouped | Meet | Keep
)
STATEFUL = (Dedup, Grouped, Meet, Keep)

AGGREGATES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "sum": (("int",), "long", "{f}sum({0})"),
    "avg": (("int",), "real", "{f}avg({0})"),
    "min": (("int",), "int", "{f}min({0})"),
    "max": (("int",), "int", "{f}max({0})"),
    "count": (("int",), "long", "{f}count({0})"),
    "stddev": (("int",), "real", "{f}stddev({0})"),
    "first": (("int",), "int", "{f}first({0})"),
    "last": (("int",), "int", "{f}last({0})"),
    "total": (("double",), "double", "{f}sum({0})"),
    "mean": (("double",), "double", "{f}avg({0})"),
    "least": (("double",), "double", "{f}min({0})"),
    "most": (("double",), "double", "{f}max({0})"),
    "low": (("string",), "string", "{f}min({0})"),
    "high": (("string",), "string", "{f}max({0})"),
    "known": (("string",), "long", "{f}count({0})"),
    "about": (("string",), "long", "{f}approx_count_distinct({0})"),
    "list": (("string",), "list", "{f}collect_list({0})"),
    "set": (("string",), "list", "{f}collect_set({0})"),
    "best": (("string", "int"), "string", "{f}max_by({0}, {1})"),
    "worst": (("string", "int"), "string", "{f}min_by({0}, {1})"),
}
"""Name -> the types of its inputs, the type of its result, and its text; ``{f}`` is the module's prefix."""
IN_ORDER = ("first", "last", "list", "set", "stddev", "best", "worst")
"""Aggregates whose result or state depends on the order of rows."""


def reads_of(stage: Stage) -> frozenset[str]:
    """Return the columns that a stage reads."""
    match stage:
        case With() | Where():
            return columns_in(stage.expr)
        case Explode():
            return frozenset({stage.array})
        case Code():
            return frozenset(stage.reads)
        case Lookup():
            return frozenset({"k"})
        case Select():
            return frozenset(stage.columns)
        case Watermark():
            return frozenset({"ts"})
        case Dedup():
            return frozenset(stage.keys)
        case Grouped():
            inputs = {each for fold in stage.folds for each in fold.inputs}
            return frozenset({*stage.keys, *inputs, *(("ts",) if stage.window else ())})
        case Meet():
            return frozenset({stage.key, "ts"})
        case Keep():
            return frozenset({stage.key, stage.reads})
        case _:
            return frozenset()


def after(stage: Stage, columns: Columns) -> dict[str, str]:
    """Return the columns that a stage leaves."""
    match stage:
        case With():
            return {**columns, stage.name: stage.expr.type}
        case Explode() | Code():
            return {**columns, stage.name: "int"}
        case Lookup():
            types = dict(zip(("region", "fee", "open"), stage.types, strict=True))
            named = {"bigint": "long", "boolean": "bool"}
            return {**columns, **{each: named.get(types[each], types[each]) for each in stage.take}}
        case Select():
            return {each: columns[each] for each in stage.columns}
        case Clock():
            return {**columns, stage.name: "clock"}
        case Luck():
            return {**columns, stage.name: "luck"}
        case Grouped():
            found = {"begin": "ts"} if stage.window else {}
            found |= {each: columns[each] for each in stage.keys}
            return {**found, **{each.name: AGGREGATES[each.function][1] for each in stage.folds}}
        case Meet():
            return {**columns, **{f"o_{each}": columns[each] for each in stage.takes}}
        case Keep():
            return {"key": "string", "total": "long", "seen": "long"}
        case _:
            return dict(columns)
