"""The stages of a pipeline: what each reads, which columns it leaves, and its lines in a job file. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from bench.fuzz.expressions import Columns, Expr, columns_in, text_of

STYLES = ("api", "expr", "view")
"""How a stage is written: Python, SQL in selectExpr, SQL over a view."""


@dataclass(frozen=True, slots=True)
class With:
    """A column is made."""

    uid: str
    name: str
    expr: Expr
    style: str = "api"


@dataclass(frozen=True, slots=True)
class Where:
    """Rows are kept."""

    uid: str
    expr: Expr
    style: str = "api"
    split: bool = False


@dataclass(frozen=True, slots=True)
class Explode:
    """A row for each element of an array of numbers; ``outer``: one for an empty array too."""

    uid: str
    name: str
    array: str
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """A column is made of two numbers by Python code.

    ``form``: how the function gets its constant: plain (a global), closure, helper (a module), pandas. ``wording``:
    plain, documented, renamed, typed.
    """

    uid: str
    name: str
    reads: tuple[str, str]
    form: str = "plain"
    constant: int = 3
    step: str = "a * 10 + factor - b"
    wording: str = "plain"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A static table is joined by its key."""

    uid: str
    take: tuple[str, ...] = ("region", "fee")
    table: str = "places.csv"
    how: str = "left"
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """Only these columns go on."""

    uid: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """A column says when the row was made."""

    uid: str
    name: str
    function: str = "current_timestamp"


@dataclass(frozen=True, slots=True)
class Luck:
    """A column of chance; its name begins with ``luck``, and it is masked in comparisons."""

    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of the second stream come in as well."""

    uid: str


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late rows may be, in minutes."""

    uid: str
    minutes: int
    unit: str = "minutes"


@dataclass(frozen=True, slots=True)
class Dedup:
    """One row for each key; ``within``: the watermark."""

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
    """Aggregates by keys and, maybe, a window of minutes: (size,), (size, slide) or, for a session, its gap."""

    uid: str
    keys: tuple[str, ...]
    folds: tuple[Folded, ...]
    window: tuple[int, ...] = ()
    session: bool = False
    style: str = "api"
    unit: str = "minutes"


@dataclass(frozen=True, slots=True)
class Meet:
    """The second stream is joined: by its key, within minutes after the row."""

    uid: str
    how: str
    minutes: int
    takes: tuple[str, ...]
    key: str = "k"
    delay: int = 30
    style: str = "expr"


@dataclass(frozen=True, slots=True)
class Keep:
    """Python code with state of its own for each key; ``form``: row (transformWithState) or frame."""

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
"""Name -> its inputs' types, its own, and its text; ``{f}`` is the module's prefix."""
IN_ORDER = ("first", "last", "list", "set", "stddev", "best", "worst")
"""Their result or their state depends on the order of rows."""


def reads_of(stage: Stage) -> frozenset[str]:
    """The columns that a stage reads."""
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
    """The columns that a stage leaves."""
    match stage:
        case With():
            return {**columns, stage.name: stage.expr.type}
        case Explode() | Code():
            return {**columns, stage.name: "int"}
        case Lookup():
            types = {"region": "string", "fee": "int", "open": "string"}
            return {**columns, **{each: types[each] for each in stage.take}}
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


def lines_of(stage: Stage, columns: Columns, frame: str) -> list[str]:
    """The lines that lead from a frame to the next one; ``columns``: those before it."""
    match stage:
        case With():
            return _with_lines(stage, columns, frame)
        case Where():
            return _where_lines(stage, frame)
        case Explode():
            name = "explode_outer" if stage.outer else "explode"
            return [f'{frame} = {frame}.withColumn("{stage.name}", F.{name}("{stage.array}"))']
        case Code():
            return [
                f'{frame} = {frame}.withColumn("{stage.name}", {stage.name}_of("{stage.reads[0]}", "{stage.reads[1]}"))'
            ]
        case Lookup():
            return _lookup_lines(stage, frame)
        case Select():
            return [f"{frame} = {frame}.select({_quoted(stage.columns)})"]
        case Clock():
            return [f'{frame} = {frame}.withColumn("{stage.name}", F.{stage.function}())']
        case Luck():
            return [f'{frame} = {frame}.withColumn("{stage.name}", F.rand())']
        case Union():
            return [f"{frame} = {frame}.unionByName(read_rows(o))"]
        case Watermark():
            return [f'{frame} = {frame}.withWatermark("ts", "{_span(stage.minutes, stage.unit)}")']
        case Dedup():
            name = "dropDuplicatesWithinWatermark" if stage.within else "dropDuplicates"
            return [f"{frame} = {frame}.{name}([{_quoted(stage.keys)}])"]
        case Grouped():
            return _grouped_lines(stage, frame)
        case Meet():
            return _meet_lines(stage, frame)
        case Keep():
            return _keep_lines(stage, frame)


def without_style(stage: Stage) -> Stage:
    """The stage as it is written by default: what two spellings of one stage have in common."""
    return replace(stage, style="api") if isinstance(stage, With | Where | Grouped) else stage


