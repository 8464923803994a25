"""Where a pipeline's rows are written: a function that routes them, files, a table; the edits of each. Pure.

What a routing function writes is not part of state: earlier rows stay where the deployed routing has put them. By
``docs/reference/compatibility.md`` a changed routing is a different output, and it cannot be seen from outside that
this output lacks rows, so a change of the routing is *changing*; running both functions over the earlier rows shows
whether it moves any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from conformance.fuzz.expressions import quoted
from conformance.fuzz.identified import Identified, identified_lines, identified_reads, identified_text, identified_top

NUMBERS = frozenset({"int", "long", "double", "real"})
_SIMPLE = NUMBERS | {"string"}
_IN_TABLES = _SIMPLE | {"ts", "clock", "luck", "day"}
_IN_JSON = _SIMPLE | {"bool"}


@dataclass(frozen=True, slots=True)
class Route:
    """A function that splits each batch by a column; ``wording``: names from WORDINGS or ASKED."""

    column: str
    condition: str
    limit: int | str
    places: tuple[str, str] = ("main", "rest")
    wording: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """The project's file sink; ``folder``: relative to the output; ``by``: the partitioning columns."""

    form: str = "parquet"
    folder: str = ""
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The project's table sink; ``key``: if empty, the pipeline's own key."""

    name: str = "totals"
    key: tuple[str, ...] = ()


Output: TypeAlias = Route | Files | Table | Identified | None
"""None stands for a function that only collects."""
Columns: TypeAlias = Mapping[str, str]

_CONDITIONS = {
    "over": "F.col(name) > ROUTE_LIMIT",
    "from": "F.col(name) >= ROUTE_LIMIT",
    "starts": "F.col(name).startswith(ROUTE_LIMIT)",
    "other": "F.col(name) != ROUTE_LIMIT",
}
_LIMITS: dict[bool, tuple[int | str, ...]] = {True: (0, 2, 3, 5), False: ("a", "b", "n-", "web")}
WORDINGS = ("documented", "renamed", "logged", "commented")
"""Changes of a routing function that leave every row in its place."""
ASKED = ("guarded", "inlined", "tuned")
"""Changes that move no row either but, by the documentation, require a person's answer."""


def output_top(output: Output, texts: tuple[str, ...]) -> str:
    """Return the module-level lines for an output."""
    if isinstance(output, Route):
        return _route(output)
    if isinstance(output, Identified):
        return identified_top(output)
    if output is not None:
        return ""
    log = '\n    print("batch of", context)' if "sink-logs" in texts else ""
    name = "found" if "sink-renamed" in texts else "kept"
    return f"def publish(batch, context):{log}\n    {name} = batch.collect()\n    len({name})"


def output_lines(output: Output, frame: str, key: tuple[str, ...]) -> list[str]:
    """Return the lines before the rows are written: a table accepts no row without a key."""
    if isinstance(output, Identified):
        return identified_lines(output, frame)
    if not isinstance(output, Table):
        return []
    there = " and ".join(f"{each} is not null" for each in key)
    return [f'{frame} = {frame}.filter("{there}")']


def output_text(output: Output, key: tuple[str, ...]) -> str:
    """Return the sink of the query; ``key``: the columns for which the pipeline emits one row a batch."""
    match output:
        case Route():
            return 'ForeachBatch(routed(params["output"]))'
        case Files(form=form, folder=folder, by=by):
            more = f", partition_by=[{quoted(by)}]" if by else ""
            path = f'params["output"] + "/{folder}"' if folder else 'params["output"]'
            return f'FileSink({path}, format="{form}"{more})'
        case Table(name=name):
            given = quoted(output.key or key)
            return f'TableSink("sqlite:///" + params["output"] + "/out.db", table="{name}", key=[{given}])'
        case Identified():
            return identified_text(output)
        case _:
            return "ForeachBatch(publish)"


def reads_of_output(output: Output) -> frozenset[str]:
    """Return the columns that must exist."""
    match output:
        case Route():
            return frozenset({output.column})
        case Files():
            return frozenset(output.by)
        case Table():
            return frozenset(output.key)
        case Identified():
            return identified_reads(output)
        case _:
            return frozenset()


