"""The lines of each stage in a job file. Pure."""

from __future__ import annotations

from conformance.fuzz.expressions import Columns, quoted, text_of
from conformance.fuzz.stages import (
    AGGREGATES,
    Clock,
    Code,
    Dedup,
    Explode,
    Folded,
    Grouped,
    Keep,
    Lookup,
    Luck,
    Meet,
    Select,
    Stage,
    Union,
    Watermark,
    Where,
    With,
)


def lines_of(stage: Stage, columns: Columns, frame: str) -> list[str]:
    """Return the lines that lead from one frame to the next; ``columns``: the columns before the stage."""
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
            return [f"{frame} = {frame}.select({quoted(stage.columns)})"]
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
            return [f"{frame} = {frame}.{name}([{quoted(stage.keys)}])"]
        case Grouped():
            return _grouped_lines(stage, frame)
        case Meet():
            return _meet_lines(stage, frame)
        case Keep():
            return _keep_lines(stage, frame)


def _with_lines(stage: With, columns: Columns, frame: str) -> list[str]:
    sql = text_of(stage.expr, "sql")
    kept = [f"{each}" for each in columns if each != stage.name]
    match stage.style:
        case "api":
            return [f'{frame} = {frame}.withColumn("{stage.name}", {text_of(stage.expr, "api")})']
        case "expr":
            return [f"{frame} = {frame}.selectExpr({quoted(kept)}, {_text(f'{sql} as {stage.name}')})"]
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
    region, fee, opened = stage.types
    schema = f'"k string, region {region}, fee {fee}, open {opened}"'
    table = f'spark.read.option("header", True).schema({schema}).csv(params["other"] + "/{stage.table}")'
    if stage.kept and stage.style == "api":
        column, sign, value = stage.kept.split()
        table += f'.filter(F.col("{column}") {sign} {value})'
    elif stage.kept:
        table += f'.where("{stage.kept}")'
    taken = f'{stage.uid}.select("k", {quoted(stage.take)})'
    side = f"F.broadcast({taken})" if stage.broadcast else taken
    return [f"{stage.uid} = {table}", f'{frame} = {frame}.join({side}, "k", "{stage.how}")']


def _grouped_lines(stage: Grouped, frame: str) -> list[str]:
    spans = [_span(each, stage.unit) for each in stage.window]
    name = "session_window" if stage.session else "window"
    begin = f'F.col("{name}.{stage.edge}").alias("begin"), ' if stage.window else ""
    if stage.style == "api":
        keys = [f'F.{name}("ts", {quoted(spans)})'] if stage.window else []
        folds = [f'{_fold(each, "F.")}.alias("{each.name}")' for each in stage.folds]
        chosen = (*stage.keys, *(each.name for each in stage.folds))
        grouping = ", ".join([*keys, *(f'"{each}"' for each in stage.keys)])
        return [
            f"{frame} = {frame}.groupBy({grouping}).agg(",
            *(f"    {each}," for each in folds),
            f").select({begin}{quoted(chosen)})",
        ]
    texts = ", ".join(f"'{each}'" for each in spans)
    keys = [f"{name}(ts, {texts})"] if stage.window else []
    taken = ([f"{name}.{stage.edge} as begin"] if stage.window else []) + list(stage.keys)
    taken += [f"{_fold(each, '')} as {each.name}" for each in stage.folds]
    query = f"select {', '.join(taken)} from {stage.uid} group by {', '.join([*keys, *stage.keys])}"
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


def _text(sql: str) -> str:
    return '"' + sql.replace("\\", "\\\\").replace('"', '\\"') + '"'
