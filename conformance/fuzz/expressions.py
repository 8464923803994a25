"""Expressions as values: drawn from a seed, written in two dialects, and varied one place at a time. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

Columns = Mapping[str, str]
"""Column -> its type: int, double, string, bool, ts, ints, words, or a type that expressions do not read."""


@dataclass(frozen=True, slots=True)
class Expr:
    """A column (``col``), a constant (``lit``), a lambda's variable (``var``), or an operation in OPS.

    ``value``: the name or the constant; for an operation, the name of its lambda's variable.
    """

    op: str
    type: str
    args: tuple[Expr, ...] = ()
    value: str | int | float = ""


@dataclass(frozen=True, slots=True)
class Op:
    """An operation: its result, its arguments (``lit:…``: a constant only), and its text in both dialects.

    ``like``: the operation that replaces it in a changing edit; ``commutes``: its arguments may be swapped;
    ``flipped``: the operation that means the same with its arguments swapped.
    """

    type: str
    args: tuple[str, ...]
    api: str
    sql: str
    like: str = ""
    commutes: bool = False
    flipped: str = ""
    binds: str = ""


def _call(type: str, name: str, *args: str, like: str = "", sql: str = "", commutes: bool = False) -> Op:
    places = ", ".join(f"{{{at}}}" for at in range(len(args)))
    return Op(type, args, f"F.{name}({places})", f"{sql or name}({places})", like=like, commutes=commutes)


def _infix(type: str, args: tuple[str, str], api: str, sql: str = "", **more: object) -> Op:
    return Op(type, args, f"({{0}} {api} {{1}})", f"({{0}} {sql or api} {{1}})", **more)  # type: ignore[arg-type]


def _lambda(type: str, name: str, array: str, body: str, like: str = "") -> Op:
    element = {"ints": "int", "words": "string"}[array]
    api, sql = f"F.{name}({{0}}, lambda {{v}}: {{1}})", f"{name}({{0}}, {{v}} -> {{1}})"
    return Op(type, (array, body), api, sql, like=like, binds=element)


_II, _SS, _DD = ("int", "int"), ("string", "string"), ("double", "double")
_SUM = "F.aggregate({0}, F.lit(0), lambda acc, {v}: acc + {1})", "aggregate({0}, 0, (acc, {v}) -> acc + {1})"
_LEAST = (
    "F.aggregate({0}, F.lit(99), lambda acc, {v}: F.least(acc, {1}))",
    "aggregate({0}, 99, (acc, {v}) -> least(acc, {1}))",
)
_WORTH = (
    "F.aggregate('items', F.lit(0), lambda acc, item: acc + item.qty * item.price)",
    "aggregate(items, 0, (acc, item) -> acc + item.qty * item.price)",
)
_COST = (
    "F.aggregate('items', F.lit(0), lambda acc, item: acc + item.price)",
    "aggregate(items, 0, (acc, item) -> acc + item.price)",
)

OPS: dict[str, Op] = {
    "add": _infix("int", _II, "+", like="sub", commutes=True),
    "sub": _infix("int", _II, "-", like="add"),
    "mul": _infix("int", ("int", "lit:int"), "*", like="add"),
    "pmod": _call("int", "pmod", "int", "lit:int", like="sub"),
    "abs": _call("int", "abs", "int", like="negative"),
    "negative": _call("int", "negative", "int", like="abs"),
    "length": _call("int", "length", "string", like="ascii"),
    "ascii": _call("int", "ascii", "string", like="length"),
    "size": _call("int", "size", "ints"),
    "hour": _call("int", "hour", "ts", like="minute"),
    "minute": _call("int", "minute", "ts", like="hour"),
    "least": _call("int", "least", *_II, like="greatest", commutes=True),
    "greatest": _call("int", "greatest", *_II, like="least", commutes=True),
    "if_null": _call("int", "coalesce", *_II, like="greatest"),
    "when": Op("int", ("bool", *_II), "F.when({0}, {1}).otherwise({2})", "case when {0} then {1} else {2} end"),
    "get": _call("int", "get", "ints", "lit:index"),
    "sum_up": Op("int", ("ints", "int"), *_SUM, like="least_of", binds="int"),
    "least_of": Op("int", ("ints", "int"), *_LEAST, like="sum_up", binds="int"),
    "worth": Op("int", (), *_WORTH, like="cost"),
    "cost": Op("int", (), *_COST, like="worth"),
    "age": Op("int", (), 'F.col("who.age")', "who.age", like="born"),
    "born": Op("int", (), 'F.col("who.born")', "who.born", like="age"),
    "map_get": Op("int", ("lit:key",), "F.element_at('attrs', {0})", "element_at(attrs, {0})"),
    "as_int": Op("int", ("double",), '{0}.cast("int")', "cast({0} as int)"),
    "times": _infix("double", _DD, "*", like="plus", commutes=True),
    "plus": _infix("double", _DD, "+", like="minus", commutes=True),
    "minus": _infix("double", _DD, "-", like="plus"),
    "floor_to": _call("double", "round", "double", "lit:digits", like="truncated"),
    "truncated": _call("double", "bround", "double", "lit:digits", like="floor_to"),
    "as_double": Op("double", ("int",), '{0}.cast("double")', "cast({0} as double)"),
    "double_if_null": _call("double", "coalesce", *_DD, like="times"),
    "lower": _call("string", "lower", "string", like="upper"),
    "upper": _call("string", "upper", "string", like="reverse"),
    "reverse": _call("string", "reverse", "string", like="lower"),
    "trim": _call("string", "trim", "string", like="upper"),
    "substring": Op(
        "string",
        ("string", "lit:from", "lit:length"),
        "F.substring({0}, {1}, {2})",
        "substring({0}, {1}, {2})",
    ),
    "concat": _call("string", "concat", *_SS),
    "concat_ws": _call("string", "concat_ws", "lit:word", *_SS),
    "string_if_null": _call("string", "coalesce", "string", "lit:word", like="concat"),
    "string_when": Op(
        "string", ("bool", *_SS), "F.when({0}, {1}).otherwise({2})", "case when {0} then {1} else {2} end"
    ),
    "date_format": _call("string", "date_format", "ts", "lit:pattern"),
    "tier": Op("string", (), 'F.col("who.tier")', "who.tier", like="name"),
    "name": Op("string", (), 'F.col("who").getField("name")', "who.name", like="tier"),
    "extract": _call("string", "regexp_extract", "string", "lit:regex", "lit:group", like=""),
    "replaced": _call("string", "regexp_replace", "string", "lit:regex", "lit:word"),
    "part": Op("string", ("string", "lit:mark"), "F.split({0}, {1}).getItem(0)", "split({0}, {1})[0]"),
    "text": Op("string", ("int",), '{0}.cast("string")', "cast({0} as string)"),
    "joined": _call("string", "array_join", "words", "lit:word"),
    "gt": _infix("bool", _II, ">", like="ge", flipped="lt"),
    "ge": _infix("bool", _II, ">=", like="lt", flipped="le"),
    "lt": _infix("bool", _II, "<", like="le", flipped="gt"),
    "le": _infix("bool", _II, "<=", like="gt", flipped="ge"),
    "same": _infix("bool", ("string", "lit:key"), "==", "=", like="other"),
    "other": _infix("bool", ("string", "lit:key"), "!=", "<>", like="same"),
    "and": _infix("bool", ("bool", "bool"), "&", "and", like="or", commutes=True),
    "or": _infix("bool", ("bool", "bool"), "|", "or", like="and", commutes=True),
    "not": Op("bool", ("bool",), "(~{0})", "(not {0})"),
    "null": Op("bool", ("string",), "{0}.isNull()", "{0} is null", like="there"),
    "there": Op("bool", ("string",), "{0}.isNotNull()", "{0} is not null", like="null"),
    "isin": Op("bool", ("string", "lit:key", "lit:key"), "{0}.isin({1}, {2})", "{0} in ({1}, {2})"),
    "starts": _call("bool", "startswith", "string", "lit:prefix", like="ends"),
    "ends": _call("bool", "endswith", "string", "lit:prefix", like="starts"),
    "exists": _lambda("bool", "exists", "ints", "bool", like="forall"),
    "forall": _lambda("bool", "forall", "ints", "bool", like="exists"),
    "transform": _lambda("ints", "transform", "ints", "int"),
    "filter": _lambda("ints", "filter", "ints", "bool"),
    "sorted": _call("ints", "array_sort", "ints", like="distinct"),
    "distinct": _call("ints", "array_distinct", "ints", like="sorted"),
    "words_of": _lambda("words", "transform", "words", "string"),
    "hours": _call("ts", "date_trunc", "lit:unit", "ts"),
}

CONSTANTS: dict[str, tuple[str | int | float, ...]] = {
    "int": (1, 2, 3, 5),
    "index": (0, 1, 2),
    "key": ("a", "b", "c", "d"),
    "digits": (0, 1),
    "double": (0.5, 1.25, 2.0, -1.5),
    "from": (1, 2, 3),
    "length": (1, 2, 3),
    "word": ("-", "none", "n-1", "x"),
    "string": ("a", "b", "n-1", "web"),
    "pattern": ("yyyy-MM-dd HH", "yyyy-MM-dd", "HH:mm", "mm"),
    "regex": ("([a-z]+)-([0-9])", "([0-9])", "([a-z])"),
    "group": (0, 1),
    "mark": ("-", "[a-c]", "[0-9]"),
    "prefix": ("a", "n-", "1", "W"),
    "unit": ("hour", "minute", "day"),
}
_RAW_IN_API = {"from", "length", "digits", "regex", "group", "mark", "pattern", "unit", "word_raw"}
_RAW_ARGUMENTS = {("concat_ws", 0), ("joined", 1), ("replaced", 2), ("isin", 1), ("isin", 2)}


def col(name: str, type: str) -> Expr:
    """Return the expression of a column."""
    return Expr("col", type, value=name)


def draw(rng: Random, type: str, columns: Columns, depth: int = 2, *, plain: bool = False) -> Expr:
    """Draw an expression of a type over the columns; ``plain``: never a bare column or constant."""
    if type.startswith("lit:"):
        kind = type.removeprefix("lit:")
        return Expr("lit", kind, value=rng.choice(CONSTANTS[kind]))
    return _draw(rng, type, columns, (), depth, plain)


FILTERS = ("compare", "compare", "there", "isin", "other", "exists", "both", "either")


def draw_filter(rng: Random, columns: Columns, depth: int = 1, kinds: tuple[str, ...] = FILTERS) -> Expr:
    """Draw a condition that holds for some rows and not for others: a filter that removes every row would hide any
    change.
    """
    strings = [name for name, kind in columns.items() if kind == "string" and name != "id"]
    match rng.choice(kinds):
        case "there" if strings:
            return Expr("there", "bool", (col(rng.choice(strings), "string"),))
        case "isin" if "k" in columns:
            keys = tuple(draw(rng, "lit:key", columns) for _ in range(2))
            return Expr("isin", "bool", (col("k", "string"), *keys))
        case "other" if "g" in columns:
            return Expr("other", "bool", (col("g", "string"), draw(rng, "lit:key", columns)))
        case "exists" if "nums" in columns:
            body = Expr("gt", "bool", (Expr("var", "int", value="v"), draw(rng, "lit:int", columns)))
            return Expr("exists", "bool", (col("nums", "ints"), body), "v")
        case "both" | "either" as both if depth:
            # Two comparisons may contradict each other.
            sides = (draw_filter(rng, columns, 0, FILTERS[2:6]), draw_filter(rng, columns, 0, FILTERS[:6]))
            return Expr("and" if both == "both" else "or", "bool", sides)
        case _:
            sides = (draw(rng, "int", columns, 1), draw(rng, "lit:int", columns))
            return Expr(rng.choice(("gt", "ge", "lt", "le")), "bool", sides)


def _draw(
    rng: Random, type: str, columns: Columns, bound: tuple[tuple[str, str], ...], depth: int, plain: bool
) -> Expr:
    leaves = [col(name, kind) for name, kind in columns.items() if kind == type]
    leaves += [Expr("var", kind, value=name) for name, kind in bound if kind == type] * 3
    if not plain and leaves and (depth <= 0 or rng.random() < 0.25):
        return rng.choice(leaves)
    if depth <= 0 and type in CONSTANTS:
        return Expr("lit", type, value=rng.choice(CONSTANTS[type]))
    names = [name for name, op in OPS.items() if op.type == type and _possible(op, columns, depth)]
    if not names:
        return rng.choice(leaves)
    name = rng.choice(names)
    op = OPS[name]
    variable = ("v", "each", "z")[len(bound)] if op.binds and len(bound) < 3 else ""
    args = []
    for at, kind in enumerate(op.args):
        inner = ((*bound, (variable, op.binds)) if variable else bound) if op.binds and at == 1 else bound
        if kind.startswith("lit:"):
            args.append(draw(rng, kind, columns))
        else:
            args.append(_draw(rng, kind, columns, inner, depth - 1, plain=bool(op.binds) and at == 1))
            for _ in range(6):
                if at != 1 or not op.binds or _reads_variable(args[1], variable):
                    break
                args[1] = _draw(rng, kind, columns, inner, depth - 1, plain=True)
    return Expr(name, op.type, tuple(args), variable)


def _reads_variable(expr: Expr, name: str) -> bool:
    return (expr.op == "var" and expr.value == name) or any(_reads_variable(each, name) for each in expr.args)


def _possible(op: Op, columns: Columns, depth: int) -> bool:
    if depth <= 0 and any(not each.startswith("lit:") and each not in CONSTANTS for each in op.args):
        return all(each.startswith("lit:") or each in columns.values() for each in op.args)
    if not op.args or op.args[0] == "lit:key":
        return "who" in columns and "items" in columns
    return all(each.startswith("lit:") or each in ("bool", *CONSTANTS) or each in columns.values() for each in op.args)


def text_of(expr: Expr, dialect: str, raw: bool = False) -> str:
    """Return the text of the expression in ``api`` (Python) or ``sql``."""
    if expr.op == "lit":
        return _constant(expr, dialect, raw)
    if expr.op == "col":
        return f'F.col("{expr.value}")' if dialect == "api" else str(expr.value)
    if expr.op == "var":
        return str(expr.value)
    op = OPS[expr.op]
    args = [
        text_of(each, dialect, raw=each.type in _RAW_IN_API or (expr.op, at) in _RAW_ARGUMENTS)
        for at, each in enumerate(expr.args)
    ]
    return (op.api if dialect == "api" else op.sql).format(*args, v=expr.value)


def _constant(expr: Expr, dialect: str, raw: bool) -> str:
    if dialect == "api":
        return json.dumps(expr.value) if raw else f"F.lit({json.dumps(expr.value)})"
    if isinstance(expr.value, str):
        return f"'{expr.value}'"
    return f"{expr.value}D" if isinstance(expr.value, float) else str(expr.value)


def columns_in(expr: Expr) -> frozenset[str]:
    """Return the columns that an expression reads."""
    own = {str(expr.value)} if expr.op == "col" else set()
    if expr.op in ("age", "born", "tier", "name"):
        own = {"who"}
    if expr.op in ("worth", "cost"):
        own = {"items"}
    if expr.op == "map_get":
        own = {"attrs"}
    return frozenset(own.union(*(columns_in(each) for each in expr.args)))


Variation = tuple[str, Expr]
"""The kind of edit, and the expression after it."""


def changed(expr: Expr, columns: Columns) -> Iterator[Variation]:
    """Yield every expression that differs in one place and has a different meaning."""
    yield from _everywhere(expr, lambda each: _changed_here(each, columns))


def same(expr: Expr) -> Iterator[Variation]:
    """Yield every expression that differs in one place and has the same meaning."""
    yield from _everywhere(expr, _same_here)


def _everywhere(expr: Expr, vary: object) -> Iterator[Variation]:
    yield from vary(expr)  # type: ignore[operator]
    for at, each in enumerate(expr.args):
        for name, other in _everywhere(each, vary):
            yield name, replace(expr, args=(*expr.args[:at], other, *expr.args[at + 1 :]))


def _changed_here(expr: Expr, columns: Columns) -> Iterator[Variation]:
    if expr.op == "lit":
        for other in CONSTANTS[expr.type]:
            if other != expr.value:
                yield "constant", replace(expr, value=other)
                break
        return
    if expr.op == "col":
        for name, kind in columns.items():
            if kind == expr.type and name != expr.value:
                yield "column", replace(expr, value=name)
        return
    if expr.op == "var":
        return
    op = OPS[expr.op]
    if op.like and OPS[op.like].type == expr.type and _fits(expr, OPS[op.like]):
        yield "operation", replace(expr, op=op.like)
    kinds = [each.type for each in expr.args]
    free = not op.commutes and not op.binds and expr.op not in ("isin", "substring")
    if free and len(kinds) > 1 and kinds[-1] == kinds[-2] and expr.args[-1] != expr.args[-2]:
        yield "operands", replace(expr, args=(*expr.args[:-2], expr.args[-1], expr.args[-2]))


def _fits(expr: Expr, other: Op) -> bool:
    if len(other.args) != len(expr.args):
        return False
    return all(
        want.removeprefix("lit:") == have.type and (have.op == "lit" or not want.startswith("lit:"))
        for want, have in zip(other.args, expr.args, strict=True)
    )


def _same_here(expr: Expr) -> Iterator[Variation]:
    if expr.op in ("lit", "col", "var"):
        return
    op = OPS[expr.op]
    if op.binds:
        body = _renamed(expr.args[1], str(expr.value), "element")
        yield "lambda-variable", replace(expr, args=(expr.args[0], body), value="element")
    if op.commutes and expr.args[0] != expr.args[1]:
        yield "commuted", replace(expr, args=(expr.args[1], expr.args[0]))
    if op.flipped and expr.args[0] != expr.args[1]:
        yield "flipped", replace(expr, op=op.flipped, args=(expr.args[1], expr.args[0]))


def _renamed(expr: Expr, old: str, new: str) -> Expr:
    value = new if expr.op == "var" and expr.value == old else expr.value
    return replace(expr, args=tuple(_renamed(each, old, new) for each in expr.args), value=value)


def quoted(names: Iterable[str]) -> str:
    """Return the names as arguments in Python."""
    return ", ".join(f'"{each}"' for each in names)