def _with_lines(stage: With, columns: Columns, frame: str) -> list[str]:
    sql = text_of(stage.expr, "sql")
    kept = [f"{each}" for each in columns if each != stage.name]
    match stage.style:
        case "api":
            return [f'{frame} = {frame}.withColumn("{stage.name}", {text_of(stage.expr, "api")})']
        case "expr":
            return [f"{frame} = {frame}.selectExpr({_listed(kept)}, {_text(f'{sql} as {stage.name}')})"]
        case _:
            query = f"select {', '.join(kept)}, {sql} as {stage.name} from {stage.uid}"
            return [f'{frame}.createOrReplaceTempView("{stage.uid}")', f"{frame} = spark.sql({_text(query)})"]


def _where_lines(stage: Where, frame: str) -> list[str]:
    parts = stage.expr.args if stage.split and stage.expr.op == "and" else (stage.expr,)
    match stage.style:
        case "api":
            return [f"{frame} = {frame}.filter({text_of(each, 'api')})" for each in parts]
        case "expr":
            return [f"{frame} = {frame}.where({_text(text_of(each, 'sql'))})" for each in parts]
        case _:
            query = f"select * from {stage.uid} where {text_of(stage.expr, 'sql')}"
            return [f'{frame}.createOrReplaceTempView("{stage.uid}")', f"{frame} = spark.sql({_text(query)})"]


def _lookup_lines(stage: Lookup, frame: str) -> list[str]:
    schema = '"k string, region string, fee int, open string"'
    table = f'spark.read.option("header", True).schema({schema}).csv(params["other"] + "/{stage.table}")'
    taken = f'{stage.uid}.select("k", {_quoted(stage.take)})'
    side = f"F.broadcast({taken})" if stage.broadcast else taken
    return [f"{stage.uid} = {table}", f'{frame} = {frame}.join({side}, "k", "{stage.how}")']


def _grouped_lines(stage: Grouped, frame: str) -> list[str]:
    spans = [_span(each, stage.unit) for each in stage.window]
    name = "session_window" if stage.session else "window"
    begin = f'F.col("{name}.start").alias("begin"), ' if stage.window else ""
    if stage.style == "api":
        keys = [f'F.{name}("ts", {_quoted(spans)})'] if stage.window else []
        folds = [f'{_fold(each, "F.")}.alias("{each.name}")' for each in stage.folds]
        chosen = (*stage.keys, *(each.name for each in stage.folds))
        grouping = ", ".join([*keys, *(f'"{each}"' for each in stage.keys)])
        return [
            f"{frame} = {frame}.groupBy({grouping}).agg(",
            *(f"    {each}," for each in folds),
            f").select({begin}{_quoted(chosen)})",
        ]
    texts = ", ".join(f"'{each}'" for each in spans)
    keys = [f"{name}(ts, {texts})"] if stage.window else []
    chosen = ([f"{name}.start as begin"] if stage.window else []) + list(stage.keys)
    chosen += [f"{_fold(each, '')} as {each.name}" for each in stage.folds]
    query = f"select {', '.join(chosen)} from {stage.uid} group by {', '.join([*keys, *stage.keys])}"
    return [f'{frame}.createOrReplaceTempView("{stage.uid}")', f"{frame} = spark.sql({_text(query)})"]


def _fold(fold: Folded, prefix: str) -> str:
    inputs = [f'"{each}"' if prefix else each for each in fold.inputs]
    return AGGREGATES[fold.function][2].format(*inputs, f=prefix)


def _meet_lines(stage: Meet, frame: str) -> list[str]:
    taken = ", ".join(f'F.col("{each}").alias("o_{each}")' for each in stage.takes)
    condition = f"{stage.key} = other_key and other_ts between ts and ts + interval {stage.minutes} minutes"
    near = f'F.expr("{condition}")'
    if stage.style == "api":
        late = f'F.col("ts") + F.expr("interval {stage.minutes} minutes")'
        near = f'(F.col("{stage.key}") == F.col("other_key")) & F.col("other_ts").between(F.col("ts"), {late})'
    key, ts = f'F.col("{stage.key}").alias("other_key")', 'F.col("ts").alias("other_ts")'
    return [
        f"met = read_rows(o).select({key}, {ts}, {taken})",
        f'met = met.withWatermark("other_ts", "{stage.delay} minutes")',
        f'{frame} = {frame}.join(met, {near}, "{stage.how}").drop("other_key", "other_ts")',
    ]


def _keep_lines(stage: Keep, frame: str) -> list[str]:
    chosen = f'{frame}.select("{stage.key}", F.col("{stage.reads}").alias("value")).groupBy("{stage.key}")'
    schema = '"key string, total long, seen long"'
    if stage.form == "row":
        return [f'{frame} = {chosen}.transformWithState(Kept(), {schema}, "update", "None")']
    call = f'applyInPandasWithState(keep, {schema}, "{stage.variable} long, seen long", "update", "NoTimeout")'
    return [f"{frame} = {chosen}.{call}"]


def _span(minutes: int, unit: str) -> str:
    return f"{minutes} minutes" if unit == "minutes" else f"{minutes * 60} seconds"


def _quoted(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{each}"' for each in names)


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{each}"' for each in names)


def _text(sql: str) -> str:
    return '"' + sql.replace("\\", "\\\\").replace('"', '\\"') + '"'
