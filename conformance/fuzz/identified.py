"""Outputs whose rows have a computed id and possibly a computed route, where both are computed, and the edits of each.
Pure.

A row that the deployed job has written stays under its id and in its place. An id or a route that is computed
differently writes new rows beside the old ones, whether it is computed by the query, by the function that writes or by
a helper of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from conformance.fuzz.expressions import quoted

ID, ROUTE = "out_id", "out_place"
PLACES = ("query", "function", "helper")
"""Where the id and the route are computed."""
SINKS = ("table", "function", "files")

_STRINGS: dict[str, tuple[str, ...]] = {
    "upper": ('F.upper(F.col("{c}"))', 'F.upper("{c}")', 'F.ucase("{c}")', 'F.expr("upper({c})")'),
    "lower": ('F.lower(F.col("{c}"))', 'F.lower("{c}")', 'F.expr("lcase({c})")'),
    "md5": ('F.md5(F.col("{c}"))', 'F.md5("{c}")', 'F.expr("md5({c})")'),
    "sha1": ('F.sha1(F.col("{c}"))', 'F.expr("sha({c})")'),
    "sha2": ('F.sha2(F.col("{c}"), 256)', 'F.expr("sha2({c}, 256)")'),
    "sha512": ('F.sha2(F.col("{c}"), 512)', 'F.expr("sha2({c}, 512)")'),
    "prefixed": ('F.concat(F.lit("s-"), F.col("{c}"))', "F.expr(\"concat('s-', {c})\")", "F.expr(\"'s-' || {c}\")"),
}
_MOMENTS: dict[str, tuple[str, ...]] = {
    "minute": ('F.date_format(F.col("{c}"), "yyyy-MM-dd HH:mm")', "F.expr(\"date_format({c}, 'yyyy-MM-dd HH:mm')\")"),
    "compact": ('F.date_format(F.col("{c}"), "yyyyMMddHHmm")', "F.expr(\"date_format({c}, 'yyyyMMddHHmm')\")"),
    "day-first": (
        'F.date_format(F.col("{c}"), "dd.MM.yyyy HH:mm")',
        "F.expr(\"date_format({c}, 'dd.MM.yyyy HH:mm')\")",
    ),
    "text": ('F.col("{c}").cast("string")', 'F.expr("cast({c} as string)")', 'F.expr("string({c})")'),
    "millis": ('F.unix_millis(F.col("{c}"))', 'F.expr("unix_millis({c})")'),
    "micros": ('F.unix_micros(F.col("{c}"))', 'F.expr("unix_micros({c})")'),
}
EXPRESSIONS: dict[str, dict[str, tuple[str, ...]]] = {"string": _STRINGS, "ts": _MOMENTS}
"""Type of the source -> name -> equivalent spellings of one expression."""
_ROUTES = (
    'F.when(F.col("{c}") > {n}, "{one}").otherwise("{other}")',
    "F.expr(\"case when {c} > {n} then '{one}' else '{other}' end\")",
    "F.expr(\"if({c} > {n}, '{one}', '{other}')\")",
)
LIMITS = (1, 2, 3, 5, 8)
WORDINGS = ("documented", "renamed", "logged", "commented")


@dataclass(frozen=True, slots=True)
class Identified:
    """An output with ids. ``source``: the column of type ``kind`` from which the id is computed, by ``made`` in its
    spelling number ``spelled``.

    ``more``: further columns of a table's key; ``route``: the column by which rows go to one of two places, if any.
    """

    sink: str
    source: str
    kind: str
    made: str
    spelled: int = 0
    at: str = "query"
    more: tuple[str, ...] = ()
    route: str = ""
    limit: int = 3
    flipped: bool = False
    route_spelled: int = 0
    wording: tuple[str, ...] = ()
    name: str = "totals"


def identified_lines(output: Identified, frame: str) -> list[str]:
    """Return the lines of the query before the rows are written."""
    found = [f'{frame} = {frame}.filter("{output.source} is not null")']
    if output.at == "query":
        found.append(f'{frame} = {frame}.withColumn("{ID}", {_id(output)})')
        if output.route:
            found.append(f'{frame} = {frame}.withColumn("{ROUTE}", {_route(output)})')
    return found


def identified_top(output: Identified) -> str:
    """Return the function that writes, if there is one: it writes a directory of Parquet files for each place."""
    if output.sink != "function":
        return ""
    said = output.wording
    name = "rows" if "renamed" in said else "batch"
    made = f'{{frame}}.withColumn("{ID}", {_id(output)})'
    made += f'.withColumn("{ROUTE}", {_route(output)})' if output.route else ""
    helper = (
        ["def with_id(frame):", f"    return {made.format(frame='frame')}", "", ""] if output.at == "helper" else []
    )
    places = '("large", "small")' if output.route else '("all",)'
    kept = f'{name}.filter(F.col("{ROUTE}") == place)' if output.route else name
    lines = [
        *helper,
        "def routed(root):",
        f"    def publish({name}, context):",
        *(['        """Each row under its id."""'] if "documented" in said else []),
        *(["        # Each row under its id."] if "commented" in said else []),
        *(['        print("batch", context)'] if "logged" in said else []),
        *([f"        {name} = {made.format(frame=name)}"] if output.at == "function" else []),
        *([f"        {name} = with_id({name})"] if output.at == "helper" else []),
        f"        for place in {places}:",
        f'            {kept}.write.mode("append").parquet(root + "/" + place)',
        "",
        "    return publish",
        "",
    ]
    return "\n".join(lines)


def identified_text(output: Identified) -> str:
    """Return the sink of the query."""
    match output.sink:
        case "table":
            key = quoted((ID, *output.more))
            return f'TableSink("sqlite:///" + params["output"] + "/out.db", table="{output.name}", key=[{key}])'
        case "files":
            return f'FileSink(params["output"], format="parquet", partition_by=["{ID}"])'
        case _:
            return 'ForeachBatch(routed(params["output"]))'


def identified_reads(output: Identified) -> frozenset[str]:
    """Return the columns that must exist."""
    return frozenset({output.source, *output.more, *filter(None, (output.route,))})


Found = tuple[str, str, Identified, bool]
"""A kind of edit, its label's value, the output after it, and whether it concerns Python code that a person is asked
about.
"""


def identified_edits(output: Identified, columns: Mapping[str, str]) -> Iterator[Found]:
    """Yield edits of the id, of the route, of where both are computed and of where rows are written."""
    code = output.at != "query"
    where = output.at
    spellings = EXPRESSIONS[output.kind]
    for made in spellings:
        if made != output.made:
            yield f"id-in-{where}", "changing", replace(output, made=made, spelled=0), code
    for spelled in range(len(spellings[output.made])):
        yield f"id-respelled-in-{where}", "equivalent", replace(output, spelled=spelled), code
    for name, kind in columns.items():
        if kind == output.kind and name not in (output.source, *output.more):
            yield f"id-source-in-{where}", "changing", replace(output, source=name), code
    if output.route:
        for limit in LIMITS:
            yield f"route-limit-in-{where}", "changing", replace(output, limit=limit), code
        yield f"route-flipped-in-{where}", "changing", replace(output, flipped=not output.flipped), code
        for spelled in range(len(_ROUTES)):
            yield f"route-respelled-in-{where}", "equivalent", replace(output, route_spelled=spelled), code
    if output.sink == "function":
        for place in PLACES:
            yield f"id-moved-to-{place}", "equivalent", replace(output, at=place), True
        for wording in WORDINGS:
            yield f"writer-{wording}", "equivalent", replace(output, wording=(wording,)), False
    if output.sink == "table":
        yield "table-renamed", "changing", replace(output, name="others"), False
        if output.more:
            yield "key-shortened", "changing", replace(output, more=()), False
    if not code:
        for sink in SINKS:
            if sink != output.sink and not output.route and (sink != "table" or output.more):
                yield f"{output.sink}-to-{sink}", "changing", replace(output, sink=sink), False


def _id(output: Identified) -> str:
    return EXPRESSIONS[output.kind][output.made][output.spelled].format(c=output.source)


def _route(output: Identified) -> str:
    one, other = ("small", "large") if output.flipped else ("large", "small")
    return _ROUTES[output.route_spelled].format(c=output.route, n=output.limit, one=one, other=other)