def draw_output(rng: Random, columns: Columns, mode: str, key: tuple[str, ...]) -> Output:
    """Draw an output for rows of these columns; most outputs only collect."""
    kinds = set(columns.values())
    routed = [name for name, kind in columns.items() if kind in _SIMPLE and name != "id"]
    chosen = rng.choice(("collect", "collect", "route", "files", "table"))
    if chosen == "route" and routed:
        # Numbers, and texts of few values, are split; all rows in one place would show no change.
        split = [name for name in routed if columns[name] in NUMBERS or name in ("k", "g", "note")]
        name = rng.choice(split or routed)
        number = columns[name] in NUMBERS
        condition = rng.choice(("over", "from") if number else ("starts", "other"))
        return Route(name, condition, rng.choice(_LIMITS[number][:3]))
    if chosen in ("files", "table") and mode == "append" and (chosen == "files" or not key):
        form = rng.choice(("parquet", "orc", "json") if kinds <= _IN_JSON else ("parquet", "orc"))
        return Files(form, by=("k",) if "k" in columns and len(columns) > 2 and rng.random() < 0.3 else ())
    if chosen in ("files", "table") and key and kinds <= _IN_TABLES:
        return Table()
    return None


def takes(output: Output, before: Columns, after: Columns) -> bool:
    """Return whether an output continues with the changed columns, by ``docs/reference/compatibility.md``."""
    added = after.keys() - before.keys()
    removed = before.keys() - after.keys()
    retyped = any(before[name] != after[name] for name in after if name in before)
    match output:
        case Files(form="json"):
            return True
        case Files():
            return not added and not retyped
        case Table():
            return not added and not removed and not retyped
        case _:
            return True


Found: TypeAlias = tuple[str, str, Output, bool]
"""A kind of edit, its label's value, the output after it, and whether it concerns Python code that a person is asked
about.
"""


def output_edits(output: Output, columns: Columns, key: tuple[str, ...]) -> Iterator[Found]:
    """Yield edits of where and how rows are written."""
    match output:
        case Route():
            yield from _route_edits(output, columns)
        case Files():
            yield "sink-folder", "changing", replace(output, folder="other"), False
            for form in ("parquet", "orc", "json"):
                if form != output.form and (form != "json" or set(columns.values()) <= _IN_JSON):
                    yield "sink-format", "changing", replace(output, form=form), False
            if "k" in columns and len(columns) > 2:
                yield "sink-partitions", "changing", replace(output, by=() if output.by else ("k",)), False
            yield "sink-kind", "changing", None, False
        case Table():
            yield "sink-table", "changing", replace(output, name="others"), False
            for name, kind in columns.items():
                if name not in key and kind in ("string", "long"):
                    yield "sink-key", "changing", replace(output, key=(*key, name)), False
            if len(key) > 1:
                yield "sink-key-reordered", "equivalent", replace(output, key=key[::-1]), False
            yield "sink-kind", "changing", None, False


def _route_edits(output: Route, columns: Columns) -> Iterator[Found]:
    number = not isinstance(output.limit, str)
    for limit in _LIMITS[number]:
        if limit != output.limit:
            yield "route-constant", "changing", replace(output, limit=limit), True
    for condition in ("over", "from") if number else ("starts", "other"):
        if condition != output.condition:
            yield "route-condition", "changing", replace(output, condition=condition), True
    for name, kind in columns.items():
        if (kind in NUMBERS) == number and kind in _SIMPLE and name not in ("id", output.column):
            yield "route-column", "changing", replace(output, column=name), True
    main, rest = output.places
    for places in ((main, "others"), ("others", rest)):
        yield "route-target", "changing", replace(output, places=places), True
    yield "route-targets-swapped", "changing", replace(output, places=(rest, main)), True
    for wording in (*WORDINGS, *ASKED):
        yield f"route-{wording}", "equivalent", replace(output, wording=(wording,)), wording in ASKED


def _route(output: Route) -> str:
    said = output.wording
    name = "chosen" if "renamed" in said else "large"
    condition = _CONDITIONS[output.condition]
    inlined = condition.replace("name", f'"{output.column}"')
    test = f"({inlined})" if "inlined" in said else f'is_large("{output.column}")'
    tuned = ".coalesce(1)" if "tuned" in said else ""
    main, rest = output.places
    lines = [
        f"ROUTE_LIMIT = {output.limit!r}".replace("'", '"'),
        "",
        "",
        "def is_large(name):",
        f"    return {condition}",
        "",
        "",
        "def routed(root):",
        "    def publish(batch, context):",
        *(['        """Large rows have a place of their own."""'] if "documented" in said else []),
        *(["        # Large rows have a place of their own."] if "commented" in said else []),
        *(['        print("batch", context)'] if "logged" in said else []),
        *(["        if batch.isEmpty():", "            return"] if "guarded" in said else []),
        f"        {name} = batch.filter({test})",
        f'        {name}{tuned}.write.mode("append").parquet(root + "/{main}")',
        f'        batch.filter(~{test}).write.mode("append").parquet(root + "/{rest}")',
        "",
        "    return publish",
        "",
    ]
    return "\n".join(lines)
